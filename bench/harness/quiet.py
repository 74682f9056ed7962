"""Whether somebody else used the machine meanwhile: then a measurement says nothing."""

import glob
import os
import resource
import time

# Processor time of others, in cores, up to which a machine counts as quiet.
SHARE_MAX = 0.1
# Time that a hypervisor gave to others, in per cent, up to which a measurement counts. The kernel tells
# it in ticks of 10 ms, of which a single one is 0.2 % of five seconds.
STEAL_MAX = 0.5
# How late a thread that goes before all others on the worker's CPU may be, in microseconds: then
# the machine stood still.
LATE_MAX_US = 3000
# Part of the load that the generator may have left out, being away for a moment itself.
NEVER_SENT_MAX = 0.005
# How long to wait for it to become quiet before measuring all the same.
PATIENCE_SECONDS = 120
# How often a measurement is tried until nothing disturbs it.
TRIES_MAX = 4


def busy():
    """Seconds that all processors together were not idle. Counted from when they were: a thread that is let
    run at every tick's time and stopped before the next one is taken by ticks for one that runs all the time."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    idle, steal = fields[3] + fields[4], fields[7]
    return os.cpu_count() * time.monotonic() - (idle + steal) / os.sysconf("SC_CLK_TCK")


def used(pids):
    """Seconds of processor time of these processes and of the kernel's interrupt threads."""
    total = 0.0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            total += seconds(path)
    return total + sum(map(seconds, interrupt_threads()))


def interrupt_threads():
    paths = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path) as file:
                if file.read().startswith("ksoftirqd"):
                    paths.append(os.path.join(os.path.dirname(path), "schedstat"))
        except OSError:
            pass
    return paths


def seconds(path):
    try:
        with open(path) as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Others:
    """Counts from its making what processes other than these, their successors and us use."""

    def __init__(self, pids):
        self.pids, self.begun = pids, time.monotonic()
        self.children = total(resource.getrusage(resource.RUSAGE_CHILDREN))
        self.ours, self.busy = used([*pids, os.getpid()]), busy()

    def share(self, children):
        """Others' processor time since then, in cores; `children` is what ours that ended used."""
        ours = used([*self.pids, os.getpid()]) - self.ours + total(children) - self.children
        return max(0.0, (busy() - self.busy - ours) / (time.monotonic() - self.begun))


def total(usage):
    return usage.ru_utime + usage.ru_stime


def wait(pids, say):
    """Waits until nobody but these processes uses the machine, and says so."""
    end, told = time.monotonic() + PATIENCE_SECONDS, False
    while time.monotonic() < end:
        others = Others(pids)
        time.sleep(1)
        if others.share(resource.getrusage(resource.RUSAGE_CHILDREN)) <= SHARE_MAX:
            return
        if not told:
            say("  waiting for other programs to end")
            told = True
    say("  others still use the machine: the figures suffer")


def measured(context, lab, attempt, paced=True):
    """The outcome of `attempt`, repeated until nobody else used the machine meanwhile; of all that were
    disturbed the one that was least, and its `disturbed` says by what. A generator that is asked for more
    than it can send is not `paced`: what it leaves out says nothing about the machine."""
    tries = []
    for turn in range(1 if context.quick else TRIES_MAX):
        if not context.quick:
            wait(lab.pids(), context.say)
        seen = attempt()
        severity, seen["disturbed"] = taken(seen, paced)
        tries.append((severity, turn, seen))
        if context.quick or not seen["disturbed"]:
            break
        context.say(f"  disturbed: {seen['disturbed']}")
    return min(tries, key=lambda one: one[:2])[2]


def taken(seen, paced):
    """How much, as a multiple of what is let pass, and what kept the machine from its work during a
    measurement; empty when nothing did."""
    machine = seen.get("machine") or {}
    others, steal = seen["others_cpu_share"], machine.get("steal_percent", 0)
    late, never = machine.get("canary_late_us") or 0, machine.get("never_sent") or 0
    left_out = never / max(seen.get("sent", 0) + never, 1) if paced else 0
    reasons = [
        (others / SHARE_MAX, f"others used {others:.2f} cores"),
        (steal / STEAL_MAX, f"the hypervisor took {steal:.2f} % of the time"),
        (late / LATE_MAX_US, f"the machine stood still for {late / 1e3:.1f} ms"),
        (left_out / NEVER_SENT_MAX, f"the generator stood still: {never} packets were never due"),
    ]
    severity, reason = max(reasons)
    return (severity, reason) if severity > 1 else (0.0, "")

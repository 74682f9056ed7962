"""Several cores on a machine with two CPUs: workers as virtual cores, a fifth of a CPU each."""

import os
import statistics
import time

from . import quiet, tables
from .lab import Failure, Lab, Router
from .quota import Day, Quotas
from .record import spread, verdict
from .search import capacity

WORKERS = 4
SHARE = 0.2
# A worker whose part is used up stands still for up to 16 ms: its packets wait meanwhile.
RING = 4096
# While cores come and go workers also wait for one another, twice as long and more.
DAY_RING = 16_384
# The machine's own speed changes within minutes: what is divided is of the same turn.
TURNS = 3
# The workers' CPU; the generator has the other.
CPU = 1
# Parts of the capacity of all workers, through a day.
STEPS = [0.1, 0.3, 0.55, 0.75, 0.55, 0.3, 0.1]


def cores(context):
    """Capacity, order and governor with 1 to 4 virtual cores of a fifth of a CPU each."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    counts, turns = ([1, 2], 1) if context.quick else (range(1, WORKERS + 1), TURNS)
    raw = {workers: [] for workers in counts}
    with Lab(context.tools) as lab, Quotas(SHARE) as quotas:
        installed = tables.install(lab, context.prefixes())
        for turn in range(turns):
            for workers in list(counts)[::1 if turn % 2 == 0 else -1]:
                seen = carried(context, lab, quotas, installed, workers)
                raw[workers].append(seen)
                context.say(f"  {workers} workers: {seen['received_mpps']:.3f} Mpps")
        single = statistics.median(seen["received_mpps"] for seen in raw[1])
        day = follow(context, lab, installed, quotas, single * 1e6)
    table = [["virtual cores", "capacity, Mpps", "of linear, median of turns", "least", "most", "CPU each", "sent", "lost", "reordered", "verdict"]]
    rows = []
    for workers, turns_seen in raw.items():
        ratio = spread([seen["received_mpps"] / one["received_mpps"] / workers for seen, one in zip(turns_seen, raw[1])])
        row = {"workers": workers, "capacity_mpps": statistics.median(seen["received_mpps"] for seen in turns_seen),
               "lost": sum(seen["lost"] for seen in turns_seen), "reordered": sum(seen["reordered"] for seen in turns_seen),
               "of_linear": ratio, "cpu_each": statistics.median(seen["cpu_each"] for seen in turns_seen)}
        rows.append(row)
        table.append([str(workers), row["capacity_mpps"], *ratio.values(), row["cpu_each"], sum(seen["sent"] for seen in turns_seen),
                      row["lost"], row["reordered"], verdict(row)])
    for step in day:
        table.append([f"powersave, {100 * step['part']:.0f} %: {cores_of(step['cores'])}",
                      step["mpps"], "", "", "", "", step["sent"], step["lost"], step["reordered"], verdict(step)])
    summary = {"share_of_a_cpu": SHARE, "turns": turns, "rows": rows, "day": day, "routes": installed["routes"]}
    context.record.result("cores", table, summary, {"capacity": raw, "day": day})


def carried(context, lab, quotas, installed, workers):
    """What so many polling workers carry, and what each had of a CPU while it was searched for."""
    with Router(lab, "poll", None, RING, workers=workers) as router:
        router.wait(installed["routes"])
        place(router, quotas)
        begun, before = time.monotonic(), worked(router)
        _, trials, seen = capacity(context, lab, quick_rate=5000 * workers)
        each = (worked(router) - before) / (time.monotonic() - begun) / workers
    return {**seen, "trials": trials, "cpu_each": each}


def worked(router):
    """Processor seconds of all workers."""
    return sum(use[1] for use in router.threads() if use[0].startswith("ebb-worker-"))


def place(router, quotas):
    """Puts every worker on the one CPU, with its part of it."""
    threads = router.worker_threads()
    for thread in threads:
        os.sched_setaffinity(thread, {CPU})
    quotas.confine(router.pid, threads)


def shares(looks):
    """For each number of cores its share of the time."""
    return {str(count): round(looks.count(count) / len(looks), 3) for count in sorted(set(looks))}


def cores_of(found):
    """As a table says it: the least and the most, and what it is on average."""
    counts = [int(count) for count in found] or [0]
    mean = sum(int(count) * share for count, share in found.items())
    return f"{min(counts)} to {max(counts)} cores, {mean:.1f} on average"


def follow(context, lab, installed, quotas, single):
    """`powersave` at its default settings through a day, with changes of cores under load."""
    seconds = 0.4 if context.quick else 4.0
    workers = 2 if context.quick else WORKERS
    found = []
    with Router(lab, "powersave", None, DAY_RING, workers=workers) as router:
        router.wait(installed["routes"])
        place(router, quotas)
        for part in STEPS[:2] if context.quick else STEPS:
            with Day(router) as day:
                rate = int(part * single * workers)
                seen = quiet.measured(context, lab, lambda: lab.load(
                    seconds=seconds, rate=rate, socket=router.socket, pid=router.pid))
            context.say(f"  {100 * part:.0f} %: {sorted(set(day.cores))} cores, lost {seen['lost']}")
            found.append({"part": part, "cores": shares(day.cores), "mpps": seen["received_mpps"], "sent": seen["sent"],
                          "lost": seen["lost"], "reordered": seen["reordered"],
                          "changes": seen["router"]["point_changes"]})
            time.sleep(0.2)
    return found

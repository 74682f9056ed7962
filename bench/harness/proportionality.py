"""CPU time, energy, latency and loss against load, by mode."""

import json
import os
import shutil
import statistics
import time

from . import quiet, tables
from .lab import BUDGET_US, Lab, Router
from .search import capacity

LOADS = [0, 1, 5, 10, 25, 50, 75, 90]
# Policies, each with the latency budgets it is shown with: the default, and none; and once with workers' timers instead of
# the kernel's moderation.
SERIES = [("poll", BUDGET_US, True), ("napi", BUDGET_US, True), ("powersave", BUDGET_US, True), ("powersave", BUDGET_US, False),
          ("napi", 0, True), ("powersave", 0, True)]
TIMERS = "powersave, timers"
TWO_WORKERS = "powersave, 2 workers"


def proportionality(context):
    """CPU seconds, modelled watts, latency and loss at parts of the capacity."""
    seconds = 0.4 if context.quick else 5.0
    loads = [0, 50] if context.quick else LOADS
    rows = []
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        naps = [sleeping(context, lab)]
        with Router(lab, "poll") as router:
            router.wait(installed["routes"])
            most, trials, _ = capacity(context, lab)
            for turn, load in enumerate(loads):
                # Interleaved, and not always in the same order.
                for mode, budget, moderation in SERIES if turn % 2 == 0 else SERIES[::-1]:
                    router.turn_to(mode, budget, moderation)
                    label = mode if moderation else TIMERS
                    rows.append(point(context, lab, router, (label, budget), load, most, seconds))
        if os.cpu_count() > 1 and not context.quick:
            with Router(lab, "powersave", (1, 0)) as router:
                router.wait(installed["routes"])
                for load in loads:
                    rows.append(point(context, lab, router, (TWO_WORKERS, BUDGET_US), load, most, seconds))
        naps.append(sleeping(context, lab))
    rows.sort(key=lambda row: row["load_percent"])
    table = [["load, %", "mode", "budget, us", "Mpps", "CPU, % of a core", "of it own code", "CPU s", "W modelled", "sent", "lost", "reordered",
              "p50, us", "p99, us", "wake-ups/s", "steal, %"]]
    for row in rows:
        table.append([str(row["load_percent"]), row["mode"], str(row["latency_budget_us"]), row["mpps"], row["cpu_percent"], row["own_percent"], row["cpu_seconds"],
                      row["watts_modelled"], row["sent"], row["lost"], row["reordered"], row["p50_us"],
                      row["p99_us"], row["wakeups_per_second"], row["steal_percent"]])
    summary = {"capacity_mpps": most / 1e6, "routes": installed["routes"], "seconds": seconds, "over": over(rows), "naps": naps,
               "least_over": least_over(naps), "sleeps": sleeping_points(rows, naps), "own": own_points(rows),
               "rows": [{k: v for k, v in row.items() if k != "raw"} for row in rows]}
    context.record.result("proportionality", table, summary, {"rows": rows, "capacity": trials})
    draw(context, title(context.record.facts, most), rows)
    if context.docs:
        document(context, rows, most, installed["routes"], seconds, naps)


def sleeping(context, lab):
    """What a sleep that a timer ends costs on the worker's CPU while nobody works there, and one that another CPU ends."""
    cpu, count = min(os.cpu_count() - 1, 1), 100 if context.quick else 4000
    found = {}
    for kind, words in (("timer", []), ("other", ["--by", "0"] if cpu else [])):
        tries = [lab.tool(lab.router, "nap", "--cpu", str(cpu), "--count", str(count), *words) for _ in range(3)]
        found[kind] = {key: statistics.median(nap[key] for nap in tries) for key in tries[0]}
    return found


def least_over(naps):
    """The least CPU above the load, in percentage points, of whoever lets no packet wait longer than the budget, by what
    ends the sleeps: one in every budget / (1 - load)."""
    return {kind: {str(load): (100 - load) * min(nap[kind]["cpu_us"] for nap in naps) / BUDGET_US for load in (5, 10, 25, 50)}
            for kind in ("timer", "other")}


def over(rows):
    """CPU above the load in percentage points, by series and load."""
    found = {}
    for row in rows:
        if row["load_percent"] in (5, 10, 25, 50):
            series = found.setdefault(f"{row['mode']}, {row['latency_budget_us']} us", {})
            series[str(row["load_percent"])] = row["cpu_percent"] - row["load_percent"]
    return found


def point(context, lab, router, series, load, most, seconds):
    mode, budget = series
    time.sleep(0.2 if context.quick else 1)
    # Without any packet there is still somebody to look on.
    rate = max(1e-3, most * load / 100)
    options = {"seconds": seconds, "rate": rate, "socket": router.socket, "pid": router.pid,
               "canary": router.cpus[0]}
    seen = quiet.measured(context, lab, lambda: split(router, lambda: lab.load(**options)))
    context.say(f"  {mode}, {budget} us at {load} %: {100 * seen['router_cpu_share']:.1f} % CPU, lost {seen['lost']}")
    silent = seen["received"] == 0
    return {
        "mode": mode, "latency_budget_us": budget, "load_percent": load, "mpps": seen["received_mpps"],
        "cpu_percent": 100 * seen["router_cpu_share"], "cpu_seconds": seen["router_cpu_seconds"],
        "own_percent": 100 * seen["router_cpu_share"] * seen["own_share"], "seconds": seen["seconds"],
        "watts_modelled": seen["router"]["watts"], "joules_modelled": seen["router"]["joules"],
        "steal_percent": seen["machine"]["steal_percent"], "never_sent": seen["machine"]["never_sent"],
        "disturbed": seen["disturbed"],
        "sent": seen["sent"], "lost": seen["lost"], "reordered": seen["reordered"],
        "p50_us": None if silent else seen["latency_us"]["p50"],
        "p99_us": None if silent else seen["latency_us"]["p99"],
        "cores": seen["router"]["cores"],
        "wakeups_per_second": seen["router"]["wakeups"] / seen["seconds"], "raw": seen,
    }


def split(router, attempt):
    """What `attempt` saw, with the part of the router's processor time that was spent in its own code."""
    before = router.split()
    seen = attempt()
    own, kernel = (after - earlier for after, earlier in zip(router.split(), before))
    return {**seen, "own_share": own / max(own + kernel, 1)}


def title(facts, most):
    kind = "virtual " if facts["virtual"] else ""
    return (f"CPU, energy and latency against load: {kind}machine, {facts['cpus']} CPUs, veth, "
            f"64 bytes, 100 % = {most / 1e6:.2f} Mpps, {facts['started'][:10]}")


def draw(context, title, rows):
    directory = context.record.directory
    if not directory:
        return
    data = os.path.join(directory, "proportionality-plot.json")
    plain = [{**{k: v for k, v in row.items() if k != "raw"}, "mode": name(row)} for row in rows]
    with open(data, "w") as file:
        json.dump({"title": title, "rows": plain}, file)
    context.tools.call("plot", data, os.path.join(directory, "proportionality.svg"))
    os.remove(data)


def document(context, rows, most, routes, seconds, naps):
    """Writes docs/proportionality.md and the picture beside it."""
    facts, docs = context.record.facts, os.path.join(context.repository, "docs")
    os.makedirs(docs, exist_ok=True)
    shutil.copy(os.path.join(context.record.directory, "proportionality.svg"), docs)
    with open(os.path.join(docs, "proportionality.md"), "w") as file:
        file.write(TEXT.format(
            command=facts["command"], day=facts["started"][:10], cpu=facts["cpu"], cpus=facts["cpus"],
            kind="a virtual machine, " if facts["virtual"] else "", kernel=facts["kernel"],
            routes=f"{routes:,}", most=f"{most / 1e6:.2f}", seconds=seconds, idle=comparison(rows), budget=BUDGET_US,
            nap=span([nap["timer"]["cpu_us"] for nap in naps]), late=span([nap["timer"]["late_us"] for nap in naps]),
            woken=span([nap["other"]["cpu_us"] for nap in naps]), asked=naps[0]["timer"]["asked_us"], surplus=surplus(rows, naps),
            rows="".join(line(row, name(row)) for row in rows)))


def span(values):
    """The range that values lie in."""
    least, most = f"{min(values):.1f}", f"{max(values):.1f}"
    return least if least == most else f"{least} to {most}"


def surplus(rows, naps):
    """Rows of a table: CPU above the load in percentage points."""
    loads, text = (5, 10, 25, 50), ""
    for series, found in over(rows).items():
        text += f"| {series} | " + " | ".join(f"{found[str(load)]:.1f}" for load in loads) + " |\n"
    least, spent = least_over(naps), sleeping_points(rows, naps)
    for kind, words in (("timer", "a timer"), ("other", "another CPU")):
        text += f"| least with sleeps that {words} ends, {BUDGET_US} us | " + " | ".join(f"{least[kind][str(load)]:.1f}" for load in loads) + " |\n"
    text += "| of powersave's, its sleeps alone | " + " | ".join(f"{spent[str(load)]:.1f}" for load in loads) + " |\n"
    own, above = own_points(rows), over(rows)[f"powersave, {BUDGET_US} us"]
    text += "| in powersave's own code, load included | " + " | ".join(f"{own[str(load)]:.1f}" for load in loads) + " |\n"
    kernels = " | ".join(f"{above[str(load)] - own[str(load)]:.1f}" for load in loads)
    return text + f"| powersave's above the load if that took no time | {kernels} |\n"


def sleeping_points(rows, naps):
    """What the sleeps of moderated `powersave` cost, in percentage points: their number times that of one which another
    CPU ends and which does nothing else."""
    cost = min(nap["other"]["cpu_us"] for nap in naps)
    return {str(row["load_percent"]): row["wakeups_per_second"] * cost / 1e4
            for row in rows if (row["mode"], row["latency_budget_us"]) == ("powersave", BUDGET_US)}


def own_points(rows):
    """Processor time of moderated `powersave` in its own code, that of the load included; the rest is the kernel's."""
    return {str(row["load_percent"]): row["own_percent"]
            for row in rows if (row["mode"], row["latency_budget_us"]) == ("powersave", BUDGET_US)}


def comparison(rows):
    """What each mode uses without load, at a tenth and at nine tenths."""
    share = {(name(row), row["load_percent"]): row["cpu_percent"] for row in rows}
    parts = []
    for mode in dict.fromkeys(name(row) for row in rows):
        shown = ", ".join(f"{share[mode, load]:.3g} % at {load} %" for load in (0, 10, 50, 90))
        parts.append(f"- `{mode}`: {shown} of the load.\n")
    return "".join(parts)


def name(row):
    """What a series is called: the default budget goes without saying."""
    budget = row["latency_budget_us"]
    return row["mode"] if budget == BUDGET_US else f"{row['mode']}, no budget"


def line(row, mode):
    cell = lambda value, form: "-" if value is None else format(value, form)
    lost = f"{row['lost']:,}" if row["lost"] else "0"
    return (f"| {row['load_percent']} | {mode} | {row['mpps']:.3f} | {row['cpu_seconds']:.3f} | "
            f"{row['cpu_percent']:.2f} | {row['joules_modelled']:.1f} | {row['watts_modelled']:.1f} | "
            f"{row['sent']:,} | {lost} | {cell(row['p50_us'], '.1f')} | {cell(row['p99_us'], '.1f')} |\n")


TEXT = """# Proportionality

**Reference** for operators and router engineers: how much processor time, power and latency the router takes at each load,
under each policy.

![CPU time, modelled power and latency against load](proportionality.svg)

Processor time of the whole process, in per cent of one core:

{idle}
`poll` never sleeps. `napi` and `powersave` let packets gather for as long as `[governor] latency_budget_us` allows, {budget} us
unless said otherwise, when packets come steadily; `no budget` wakes for every packet, `timers` is without
[the kernel's moderation](#the-kernels-moderation). Whoever wants less CPU pays with waiting: compare p50 in the table.

## How it was measured

`{command}` measures it and writes this page.

| | |
|---|---|
| machine | {kind}{cpus} CPUs, {cpu}, Linux {kernel}, {day} |
| path | two veth pairs between two network namespaces, AF_XDP in copy mode |
| traffic | 64-byte packets in both directions, 2,048 flows, {routes} routes |
| CPUs | the generator polls one, one worker has the other; a second worker shares the generator's, for there is no third |
| 100 % | {most} Mpps, both directions together: the most at which one polling worker lost less than one packet in 1,000 |
| a row | {seconds:g} s after a quarter of that to settle in; `sent` and `lost` count all of it |
| CPU | the process's time by the kernel's clock. Its own system calls count; interrupt work for it on the generator's CPU (the XDP program, copies into its memory) does not |
| latency | from the generator's sending to its receiving: twice through the kernel, and the generator's own queue |

**Watts and joules are modelled**, not measured: this machine has no energy counters, clock frequencies or idle states to set.
They come from the server model in `crates/power`, fed with the cores' awake time, and include what the server draws when idle.

Rows during which other programs or the hypervisor took time from the machine were measured again. After a pause of its own the
generator does not send what it missed.

| load, % | mode | Mpps | CPU, s | CPU, % of a core | J modelled | W modelled | sent | lost | p50, us | p99, us |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}
## What a wake-up costs

A wake-up costs the same for one packet as for a hundred, so the CPU above the load is the number of wake-ups times their cost:

```text
CPU = load + wake-ups/s x (wake-up + system calls of a round)
```

A timed sleep that does nothing else took {nap} us of the thread's CPU here and ended {late} us late (`ppoll` of one
descriptor for {asked} us on the worker's CPU, before and after the rows). Whoever lets no packet wait longer than the budget
wakes at least once in every budget / (1 - load). Times the cost of a sleep, that is the least that can lie above the load.
CPU less load, in percentage points:

| series | 5 % | 10 % | 25 % | 50 % |
|---|--:|--:|--:|--:|
{surplus}
Nearly all that is left of `powersave`'s is the kernel's: a `sendto` for each port in a round, and packets, a few each time, through caches
that are cold after a halt. The last two rows are what the worker spends in its own code, by the kernel's ticks and with the
packets' own share, and what would lie above the load if that took no time. No router's code on these sockets can go below it
at so many wake-ups. A profile (`perf record -e cpu-clock`, a Zen 4):

| of the worker's time | at a quarter of capacity | at a twentieth |
|---|--:|--:|
| `sendto` (on a veth it includes the other host's receiving, at a quarter more than half of it) | 85 % | 51 % |
| `ppoll` | 3 % | 23 % |
| our own code | 8 % | 17 % |

## How a worker sleeps

A sleep is one system call: `ppoll` on the worker's doorbell and, where it waits for a packet, on the sockets. The sockets are not in
an epoll set, because the kernel wakes whoever watches a socket so at every packet that it receives or sends. Every 64th sleep takes
two calls more, to measure what sleeping costs. Threads ask for exact timers (`PR_SET_TIMERSLACK`): with the kernel's default a sleep
ends up to 50 us late, a quarter of the default budget. Active cores may use idle states up to the budget's wake-up latency
(`pm_qos_resume_latency_us`).

How long it sleeps by its own timer is decided beside the policy (`Patient` in `crates/control`, the same in the twin). It is at most

- the budget, less what timers were late by,
- the time after which the wake-up is 2 % of it,
- the time in which packets fill a quarter of the ring,
- twice the sleep before.

Where fewer than two packets come in a budget it does not sleep by a timer, it waits for the packet.

The policy does not see packets that gathered as a queue. Nor does it see what came while a worker with work was not let run (its quota
was used up, something else had its CPU), as far as that is what comes in such a time at the usual rate. Otherwise a pause of 4 ms at
half of capacity would look like a lack of cores, and cores would stay on for seconds.

### The kernel's moderation

Most of what a sleep costs is its timer: in a virtual machine each setting of one is an exit to the hypervisor. A sleep that another
CPU ends took {woken} us. So, where at most two ports are open, the kernel lets packets gather (`napi_defer_hard_irqs`,
`gro_flush_timeout`): it looks at a port's queue again only after the time that the workers wish, and they set no timers.

- That time is the budget and what the worker works meanwhile, since what comes then would wait anyway, less what the worker wakes late.
  It is at most 1 ms, and no longer than packets take to fill half of the driver's queue. `ebb router show` says how long it is.
- The first packet after a silence is seen at once, and a worker that finds no time to sleep has its packets at once.
- Each port has a time of its own, so two ports can wake a worker twice in a budget. `[governor] moderation = "on"` does it with
  more ports, too, `"off"` never.

Against `timers`, moderated `powersave` took 0.74, 0.81, 0.91 and 1.04 times the CPU at 5, 10, 25, 50 % of capacity (medians of five
pairs of `bench/run policies`; at half of capacity 0.96 to 1.19, no gain to rely on).

The timer is then on the CPU that takes packets in, here the generator's. A trace of its softirqs and timers found it 13 % busy
instead of 8 % at 5 % of capacity, and 28 % instead of 38 % at 25 %: at light load much of what the router saves is spent there, above
that both save. On hardware it is the CPU that takes the card's interrupts, and interrupts are spared: expected, not measured.

## Tried and left out

| what | why not |
|---|---|
| busy polling by the kernel for `poll` (`SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL`, a budget of 64) | nothing on veth, 0.59 Mpps with and without (medians of five turns): the kernel never polls, since drivers have to say which queue is whose before a socket is bound, and veth does not |
| workers at nice -10 | other programs on a worker's CPU (here `kdamond`, a kernel thread that watches memory, and an agent of the machine's) hold it for 4 to 8 ms now and then, which is the p99 of some milliseconds above and, with rings of 2,048, most losses. With nice -10 a trace showed no such gap, but at 75 % they lost more (12,193 of 1.3 million against 100, medians of five pairs): the kernel's own packet work on that CPU waits instead |
| the program's text and heap in huge pages | the same CPU within the spread of five turns |
"""

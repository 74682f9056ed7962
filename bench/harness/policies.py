"""`powersave` against `napi`, and the kernel's moderation against workers' timers, pair by pair: a single row of each
is within the machine's noise."""

import os
import statistics
import time

from . import quiet, tables
from .lab import BUDGET_US, Failure, Lab, Router
from .search import capacity

LOADS = [5, 10, 25, 50]
# Each a policy and whether the kernel lets packets gather or the workers' timers alone do.
ONE = {"napi": ("napi", True), "powersave": ("powersave", True), "powersave, timers": ("powersave", False)}
SEVERAL = {name: ONE[name] for name in ("napi", "powersave")}
# What is measured with so many workers, all of them on the one CPU that the generator leaves: where policies differ
# in the cores that they use, it is in how often these wake.
SERIES = {1: ONE, 2: SEVERAL, 4: SEVERAL}
# Whose figures are divided by whose.
PAIRS = [("powersave", "napi"), ("powersave", "powersave, timers")]
TURNS = 5
CPU = 1


def policies(context):
    """CPU seconds and modelled joules of `powersave` over those of `napi`, with one worker and with several, and with
    the kernel's moderation over those without, in turns."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    turns, loads, seconds = (1, LOADS[-1:], 0.4) if context.quick else (TURNS, LOADS, 3.0)
    rounds, most, trials = [], None, None
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        for workers, series in SERIES.items():
            with Router(lab, "poll" if workers == 1 else "napi", cpus=None, workers=workers) as router:
                router.wait(installed["routes"])
                for thread in router.worker_threads():
                    os.sched_setaffinity(thread, {CPU})
                if workers == 1:
                    most, trials, _ = capacity(context, lab)
                for turn in range(turns):
                    for load in loads:
                        # In turns, so that none always comes after another.
                        order = list(series)[::1 if turn % 2 == 0 else -1]
                        seen = {name: measured(context, lab, router, series[name], most * load / 100, seconds) for name in order}
                        rounds.append({"workers": workers, "load_percent": load, **seen})
                        share = ", ".join(f"{name} {seen[name]['cpu_percent']:.1f} %" for name in series)
                        context.say(f"  {workers} workers, {load} %: {share}")
    rows = [["workers, load, %", "of the CPU, modelled watts, p50 and p99 of", "CPU, % of a core", "ratio, median of pairs", "least",
             "most", "watts", "p50", "p99", "lost of each"]]
    summary = {"capacity_mpps": most / 1e6, "routes": installed["routes"], "turns": turns, "seconds": seconds,
               "budget_us": BUDGET_US, "workers": {}}
    for workers, load in ((workers, load) for workers in SERIES for load in loads):
        same = [seen for seen in rounds if (seen["workers"], seen["load_percent"]) == (workers, load)]
        found = summary["workers"].setdefault(str(workers), {})[str(load)] = {}
        for own, other in PAIRS:
            if own not in SERIES[workers] or other not in SERIES[workers]:
                continue
            shares = {name: statistics.median(seen[name]["cpu_percent"] for seen in same) for name in (own, other)}
            lost = {name: sum(seen[name]["lost"] for seen in same) for name in (own, other)}
            ratio = {key: [seen[own][key] / seen[other][key] for seen in same]
                     for key in ("cpu_percent", "watts_modelled", "p50_us", "p99_us")}
            median = {key: statistics.median(values) for key, values in ratio.items()}
            cpu = ratio["cpu_percent"]
            rows.append([f"{workers}, {load} %", f"{own} / {other}", " / ".join(f"{share:.1f}" for share in shares.values()),
                         median["cpu_percent"], min(cpu), max(cpu), median["watts_modelled"], median["p50_us"], median["p99_us"],
                         " / ".join(str(count) for count in lost.values())])
            found[f"{own} / {other}"] = {
                "cpu_percent": shares, "cpu_ratio": median["cpu_percent"], "cpu_ratio_least": min(cpu), "cpu_ratio_most": max(cpu),
                "watts_modelled_ratio": median["watts_modelled"], "p50_ratio": median["p50_us"], "p99_ratio": median["p99_us"],
                "lost": lost, "sent": {name: sum(seen[name]["sent"] for seen in same) for name in (own, other)},
                "reordered": {name: sum(seen[name]["reordered"] for seen in same) for name in (own, other)}}
    context.record.result("policies", rows, summary, {"rounds": rounds, "capacity": trials})


def measured(context, lab, router, series, rate, seconds):
    """One row of a series with the default budget."""
    mode, moderation = series
    router.turn_to(mode, BUDGET_US, moderation)
    time.sleep(0.2 if context.quick else 1)
    options = {"seconds": seconds, "rate": rate, "socket": router.socket, "pid": router.pid, "canary": CPU}
    seen = quiet.measured(context, lab, lambda: lab.load(**options))
    return {"cpu_percent": 100 * seen["router_cpu_share"], "watts_modelled": seen["router"]["watts"],
            "wakeups_per_second": seen["router"]["wakeups"] / seen["seconds"], "sent": seen["sent"],
            "lost": seen["lost"], "reordered": seen["reordered"], "p50_us": seen["latency_us"]["p50"], "p99_us": seen["latency_us"]["p99"],
            "steal_percent": seen["machine"]["steal_percent"], "disturbed": seen["disturbed"]}

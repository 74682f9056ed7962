"""`powersave` against `napi`, and the kernel's moderation against timers, pair by pair: a single row of each is
within the machine's noise."""

import statistics
import time

from . import quiet, tables
from .lab import BUDGET_US, Lab, Router
from .live import capacity

LOADS = [5, 10, 25, 50]
# Each a policy and whether the kernel lets packets gather or the workers' timers alone do.
SERIES = {"napi": ("napi", False), "powersave": ("powersave", False), "powersave, moderated": ("powersave", True)}
# Whose figures are divided by whose.
PAIRS = [("powersave", "napi"), ("powersave, moderated", "powersave")]
TURNS = 5


def policies(context):
    """CPU seconds and modelled joules of `powersave` over those of `napi`, and with the kernel's moderation over those
    without, one worker, in turns."""
    turns, loads, seconds = (1, LOADS[-1:], 0.4) if context.quick else (TURNS, LOADS, 3.0)
    rounds = []
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        with Router(lab, "poll") as router:
            router.wait(installed["routes"])
            most, trials = capacity(context, lab, router)
            for turn in range(turns):
                for load in loads:
                    # In turns, so that none always comes after another.
                    order = list(SERIES) if turn % 2 == 0 else list(SERIES)[::-1]
                    seen = {name: measured(context, lab, router, SERIES[name], most * load / 100, seconds) for name in order}
                    rounds.append({"load_percent": load, **seen})
                    share = ", ".join(f"{name} {seen[name]['cpu_percent']:.1f} %" for name in SERIES)
                    context.say(f"  {load} %: {share}")
    rows = [["load, %", "of the CPU, modelled watts, p50 and p99 of", "CPU, % of a core", "ratio, median of pairs", "least", "most",
             "watts", "p50", "p99", "lost of each"]]
    summary = {"capacity_mpps": most / 1e6, "routes": installed["routes"], "turns": turns, "seconds": seconds,
               "budget_us": BUDGET_US, "loads": {}}
    for load in loads:
        same = [seen for seen in rounds if seen["load_percent"] == load]
        found = summary["loads"][str(load)] = {}
        for own, other in PAIRS:
            shares = {name: statistics.median(seen[name]["cpu_percent"] for seen in same) for name in (own, other)}
            lost = {name: sum(seen[name]["lost"] for seen in same) for name in (own, other)}
            ratio = {key: [seen[own][key] / seen[other][key] for seen in same]
                     for key in ("cpu_percent", "watts_modelled", "p50_us", "p99_us")}
            median = {key: statistics.median(values) for key, values in ratio.items()}
            cpu = ratio["cpu_percent"]
            rows.append([str(load), f"{own} / {other}", " / ".join(f"{share:.1f}" for share in shares.values()), median["cpu_percent"],
                         min(cpu), max(cpu), median["watts_modelled"], median["p50_us"], median["p99_us"],
                         " / ".join(str(count) for count in lost.values())])
            found[f"{own} / {other}"] = {
                "cpu_percent": shares, "cpu_ratio": median["cpu_percent"], "cpu_ratio_least": min(cpu), "cpu_ratio_most": max(cpu),
                "watts_modelled_ratio": median["watts_modelled"], "p50_ratio": median["p50_us"], "p99_ratio": median["p99_us"],
                "lost": lost, "sent": {name: sum(seen[name]["sent"] for seen in same) for name in (own, other)}}
    context.record.result("policies", rows, summary, {"rounds": rounds, "capacity": trials})


def measured(context, lab, router, series, rate, seconds):
    """One row of a series with the default budget."""
    mode, moderation = series
    router.turn_to(mode, BUDGET_US, moderation)
    time.sleep(0.2 if context.quick else 1)
    options = {"seconds": seconds, "rate": rate, "socket": router.socket, "pid": router.pid, "canary": router.cpus[0]}
    seen = quiet.measured(context, lab, lambda: lab.load(**options))
    return {"cpu_percent": 100 * seen["router_cpu_share"], "watts_modelled": seen["router"]["watts"],
            "wakeups_per_second": seen["router"]["wakeups"] / seen["seconds"], "sent": seen["sent"],
            "lost": seen["lost"], "reordered": seen["reordered"], "p50_us": seen["latency_us"]["p50"], "p99_us": seen["latency_us"]["p99"],
            "steal_percent": seen["machine"]["steal_percent"], "disturbed": seen["disturbed"]}

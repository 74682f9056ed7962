"""`powersave` against `napi`, pair by pair: a single row of each is within the machine's noise."""

import statistics
import time

from . import quiet, tables
from .lab import BUDGET_US, Lab, Router
from .live import capacity

LOADS = [5, 10, 25, 50]
MODES = ["napi", "powersave"]
TURNS = 7


def policies(context):
    """CPU seconds and modelled joules of `powersave` over those of `napi`, one worker, in pairs."""
    turns, loads, seconds = (1, LOADS[-1:], 0.4) if context.quick else (TURNS, LOADS, 3.0)
    pairs = []
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        with Router(lab, "poll") as router:
            router.wait(installed["routes"])
            most, trials = capacity(context, lab, router)
            for turn in range(turns):
                for load in loads:
                    # In turns, so that neither always comes after the other.
                    order = MODES if turn % 2 == 0 else MODES[::-1]
                    seen = {mode: measured(context, lab, router, mode, most * load / 100, seconds) for mode in order}
                    ratio = {what: seen["powersave"][what] / seen["napi"][what] for what in ("cpu_percent", "watts_modelled")}
                    pairs.append({"load_percent": load, **seen, "ratio": ratio})
                    context.say(f"  {load} %: powersave {ratio['cpu_percent']:.3f} of napi's CPU")
    rows = [["load, %", "napi, % of a core", "powersave", "ratio, median of pairs", "least", "most",
             "modelled watts, ratio", "lost, napi", "lost, powersave"]]
    summary = {"capacity_mpps": most / 1e6, "routes": installed["routes"], "turns": turns, "seconds": seconds,
               "budget_us": BUDGET_US, "loads": {}}
    for load in loads:
        same = [pair for pair in pairs if pair["load_percent"] == load]
        cpu = [pair["ratio"]["cpu_percent"] for pair in same]
        watts = statistics.median(pair["ratio"]["watts_modelled"] for pair in same)
        share = {mode: statistics.median(pair[mode]["cpu_percent"] for pair in same) for mode in MODES}
        lost = {mode: sum(pair[mode]["lost"] for pair in same) for mode in MODES}
        sent = {mode: sum(pair[mode]["sent"] for pair in same) for mode in MODES}
        rows.append([str(load), share["napi"], share["powersave"], statistics.median(cpu), min(cpu), max(cpu), watts,
                     lost["napi"], lost["powersave"]])
        summary["loads"][str(load)] = {
            "cpu_percent": share, "cpu_ratio": statistics.median(cpu), "cpu_ratio_least": min(cpu),
            "cpu_ratio_most": max(cpu), "watts_modelled_ratio": watts, "lost": lost, "sent": sent}
    context.record.result("policies", rows, summary, {"pairs": pairs, "capacity": trials})


def measured(context, lab, router, mode, rate, seconds):
    """One row of a policy with the default budget."""
    router.turn_to(mode, BUDGET_US)
    time.sleep(0.2 if context.quick else 1)
    options = {"seconds": seconds, "rate": rate, "socket": router.socket, "pid": router.pid, "canary": router.cpus[0]}
    seen = quiet.measured(context, lab, lambda: lab.load(**options))
    return {"cpu_percent": 100 * seen["router_cpu_share"], "watts_modelled": seen["router"]["watts"],
            "wakeups_per_second": seen["router"]["wakeups"] / seen["seconds"], "sent": seen["sent"],
            "lost": seen["lost"], "reordered": seen["reordered"], "p99_us": seen["latency_us"]["p99"],
            "steal_percent": seen["machine"]["steal_percent"], "disturbed": seen["disturbed"]}

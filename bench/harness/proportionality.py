"""CPU time, energy, latency and loss against load, by mode."""

import json
import os
import time

from . import tables
from .lab import Lab, Router
from .live import capacity

LOADS = [0, 1, 5, 10, 25, 50, 75, 90]


def proportionality(context):
    """CPU seconds, modelled watts, latency and loss at parts of the capacity."""
    seconds = 0.4 if context.quick else 5.0
    loads = [0, 50] if context.quick else LOADS
    rows = []
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        with Router(lab, "poll") as router:
            router.wait(installed["routes"])
            most, trials = capacity(context, lab, router)
            for load in loads:
                for mode in ("poll", "napi", "powersave"):
                    router.ask({"set": {"mode": mode}})
                    rows.append(point(context, lab, router, mode, load, most, seconds))
        if os.cpu_count() > 1 and not context.quick:
            with Router(lab, "powersave", (1, 0)) as router:
                router.wait(installed["routes"])
                for load in loads:
                    rows.append(point(context, lab, router, "powersave, 2 workers", load, most, seconds))
    rows.sort(key=lambda row: row["load_percent"])
    table = [["load, %", "mode", "Mpps", "CPU, % of a core", "CPU s", "W modelled", "sent", "lost", "reordered",
              "p50, us", "p99, us", "wake-ups/s"]]
    for row in rows:
        table.append([str(row["load_percent"]), row["mode"], row["mpps"], row["cpu_percent"], row["cpu_seconds"],
                      row["watts_modelled"], row["sent"], row["lost"], row["reordered"], row["p50_us"],
                      row["p99_us"], row["wakeups_per_second"]])
    summary = {"capacity_mpps": most / 1e6, "routes": installed["routes"], "seconds": seconds,
               "rows": [{k: v for k, v in row.items() if k != "raw"} for row in rows]}
    context.record.result("proportionality", table, summary, {"rows": rows, "capacity": trials})
    draw(context, lab_title(context, most), rows)


def point(context, lab, router, mode, load, most, seconds):
    time.sleep(0.2 if context.quick else 1)
    # Without any packet there is still somebody to look on.
    rate = max(1e-3, most * load / 100)
    seen = lab.load(seconds=seconds, rate=rate, socket=router.socket, pid=router.pid)
    context.say(f"  {mode} at {load} %: {100 * seen['router_cpu_share']:.1f} % CPU, lost {seen['lost']}")
    quiet = seen["received"] == 0
    return {
        "mode": mode, "load_percent": load, "mpps": seen["received_mpps"],
        "cpu_percent": 100 * seen["router_cpu_share"], "cpu_seconds": seen["router_cpu_seconds"],
        "seconds": seen["seconds"],
        "watts_modelled": seen["router"]["watts"], "joules_modelled": seen["router"]["joules"],
        "sent": seen["sent"], "lost": seen["lost"], "reordered": seen["reordered"],
        "p50_us": None if quiet else seen["latency_us"]["p50"],
        "p99_us": None if quiet else seen["latency_us"]["p99"],
        "cores": seen["router"]["cores"],
        "wakeups_per_second": seen["router"]["wakeups"] / seen["seconds"], "raw": seen,
    }


def lab_title(context, most):
    facts = context.record.facts
    kind = "virtual " if facts["virtual"] else ""
    return (f"CPU, energy and latency against load: {kind}machine, {facts['cpus']} CPUs, veth, "
            f"64 bytes, 100 % = {most / 1e6:.2f} Mpps, {facts['started'][:10]}")


def draw(context, title, rows):
    directory = context.record.directory
    if not directory:
        return
    data = os.path.join(directory, "proportionality-plot.json")
    plain = [{k: v for k, v in row.items() if k != "raw"} for row in rows]
    with open(data, "w") as file:
        json.dump({"title": title, "rows": plain}, file)
    context.tools.call("plot", data, os.path.join(directory, "proportionality.svg"))
    os.remove(data)

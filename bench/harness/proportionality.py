"""CPU time, energy, latency and loss against load, by mode."""

import json
import os
import shutil
import time

from . import quiet, tables
from .lab import Lab, Router
from .live import capacity

LOADS = [0, 1, 5, 10, 25, 50, 75, 90]
# The policy with `coalesce_us = 200`: four times the default.
PATIENT = "powersave, 200 us"


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
        if not context.quick:
            with Router(lab, "powersave", governor="coalesce_us = 200\n") as router:
                router.wait(installed["routes"])
                for load in loads:
                    rows.append(point(context, lab, router, PATIENT, load, most, seconds))
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
    if context.docs:
        document(context, rows, most, installed["routes"], seconds)


def point(context, lab, router, mode, load, most, seconds):
    time.sleep(0.2 if context.quick else 1)
    # Without any packet there is still somebody to look on.
    rate = max(1e-3, most * load / 100)
    options = {"seconds": seconds, "rate": rate, "socket": router.socket, "pid": router.pid}
    seen = quiet.measured(context, lab, lambda: lab.load(**options))
    context.say(f"  {mode} at {load} %: {100 * seen['router_cpu_share']:.1f} % CPU, lost {seen['lost']}")
    silent = seen["received"] == 0
    return {
        "mode": mode, "load_percent": load, "mpps": seen["received_mpps"],
        "cpu_percent": 100 * seen["router_cpu_share"], "cpu_seconds": seen["router_cpu_seconds"],
        "seconds": seen["seconds"],
        "watts_modelled": seen["router"]["watts"], "joules_modelled": seen["router"]["joules"],
        "sent": seen["sent"], "lost": seen["lost"], "reordered": seen["reordered"],
        "p50_us": None if silent else seen["latency_us"]["p50"],
        "p99_us": None if silent else seen["latency_us"]["p99"],
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


def document(context, rows, most, routes, seconds):
    """Writes docs/proportionality.md and the picture beside it."""
    facts, docs = context.record.facts, os.path.join(context.repository, "docs")
    os.makedirs(docs, exist_ok=True)
    shutil.copy(os.path.join(context.record.directory, "proportionality.svg"), docs)
    with open(os.path.join(docs, "proportionality.md"), "w") as file:
        file.write(TEXT.format(
            command=facts["command"], day=facts["started"][:10], cpu=facts["cpu"], cpus=facts["cpus"],
            kind="a virtual machine, " if facts["virtual"] else "", kernel=facts["kernel"],
            routes=f"{routes:,}", most=f"{most / 1e6:.2f}", seconds=seconds, idle=comparison(rows), patient=PATIENT,
            rows="".join(line(row, row["mode"]) for row in rows)))


def comparison(rows):
    """What each mode uses without load, at a tenth and at nine tenths."""
    share = {(row["mode"], row["load_percent"]): row["cpu_percent"] for row in rows}
    parts = []
    for mode in ("poll", "napi", "powersave", PATIENT):
        shown = ", ".join(f"{share[mode, load]:.3g} % at {load} %" for load in (0, 10, 50, 90))
        parts.append(f"- `{mode}`: {shown} of the load.\n")
    return "".join(parts)


def line(row, mode):
    cell = lambda value, form: "-" if value is None else format(value, form)
    lost = f"{row['lost']:,}" if row["lost"] else "0"
    return (f"| {row['load_percent']} | {mode} | {row['mpps']:.3f} | {row['cpu_seconds']:.3f} | "
            f"{row['cpu_percent']:.2f} | {row['joules_modelled']:.1f} | {row['watts_modelled']:.1f} | "
            f"{row['sent']:,} | {lost} | {cell(row['p50_us'], '.1f')} | {cell(row['p99_us'], '.1f')} |\n")


TEXT = """# Proportionality

What the router uses against what it carries, for each policy, measured by `{command}`.

![CPU time, modelled power and latency against load](proportionality.svg)

Processor time of the whole process, in per cent of one core:

{idle}
Machine: {kind}{cpus} CPUs, {cpu}, Linux {kernel}, {day}. Two veth pairs between two network namespaces, AF_XDP in
copy mode, 64-byte packets in both directions, 2,048 flows, {routes} routes. The generator polls one CPU and one worker
has the other; the series of two workers gives the second worker the generator's CPU, for there is no third. 100 % is
{most} Mpps, both directions together: the highest rate at which one polling worker lost less than one packet in 1,000.
Each row is {seconds:g} s long after a quarter of that to settle in; `sent` and `lost` count all of it.

CPU seconds are the process's, from the kernel's clock of it. Interrupt work that the kernel does on the generator's CPU on
the router's behalf (the XDP program, copying packets into the router's memory) is in no row, work that it does within the
router's own system calls is in all. Latency is from the generator's sending to its receiving: it includes the kernel
twice and the generator's own queueing.

**Watts and joules are modelled**, not measured: this machine has no energy counters, clock frequencies or idle states to
set. They are those of the server model in `crates/power`, fed with the cores' awake time, and include the server's draw
when idle. CPU seconds are what was measured.

A worker that finds its queue empty while packets come steadily lets them gather for `[governor] coalesce_us` before it looks
again, 50 us unless said otherwise: each look costs about 20 us of a virtual machine's time, however few packets it finds.
The series `{patient}` waits for 200 us: about the same packets for less, at the price of that latency.

| load, % | mode | Mpps | CPU, s | CPU, % of a core | J modelled | W modelled | sent | lost | p50, us | p99, us |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
{rows}"""

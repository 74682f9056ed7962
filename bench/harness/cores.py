"""Several cores on a machine with two CPUs: workers as virtual cores, a fifth of a CPU each."""

import os
import time

from . import quiet, tables
from .lab import Failure, Lab, Router
from .quota import Day, Quotas
from .record import verdict
from .search import capacity

WORKERS = 4
SHARE = 0.2
# A worker whose part is used up stands still for milliseconds: its packets wait meanwhile.
RING = 4096
# The workers' CPU; the generator has the other.
CPU = 1
# Parts of the capacity of all workers, through a day.
STEPS = [0.1, 0.3, 0.55, 0.75, 0.55, 0.3, 0.1]


def cores(context):
    """Capacity, order and governor with 1 to 4 virtual cores of a fifth of a CPU each."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    rows, raw = [], {}
    with Lab(context.tools) as lab, Quotas(SHARE) as quotas:
        installed = tables.install(lab, context.prefixes())
        counts = [1, 2] if context.quick else range(1, WORKERS + 1)
        for workers in counts:
            with Router(lab, "poll", None, RING, workers=workers) as router:
                router.wait(installed["routes"])
                place(router, quotas)
                _, trials, seen = capacity(context, lab, quick_rate=5000 * workers)
                raw[workers] = {**seen, "trials": trials}
                rows.append({"workers": workers, "capacity_mpps": seen["received_mpps"],
                             "lost": seen["lost"], "reordered": seen["reordered"]})
                context.say(f"  {workers} workers: {seen['received_mpps']:.3f} Mpps")
        day = follow(context, lab, installed, quotas, rows[0]["capacity_mpps"] * 1e6)
    single = rows[0]["capacity_mpps"]
    table = [["virtual cores", "capacity, Mpps", "of linear", "sent", "lost", "reordered", "verdict"]]
    for row in rows:
        row["of_linear"] = row["capacity_mpps"] / single / row["workers"]
        table.append([str(row["workers"]), row["capacity_mpps"], row["of_linear"], raw[row["workers"]]["sent"],
                      row["lost"], row["reordered"], verdict(row)])
    for step in day:
        table.append([f"powersave, {100 * step['part']:.0f} %: {cores_of(step['cores'])}",
                      step["mpps"], "", step["sent"], step["lost"], step["reordered"], verdict(step)])
    summary = {"share_of_a_cpu": SHARE, "rows": rows, "day": day, "routes": installed["routes"]}
    context.record.result("cores", table, summary, {"capacity": raw, "day": day})


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
    with Router(lab, "powersave", None, RING, workers=workers) as router:
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

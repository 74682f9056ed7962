"""The redirect table of a loaded router, rewritten again and again."""

import os
import threading
import time

from . import quiet, tables
from .lab import Failure, Lab, Router
from .live import CHURN_RING, check_order
from .record import verdict
from .search import capacity

# Shares of the capacity, and the length of the rings, as in `upgrade`.
LOADS = [(0.5, 2048), (0.8, 2048), (0.8, CHURN_RING)]
# Policies of which the first keeps both workers, the second one of them at any load that this
# machine carries: the model it has is that of a faster server.
MODES = [("napi", 2), ("model", 1)]
# The workers' CPU; the generator has the other. Two workers on one CPU also take turns in time, which
# no hand-over of a machine with a CPU for each would meet.
CPU = 1
# How long a change is waited for: the first one as long as it takes on any machine.
FIRST_S, PATIENCE_S = 10, 0.2


def handover(context):
    """Loss and order while the redirect table of two workers is changed without pause, the full table in both."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    turns, seconds = (1, 1.0) if context.quick else (3, 8.0)
    runs, trials = [], {}
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        for share, ring in LOADS[:1] if context.quick else LOADS:
            with Router(lab, "napi", None, ring, workers=2) as router:
                router.wait(installed["routes"])
                for thread in router.worker_threads():
                    os.sched_setaffinity(thread, {CPU})
                most, trials[ring], _ = capacity(context, lab)
                for _ in range(turns):
                    # Without changes first: what this machine loses by itself.
                    for forced in (False, True):
                        if not context.quick:
                            quiet.wait([*lab.pids(), router.pid], context.say)
                        seen = changing(lab, router, forced, share * most, seconds)
                        runs.append({"share": share, "ring": ring, "forced": forced, **seen})
                        context.say(f"  {share:.0%}, ring {ring}, {seen['changes']} changes: {verdict(seen)}")
    check_order(runs)
    rows = [["load", "ring", "load, Mpps", "changes", "entries moved", "sent", "lost", "reordered", "late", "verdict"]]
    rows += [[f"{seen['share']:.0%}", str(seen["ring"]), seen["sent_mpps"], seen["changes"], seen["entries_moved"],
              seen["sent"], seen["lost"], seen["reordered"], seen["late"], verdict(seen)] for seen in runs]
    summary = {"routes": installed["routes"], "form": "steer", "turns": turns}
    for share, ring, forced in sorted({(seen["share"], seen["ring"], seen["forced"]) for seen in runs}):
        same = [seen for seen in runs if (seen["share"], seen["ring"], seen["forced"]) == (share, ring, forced)]
        summary[f"{share:.0%} ring {ring}, {'forced' if forced else 'left alone'}"] = {
            key: sum(seen[key] for seen in same)
            for key in ("changes", "entries_moved", "late", "sent", "lost", "reordered", "duplicated")}
    context.record.result("handover", rows, summary, {"runs": runs, "capacity": trials})


def changing(lab, router, forced, load, seconds):
    """Loads the router; while the load lasts, and if `forced`, its workers come and go."""
    over, problems = threading.Event(), []

    def force():
        try:
            patience = FIRST_S
            while patience == FIRST_S or not over.is_set():
                for mode, cores in MODES:
                    router.ask({"set": {"mode": mode}})
                    end = time.monotonic() + patience
                    while router.status()["point"]["cores"] != cores and time.monotonic() < end:
                        time.sleep(0.001)
                patience = PATIENCE_S
            router.ask({"set": {"mode": MODES[0][0]}})
        except (Failure, OSError) as problem:
            problems.append(problem)

    before = router.status()["governor"]
    forcing = threading.Thread(target=force)
    if forced:
        forcing.start()
    try:
        seen = lab.load(seconds=seconds, rate=int(load))
    finally:
        over.set()
        if forced:
            forcing.join()
    if problems:
        raise Failure(f"the table is not changed: {problems[0]}")
    after = router.status()["governor"]
    counts = {key: after[key] - before[key] for key in ("changes", "entries_moved", "late")}
    if forced and counts["entries_moved"] == 0:
        raise Failure("no entry of the table moved")
    return {**seen, **counts}

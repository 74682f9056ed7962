"""Another program takes over from the running one under load."""

import os
import signal
import threading
import time

from . import quiet, tables
from .lab import Failure, Lab, Router
from .live import CHURN_RING, check_order
from .record import verdict
from .search import capacity

# Shares of the capacity, and the length of the rings: the longer ones keep what comes while a virtual
# machine stands still, see `CHURN_RING`.
LOADS = [(0.5, 2048), (0.5, CHURN_RING), (0.8, CHURN_RING)]


def upgrade(context):
    """Loss and order while a program takes over, the full table in both."""
    turns, seconds = (1, 1.5) if context.quick else (5, 8.0)
    runs, trials = [], {}
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        for share, ring in LOADS[:1] if context.quick else LOADS:
            with Router(lab, "napi", ring=ring) as router:
                router.wait(installed["routes"])
                most, trials[ring], _ = capacity(context, lab)
                try:
                    for _ in range(turns):
                        if not context.quick:
                            quiet.wait([*lab.pids(), router.pid], context.say)
                        # Every outcome counts: none is repeated for the sake of its losses.
                        seen = taking_over(lab, router, share * most, seconds)
                        runs.append({"share": share, "ring": ring, **seen})
                        context.say(f"  {share:.0%}, ring {ring}: lost {seen['lost']} of {seen['sent']}, "
                                    f"silent for {seen['silence_us']} us")
                finally:
                    end(router)
    check_order(runs)
    rows = [["load", "ring", "load, Mpps", "sent", "lost", "reordered", "no worker received, us", "took, s", "within the load", "verdict"]]
    rows += [[f"{seen['share']:.0%}", str(seen["ring"]), seen["sent_mpps"], seen["sent"], seen["lost"],
              seen["reordered"], seen["silence_us"], seen["took_s"], "yes" if seen["during_load"] else "no", verdict(seen)] for seen in runs]
    summary = {"routes": installed["routes"], "turns": turns}
    for share, ring in {(seen["share"], seen["ring"]) for seen in runs}:
        same = [seen for seen in runs if (seen["share"], seen["ring"]) == (share, ring)]
        summary[f"{share:.0%} ring {ring}"] = {
            key: sum(seen[key] for seen in same)
            for key in ("during_load", "sent", "lost", "reordered", "duplicated")}
    context.record.result("upgrade", rows, summary, {"runs": runs, "capacity": trials})


def taking_over(lab, router, load, seconds):
    """Loads the router while its program is replaced."""
    outcome = {}

    def ask():
        # The load has begun, and warmed up, by then.
        time.sleep(0.3 * seconds)
        begun = time.monotonic()
        try:
            outcome.update(router.ask({"upgrade": {}}), took_s=time.monotonic() - begun)
        except (Failure, OSError) as problem:
            outcome["problem"] = problem

    asking = threading.Thread(target=ask)
    asking.start()
    seen = lab.load(seconds=seconds, rate=int(load))
    during = not asking.is_alive()
    asking.join()
    if "pid" not in outcome:
        raise Failure(f"no upgrade: {outcome.get('problem')}")
    router.pid = outcome["pid"]
    # The new program, which the lab has not started, passes for somebody else.
    del seen["others_cpu_share"]
    return {**seen, "during_load": during, "silence_us": outcome["silence_us"], "took_s": outcome["took_s"]}


def end(router):
    """Ends the last of the programs, which the lab has not started."""
    if router.pid == router.child.pid:
        return
    os.kill(router.pid, signal.SIGTERM)
    for _ in range(200):
        if not os.path.exists(f"/proc/{router.pid}"):
            return
        time.sleep(0.05)
    os.kill(router.pid, signal.SIGKILL)

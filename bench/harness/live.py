"""The live benchmarks: each takes a context and hands its outcome to the record."""

import json
import os
import subprocess
import threading
import time

from . import quiet, tables
from .lab import Failure, Lab, Router, Testpmd, ticks
from .record import spread, verdict
from .search import capacity

IDLE_SECONDS = 10


def veth(context):
    """Full-table routing beside testpmd's MAC forwarding, on the same interfaces."""
    rounds, seconds = (1, 0.4) if context.quick else (7, 4.0)
    raw = {"ebb": [], "testpmd": []}
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        contenders = ["ebb", "testpmd"] if context.dpdk else ["ebb"]
        for turn in range(rounds):
            for name in contenders if turn % 2 == 0 else contenders[::-1]:
                seen = quiet.measured(context, lab, lambda: contend(lab, name, installed["routes"], seconds))
                raw[name].append(seen)
                context.say(f"  {name}: {seen['received_mpps']:.3f} Mpps")
    rates = {name: [seen["received_mpps"] for seen in seen_all] for name, seen_all in raw.items() if seen_all}
    check_order(raw["ebb"])
    ratio = [ours / theirs for ours, theirs in zip(rates["ebb"], rates.get("testpmd", []))]
    rows = [["64-byte packets, both directions", "Mpps, median", "least", "most"]]
    for name, title in (("ebb", f"ebb, {installed['routes']:,} routes, 1 worker"),
                        ("testpmd", "testpmd net_af_xdp, MAC forwarding, 1 core")):
        if name in rates:
            rows.append([title, *spread(rates[name]).values()])
    if ratio:
        rows.append(["ratio, turn by turn", *spread(ratio).values()])
    own = {name: spread([seen["own_percent"] for seen in raw[name]]) for name in rates}
    for name, percent in own.items():
        rows.append([f"{name}: of a CPU in its own code, %", *percent.values()])
    summary = {
        "routes": installed["routes"], "table": context.origin, "turns": rounds,
        "mpps": {name: spread(values) for name, values in rates.items()},
        "own_percent": own,
        "ratio": spread(ratio) if ratio else None,
    }
    context.record.result("veth", rows, summary, raw)


def contend(lab, name, routes, seconds):
    with Router(lab, "poll") if name == "ebb" else Testpmd(lab) as running:
        if name == "ebb":
            running.wait(routes)
        share = threading.Thread(target=own_share, args=(running.child.pid, seconds, shares := []))
        share.start()
        seen = lab.load(seconds=seconds)
        share.join()
        return seen | {"own_percent": shares[0]}


def own_share(pid, seconds, shares):
    """Adds how much of a CPU a process spends in its own code, in percent, in the middle of a load."""
    time.sleep(0.3 * seconds)
    began, before = time.monotonic(), ticks(pid)[0]
    time.sleep(0.5 * seconds)
    spent = (ticks(pid)[0] - before) / os.sysconf("SC_CLK_TCK")
    shares.append(100 * spent / (time.monotonic() - began))


# The workers' CPUs and the length of the rings. With three CPUs or more the generator would have its own.
# On two it either shares one with a worker or both workers share the other. Under `steer` frames wander
# between the queues, whose records of them in the kernel then leave the caches: less so with short rings.
PLACES = {
    "a worker beside the generator": ("1,0", 2048),
    "the same, rings of 512": ("1,0", 512),
    "both workers on one CPU": ("1,1", 2048),
}


def steer(context):
    """Both forms of the redirect table with two workers on two queues, below any routing."""
    rounds, seconds = (1, 0.2) if context.quick else (5, 2.0)
    raw = {place: {"steer": [], "rss": []} for place in PLACES}
    with Lab(context.tools, queues=2) as lab:
        tables.write(lab, context.prefixes())
        for turn in range(rounds):
            for place, (cpus, ring) in PLACES.items():
                for form in ("steer", "rss") if turn % 2 == 0 else ("rss", "steer"):
                    seen = quiet.measured(context, lab, lambda: forward(lab, form, (cpus, ring), seconds))
                    raw[place][form].append(seen)
                    context.say(f"  {place}, {form}: {seen['received_mpps']:.3f} Mpps")
    rows, summary = [["2 workers, 2 queues", "Mpps, median", "least", "most"]], {"turns": rounds}
    for place, forms in raw.items():
        rates = {form: [seen["received_mpps"] for seen in forms[form]] for form in forms}
        ratio = [ours / theirs for ours, theirs in zip(rates["steer"], rates["rss"])]
        rows += [[f"{place}: {form}", *spread(rates[form]).values()] for form in rates]
        rows.append([f"{place}: steer / rss, turn by turn", *spread(ratio).values()])
        summary[place] = {"mpps": {form: spread(rates[form]) for form in rates}, "ratio": spread(ratio)}
    context.record.result("steer", rows, summary, raw)


def forward(lab, form, setup, seconds):
    cpus, ring = setup
    words = [lab.tools.bench, "forward", "p0", "p1", "--form", form, "--cpus", cpus, "--ring", str(ring)]
    child = lab.spawn(lab.router, *words, stdin=subprocess.PIPE)
    if child.stdout.readline() != "ready\n":
        raise Failure(f"live_bench forward: {child.stderr.read()}")
    seen = lab.load(seconds=seconds)
    child.communicate(timeout=30)
    lab.end(child)
    return seen


# Frames that a queue has to receive into, of a ring of 2,048; the last: as many as the ring holds.
FILLS = [64, 256, 1024, None]


def fill(context):
    """Packets a second, and what is lost at 80 % of them, by `[[port]] fill`."""
    rounds, seconds = (1, 0.3) if context.quick else (5, 1.5)
    raw = {str(depth): [] for depth in FILLS}
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        for turn in range(rounds):
            for depth in FILLS if turn % 2 == 0 else FILLS[::-1]:
                with Router(lab, "poll", fill=depth) as router:
                    router.wait(installed["routes"])
                    most = quiet.measured(context, lab, lambda: lab.load(seconds=seconds))
                    rate = int(0.8e6 * most["received_mpps"])
                    paced = quiet.measured(context, lab, lambda: lab.load(seconds=seconds, rate=rate))
                raw[str(depth)].append({"most": most, "paced": paced})
                context.say(f"  {depth}: {most['received_mpps']:.3f} Mpps, {paced['lost']} lost at 80 %")
    rows = [["fill, ring of 2,048", "Mpps, median", "least", "most", "ratio to the whole ring, median", "lost at 80 %"]]
    summary = {"routes": installed["routes"], "turns": rounds, "fills": {}}
    rates = {depth: [seen["most"]["received_mpps"] for seen in turns] for depth, turns in raw.items()}
    for depth, turns in raw.items():
        ratio = spread([own / whole for own, whole in zip(rates[depth], rates["None"])])
        sent, lost = (sum(seen["paced"][key] for seen in turns) for key in ("sent", "lost"))
        title = "as many as the ring holds" if depth == "None" else depth
        rows.append([title, *spread(rates[depth]).values(), ratio["median"], f"{lost} of {sent:,}"])
        summary["fills"][title] = {"mpps": spread(rates[depth]), "ratio": ratio, "sent": sent, "lost": lost}
    context.record.result("fill", rows, summary, raw)


def idle(context):
    """What a router without traffic costs, and what it takes to learn the table."""
    seconds = 1 if context.quick else IDLE_SECONDS
    modes, raw = {}, {}
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        cpus = [1, 0] if os.cpu_count() > 1 else [0]
        for mode in ("powersave", "napi"):
            with Router(lab, mode, cpus) as router:
                loading = router.wait(installed["routes"])
                time.sleep(0.5 if context.quick else 6)
                memory = router.resident_mib()
                before, status_before = router.threads(), router.status()
                begun = time.monotonic()
                time.sleep(seconds)
                after, span = router.threads(), time.monotonic() - begun
                status = router.status()
            used = sum(use[1] for use in after) - sum(use[1] for use in before)
            parked = [number for number, worker in enumerate(status["workers"]) if worker["state"] == "parked"]
            wakeups = [sum(one["workers"][number]["wakeups"] for number in parked)
                       for one in (status_before, status)]
            switches = [sum(use[2] for use in uses for number in parked if use[0] == f"ebb-worker-{number}")
                        for uses in (before, after)]
            modes[mode] = {
                "cpu_percent": 100 * used / span, "seconds": span, "parked_workers": len(parked),
                "parked_wakeups": max(wakeups[1] - wakeups[0], switches[1] - switches[0]),
                "resident_mib": memory, "table_cpu_seconds": loading,
            }
            raw[mode] = {"before": before, "after": after, "status": status}
    rows = [["idle", "CPU, % of one core", "over, s", "parked workers", "their wake-ups", "resident, MiB",
             f"CPU for {installed['routes']:,} routes, s"]]
    rows += [[mode, *seen.values()] for mode, seen in modes.items()]
    context.record.result("idle", rows, {"routes": installed["routes"], "modes": modes}, raw)


# On two CPUs whoever changes the routes takes time from the worker or from the generator, and a
# virtual machine stands still for up to 20 ms now and then: at 0.4 Mpps that is 8,000 packets,
# which a longer ring keeps.
CHURN_RING = 16384


def churn(context):
    """Route changes while forwarding at 80 % of a worker's capacity, on both paths."""
    seconds = 0.5 if context.quick else 10.0
    runs, most = [], None
    with Lab(context.tools) as lab:
        installed = tables.install(lab, context.prefixes())
        lab.load(destinations=lab.path("hosts"))
        for path in ("worker", "kernel"):
            with Router(lab, "napi", ring=CHURN_RING, path=path) as router:
                router.wait(installed["routes"])
                if most is None:
                    most, trials, _ = capacity(context, lab)
                for rate in [0, 10_000] if context.quick else [0, 10_000] * 3:
                    seen = quiet.measured(context, lab, lambda: changing(lab, router, rate, 0.8 * most, seconds))
                    runs.append({"path": path, "rate": rate, **seen})
                    context.say(f"  {path}, {rate} changes/s: lost {seen['lost']} of {seen['sent']}")
    rows = [["path, changes/s", "load, Mpps", "sent", "lost", "misrouted", "reordered", "changes seen", "p99, us", "router's time, ns a packet", "verdict"]]
    for seen in runs:
        rows.append([f"{seen['path']}, {seen['rate']:,}", seen["sent_mpps"], seen["sent"], seen["lost"], seen["misrouted"],
                     seen["reordered"], seen["router"]["table_changes"], seen["latency_us"]["p99"], seen["ns_per_packet"], verdict(seen)])
    total = lambda key, busy: sum(seen[key] for seen in runs if bool(seen["rate"]) == busy)
    summary = {
        "capacity_mpps": most / 1e6, "routes": installed["routes"],
        "with_changes": {key: total(key, True) for key in ("sent", "lost", "misrouted", "reordered")},
        "ns_per_packet": {path: {rate: spread([seen["ns_per_packet"] for seen in runs if (seen["path"], seen["rate"]) == (path, rate)])
                                 for rate in (0, 10_000)} for path in ("worker", "kernel")},
        "without": {key: total(key, False) for key in ("sent", "lost", "misrouted", "reordered")},
    }
    context.record.result("churn", rows, summary, {"runs": runs, "capacity": trials})


def changing(lab, router, rate, load, seconds):
    """Loads the router while its routes change `rate` times a second."""
    child = None
    if rate:
        words = ["nice", lab.tools.bench, "churn", "p0", "p1", "--hosts", lab.path("hosts"),
                 "--bystanders", lab.path("bystanders"), "--rate", str(rate)]
        child = lab.spawn(lab.router, *words, "--seconds", str(1.25 * seconds + 0.5))
    before = work(router)
    seen = lab.load(seconds=seconds, rate=int(load), socket=router.socket, pid=router.pid)
    busy, packets = (after - first for after, first in zip(work(router), before))
    seen["ns_per_packet"] = 1e9 * busy / max(1, packets)
    seen["changes"] = None
    if child:
        out, problem = child.communicate(timeout=60)
        lab.end(child)
        if child.returncode != 0:
            raise Failure(problem)
        seen["changes"] = json.loads(out)
    return seen


def work(router):
    """Seconds that its workers were awake, or the program of the kernel path was at work, and packets."""
    workers = router.status()["workers"]
    kernel = [worker for worker in workers if worker["state"] == "kernel"]
    counted = kernel or workers
    return sum(worker["busy_seconds"] for worker in counted), sum(worker["packets"]["received"] for worker in counted)


def check_order(runs):
    for seen in runs:
        if seen["misrouted"] or seen["reordered"] or seen["duplicated"]:
            raise Failure(f"packets on wrong ways: {seen}")
        if not seen["received"]:
            raise Failure("nothing was forwarded")

"""The cluster's balancer beside testpmd's MAC forwarding, on the same interfaces."""

import json
import subprocess

from . import quiet, tables
from .lab import HOSTS, HOSTS_MAC, ROUTER_MACS, Failure, Lab, Testpmd
from .live import check_order
from .record import spread

SHARE = 0.2


def balance(context):
    """The cluster's balancer beside testpmd's MAC forwarding, on the same interfaces."""
    rounds, seconds = (1, 0.4) if context.quick else (7, 4.0)
    raw = {"balancer": [], "testpmd": []}
    with Lab(context.tools) as lab:
        tables.write(lab, context.prefixes())
        contenders = ["balancer", "testpmd"] if context.dpdk else ["balancer"]
        for turn in range(rounds):
            for name in contenders if turn % 2 == 0 else contenders[::-1]:
                seen = quiet.measured(context, lab, lambda: contend(lab, name, seconds))
                raw[name].append(seen)
                context.say(f"  {name}: {seen['received_mpps']:.3f} Mpps")
    check_order(raw["balancer"])
    rates = {name: [seen["received_mpps"] for seen in seen_all] for name, seen_all in raw.items() if seen_all}
    ratio = [ours / theirs for ours, theirs in zip(rates["balancer"], rates.get("testpmd", []))]
    rows = [["64-byte packets, both directions", "Mpps, median", "least", "most"]]
    for name, title in (("balancer", "balancer, flow hash, 1 core"),
                        ("testpmd", "testpmd net_af_xdp, MAC forwarding, 1 core")):
        if name in rates:
            rows.append([title, *spread(rates[name]).values()])
    if ratio:
        rows.append(["ratio, turn by turn", *spread(ratio).values()])
    summary = {"turns": rounds, "mpps": {name: spread(values) for name, values in rates.items()},
               "ratio": spread(ratio) if ratio else None}
    context.record.result("balance", rows, summary, raw)


def balance_workers(context):
    """One worker of a balancer beside two, each with a fifth of a CPU: the generator needs one."""
    rounds, seconds = (1, 0.4) if context.quick else (7, 4.0)
    raw = {1: [], 2: []}
    with Lab(context.tools) as lab:
        tables.write(lab, context.prefixes())
        for turn in range(rounds):
            for workers in list(raw)[::1 if turn % 2 == 0 else -1]:
                more = ["--workers", str(workers), "--share", str(SHARE)]
                seen = quiet.measured(context, lab, lambda: contend(lab, "balancer", seconds, more))
                raw[workers].append(seen)
                context.say(f"  {workers} workers: {seen['received_mpps']:.3f} Mpps")
    for seen in raw.values():
        check_order(seen)
    rates = {workers: [seen["received_mpps"] for seen in seen_all] for workers, seen_all in raw.items()}
    ratio = [two / one for one, two in zip(rates[1], rates[2])]
    rows = [[f"64-byte packets, both directions, {SHARE} of a CPU each", "Mpps, median", "least", "most"]]
    rows += [[f"{workers} worker{'s' * (workers > 1)}", *spread(rates[workers]).values()] for workers in rates]
    rows.append(["ratio, turn by turn", *spread(ratio).values()])
    summary = {"turns": rounds, "share_of_a_cpu": SHARE, "mpps": {str(workers): spread(seen) for workers, seen in rates.items()},
               "ratio": spread(ratio)}
    context.record.result("balance-workers", rows, summary, {str(workers): seen for workers, seen in raw.items()})


def contend(lab, name, seconds, more=()):
    if name == "testpmd":
        with Testpmd(lab):
            return lab.load(seconds=seconds)
    words = [lab.tools.bench, "balance", "p0", "p1", "--mac", ROUTER_MACS[0], "--back-end", HOSTS_MAC, *more]
    child = lab.spawn(lab.router, *words, stdin=subprocess.PIPE)
    try:
        if child.stdout.readline() != "ready\n":
            raise Failure(f"live_bench balance: {child.stderr.read()}")
        # What comes back from the back-end is for a host, which has the generator's own address.
        host = json.loads(lab.inside(lab.hosts, "ip", "-j", "link", "show", HOSTS[0]))[0]["address"]
        seen = lab.load(seconds=seconds, to=f"{ROUTER_MACS[0]} {host}")
        out, _ = child.communicate(timeout=30)
        seen["balancer"] = json.loads(out.splitlines()[-1])
        counted = seen["balancer"]["balancer"]
        if counted["returned"] < counted["balanced"] / 4:
            raise Failure(f"the balancer has not let out what came back: {counted}")
        return seen
    finally:
        lab.end(child)

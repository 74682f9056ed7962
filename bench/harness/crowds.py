"""What routers at an edge meet beside established connections: new ones, a million of them, and a shaper that is full."""

import contextlib
import statistics
import time

from .lab import Failure
from .record import spread

# No flow comes twice.
NEW_RATE, NEW_SECONDS, NEW_FLOWS = 50_000, 1.0, 60_000
# Of bench/forwarding/paced.c, and many.
FEW, MANY = 1024, 1_000_000
CROWD_RATE = 100_000
# Pings have a class of their own before packets that fill the link; `cake` sorts so by itself, where the kernel has it.
SHAPERS = {"cake": ["root cake bandwidth 20mbit"],
           "htb": ["root handle 1: htb default 2"]}
CLASSES = ["class add dev p1 parent 1: classid 1:9 htb rate 20mbit",
           "class add dev p1 parent 1:9 classid 1:1 htb rate 5mbit ceil 20mbit prio 0",
           "class add dev p1 parent 1:9 classid 1:2 htb rate 15mbit ceil 20mbit prio 1",
           "filter add dev p1 parent 1: protocol ip u32 match ip protocol 1 0xff flowid 1:1"]
# Half as much again as 20 Mbit/s takes of 60 bytes.
SHAPED_RATE = 60_000
# A request of ctnetlink: IPCTNL_MSG_CT_DELETE of all, acknowledged.
FORGET = """import socket, struct
line = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
line.send(struct.pack("IHHII", 20, 0x102, 5, 1, 0) + bytes(4))
line.recv(4096)"""
LIMITS = ("nf_conntrack_max", "nf_conntrack_buckets")


def turns(lab, contenders, rounds):
    """Each contender in its place, in turn, forwards and backwards."""
    for turn in range(rounds):
        for name in contenders if turn % 2 == 0 else contenders[::-1]:
            away = lab.put(name)
            time.sleep(1.0 if rounds > 1 else 0.3)
            yield name
            away()


def begin(context, lab, contenders):
    """Connections that begin, a packet each: what they cost, and so how many a second one CPU takes in."""
    raw, flow = {name: [] for name in ["dropped", *contenders]}, 1 << 20
    for name in turns(lab, list(raw), 1 if context.quick else 8):
        lab.inside(lab.router, "python3", "-c", FORGET)
        raw[name].append(lab.trial(NEW_RATE, NEW_SECONDS, NEW_FLOWS, flow))
        flow += NEW_FLOWS
    lab.inside(lab.router, "python3", "-c", FORGET)
    costs = {name: above(raw, name) for name in contenders}
    ratios = {name: spread([theirs / ours for ours, theirs in zip(costs[name], costs["kernel"])]) for name in contenders}
    rows = [[f"{title}: a new connection", statistics.median(costs[name]), 1e3 / statistics.median(costs[name]), None, None, None]
            for name, title in contenders.items()]
    for name, row in zip(contenders, rows):
        row[3] = ratios[name]["median"]
    return rows, {"above_dropped_us": {name: spread(costs[name]) for name in costs}, "of_kernel": ratios}, raw


def above(raw, name):
    """Microseconds for each packet above one that is dropped at the door, turn by turn. A packet is forwarded in its sender's time:
    what others do on the machine is not in it."""
    each = lambda seen: seen["sender_busy"] / seen["sent"]
    return [1e6 * (each(ours) - each(dropped)) for ours, dropped in zip(raw[name], raw["dropped"])]


@contextlib.contextmanager
def room(lab, many):
    """Room for so many connections in the machine's table, which all its namespaces share the limits of."""
    before = {}
    for name in LIMITS:
        with open(f"/proc/sys/net/netfilter/{name}") as file:
            before[name] = file.read()
    if many * 2 <= int(before["nf_conntrack_max"]):
        yield
        return
    try:
        for name, value in zip(LIMITS, (2 * many, many)):
            with open(f"/proc/sys/net/netfilter/{name}", "w") as file:
                file.write(str(value))
        yield
    except OSError as error:
        raise Failure(f"no room for {many} connections: {error}") from error
    finally:
        for name, value in before.items():
            with open(f"/proc/sys/net/netfilter/{name}", "w") as file:
                file.write(value)
        lab.inside(lab.router, "python3", "-c", FORGET)


def resident_mib(child):
    with open(f"/proc/{child.pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmRSS"].split()[0]) / 1024


def crowd(context, lab, contenders):
    """What a packet costs, and the router's memory, with 1,024 connections and with a million, each of which is used."""
    many, rounds, seconds = (8 * FEW, 1, 0.5) if context.quick else (MANY, 4, 1.5)
    names, raw = ["dropped", *contenders], {}
    with room(lab, many):
        for flows in (FEW, many):
            lab.assure(flows)
            for name in turns(lab, names, rounds):
                seen = lab.trial(CROWD_RATE, seconds, flows)
                if name == "ebb":
                    seen["resident_mib"] = resident_mib(lab.children[-1])
                raw.setdefault(flows, {}).setdefault(name, []).append(seen)
    rows, cost, memory = [], {}, {}
    for flows, seen in raw.items():
        for name in contenders:
            cost.setdefault(flows, {})[name] = spread(above(seen, name))
        for name, title in contenders.items():
            rows.append([f"{title}: {flows:,} connections, {CROWD_RATE:,} packets/s", cost[flows][name]["median"], None,
                         cost[flows][name]["median"] / cost[flows]["kernel"]["median"], None, None])
        memory[flows] = spread([one["resident_mib"] for one in seen["ebb"]])
        rows.append([f"ebb with {flows:,} connections: {memory[flows]['median']:.1f} MiB of memory", *[None] * 5])
    grown = {name: cost[many][name]["median"] / cost[FEW][name]["median"] for name in contenders}
    rows += [[f"{title}: a packet with many connections costs {grown[name]:.2f} times one with few", *[None] * 5]
             for name, title in contenders.items()]
    return rows, {"above_dropped_us": cost, "resident_mib": memory, "of_few": grown}, raw


def shaped(context, lab, contenders):
    """Pings through a shaper whose link is full."""
    kind = next((kind for kind, words in SHAPERS.items() if shape(lab, kind, words)), None)
    if kind is None:
        raise Failure("this kernel has neither cake nor htb")
    rounds, seconds = (1, 0.5) if context.quick else (6, 2.0)
    raw = {name: [] for name in contenders}
    for name in turns(lab, list(contenders), rounds):
        raw[name].append(lab.trial(SHAPED_RATE, seconds))
    lab.inside(lab.router, "tc", "qdisc", "delete", "dev", "p1", "root")
    rows, summary = [], {"shaper": kind}
    for name, title in contenders.items():
        pings = [time for one in raw[name] for time in one["ping_us"]]
        if not pings:
            raise Failure(f"{title}: no ping passes the shaper")
        passed = [one["arrived"] / one["seconds"] / 1e3 for one in raw[name]]
        p99 = statistics.quantiles(pings, n=100)[98]
        summary[name] = {"mean_us": statistics.mean(pings), "p99_us": p99, "passed_thousands": spread(passed)}
        rows.append([f"{title}: behind {kind} at 20 Mbit/s, {SHAPED_RATE:,} packets/s wanted", None, statistics.median(passed), None,
                     statistics.mean(pings), p99])
    return rows, summary, raw


def shape(lab, kind, words):
    """Whether the kernel has the shaper, which p1 has from now on."""
    try:
        for one in words:
            lab.inside(lab.router, "tc", "qdisc", "add", "dev", "p1", *one.split())
    except Failure:
        return False
    for one in CLASSES if kind == "htb" else []:
        lab.inside(lab.router, "tc", *one.split())
    return True

"""What a router costs the traffic that it leaves to the kernel, beside the kernel alone."""

import json

from . import quiet
from .lab import HOSTS_MAC, PORTS, Failure, Lab, Router
from .record import spread

NETS = ["10.100.0.0/16", "10.101.0.0/16"]
# Measured and warming up, as `live_bench load` has it.
WARM_UP = 0.25


def kernel(context):
    """Traffic that is the kernel's (a tunnel, an interface that is no port, a firewall), with and without ebb."""
    rounds, seconds = (1, 0.3) if context.quick else (5, 2.0)
    raw = {}
    for path, (furnish, ports) in PATHS.items():
        raw[path] = {"kernel": [], "ebb": []}
        with Lab(context.tools) as lab:
            missing = route(lab) or furnish(lab)
            if missing:
                context.say(f"  {path}: skipped, {missing}")
                del raw[path]
                continue
            for turn in range(rounds):
                for name in ("kernel", "ebb") if turn % 2 == 0 else ("ebb", "kernel"):
                    seen = quiet.measured(context, lab, lambda: forward(lab, name, ports, seconds))
                    raw[path][name].append(seen)
                    context.say(f"  {path}, {name}: {seen['left_mpps']:.3f} Mpps")
    rows, summary = [["packets that leave by p1", "Mpps, median", "least", "most"]], {"turns": rounds}
    for path, names in raw.items():
        rates = {name: [seen["left_mpps"] for seen in names[name]] for name in names}
        ratio = [ours / theirs for ours, theirs in zip(rates["ebb"], rates["kernel"])]
        rows += [[f"{path}: {name}", *spread(rates[name]).values()] for name in rates]
        rows.append([f"{path}: ebb / kernel, turn by turn", *spread(ratio).values()])
        summary[path] = {"mpps": {name: spread(rates[name]) for name in rates}, "ratio": spread(ratio)}
    context.record.result("kernel", rows, summary, raw)


def route(lab):
    with open(lab.path("flows"), "w") as file:
        file.write("".join(f"{net} {side}\n" for side, net in enumerate(NETS)))
    for side, net in enumerate(NETS):
        lab.inside(lab.router, "ip", "route", "add", net, "via", f"10.255.{side}.2")


def tunnel(lab):
    """What is for side 1 goes through a VXLAN tunnel whose other end is behind p1."""
    ip = lambda *words: lab.inside(lab.router, "ip", *words)
    ends = ["id", "1", "dev", PORTS[1], "local", "10.255.1.1", "remote", "10.255.1.2", "dstport", "4789"]
    try:
        ip("link", "add", "t1", "type", "vxlan", *ends)
    except Failure as failure:
        return f"this kernel has no such tunnels ({failure})"
    ip("link", "set", "t1", "up")
    ip("address", "add", "10.254.0.1/30", "dev", "t1")
    ip("neighbour", "add", "10.254.0.2", "lladdr", HOSTS_MAC, "dev", "t1", "nud", "permanent")
    ip("route", "replace", NETS[1], "via", "10.254.0.2")


def plain(_):
    """p1 is no port of the router."""


def firewall(lab):
    """A rule on every forwarded packet."""
    rules = "table inet bench { chain forward { type filter hook forward priority 0; ip saddr 192.0.2.1 drop; }; }"
    try:
        lab.inside(lab.router, "nft", rules)
    except (Failure, FileNotFoundError) as failure:
        return f"no firewall here ({failure})"


PATHS = {"a tunnel": (tunnel, PORTS), "an interface that is no port": (plain, PORTS[:1]), "a firewall": (firewall, PORTS)}


def forward(lab, name, ports, seconds):
    if name == "kernel":
        return loaded(lab, seconds)
    with Router(lab, "napi", ports=ports) as router:
        router.wait(1)
        before = router.status()
        seen = loaded(lab, seconds)
        after = router.status()
    handed = [sum(worker["packets"]["to_kernel"] for worker in status["workers"]) for status in (before, after)]
    return {**seen, "through_workers": handed[1] - handed[0]}


def loaded(lab, seconds):
    before = transmitted(lab)
    seen = lab.load(seconds=seconds)
    seen["left_mpps"] = (transmitted(lab) - before) / (seconds * (1 + WARM_UP)) / 1e6
    return seen


def transmitted(lab):
    """Packets that have left by p1 so far."""
    link = json.loads(lab.inside(lab.router, "ip", "-j", "-s", "link", "show", PORTS[1]))[0]
    return link["stats64"]["tx"]["packets"]

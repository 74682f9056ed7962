"""TCP between two hosts as they come, through the router on either path and through the kernel alone."""

import json
import resource
import shutil
import time

from . import quiet
from .lab import Failure, Lab, PORTS, Router, run
from .record import spread

HOSTS = ["h0", "h1"]
SERVER = "10.255.1.2"
# The title of each contender, the router's path where it runs, and whether the hosts keep their offloads.
CONTENDERS = {
    "ebb": ("ebb, path = \"auto\"", "auto", True),
    "workers": ("ebb, path = \"worker\", 1 worker", "worker", True),
    "plain": ("kernel, hosts' offloads off", None, False),
    "offloads": ("kernel, hosts' offloads on", None, True),
}
STREAMS = [1, 8]
# One stream's rate differs by half from turn to turn: the two that are near each other play more of them.
NEAR, TURNS, TURNS_OF_OTHERS = ("ebb", "offloads"), 12, 4


class Apart(Lab):
    """A lab whose hosts have a namespace each, and their interfaces every offload."""

    def __init__(self, tools):
        super().__init__(tools)
        self.spaces = [self.hosts, f"{self.router}-far"]

    def furnish(self):
        for space in (self.router, *self.spaces):
            run("ip", "netns", "add", space)
        self.inside(self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for side, (port, host, space) in enumerate(zip(PORTS, HOSTS, self.spaces)):
            run("ip", "link", "add", port, "netns", self.router, "type", "veth", "peer", "name", host, "netns", space)
            self.inside(self.router, "ip", "link", "set", port, "up")
            self.inside(self.router, "ip", "address", "add", f"10.255.{side}.1/24", "dev", port)
            self.inside(space, "ip", "link", "set", host, "up")
            self.inside(space, "ip", "address", "add", f"10.255.{side}.2/24", "dev", host)
            self.inside(space, "ip", "route", "add", "default", "via", f"10.255.{side}.1")

    def __exit__(self, *_):
        super().__exit__()
        run("ip", "netns", "delete", self.spaces[1], check=False)

    def offloads(self, wanted):
        """Switches checksums, and with them segmentation, of both hosts."""
        for space, host in zip(self.spaces, HOSTS):
            self.inside(space, "ethtool", "-K", host, "tx", "on" if wanted else "off")

    def stream(self, streams, seconds):
        """Bits per second of all streams that arrived."""
        before = quiet.Others(self.pids())
        text = self.inside(self.spaces[0], "iperf3", "-J", "-c", SERVER, "-P", str(streams), "-t", str(seconds), check=False)
        end = json.loads(text).get("end", {})
        if not end.get("sum_received", {}).get("bytes"):
            raise Failure(f"no stream passes: {text[-500:]}")
        share = before.share(resource.getrusage(resource.RUSAGE_CHILDREN))
        return {"gbps": end["sum_received"]["bits_per_second"] / 1e9,
                "retransmits": end["sum_sent"].get("retransmits"), "others_cpu_share": share}


def tcp(context):
    """One TCP stream and eight between unmodified hosts, beside the kernel's own forwarding."""
    if shutil.which("iperf3") is None:
        raise Failure("its traffic is Debian's iperf3, which is not installed")
    rounds, seconds = (1, 1) if context.quick else (TURNS, 3)
    raw = {streams: {name: [] for name in CONTENDERS} for streams in STREAMS}
    with Apart(context.tools) as lab:
        lab.spawn(lab.spaces[1], "iperf3", "-s", log="iperf3.log")
        time.sleep(0.5)
        for turn in range(rounds):
            names = [name for name in CONTENDERS if turn < TURNS_OF_OTHERS or name in NEAR]
            for name in names if turn % 2 == 0 else names[::-1]:
                for streams in STREAMS:
                    seen = quiet.measured(context, lab, lambda: contend(lab, name, streams, seconds))
                    raw[streams][name].append(seen)
                    context.say(f"  {name}, {streams}: {seen['gbps']:.2f} Gbit/s")
    rows = [["packets of 1,500 bytes", "Gbit/s, median", "least", "most"]]
    summary = {"turns": rounds, "gbps": {}, "ratio": {}}
    for streams, seen in raw.items():
        many = f"{streams} stream{'s' if streams > 1 else ''}"
        rates = {name: [one["gbps"] for one in seen[name]] for name in seen}
        ratios = {name: [ours / theirs for ours, theirs in zip(rates["ebb"], rates[name])] for name in seen if name != "ebb"}
        rows += [[f"{many}: {CONTENDERS[name][0]}", *spread(rates[name]).values()] for name in rates]
        rows += [[f"{many}: ebb / {CONTENDERS[name][0]}, turn by turn", *spread(ratios[name]).values()] for name in ratios]
        summary["gbps"][streams] = {name: spread(rates[name]) for name in rates}
        summary["ratio"][streams] = {name: spread(ratios[name]) for name in ratios}
    context.record.result("tcp", rows, summary, raw)


def contend(lab, name, streams, seconds):
    _, path, offloads = CONTENDERS[name]
    lab.offloads(offloads)
    if not path:
        return lab.stream(streams, seconds)
    with Router(lab, "napi", path=path) as router:
        router.wait(1)
        # Until its workers receive for the first time, the kernel forwards.
        time.sleep(0.5)
        before = forwarded(router)
        seen = lab.stream(streams, seconds)
        passed = forwarded(router) - before
        if passed * 1500 * 8 < 0.9 * seen["gbps"] * 1e9 * seconds:
            raise Failure(f"the streams did not pass the router: {passed} packets for {seen}")
        return seen


def forwarded(router):
    return sum(worker["packets"]["forwarded"] for worker in router.status()["workers"])

"""What forwarding costs the whole machine, beside what its users have already: the kernel, tuned and not, and XDP."""

import json
import os
import re
import statistics
import time

from . import quiet
from .lab import Failure, Router, run
from .record import spread
from .tcp import Apart, HOSTS

BEHIND = "10.101.0.0/16"
FAR = "10.255.1.2"
RATES = [0, 20_000, 100_000, 200_000]
# More than any contender forwards here.
FLOOD = 5_000_000
PING_SECONDS = 0.02
# The sender's CPU is another than that which forwards: packets are steered to it (RPS).
STEERED, SENDER, FORWARDER = "steered", 0, 1
# Programs in the driver run where the driver polls, whatever is steered.
STEERABLE = ("kernel", "tc", "straight", "ebb")
# Peers of bench/forwarding/peers.bpf.c in traffic control.
SECTIONS = {"tc": "tc_ask", "straight": "tc_straight", "leave": "tc_leave", "known": "tc_known"}
# Of either host; ethtool's names of what the kernel's guides switch on for forwarding.
TUNED = ["gro", "on", "rx-udp-gro-forwarding", "on", "rx-gro-list", "on"]
PLAIN = ["gro", "off", "rx-udp-gro-forwarding", "off", "rx-gro-list", "off"]
CONTENDERS = {
    "kernel": "the kernel alone",
    "tuned": "the same, GRO for forwarded UDP",
    "xdp": "an XDP program with bpf_fib_lookup",
    "tc": "a program in traffic control with bpf_fib_lookup",
    "straight": "the same without a look-up: the least that forwarding there costs",
    "ebb": "ebb, path = \"auto\"",
    "driver": "ebb, path = \"kernel\", xdp = \"native\", a second CPU when one is full",
    "workers": "ebb, path = \"worker\", 1 worker",
}


class Scene(Apart):
    """Hosts whose packets end at the far one's door, where traffic control takes them."""

    # For the peers' compiler.
    flags = []

    def furnish(self):
        super().furnish()
        ways = []
        for side, (space, host) in enumerate(zip(self.spaces, HOSTS)):
            mac = json.loads(self.inside(space, "ip", "-j", "link", "show", host))[0]["address"]
            self.inside(self.router, "ip", "neighbour", "add", f"10.255.{side}.2", "lladdr", mac,
                        "dev", f"p{side}", "nud", "permanent")
            port = json.loads(self.inside(self.router, "ip", "-j", "link", "show", f"p{side}"))[0]["ifindex"]
            ways += [f"-DOUT{side}={port}", f"-DHOST{side}=0x{mac.replace(':', ',0x')}"]
        self.inside(self.router, "ip", "route", "add", BEHIND, "via", FAR)
        self.own_mac = json.loads(self.inside(self.spaces[0], "ip", "-j", "link", "show", HOSTS[0]))[0]["address"]
        self.mac = json.loads(self.inside(self.router, "ip", "-j", "link", "show", "p0"))[0]["address"]
        self.program = self.path("peers.o")
        self.paced = self.path("paced")
        sources = os.path.join(os.path.dirname(os.path.dirname(__file__)), "forwarding")
        run("cc", "-O2", "-Wall", "-Werror", "-o", self.paced, os.path.join(sources, "paced.c"))
        headers = f"-I/usr/include/{run('cc', '-dumpmachine').strip()}"
        run("clang", "-O2", "-g", "-target", "bpf", headers, *self.flags, *ways, "-c", os.path.join(sources, "peers.bpf.c"), "-o", self.program)
        self.take(self.spaces[1], HOSTS[1])

    def take(self, space, interface, section="tc"):
        self.inside(space, "tc", "qdisc", "add", "dev", interface, "clsact")
        self.inside(space, "tc", "filter", "add", "dev", interface, "ingress", "bpf", "da", "obj", self.program, "sec", section)

    def arrived(self):
        """Packets that have come to the far host, super-frames counted by their packets."""
        text = self.inside(self.spaces[1], "tc", "-s", "qdisc", "show", "dev", HOSTS[1], "clsact")
        return int(re.search(r"(\d+) pkt", text)[1])

    def put(self, name):
        """Puts a contender in its place and returns what takes it away."""
        if name == "dropped":
            self.take(self.router, "p0")
            return lambda: self.inside(self.router, "tc", "qdisc", "delete", "dev", "p0", "clsact")
        if name == "tuned":
            self.features(TUNED)
            return lambda: self.features(PLAIN)
        if name == "xdp":
            # A veth without a program takes what another redirects to it where it aggregates packets.
            self.aggregate("on")
            self.programs(["obj", self.program, "sec", "xdp"])
            return lambda: (self.programs(["off"]), self.aggregate("off"))
        if name in SECTIONS:
            for port in ("p0", "p1"):
                self.take(self.router, port, SECTIONS[name])
            return lambda: [self.inside(self.router, "tc", "qdisc", "delete", "dev", port, "clsact") for port in ("p0", "p1")]
        if name == "driver":
            self.aggregate("on")
            router = self.router_on("kernel", "native")
            return lambda: (self.end(router.child), self.aggregate("off"))
        if name in ("ebb", "workers"):
            router = self.router_on("auto" if name == "ebb" else "worker")
            return lambda: self.end(router.child)
        return lambda: None

    def router_on(self, path, xdp="auto"):
        router = Router(self, "powersave", path=path, xdp=xdp)
        router.wait(1)
        return router

    def aggregate(self, wanted):
        for space, host in zip(self.spaces, HOSTS):
            self.inside(space, "ethtool", "-K", host, "gro", wanted)

    def programs(self, words):
        for port in ("p0", "p1"):
            self.inside(self.router, "ip", "link", "set", port, "xdpdrv", *words)

    def steer(self, wanted):
        """Has all of p0's packets taken in by one CPU, or by whichever they come to."""
        mask = f"{1 << FORWARDER:x}" if wanted else "0"
        self.inside(self.router, "sh", "-c", f"echo {mask} > /sys/class/net/p0/queues/rx-0/rps_cpus")

    def features(self, settings):
        for port in ("p0", "p1"):
            self.inside(self.router, "ethtool", "-K", port, *settings)

    def send(self, rate, seconds, *flows):
        """Packets of 1,024 flows or of so many, from the first on or from another; returns how many were sent, and seconds of processor time."""
        words = [HOSTS[0], self.own_mac, self.mac, str(rate), str(seconds), *map(str, flows)]
        sent, used_ns = self.inside(self.spaces[0], "taskset", "-c", str(SENDER), self.paced, *words).split()
        return int(sent), int(used_ns) / 1e9

    def trial(self, rate, seconds, *flows):
        """A load and pings beside it: seconds that the processors were busy, packets, times of the pings."""
        count = str(int(seconds / PING_SECONDS))
        ping = self.spawn(self.spaces[0], "ping", "-i", str(PING_SECONDS), "-c", count, "-W", "1", FAR)
        before, woken, busy = self.arrived(), wakes(), quiet.busy()
        began, sent, used = time.monotonic(), 0, 0.0
        if rate:
            sent, used = self.send(rate, seconds, *flows)
        else:
            time.sleep(seconds)
        busy, took = quiet.busy() - busy, time.monotonic() - began
        self.children.remove(ping)
        times = sorted(float(found) for found in re.findall(r"time=([\d.]+)", ping.communicate()[0]))
        return {"busy_cores": busy / took, "sender_busy": used, "seconds": took, "sent": sent, "arrived": self.arrived() - before,
                "woken": wakes() - woken, "ping_us": [1e3 * took for took in times]}


def wakes():
    """How often one CPU has interrupted another to have it take packets in (RPS)."""
    with open("/proc/net/softnet_stat") as statistics_of_cpus:
        return sum(int(line.split()[9], 16) for line in statistics_of_cpus)


def forwarding(context):
    """The whole machine's processor time, latency and capacity: ebb beside the kernel, tuned and not, and XDP."""
    with Scene(context.tools) as lab:
        rows, summary, raw = compare(context, lab, CONTENDERS, RATES)
    context.record.result("forwarding", rows, summary, raw)


def compare(context, lab, contenders, rates):
    """Plays all rates with each contender in turns. Returns the table's rows, the summary and all single trials."""
    rounds, seconds, rates = (1, 0.5, rates[:2]) if context.quick else (4, 2.0, rates)
    names = ["dropped", *contenders]
    steerable = [name for name in contenders if name in STEERABLE and (os.cpu_count() or 1) > FORWARDER]
    raw = {name: {rate: [] for rate in [*rates, FLOOD, STEERED]} for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else names[::-1]:
            away = lab.put(name)
            time.sleep(1.0)
            for rate in [*rates, FLOOD]:
                raw[name][rate].append(lab.trial(rate, seconds))
            if name in steerable:
                lab.steer(True)
                raw[name][STEERED].append(lab.trial(FLOOD, seconds))
                lab.steer(False)
            away()
            context.say(f"  {name}: {[round(raw[name][rate][-1]['busy_cores'], 3) for rate in rates]} cores busy")
    return (*report(raw, contenders, rates, rounds), raw)


def report(raw, contenders, rates, rounds):
    rows = [["64-byte packets one way over veth", "busy, % of a core", "us of CPU a packet", "of the kernel's", "ping, mean us", "p99", "lost"]]
    flood = {FLOOD: ("flood", "as fast as one CPU sends, Mpps"),
             STEERED: ("steered", "the same, taken in by another CPU, Mpps")}
    summary = {"turns": rounds, "contenders": contenders, "above_dropped_us": {}, "of_kernel": {}, "ping_us": {},
               "lost": {}, "idle_cores": {}}
    for rate in rates:
        for name, title in contenders.items():
            seen = raw[name][rate]
            pings = [time for one in seen for time in one["ping_us"]]
            if not pings:
                raise Failure(f"{title}: no ping is answered beside {rate} packets/s")
            mean, p99 = statistics.mean(pings), statistics.quantiles(pings, n=100)[98]
            summary["ping_us"].setdefault(rate, {})[name] = {"mean": mean, "p99": p99}
            if not rate:
                summary["idle_cores"][name] = spread([one["busy_cores"] for one in seen])
                rows.append([f"{title}: pings alone", busy(seen), None, None, mean, p99, None])
                continue
            above = cost(raw, name, rate)
            lost = sum(max(0, one["sent"] - one["arrived"]) for one in seen) / sum(one["sent"] for one in seen)
            of_kernel = statistics.median(above) / statistics.median(cost(raw, "kernel", rate))
            summary["above_dropped_us"].setdefault(rate, {})[name] = spread(above)
            summary["of_kernel"].setdefault(rate, {})[name] = of_kernel
            summary["lost"].setdefault(rate, {})[name] = lost
            rows.append([f"{title}: {rate:,} packets/s", busy(seen), statistics.median(above), of_kernel, mean, p99, f"{100 * lost:.2f} %"])
    for load, (key, words) in flood.items():
        for name, title in contenders.items():
            mpps = [one["arrived"] / one["seconds"] / 1e6 for one in raw[name][load]]
            if not mpps:
                continue
            ratio = [ours / theirs["arrived"] * theirs["seconds"] * 1e6 for ours, theirs in zip(mpps, raw["kernel"][load])]
            summary.setdefault(f"{key}_mpps", {})[name] = spread(mpps)
            summary.setdefault(f"{key}_of_kernel", {})[name] = spread(ratio)
            told = words
            if load == STEERED:
                each = [one["woken"] / max(one["sent"], 1) for one in raw[name][load]]
                summary.setdefault("steered_woken_a_packet", {})[name] = spread(each)
                told += f" ({statistics.median(each):.2f} interrupts a packet)"
            rows.append([f"{title}: {told}", None, statistics.median(mpps), statistics.median(ratio), None, None, None])
    for name in (name for name in contenders if name in STEERABLE):
        # The sender's own work is on the same CPU.
        alone = beyond(raw, name)
        of_kernel = statistics.median(alone) / statistics.median(beyond(raw, "kernel"))
        summary.setdefault("flood_above_dropped_us", {})[name] = spread(alone)
        summary.setdefault("flood_above_dropped_of_kernel", {})[name] = of_kernel
        rows.append([f"{contenders[name]}: as fast as one CPU sends, above what sending takes", None,
                     statistics.median(alone), of_kernel, None, None, None])
    return rows, summary


def beyond(raw, name):
    """Microseconds for each packet that arrives, of a CPU that has nothing else to do, above one that is dropped at the door."""
    pairs = zip(raw[name][FLOOD], raw["dropped"][FLOOD])
    return [1e6 * (ours["seconds"] / ours["arrived"] - dropped["seconds"] / dropped["sent"]) for ours, dropped in pairs]


def busy(seen):
    return 100 * statistics.median(one["busy_cores"] for one in seen)


def cost(raw, name, rate):
    """Microseconds of processor time for each packet above the same load dropped at the door, turn by turn."""
    pairs = zip(raw[name][rate], raw["dropped"][rate])
    return [1e6 * (ours["busy_cores"] - dropped["busy_cores"]) * ours["seconds"] / ours["sent"] for ours, dropped in pairs]

"""Forwarding behind the firewall that routers at an edge have: nftables, connection tracking, masquerade."""

import os
import shutil
import time

from . import crowds
from .forwarding import Scene, compare
from .lab import Failure
from .record import spread

RULES = """
table ip nat { chain post { type nat hook postrouting priority 100; oifname "p1" masquerade; }; }
table inet filter { chain forward { type filter hook forward priority 0; policy drop;
    ct state established,related accept; ct state invalid drop; iifname "p0" accept; }; }
"""
# The kernel's own fast way for connections, which some kernels have (nf_flow_table).
FAST = RULES.replace("chain forward {", "flowtable fast { hook ingress priority 0; devices = { p0, p1 }; }\n    chain forward {") \
            .replace("    ct state established", "    meta l4proto { tcp, udp } flow add @fast; ct state established")
# Nothing else than the last two concerns what is sent here; no connection is asked for.
MANY = 10_000
STATELESS_RATES = [0, 2_000, 20_000]
RATES = [0, 20_000, 100_000, 200_000]
CONTENDERS = {"kernel": "the kernel alone", "flowtable": "the kernel alone, with its flow table",
              "both": "ebb beside that flow table", "ebb": "ebb, path = \"auto\""}
WITH_TABLE = ("flowtable", "both")
# The least that a program does which forwards so.
LEAST = {"known": "a program that looks connections up, and no more", "leave": "a program that sends all of UDP on"}
STREAMS = [1, 8]
PACKAGES = {"nft": "nftables", "iperf3": "iperf3"}


class Ruled(Scene):
    """The scene of forwarding with rules."""

    def rule(self, text):
        """Puts these rules in the place of others."""
        rules = self.path("rules.nft")
        with open(rules, "w", encoding="ascii") as file:
            file.write("flush ruleset\n" + text)
        self.inside(self.router, "nft", "-f", rules)


class Masquerade(Ruled):
    """The scene of forwarding with a firewall that keeps connections."""

    flags = ["-DCONNECTIONS"]

    def furnish(self):
        super().furnish()
        self.rule(RULES)
        # Both of them then forward TCP of connections alike: see docs/policy.md.
        self.inside(self.router, "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=1")

    def put(self, name):
        if name not in WITH_TABLE:
            return super().put(name)
        self.rule(FAST)
        away = super().put("ebb" if name == "both" else "kernel")
        return lambda: (away(), self.rule(RULES))

    def able(self):
        """The contenders that this kernel has."""
        try:
            self.put("flowtable")()
        except Failure:
            return {name: title for name, title in CONTENDERS.items() if name not in WITH_TABLE}
        return CONTENDERS


class Edge(Masquerade):
    """The same with 1,024 connections that are assured."""

    def furnish(self):
        super().furnish()
        self.inside(self.router, "sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=600",
                    "net.netfilter.nf_conntrack_udp_timeout_stream=600")
        self.assure(crowds.FEW)

    def assure(self, flows):
        """Has each flow answered, and sends on until the kernel holds its connection for assured: two seconds after the first."""
        answer = os.path.join(os.path.dirname(os.path.dirname(__file__)), "forwarding", "answer.py")
        # No faster than Python answers, and slower each time, for what was lost.
        for rate in (25_000, 15_000, 10_000):
            once = flows / min(4 * flows, rate) + 0.4
            answering = self.spawn(self.spaces[1], "python3", answer, "h1", str(once + 2))
            time.sleep(0.5)
            self.send(min(4 * flows, rate), once, flows)
            self.children.remove(answering)
            answering.communicate()
            if self.connections("UNREPLIED") < 0.01 * flows:
                break
        rate = min(4 * flows, 4 * 25_000)
        for _ in range(2):
            self.send(rate, flows / rate + 0.4, flows)
        assured = self.connections("ASSURED")
        if assured < 0.98 * flows:
            raise Failure(f"{assured} of {flows} connections are assured")

    def connections(self, status):
        return int(self.inside(self.router, "grep", "-c", status, "/proc/net/nf_conntrack", check=False))


def many_rules():
    """A table of stateless rules, two networks and a port each, decisions in turn."""
    rules = [f"ip saddr 10.{number >> 8 & 255}.{number & 255}.0/24 ip daddr 172.{16 + (number >> 8 & 15)}.{number & 255}.0/24 "
             f"udp dport {1 + number} {('accept', 'drop')[number % 2]}" for number in range(MANY - 2)]
    rules += ['iifname "p0" accept', 'iifname "p1" accept']
    lines = "\n".join(rules)
    return f"table inet filter {{ chain forward {{ type filter hook forward priority 0; policy drop;\n{lines}\n}}; }}\n"


class Stateless(Ruled):
    """The scene of forwarding with 10,000 rules that ask for no connection."""

    def furnish(self):
        super().furnish()
        self.rule(many_rules())


def firewall(context):
    """Behind nftables, connection tracking and masquerade: 1,024 connections, and TCP; behind 10,000 stateless rules."""
    need("nft", "iperf3")
    with Edge(context.tools) as lab:
        contenders = lab.able()
        rows, summary, raw = compare(context, lab, contenders, RATES)
        more, of_streams, rates = streams(lab, contenders, *((1, 1) if context.quick else (6, 2)))
    with Stateless(context.tools) as lab:
        both = {name: CONTENDERS[name] for name in ("kernel", "ebb")}
        of_rules, summary["stateless"], raw_of_rules = compare(context, lab, both, STATELESS_RATES)
    rows += [[title, None, gbps, ratio, None, None, None] for title, gbps, ratio, *_ in more]
    rows += [[f"{MANY:,} rules without state; {name}", *rest] for name, *rest in of_rules[1:]]
    context.record.result("firewall", rows, summary | of_streams, {**raw, "tcp": rates, "stateless": raw_of_rules})


def flowtable(context):
    """TCP behind the same, beside the kernel and its own fast way for connections."""
    need("nft", "iperf3")
    with Masquerade(context.tools) as lab:
        contenders = lab.able()
        if contenders != CONTENDERS:
            raise Failure("this kernel has no flow table (nf_flow_table, nft_flow_offload)")
        rows, summary, rates = streams(lab, contenders, *((1, 1) if context.quick else (6, 2)))
    context.record.result("flowtable", [["TCP through masquerade", "Gbit/s", "of the kernel's", "least", "most"], *rows], summary, rates)


def need(*programs):
    """Says which of them is not here."""
    for program in programs:
        if shutil.which(program) is None:
            raise Failure(f"it needs Debian's {PACKAGES[program]}, which is not installed")


def streams(lab, contenders, rounds, seconds):
    """Plays TCP with each contender in turns: rows of the title, Gbit/s, and its ratio to the kernel's in the same turn."""
    rates = {count: {name: [] for name in contenders} for count in STREAMS}
    lab.spawn(lab.spaces[1], "iperf3", "-s", log="iperf3.log")
    time.sleep(0.3)
    for turn in range(rounds):
        for name in contenders if turn % 2 == 0 else reversed(contenders):
            away = lab.put(name)
            time.sleep(1.0)
            for count in STREAMS:
                rates[count][name].append(lab.stream(count, seconds)["gbps"])
            away()
    rows, summary = [], {"tcp_gbps": {}, "tcp_of_kernel": {}}
    for count, of in rates.items():
        summary["tcp_gbps"][count] = {name: spread(of[name]) for name in of}
        ratios = {name: spread([ours / theirs for ours, theirs in zip(of[name], of["kernel"])]) for name in of}
        summary["tcp_of_kernel"][count] = ratios
        rows += [[f"{title}: TCP, {count} streams, Gbit/s", spread(of[name])["median"],
                  *(ratios[name][key] for key in ("median", "min", "max"))] for name, title in contenders.items()]
    return rows, summary, rates


def edge(context):
    """Behind the same: new connections, a million of them, pings through a shaper that is full."""
    need("nft")
    rows, summary, raw = [["64-byte packets one way over veth", "us of CPU a packet", "thousands a second", "of the kernel's", "ping, mean us", "p99"]], {}, {}
    with Edge(context.tools) as lab:
        for part, least in ((crowds.begin, "known"), (crowds.shaped, "leave"), (crowds.crowd, "known")):
            lab.assure(crowds.FEW)
            contenders = {"kernel": CONTENDERS["kernel"], least: LEAST[least], "ebb": CONTENDERS["ebb"]}
            more, summary[part.__name__], raw[part.__name__] = part(context, lab, contenders)
            rows += more
    context.record.result("edge", rows, summary, raw)

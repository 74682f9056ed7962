"""Section 7 of Niccolini et al. 2012, live: what applications cost the machine under each policy."""

import json
import os
import resource
import time

from . import quiet
from .lab import BUDGET_US, Failure, Lab, Router, run

# By name: what each of both routers has of it. `routing` is without any.
APPLICATIONS = ["routing", "ipfix", "esp", "dedup"]
POLICIES = ["poll", "napi", "powersave"]
# Packets a second, the same for all applications.
RATES = [5_000, 20_000, 60_000]
FRAME_BYTES = 1024
# More than two routers carry, and between whom: 16,384 flows.
FLOOD = 2_000_000
FEW = ("10.1.0.0/24", "10.2.0.0/26")
REDUNDANCY = 0.5
# Which CPU the workers of both routers have: the generator polls the other.
WORKERS_CPU = 1
PLACES = ["near", "far"]


class Row(Lab):
    """Hosts, a router, a link, a router, and the hosts again."""

    def __init__(self, tools):
        super().__init__(tools)
        self.spaces = {"near": self.router, "far": f"{self.router}-far"}

    def furnish(self):
        for space in (*self.spaces.values(), self.hosts):
            run("ip", "netns", "add", space)
        for (one, first), (other, second) in [((self.hosts, "g0"), (self.spaces["near"], "lan")),
                                              ((self.spaces["near"], "wire"), (self.spaces["far"], "wire")),
                                              ((self.spaces["far"], "lan"), (self.hosts, "g1"))]:
            run("ip", "link", "add", first, "netns", one, "type", "veth", "peer", "name", second, "netns", other)
            self.inside(one, "ip", "link", "set", first, "up")
            self.inside(other, "ip", "link", "set", second, "up")
        self.inside(self.hosts, "ip", "link", "set", "g1", "address", "02:00:00:00:00:02")
        for number, (place, lines) in enumerate({
                "near": ["address add 10.255.0.1/24 dev lan", "address add 10.254.0.1/24 dev wire",
                         "route add 10.2.0.0/16 via 10.254.0.2", "route add 10.1.0.0/16 via 10.255.0.2",
                         "neighbour add 10.255.0.2 lladdr 02:00:00:00:00:01 dev lan nud permanent"],
                "far": ["address add 10.255.1.1/24 dev lan", "address add 10.254.0.2/24 dev wire",
                        "route add 10.1.0.0/16 via 10.254.0.1", "route add 10.2.0.0/16 via 10.255.1.2",
                        "neighbour add 10.255.1.2 lladdr 02:00:00:00:00:02 dev lan nud permanent"]}.items()):
            self.inside(self.spaces[place], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            for line in lines:
                self.inside(self.spaces[place], "ip", *line.split())
            with open(self.path(f"key{number}"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(os.urandom(20).hex())
        self.mac = json.loads(self.inside(self.router, "ip", "-j", "link", "show", "lan"))[0]["address"]

    def __exit__(self, *_):
        super().__exit__()
        run("ip", "netns", "delete", self.spaces["far"], check=False)

    def clear_ways(self, wanted):
        """With `esp` the kernel must have no way in clear; without it the kernel's routes are the router's."""
        for place, other in (("near", "10.2.0.0/16"), ("far", "10.1.0.0/16")):
            way = ["blackhole", other] if not wanted else [other, "via", "10.254.0.2" if place == "near" else "10.254.0.1"]
            self.inside(self.spaces[place], "ip", "route", "replace", *way)

    def send(self, rate, seconds, between=("10.1.0.0/16", "10.2.0.0/16"), size=FRAME_BYTES):
        """Redundant payload from one host to the other."""
        words = ["traffic", "send", "g0", "--to", self.mac, "--sources", between[0], "--destinations", between[1],
                 "--ipv6-share", "0", "--size", str(size), "--redundancy", str(REDUNDANCY), "--receive-on", "g1",
                 "--rate", str(rate), "--seconds", str(seconds), "--json"]
        # What could not be sent in time is an exit status of 4; it is in the figures.
        text = self.inside(self.hosts, "taskset", "-c", str(1 - WORKERS_CPU), self.tools.ebb, *words, check=False)
        if not text.startswith("{"):
            raise Failure("the generator did not send")
        return json.loads(text)


class One(Router):
    """One of both routers."""

    def __init__(self, lab, place, application, path="worker"):
        self.place, self.application, self.path = place, application, path
        self.lab, self.socket = lab, lab.path(f"{place}.sock")
        config = self.write("napi")
        self.child = lab.spawn(lab.spaces[place], lab.tools.ebb, "router", "run", "-c", config, log=f"{place}.log")
        self.pid = self.child.pid

    def write(self, mode):
        apps = "" if self.application == "routing" else f'apps = ["{self.application}"]\n'
        text = (f'[router]\nworkers = 1\ncpus = [{WORKERS_CPU}]\nmode = "{mode}"\n{apps}[status]\nsocket = "{self.socket}"\n'
                f'[governor]\njournal_directory = "{self.lab.path(self.place)}"\nlatency_budget_us = {BUDGET_US}\n')
        text += "".join(f'[[port]]\nname = "{port}"\npath = "{self.path}"\n' for port in ("lan", "wire"))
        with open(self.lab.path(f"{self.place}.toml"), "w") as file:
            file.write(text + self.section())
        return self.lab.path(f"{self.place}.toml")

    def section(self):
        near = self.place == "near"
        here, there = ("10.254.0.1", "10.254.0.2") if near else ("10.254.0.2", "10.254.0.1")
        if self.application == "ipfix":
            return f'[ipfix]\nfile = "{self.lab.path(self.place)}.ipfix"\n'
        if self.application == "dedup":
            return f'[[dedup.peer]]\nport = "wire"\nlocal = "{here}"\nremote = "{there}"\n'
        if self.application == "esp":
            net = "10.2.0.0/16" if near else "10.1.0.0/16"
            own = "10.1.0.0/16" if near else "10.2.0.0/16"
            out, into = (0, 1) if near else (1, 0)
            return (f'[esp]\nstate_directory = "{self.lab.path(self.place)}-esp"\n'
                    f'[[esp.tunnel]]\nlocal = "{here}"\nremote = "{there}"\nremote_prefixes = ["{net}"]\nlocal_prefixes = ["{own}"]\n'
                    f'spi_out = {4096 + out}\nspi_in = {4096 + into}\nkey_file_out = "{self.lab.path(f"key{out}")}"\n'
                    f'key_file_in = "{self.lab.path(f"key{into}")}"\n')
        return ""

    def wait(self, patience=60):
        end = time.monotonic() + patience
        while time.monotonic() < end and self.child.poll() is None:
            try:
                self.status()
                return
            except (OSError, ValueError):
                time.sleep(0.05)
        with open(self.lab.path(f"{self.place}.log")) as log:
            raise Failure(f"the router {self.place} did not come up: {log.read()[-2000:]}")


def apps(context):
    """Machine-wide CPU and modelled joules of routing, ipfix, esp and dedup under poll, napi and powersave, by load."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    seconds, rates = (0.5, RATES[:1]) if context.quick else (2.0, RATES)
    rows = []
    with Row(context.tools) as lab:
        for application in APPLICATIONS:
            lab.clear_ways(application != "esp")
            with One(lab, "near", application) as near, One(lab, "far", application) as far:
                near.wait(), far.wait()
                time.sleep(0.5)
                # So that both peers know each other, and memories and caches of flows are no longer empty.
                lab.send(rates[0], 2 * seconds)
                for rate in rates:
                    for policy in POLICIES:
                        rows.append(measured(context, lab, (near, far), (application, policy, rate), seconds))
    table = [["application, policy, packets/s", "machine, cores", "of it others", "routers, cores", "us a packet",
              "W modelled", "J modelled", "mJ a packet", "sent", "lost", "p50, us", "p99, us", "link, bytes/packet"]]
    for row in rows:
        name = f"{row['application']}, {row['mode']}, {row['rate_pps']:,}"
        columns = ["machine_cores", "others_cores", "routers_cores", "us_per_packet", "watts_modelled", "joules_modelled",
                   "mj_per_packet", "sent", "lost", "p50_us", "p99_us", "link_bytes_per_packet"]
        table.append([name, *(row[column] for column in columns)])
    summary = {"frame_bytes": FRAME_BYTES, "redundancy": REDUNDANCY, "seconds": seconds, "rows": rows}
    context.record.result("apps", table, summary)
    draw(context, rows)


# What is compared with routing alone, by path, and with which frames: what dedup and esp do depends on their length.
CARRIED = {"kernel": [("ipfix", 64)], "worker": [("ipfix", 64), ("esp", 64), ("esp", FRAME_BYTES), ("dedup", FRAME_BYTES)]}


def carried(context):
    """What two routers in a row carry with an application and without, in turns: flow export on either path, esp and dedup on workers."""
    if os.cpu_count() < 2:
        raise Failure("two CPUs are needed, one for the generator")
    seconds, turns = (0.5, 1) if context.quick else (3.0, 5)
    rows = []
    with Row(context.tools) as lab:
        for path, applications in CARRIED.items():
            for turn in range(turns):
                alone = {}
                for application, size in applications:
                    if size not in alone:
                        alone[size] = flooded(lab, "routing", (path, size), seconds)
                    seen = flooded(lab, application, (path, size), seconds)
                    row = {"path": path, "turn": turn, "application": application, "frame_bytes": size,
                           "routing": alone[size], "with": seen, "ratio": seen["pps"] / alone[size]["pps"],
                           "cpu_ratio": alone[size]["us_per_packet"] / seen["us_per_packet"]}
                    context.say(f"  {path}: {row}")
                    rows.append(row)
    table = [["path, application, bytes", "routing, packets/s", "with it", "ratio, median", "least", "by CPU, median", "least"]]
    for path, applications in CARRIED.items():
        for application, size in applications:
            of = [row for row in rows if (row["path"], row["application"], row["frame_bytes"]) == (path, application, size)]
            middle = lambda values: sorted(values)[len(values) // 2]
            table.append([f"{path}, {application}, {size}", *(middle([row[one]["pps"] for row in of]) for one in ("routing", "with")),
                          *(pick([row[ratio] for row in of]) for ratio in ("ratio", "cpu_ratio") for pick in (middle, min))])
    context.record.result("carried", table, {"rows": rows})


def flooded(lab, application, series, seconds):
    """What both routers carry of more than they can, and what a packet takes of the machine, generator included."""
    path, size = series
    lab.clear_ways(application != "esp")
    with One(lab, "near", application, path) as near, One(lab, "far", application, path) as far:
        near.wait(), far.wait()
        time.sleep(0.5)
        lab.send(20_000, 0.5, FEW, size)
        others, busy, begun = quiet.Others(lab.pids()), quiet.busy(), time.monotonic()
        seen = lab.send(FLOOD, seconds, FEW, size)
        span, busy = time.monotonic() - begun, quiet.busy() - busy
        others = others.share(resource.getrusage(resource.RUSAGE_CHILDREN))
        packets = max(seen["received"], 1)
        return {"pps": packets / span, "others_cores": others, "us_per_packet": 1e6 * (busy - others * span) / packets}


def measured(context, lab, routers, series, seconds):
    """One row: both routers under a policy, at a rate."""
    application, policy, rate = series
    for router in routers:
        router.ask({"set": {"mode": policy}})
    time.sleep(0.3)
    before = [state(router) for router in routers]
    link = link_bytes(lab)
    machine, others, begun = quiet.busy(), quiet.Others(lab.pids()), time.monotonic()
    seen = lab.send(rate, seconds)
    span = time.monotonic() - begun
    machine = (quiet.busy() - machine) / span
    others = others.share(resource.getrusage(resource.RUSAGE_CHILDREN))
    cpu, joules = (sum(later - earlier for earlier, later in zip(column, after)) for column, after in
                   zip(zip(*before), zip(*(state(router) for router in routers))))
    packets = max(seen["received"], 1)
    spent = f"{1e6 * cpu / packets:.2f} us a packet"
    context.say(f"  {application}, {policy}, {rate}/s: {spent}, lost {seen['lost']}, others {others:.2f} cores")
    if seen["received"] < 0.5 * seen["sent"] and not context.quick:
        raise Failure(f"{application} carries too little: {seen}")
    return {"application": application, "mode": policy, "rate_pps": rate, "seconds": span, "machine_cores": machine,
            "others_cores": others, "routers_cores": cpu / span, "us_per_packet": 1e6 * cpu / packets, "joules_modelled": joules, "watts_modelled": joules / span,
            "mj_per_packet": 1e3 * joules / packets, "sent": seen["sent"], "lost": seen["lost"], "reordered": seen["reordered"],
            "p50_us": seen["latency_us"]["p50"], "p99_us": seen["latency_us"]["p99"],
            "link_bytes_per_packet": (link_bytes(lab) - link) / packets}


def state(router):
    """Processor seconds and joules since the router's start."""
    energy = router.status()["energy"]
    if energy["basis"] != "modelled":
        raise Failure(f"the energy is {energy['basis']}, not modelled")
    return router.cpu_seconds(), energy["joules"]


def link_bytes(lab):
    """Bytes that the first router has sent to the second."""
    link = json.loads(lab.inside(lab.spaces["far"], "ip", "-j", "-s", "link", "show", "wire"))[0]
    return link["stats64"]["rx"]["bytes"]


def draw(context, rows):
    """A picture of CPU and of joules by load for each policy, all applications in each."""
    directory = context.record.directory
    if not directory:
        return
    facts = context.record.facts
    for policy in POLICIES:
        of = [{**row, "mode": row["application"], "machine_less_others": row["machine_cores"] - row["others_cores"]}
              for row in rows if row["mode"] == policy]
        title = f"Applications under {policy}: {facts['cpus']} CPUs, veth, {FRAME_BYTES} bytes, half redundant"
        data = {"title": f"{title}, {facts['started'][:10]}",
                "rows": of, "x": ["rate_pps", "load", "packets/s"],
                "panels": [["machine_less_others", "CPU of the machine, generator included", "cores"],
                           ["routers_cores", "CPU of both routers", "cores"], ["watts_modelled", "power of both routers, modelled", "W"]]}
        path = os.path.join(directory, "plot.json")
        with open(path, "w") as file:
            json.dump(data, file)
        context.tools.call("plot", path, os.path.join(directory, f"apps-{policy}.svg"))
        os.remove(path)

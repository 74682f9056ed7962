"""Two network namespaces with pairs of virtual interfaces between them, and what runs inside.

A lab cleans up whatever happens: `with Lab() as lab`. Processes are ended by their own numbers.
"""

import glob
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import quiet

ROUTER_MACS = ["02:00:00:00:01:00", "02:00:00:00:01:01"]
HOSTS_MAC = "02:00:00:00:00:02"
PORTS = ["p0", "p1"]
HOSTS = ["g0", "g1"]
# The router's own default.
BUDGET_US = 200


class Failure(Exception):
    """A benchmark that could not be carried out."""


def run(*words, check=True, **options):
    """Runs a command to its end and returns its standard output."""
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def sweep():
    """Removes what runs that were killed have left."""
    for line in run("ip", "netns", "list", check=False).splitlines():
        name = line.split()[0]
        parts = name.split("-")
        if parts[:2] == ["ebb", "bench"] and len(parts) == 4 and not os.path.exists(f"/proc/{parts[2]}"):
            run("ip", "netns", "delete", name, check=False)
            for path in glob.glob(os.path.join(tempfile.gettempdir(), f"ebb-bench-{parts[2]}-*")):
                shutil.rmtree(path, ignore_errors=True)


class Lab:
    """The router's namespace, its hosts', and a directory."""

    def __init__(self, tools, queues=1):
        self.tools, self.queues = tools, queues
        name = f"ebb-bench-{os.getpid()}"
        self.router, self.hosts = f"{name}-router", f"{name}-hosts"
        self.children = []
        self.directory = tempfile.mkdtemp(prefix=f"{name}-")

    def __enter__(self):
        try:
            self.furnish()
        except BaseException:
            self.__exit__()
            raise
        return self

    def furnish(self):
        sweep()
        for space in (self.router, self.hosts):
            run("ip", "netns", "add", space)
        for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            self.inside(self.router, "sh", "-c", f"echo 1 > /proc/sys/net/{key}")
        self.inside(self.hosts, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        queues = ["numrxqueues", str(self.queues), "numtxqueues", str(self.queues)]
        for side, (port, host) in enumerate(zip(PORTS, HOSTS)):
            run("ip", "link", "add", port, "netns", self.router, "address", ROUTER_MACS[side], *queues,
                "type", "veth", "peer", "name", host, "netns", self.hosts, *queues)
            self.inside(self.hosts, "ip", "link", "set", host, "up")
            ip = lambda *words: self.inside(self.router, "ip", *words)
            ip("link", "set", port, "up")
            ip("address", "add", f"10.255.{side}.1/24", "dev", port)
            ip("address", "add", f"2001:db8:{side}::1/64", "dev", port, "nodad")
            for address in (f"10.255.{side}.2", f"2001:db8:{side}::2"):
                ip("neighbour", "add", address, "lladdr", HOSTS_MAC, "dev", port, "nud", "permanent")

    def __exit__(self, *_):
        for child in list(self.children):
            self.end(child)
        for space in (self.router, self.hosts):
            run("ip", "netns", "delete", space, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def inside(self, space, *words, **options):
        return run("ip", "netns", "exec", space, *words, **options)

    def spawn(self, space, *words, log=None, **options):
        """Starts a process in a namespace."""
        out = open(self.path(log), "w") if log else subprocess.PIPE
        child = subprocess.Popen(["ip", "netns", "exec", space, *words], stdout=out,
                                 stderr=subprocess.STDOUT if log else subprocess.PIPE, text=True, **options)
        self.children.append(child)
        return child

    def end(self, child, sent=signal.SIGTERM):
        if child.poll() is None:
            child.send_signal(sent)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child in self.children:
            self.children.remove(child)

    def tool(self, space, *words):
        """Runs one of our tools to its end and returns its answer."""
        return json.loads(self.inside(space, self.tools.bench, *words).splitlines()[-1])

    def load(self, **options):
        """Loads the router; see `live_bench load --help`."""
        to = options.pop("to", " ".join(ROUTER_MACS)).split()
        words = ["load", *HOSTS, "--to", *to, "--prefixes", self.path("flows")]
        options.setdefault("queues", self.queues)
        for name, value in options.items():
            if value is not None:
                words += [f"--{name}", str(value)]
        before, others = self.interface_drops(), quiet.Others(self.pids())
        seen = self.tool(self.hosts, *words)
        seen["others_cpu_share"] = others.share(resource.getrusage(resource.RUSAGE_CHILDREN))
        after = self.interface_drops()
        seen["interface_drops"] = {key: after[key] - before[key] for key in after}
        return seen

    def pids(self):
        return [child.pid for child in self.children if child.poll() is None]

    def interface_drops(self):
        """Packets that the kernel counts as dropped, by interface and direction."""
        counts = {}
        for space in (self.router, self.hosts):
            for link in json.loads(self.inside(space, "ip", "-j", "-s", "link", "show", "type", "veth")):
                for direction in ("rx", "tx"):
                    counts[f"{link['ifname']} {direction}"] = link["stats64"][direction]["dropped"]
        return counts


class Router:
    """`ebb router run` in a lab."""

    def __init__(self, lab, mode="poll", cpus=(1,), ring=2048, budget=BUDGET_US, workers=None,
                 ports=PORTS, fill=None, path="worker", xdp="auto"):
        """Without `cpus`, `workers` of them go where the router, or somebody else, puts them."""
        self.fill, self.path, self.xdp = fill, path, xdp
        self.lab, self.socket, self.cpus, self.ring = lab, lab.path("router.sock"), list(cpus or ()), ring
        self.ports = ports
        self.workers = workers or len(self.cpus)
        config = self.configure(mode, budget)
        self.child = lab.spawn(lab.router, lab.tools.ebb, "router", "run", "-c", config, log="router.log")
        self.pid = self.child.pid

    def configure(self, mode, budget, moderation=True):
        """Writes the configuration file and returns its path."""
        text = f'[router]\nworkers = {self.workers}\nmode = "{mode}"\nredirect = "steer"\n'
        text += f"cpus = {self.cpus}\n" if self.cpus else ""
        text += f'[status]\nsocket = "{self.socket}"\n'
        text += f'[governor]\njournal_directory = "{self.lab.directory}"\nlatency_budget_us = {budget}\n'
        text += "" if moderation else 'moderation = "off"\n'
        fill = f"fill = {self.fill}\n" if self.fill else ""
        text += "".join(f'[[port]]\nname = "{port}"\npath = "{self.path}"\nxdp = "{self.xdp}"\nring = {self.ring}\n{fill}' for port in self.ports)
        with open(self.lab.path("router.toml"), "w") as file:
            file.write(text)
        return self.lab.path("router.toml")

    def turn_to(self, mode, budget, moderation=True):
        """Goes on under another policy, with another latency budget, with or without the kernel's moderation."""
        self.configure(mode, budget, moderation)
        self.ask({"reload": {}})
        self.ask({"set": {"mode": mode}})
        if any((port.get("gathers_us") is not None) != moderation for port in self.status()["ports"]):
            raise Failure("the kernel's moderation of the ports is not as asked for")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.end(self.child)

    def ask(self, request):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(30)
            line.connect(self.socket)
            line.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(line.makefile().readline())
        if "error" in reply:
            raise Failure(f"the router declined: {reply['error']}")
        return reply["ok"]

    def status(self):
        return self.ask({"get": "status"})

    def wait(self, routes, patience=60):
        """Waits until it knows that many routes and returns its processor seconds until then."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.child.poll() is not None:
                break
            try:
                if self.status()["tables"]["routes"] >= routes:
                    return self.cpu_seconds()
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        with open(self.lab.path("router.log")) as log:
            raise Failure("the router did not come up: " + log.read()[-2000:])

    def cpu_seconds(self):
        """Processor time of the whole process and of its guard, to the nanosecond."""
        return sum(use[1] for use in self.threads())

    def threads(self):
        """(name, processor seconds, voluntary switches) of every thread, the guard's included."""
        found = []
        for pid in [self.pid, *children(self.pid)]:
            for thread in os.listdir(f"/proc/{pid}/task"):
                base = f"/proc/{pid}/task/{thread}"
                name = read(f"{base}/comm").strip()
                seconds = int(read(f"{base}/schedstat").split()[0]) / 1e9
                switches = [line for line in read(f"{base}/status").splitlines()
                            if line.startswith("voluntary_ctxt_switches")]
                found.append((name, seconds, int(switches[0].split()[1])))
        return found

    def split(self):
        """Clock ticks of the process in its own code and in the kernel."""
        return ticks(self.pid)

    def worker_threads(self):
        """Thread numbers of the workers, in their order."""
        found = {}
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            name = read(f"/proc/{self.pid}/task/{thread}/comm").strip()
            if name.startswith("ebb-worker-"):
                found[int(name.rsplit("-", 1)[1])] = int(thread)
        return [found[number] for number in sorted(found)]

    def resident_mib(self):
        """Resident memory in MiB: all of it, and what is not shared with other programs."""
        lines = read(f"/proc/{self.pid}/status").splitlines()
        line = next(line for line in lines if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def read(path):
    with open(path) as file:
        return file.read()


def ticks(pid):
    """Clock ticks of a process in its own code and in the kernel."""
    fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return int(fields[11]), int(fields[12])


def children(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        found += read(f"/proc/{pid}/task/{thread}/children").split()
    return found


class Testpmd:
    """DPDK's testpmd on the same interfaces: MAC forwarding on one core."""

    def __init__(self, lab):
        self.lab = lab
        vdevs = []
        for number, port in enumerate(PORTS):
            vdevs += ["--vdev", f"net_af_xdp{number},iface={port}"]
        peers = [f"--eth-peer={number},{HOSTS_MAC}" for number in (0, 1)]
        self.child = lab.spawn(
            lab.router, "stdbuf", "-oL", "dpdk-testpmd", "-l", "0,1", "--main-lcore", "0", "--no-huge", "-m", "512", "--no-pci",
            "--no-shconf", "--no-telemetry", *vdevs, "--", "--total-num-mbufs=32768", "--forward-mode=mac",
            "--nb-cores=1", *peers, log="testpmd.log", stdin=subprocess.PIPE)

    def __enter__(self):
        end = time.monotonic() + 30
        while time.monotonic() < end and self.child.poll() is None:
            if "Press enter to exit" in read(self.lab.path("testpmd.log")):
                return self
            time.sleep(0.1)
        raise Failure("testpmd did not start: " + read(self.lab.path("testpmd.log"))[-2000:])

    def __exit__(self, *_):
        try:
            self.child.communicate("\n", timeout=15)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass
        self.lab.end(self.child)

"""A router between three links, in two network namespaces of its own.

The router's namespace has the interfaces pa, pb and pc with addresses, static neighbours and
routes; the hosts' namespace has their far ends ha, hb and hc and no addresses at all, so that
nothing answers there but the test. The router is `ebb` or the kernel's own forwarding, with the
same MAC addresses and tables.
"""

import atexit
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from wire import Station, inside

PORTS = "abc"
# How many times slower than others a machine is: a guest without KVM.
SLOW = float(os.environ.get("EBB_SLOW", 1))
MTU = {"a": 1500, "b": 1500, "c": 1300}

ROUTER4 = {port: f"198.18.{number}.1" for number, port in enumerate(PORTS, 1)}
HOST4 = {port: f"198.18.{number}.2" for number, port in enumerate(PORTS, 1)}
ROUTER6 = {port: f"2001:db8:{port}::1" for port in PORTS}
HOST6 = {port: f"2001:db8:{port}::2" for port in PORTS}
# Further hosts on the first link, with the MAC address of the first.
MORE_HOSTS4 = [f"198.18.1.{number}" for number in range(100, 240)]
ROUTER_MAC = {port: f"02:00:00:00:0{port}:01" for port in PORTS}
# The addresses behind the router's are those of a cluster's further balancers.
HOST_MAC = {port: f"02:00:00:00:0{port}:20" for port in PORTS}

# Destinations: prefix, then what `ip route add` wants.
ROUTES = [
    ("198.51.100.0/24", "via 198.18.2.2"),
    ("198.51.100.128/25", "via 198.18.3.2"),
    ("203.0.113.0/24", "via 198.18.3.2"),
    ("198.19.0.0/16", "nexthop via 198.18.2.2 nexthop via 198.18.3.2"),
    ("192.0.2.0/26", "BLACKHOLE"),
    ("192.0.2.64/26", "UNREACHABLE"),
    ("192.0.2.128/26", "PROHIBIT"),
    ("2001:db8:100::/48", "via 2001:db8:b::2"),
    ("2001:db8:100:80::/64", "via 2001:db8:c::2"),
    ("2001:db8:200::/48", "via 2001:db8:c::2"),
    ("2001:db8:300::/48", "nexthop via 2001:db8:b::2 nexthop via 2001:db8:c::2"),
    ("2001:db8:666::/64", "BLACKHOLE"),
    ("2001:db8:666:1::/64", "UNREACHABLE"),
    ("2001:db8:666:2::/64", "PROHIBIT"),
]

SYSCTLS = {
    "net/ipv4/ip_forward": 1,
    "net/ipv6/conf/all/forwarding": 1,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/all/accept_dad": 0,
    # The kernel's answers are compared one by one, and rate limits have rows of their own.
    "net/ipv4/icmp_ratelimit": 0,
    "net/ipv4/icmp_msgs_per_sec": 1000000,
    "net/ipv4/icmp_msgs_burst": 100000,
    "net/ipv6/icmp/ratelimit": 0,
    "net/ipv6/auto_flowlabels": 0,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
}


class Unavailable(Exception):
    """Something is missing that can be installed or permitted."""


def command(*arguments, check=True):
    """Runs a program and returns what it printed."""
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _die_with_parent():
    """Asks the kernel to end the calling process when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Lab:
    """The namespaces and what runs in them; a context manager."""

    def __init__(self, label=""):
        self.name = f"ebb-conform-{os.getpid()}" + (f"-{label}" if label else "")
        self.router, self.hosts = f"{self.name}-r", f"{self.name}-h"
        self.directory = tempfile.mkdtemp(prefix=self.name + "-")
        self.socket = f"{self.directory}/router.sock"
        self.ebb = self.process = None
        # What makes another text of the configuration, if something does.
        self.change = None
        self.stations = {}
        atexit.register(self.close)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _build(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        try:
            command("ip", "netns", "add", self.router)
            command("ip", "netns", "add", self.hosts)
        except (RuntimeError, FileNotFoundError) as error:
            raise Unavailable(f"network namespaces are not permitted: {error}") from error
        for namespace, settings in [
            (self.router, SYSCTLS),
            (self.hosts, {"net/ipv6/conf/default/disable_ipv6": 1}),
        ]:
            with inside(namespace):
                for name, value in settings.items():
                    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
                        file.write(str(value))
        batch = ["link set lo up"]
        for port in PORTS:
            near, far = f"p{port}", f"h{port}"
            # One has an index as on hosts that have made and lost many interfaces.
            index = ["index", "70000"] if port == "c" else []
            command(
                "ip", "-n", self.router, "link", "add", near, *index, "address", ROUTER_MAC[port],
                "mtu", str(MTU[port]), "type", "veth",
                "peer", "name", far, "netns", self.hosts, "address", HOST_MAC[port],
            )
            command("ip", "-n", self.hosts, "link", "set", far, "mtu", "1500", "up")
            batch += [
                f"link set {near} up",
                f"addr add {ROUTER4[port]}/24 brd + dev {near}",
                f"addr add {ROUTER6[port]}/64 dev {near} nodad",
                f"neigh add {HOST4[port]} lladdr {HOST_MAC[port]} dev {near} nud permanent",
                f"neigh add {HOST6[port]} lladdr {HOST_MAC[port]} dev {near} nud permanent",
            ]
        batch += [
            f"neigh add {address} lladdr {HOST_MAC['a']} dev pa nud permanent"
            for address in MORE_HOSTS4
        ]
        for prefix, target in ROUTES:
            kind = target.lower() if target.isupper() else ""
            batch.append(f"route add {kind} {prefix} {'' if kind else target}")
        self.batch(batch)
        self.stations = {port: Station(self.hosts, f"h{port}") for port in PORTS}

    def batch(self, lines):
        """Runs lines of `ip` in the router's namespace."""
        done = subprocess.run(
            ["ip", "-n", self.router, "-batch", "-"],
            input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"ip: {done.stderr.strip()}")

    def start(self, ebb, mode="napi", limits="", router="", sections="", esp=""):
        """Starts the router under test and waits until it forwards both families; `router` are lines
        of that section, `esp` of that one, `sections` whole ones."""
        self.ebb = ebb
        configuration = f"{self.directory}/router.toml"
        with open(configuration, "w", encoding="ascii") as file:
            file.write(f'[router]\nmode = "{mode}"\n{router}\n{sections}\n')
            file.write(f'[esp]\nstate_directory = "{self.directory}/state"\n{esp}\n')
            file.write(f'[status]\nsocket = "{self.socket}"\n')
            file.write("[governor]\nfrequency = false\nidle = false\n")
            file.write(f'journal_directory = "{self.directory}"\n')
            file.write(f"[limits]\n{limits}")
            # EBB_PATH=kernel: the same suites over the kernel path; driver: with its program in the driver.
            path = os.environ.get("EBB_PATH", "worker")
            form = 'path = "kernel"\nxdp = "native"' if path == "driver" else f'path = "{path}"'
            for port in PORTS:
                if path == "driver":
                    # Else a veth takes nothing that programs redirect to it.
                    subprocess.run(["ip", "netns", "exec", self.hosts, "ethtool", "-K", f"h{port}", "gro", "on"],
                                   check=True, timeout=10)
                file.write(f'[[port]]\nname = "p{port}"\n{form}\n')
        if self.change:
            with open(configuration, encoding="ascii") as file:
                text = self.change(file.read())
            with open(configuration, "w", encoding="ascii") as file:
                file.write(text)
        self.log = open(f"{self.directory}/router.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.router, ebb, "router", "run", "-c", configuration],
            stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent,
        )
        self._await(self._answers, "the router does not answer")

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the router ended: {self.said()}")
        return os.path.exists(self.socket) and self.status(check=False)

    def _await(self, holds, complaint, seconds=60):
        deadline = time.monotonic() + seconds * SLOW
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{complaint}: {self.said()}")
            time.sleep(0.05)

    def said(self):
        """What the router printed."""
        self.log.seek(0)
        return self.log.read().strip()

    def counters(self):
        """What nftables has counted in the router's namespace: place, packets and bytes of each rule's counter."""
        text = command("ip", "netns", "exec", self.router, "nft", "-j", "list", "ruleset")
        found, number = [], 0
        for entry in json.loads(text)["nftables"]:
            rule = entry.get("rule")
            if rule is None:
                continue
            number += 1
            for expression in rule["expr"]:
                if isinstance(expression, dict) and "counter" in expression:
                    counted = expression["counter"]
                    found.append((rule["table"], rule["chain"], number, counted["packets"], counted["bytes"]))
        return found

    def status(self, check=True):
        """The router's own account, as the status socket gives it."""
        text = command(self.ebb, "router", "show", "--json", "--socket", self.socket, check=check)
        return json.loads(text) if text else None

    def resident_kib(self):
        """Resident memory of the router's process."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["VmRSS"].split()[0])

    def stop(self):
        """Ends the router as an operator would; returns its exit status."""
        return self.end(signal.SIGTERM)

    def end(self, how):
        """Ends the router with a signal; returns its exit status."""
        if self.process is None:
            return None
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return process.returncode

    def close(self):
        """Removes everything."""
        atexit.unregister(self.close)
        for station in self.stations.values():
            station.close()
        self.stations = {}
        self.stop()
        for namespace in (self.router, self.hosts):
            command("ip", "netns", "del", namespace, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

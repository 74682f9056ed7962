"""The router between three links again, but one made of many: two balancers and three back-ends.

Everything else is the single router's: the same hosts, addresses, tables and rows. Back-ends are `ebb
router run`, in namespaces that the cluster makes itself; its state is in etcd. Only the Ethernet address differs, since balancers have one each: a row is sent to one of them,
by its number, and what comes back has to come from one of them.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile

from lab import (
    HOST4, HOST6, HOST_MAC, MORE_HOSTS4, PORTS, ROUTER4, ROUTER6, ROUTER_MAC, ROUTES, MTU,
    Lab, Unavailable, _die_with_parent, command,
)
from matrix import TOKEN
from wire import Station

BALANCERS = 2
BACK_ENDS = 3
# What balancers say to each other, all the time.
PEERS = b"\x88\xb5"
STORE = "http://10.99.0.1:2379"
SETTINGS = ["net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_msgs_per_sec=1000000",
            "net.ipv4.icmp_msgs_burst=100000", "net.ipv6.icmp.ratelimit=0",
            "net.ipv6.auto_flowlabels=0"]


def not_for_cluster(row):
    """Why a row cannot be held against a cluster, if it cannot."""
    if row.where == "replay":
        return "runs through `ebb router replay`, one router without links; a cluster's VLANs are sides of their own"
    return ""


def mac_of(balancer, port):
    """A balancer's Ethernet address: the first has the single router's."""
    return ROUTER_MAC[port][:-2] + f"{1 + balancer:02x}"


def bytes_of(mac):
    return bytes.fromhex(mac.replace(":", ""))


class ClusterStation(Station):
    """A host's end of a link: of a row's frames it hides which balancer they pass."""

    def __init__(self, namespace, interface, port):
        super().__init__(namespace, interface)
        self.macs = [bytes_of(mac_of(balancer, port)) for balancer in range(BALANCERS)]

    def send(self, frame):
        at = frame.find(TOKEN)
        if at >= 0 and frame[:6] == self.macs[0]:
            row = int.from_bytes(frame[at + len(TOKEN):at + len(TOKEN) + 4], "big")
            frame = self.macs[row % BALANCERS] + frame[6:]
        return super().send(frame)

    def receive(self):
        frames = super().receive()
        return [frame[:6] + self.macs[0] + frame[12:] if TOKEN in frame and frame[6:12] in self.macs
                else frame for frame in frames if frame[12:14] != PEERS]


class ClusterLab(Lab):
    """The namespaces of hosts, balancers, segments and back-ends; a context manager."""

    def __init__(self):
        super().__init__("c")
        self.fronts = [f"{self.name}-f{number}" for number in range(BALANCERS)]
        self.segment = self.router
        self.processes = {}
        # In memory: what is tested here is no disk.
        self.data = tempfile.mkdtemp(prefix=self.name + "-", dir="/dev/shm")
        self.log = open(f"{self.directory}/log", "w+", encoding="utf-8")

    def _build(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        for program, package in [("etcd", "etcd-server"), ("curl", "curl")]:
            if not shutil.which(program):
                raise Unavailable(f"{program} is missing (Debian: {package})")
        try:
            for space in [self.segment, self.hosts, *self.fronts]:
                command("ip", "netns", "add", space)
                command("ip", "-n", space, "link", "set", "lo", "up")
                command("ip", "netns", "exec", space, "sysctl", "-qw",
                        "net.ipv6.conf.default.disable_ipv6=1")
        except (RuntimeError, FileNotFoundError) as error:
            raise Unavailable(f"network namespaces are not permitted: {error}") from error
        bridges = [f"{kind}{port}" for port in PORTS for kind in ("out", "seg")]
        lines = [f"link add {name} type bridge mcast_snooping 0\nlink set {name} up"
                 for name in [*bridges, "mgmt"]]
        lines.append("address add 10.99.0.1/24 dev mgmt")
        for number, space in enumerate(self.fronts):
            for name in [*bridges, "mgmt"]:
                lines += self._cable(space, name, f"f{number}{name}", name)
        for port in PORTS:
            lines += self._cable(self.hosts, f"h{port}", f"h{port}", f"out{port}",
                                 f"address {HOST_MAC[port]}")
        self.batch(lines)
        for number, space in enumerate(self.fronts):
            command("ip", "-n", space, "address", "add", f"10.99.0.1{number}/24", "dev", "mgmt")
        self.stations = {port: ClusterStation(self.hosts, f"h{port}", port) for port in PORTS}

    def _cable(self, space, name, end, bridge, more=""):
        """From a machine to a bridge of the segment's namespace."""
        command("ip", "-n", space, "link", "add", name, *more.split(), "type", "veth",
                "peer", "name", end, "netns", self.segment)
        command("ip", "-n", space, "link", "set", name, "up")
        return [f"link set {end} master {bridge}", f"link set {end} up"]

    def _files(self, ebb):
        """What the cluster's file and those of its back-ends say."""
        text = f'[cluster]\nname = "{self.name[4:]}"\n[store]\nkind = "etcd"\nendpoints = ["{STORE}"]\n'
        # Machines that test may be busy: a second of silence is still life.
        text += '[policy]\nname = "all"\n[probing]\ninterval_ms = 50\nmisses = 20\n'
        for number, port in enumerate(PORTS, 1):
            text += (f'[[side]]\nmac = "{ROUTER_MAC[port]}"\nprobe = "198.18.{number}.250"\n'
                     f'addresses = ["{ROUTER4[port]}/24", "{ROUTER6[port]}/64"]\n')
        for number in range(BACK_ENDS):
            macs = ", ".join(f'"02:00:00:01:0{port}:0{number}"' for port in PORTS)
            text += f'[[back_end]]\nname = "r{number}"\nmacs = [{macs}]\n'
        ends = {kind: ", ".join(f'"{kind}{port}"' for port in PORTS) for kind in ("out", "seg")}
        for number in range(BALANCERS):
            text += (f'[[member]]\nname = "m{number}"\nleader = true\n'
                     f'socket = "{self.directory}/m{number}.sock"\n'
                     f'[member.balancer]\nworkers = {number + 1}\noutside = [{ends["out"]}]\ninside = [{ends["seg"]}]\n')
        text += f'[[member]]\nname = "keeper"\nsocket = "{self.directory}/keeper.sock"\n'
        for number in range(BACK_ENDS):
            inside = self._inside(ebb, number)
            text += (f'[[member.keep]]\nback_end = "r{number}"\nhow = "namespace"\n'
                     f'bridges = [{ends["seg"]}]\nrun = ["sh", "{inside}"]\n'
                     f'ready = ["test", "-e", "{self.directory}/r{number}.ready"]\n')
        self._write("cluster.toml", text)

    def _inside(self, ebb, number):
        """What runs in a back-end: it gets the tables of the single router, then its router."""
        batch = []
        for side, port in enumerate(PORTS):
            batch += [f"link set e{side} mtu {MTU[port]}",
                      f"neigh replace {HOST4[port]} lladdr {HOST_MAC[port]} dev e{side} nud permanent",
                      f"neigh replace {HOST6[port]} lladdr {HOST_MAC[port]} dev e{side} nud permanent"]
        batch += [f"neigh replace {address} lladdr {HOST_MAC['a']} dev e0 nud permanent"
                  for address in MORE_HOSTS4]
        for prefix, target in ROUTES:
            kind = target.lower() if target.isupper() else ""
            batch.append(f"route add {kind} {prefix} {'' if kind else target}")
        tables = self._write(f"r{number}.batch", "\n".join(batch) + "\n")
        ready = f"{self.directory}/r{number}.ready"
        script = f"set -e\nrm -f {ready}\nsysctl -qw {' '.join(SETTINGS)}\nip -batch {tables}\n"
        router, socket = self._router(number)
        shown = f"{ebb} router show --socket {socket} >/dev/null 2>&1"
        script += f"(until {shown}; do sleep 0.1; done; touch {ready}) &\n"
        script += f"exec {ebb} router run -c {router}\n"
        return self._write(f"r{number}.sh", script)

    def _router(self, number):
        """The configuration of a back-end's router, and its socket."""
        journal, socket = f"{self.directory}/r{number}", f"{self.directory}/r{number}.sock"
        os.mkdir(journal)
        # The rows are of the workers: what goes by the kernel path is answered by the kernel in its own way.
        ports = "".join(f'[[port]]\nname = "e{side}"\npath = "worker"\n' for side in range(len(PORTS)))
        return self._write(f"r{number}.toml", (
            f'[router]\nmode = "napi"\nworkers = 1\n[status]\nsocket = "{socket}"\n'
            f'[governor]\nfrequency = false\nidle = false\njournal_directory = "{journal}"\n'
            + ports)), socket

    def _write(self, name, text):
        path = f"{self.directory}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def _run(self, name, space, *words):
        self.processes[name] = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{space}", *words], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent)

    def start(self, ebb):
        """Starts everything and waits until all back-ends forward and both balancers are in charge."""
        self.ebb = os.path.abspath(ebb)
        self._files(self.ebb)
        self._run("etcd", self.segment, "etcd", "--name", "one", "--data-dir", self.data,
                  "--listen-client-urls", STORE, "--advertise-client-urls", STORE, "--log-level", "error")
        self._await(self._store_answers, "etcd does not answer")
        for name in ("m0", "m1", "keeper"):
            self._member(name)
        self._await(self._whole, "the cluster does not come up")

    def _member(self, name):
        space = {"m0": self.fronts[0], "m1": self.fronts[1]}.get(name, self.segment)
        self._run(name, space, self.ebb, "cluster", "run", f"{self.directory}/cluster.toml",
                  "--member", name)

    def _store_answers(self):
        return command("nsenter", f"--net=/run/netns/{self.segment}", "curl", "-sf", "-m", "2",
                       "-X", "POST", "-d", '{"key":"YQ=="}', f"{STORE}/v3/kv/range", check=False)

    def member(self, name):
        """What a member says of itself and the cluster."""
        text = command(self.ebb, "cluster", "show", "--json", "--socket",
                       f"{self.directory}/{name}.sock", check=False)
        return json.loads(text) if text else None

    def _whole(self):
        for name, process in list(self.processes.items()):
            if process.poll() is not None and name != "etcd":
                self._member(name)  # As systemd does: etcd may not have answered in time.
        seen = [self.member(f"m{number}") for number in range(BALANCERS)]
        return all(
            one and one["speaker"] and one["balancer"]
            and one["balancer"]["accepted"] == [f"m{number}"]
            and all(b["power"] == "on" and not b["dead_to"] for b in one["back_ends"])
            for number, one in enumerate(seen)
        )

    def stop(self):
        """Ends the cluster, keeper first; returns 0 when all of it ended well."""
        failed = 0
        for name in ["keeper", "m1", "m0", "etcd"]:
            process = self.processes.pop(name, None)
            if process is None:
                continue
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            failed = failed or (process.returncode if name != "etcd" else 0)
        return failed

    def close(self):
        super().close()
        shutil.rmtree(self.data, ignore_errors=True)
        for space in self.fronts:
            command("ip", "netns", "del", space, check=False)
        for number in range(BACK_ENDS):
            command("ip", "netns", "del", f"{self.name}-r{number}", check=False)

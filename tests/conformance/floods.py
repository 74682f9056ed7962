"""What somebody on one link sends to hurt others, as fast as is said, and honest traffic beside it, with what becomes of it."""

import contextlib
import ctypes
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
import traceback
import urllib.request

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, IPv6, IPv6ExtHdrDestOpt,
)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

import traffic
from collector import Collector
from lab import HOST4, HOST6, HOST_MAC, ROUTER4, ROUTER6, ROUTER_MAC, command
from wire import Station, inside

# Honest packets are told by this port and the mark before their number.
PORT, MARK = 4242, b"HONEST"
METRICS = 9464
# The name of a router that is none of ours.
KERNEL = "kernel"
# The kernel's own defaults, which the other suites have switched off.
LIMITS = ["net.ipv4.icmp_ratelimit=1000", "net.ipv4.icmp_msgs_per_sec=1000", "net.ipv4.icmp_msgs_burst=50",
          "net.ipv6.icmp.ratelimit=1000"]
# Frames of each kind, sent in turn, and frames handed to the kernel at once.
EACH, BATCH = 1024, 32


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("vector", ctypes.POINTER(_Vector)),
                ("vector_length", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]


def _from(port):
    return Ether(src=HOST_MAC[port], dst=ROUTER_MAC[port])


def _address4(draw):
    return f"{draw.randrange(1, 223)}.{draw.randrange(256)}.{draw.randrange(256)}.{draw.randrange(1, 255)}"


def _udp(source, destination, ttl=64, size=18, draw=random, flags=0):
    return bytes(_from("a") / IP(src=source, dst=destination, ttl=ttl, flags=flags)
                 / UDP(sport=draw.randrange(1024, 65535), dport=9) / Raw(bytes(size)))


def expired(draw):
    """One host, whose packets end here: errors are due."""
    return _udp("198.18.1.100", "198.51.100.9", ttl=1, draw=draw)


def expired_forged(draw):
    """The same in the name of 65,536 hosts."""
    return _udp(f"198.19.{draw.randrange(256)}.{draw.randrange(256)}", "198.51.100.9", ttl=1, draw=draw)


def too_big(draw):
    """One host, whose packets are too big for the next link and must not be cut."""
    return _udp("198.18.1.101", "203.0.113.9", size=1372, draw=draw, flags="DF")


def dead_neighbours(draw):
    """Addresses behind b that nobody has."""
    return _udp("198.18.1.102", f"198.18.2.{draw.randrange(100, 250)}", draw=draw)


def dead_neighbours6(draw):
    """The same of IPv6, where they do not end."""
    return bytes(_from("a") / IPv6(src=HOST6["a"], dst=f"2001:db8:b::{draw.randrange(1 << 16):x}:{draw.randrange(1, 1 << 16):x}")
                 / UDP(sport=9, dport=9) / Raw(bytes(18)))


def dead_neighbours_vlan(draw):
    """Addresses in VLAN 7 behind b that nobody has."""
    return _udp("198.18.1.105", f"198.18.7.{draw.randrange(100, 250)}", draw=draw)


def new_flows(draw):
    """Flows of a packet each, from everywhere."""
    return _udp(_address4(draw), f"198.51.100.{draw.randrange(1, 127)}", draw=draw)


def one_flow(draw):
    """One flow."""
    return bytes(_from("a") / IP(src="198.18.1.103", dst="198.51.100.9") / UDP(sport=9, dport=9) / Raw(bytes(18)))


def options(draw):
    """What only the kernel forwards: options, which are a packet's slow way."""
    return traffic.link(b"\x08\0") + traffic.sealed(
        bytes([0x46, 0, 0, 32]) + bytes(4) + b"\x40\x11\0\0" + bytes(map(int, "198.18.1.104".split(".")))
        + bytes([198, 51, 100, draw.randrange(1, 127)]) + b"\x94\x04\0\0") + struct.pack("!HHHH", 9, 9, 8, 0)


def chains(draw):
    """ICMPv6 errors behind more extension headers than are followed, which end here."""
    layers = _from("a") / IPv6(src=HOST6["a"], dst="2001:db8:100::9", hlim=1)
    for _ in range(draw.choice([8, 9, 12, 20])):
        layers /= IPv6ExtHdrDestOpt()
    return bytes(layers / ICMPv6DestUnreach() / Raw(bytes(40)))


def damaged(draw):
    """Frames of all kinds with damaged headers."""
    number = draw.randrange(1 << 16)
    made = traffic.generated4(draw, number) if draw.random() < 0.6 else traffic.generated6(draw, number)
    return (traffic.damaged(draw, made) if draw.random() < 0.7 else made)[:1514]


def announcements(draw):
    """ARP of addresses that nobody has, or that are the router's."""
    address = draw.choice([f"198.18.1.{draw.randrange(3, 90)}", ROUTER4["a"], ROUTER4["b"]])
    mac = "02:%02x:%02x:%02x:%02x:%02x" % tuple(draw.randrange(256) for _ in range(5))
    return bytes(Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / ARP(op=draw.choice([1, 2]), hwsrc=mac, psrc=address, pdst=address))


def solicitations(draw):
    """Neighbour discovery of addresses that nobody has, or that are the router's."""
    mac = "02:%02x:%02x:%02x:%02x:%02x" % tuple(draw.randrange(256) for _ in range(5))
    target = draw.choice([ROUTER6["a"], f"2001:db8:a::{draw.randrange(3, 1 << 16):x}"])
    word = (ICMPv6ND_NS(tgt=target) if draw.random() < 0.5
            else ICMPv6ND_NA(R=0, S=0, O=1, tgt=target) / ICMPv6NDOptDstLLAddr(lladdr=mac))
    return bytes(Ether(src=mac, dst=ROUTER_MAC["a"]) / IPv6(src=f"2001:db8:a::{draw.randrange(3, 1 << 16):x}", dst=ROUTER6["a"], hlim=255) / word)


def pings(draw):
    """Echo requests to the router itself."""
    return bytes(_from("a") / IP(src=_address4(draw), dst=ROUTER4["a"]) / ICMP() / Raw(bytes(18)))


KINDS = [expired, expired_forged, too_big, dead_neighbours, dead_neighbours6, new_flows, one_flow, options, chains, damaged,
         announcements, solicitations, pings]


class Flood:
    """A process that sends frames of some kinds from host a, at a rate; a context manager."""

    def __init__(self, lab, kinds, rate, seed=1):
        draw = random.Random(seed)
        self.frames = [kind(draw) for _ in range(EACH) for kind in kinds]
        self.lab, self.rate, self.child = lab, int(rate), None

    def __enter__(self):
        reading, self.writing = os.pipe()
        self.told, telling = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(self.writing)
            os.set_blocking(reading, False)
            try:
                os.write(telling, b"%d" % self._send(reading))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(reading)
        os.close(telling)
        return self

    def __exit__(self, *_):
        os.close(self.writing)
        self.sent = int(os.read(self.told, 64) or 0)
        os.close(self.told)
        os.waitpid(self.child, 0)

    def _send(self, ends):
        """Until the other side closes `ends`; how many it sent."""
        with inside(self.lab.hosts):
            link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        link.bind(("ha", 0))
        call = ctypes.CDLL(None, use_errno=True).sendmmsg
        buffers = [ctypes.create_string_buffer(frame, len(frame)) for frame in self.frames]
        vectors = (_Vector * len(buffers))(*[_Vector(ctypes.addressof(one), len(one)) for one in buffers])
        messages = (_Message * len(buffers))()
        for number, message in enumerate(messages):
            message.vector, message.vector_length = ctypes.pointer(vectors[number]), 1
        sent = at = 0
        begun = time.monotonic()
        while True:
            due = int((time.monotonic() - begun) * self.rate) - sent
            # Who was not let run does not send all that it missed at once.
            if due > self.rate // 20 + BATCH:
                begun += (due - self.rate // 20) / self.rate
                due = self.rate // 20
            while due > 0:
                count = min(due, BATCH, len(buffers) - at)
                done = call(link.fileno(), ctypes.byref(messages, at * ctypes.sizeof(_Message)), count, 0)
                # What is refused for its form, or for want of room, is passed over.
                done = max(done, 1)
                sent, due, at = sent + done, due - done, (at + done) % len(buffers)
            try:
                if os.read(ends, 1) == b"":
                    return sent
            except BlockingIOError:
                time.sleep(0.0005)


class Honest:
    """A thread that sends numbered packets of 64 flows from one link to another, and one that takes them in."""

    def __init__(self, lab, source, rate):
        self.lab, self.rate, self.sent, self.ends = lab, rate, 0, False
        self.seen = bytearray()
        self.line = Station(lab.hosts, f"h{source}")
        self.door = Station(lab.hosts, "hb")
        _only_honest(self.door.socket)
        self.frames = [bytearray(bytes(
            Ether(src=HOST_MAC[source], dst=ROUTER_MAC[source])
            / IP(src=HOST4[source], dst="198.51.100.9") / UDP(sport=2000 + flow, dport=PORT, chksum=0) / Raw(MARK + bytes(20))))
            for flow in range(64)]
        self.at = self.frames[0].find(MARK) + len(MARK)

    def run(self, seconds):
        """The share that is lost, and how many were sent."""
        self.door.receive()
        first, begun = self.sent, time.monotonic()
        while (now := time.monotonic() - begun) < seconds:
            while self.sent - first < now * self.rate:
                frame = self.frames[self.sent % 64]
                struct.pack_into("!I", frame, self.at, self.sent)
                self.line.send(frame)
                self.sent += 1
            self._take()
            time.sleep(0.001)
        until = time.monotonic() + 1
        while time.monotonic() < until and not all(self.seen[first:self.sent]):
            self._take()
            time.sleep(0.01)
        self._take()
        count = self.sent - first
        return count - sum(self.seen[first:self.sent]), count

    def _take(self):
        self.seen.extend(bytes(max(0, self.sent - len(self.seen))))
        for frame in self.door.receive():
            at = frame.find(MARK)
            if at >= 0:
                number, = struct.unpack_from("!I", frame, at + len(MARK))
                if number < len(self.seen):
                    self.seen[number] = 1

    def close(self):
        self.line.close()
        self.door.close()


def _only_honest(link):
    """The kernel hands on only UDP to that port: the rest costs this process nothing."""
    program = [(0x28, 0, 0, 12), (0x15, 0, 3, 0x800), (0x28, 0, 0, 36), (0x15, 0, 1, PORT), (6, 0, 0, 0xffff), (6, 0, 0, 0)]
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    link.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer)))


def furnish(lab, ebb):
    """Starts the router with metrics; the kernel alone where that is its name."""
    with inside(lab.router):
        subprocess.run(["sysctl", "-qw", *LIMITS], check=True, timeout=10)
    if ebb == KERNEL:
        return
    lab.start(ebb, router="workers = 1" if os.environ["EBB_PATH"] == "worker" else "",
              sections=f'[metrics]\nlisten = "127.0.0.1:{METRICS}"')


def came(lab):
    """Packets that have come to host b."""
    text = subprocess.run(["ip", "-n", lab.hosts, "-j", "-s", "link", "show", "hb"], capture_output=True, text=True, check=True, timeout=10)
    return json.loads(text.stdout)[0]["stats64"]["rx"]["packets"]


class Idle:
    """A process that opens connections to the metrics all the time, and says nothing; a context manager."""

    def __init__(self, lab):
        self.lab, self.child = lab, None

    def __enter__(self):
        self.child = os.fork()
        if self.child == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                with inside(self.lab.router):
                    self._open()
            finally:
                os._exit(0)
        return self

    def _open(self):
        links = []
        while True:
            link = socket.socket()
            link.settimeout(0.2)
            try:
                link.bind(("127.0.0.9", 0))
                link.connect(("127.0.0.1", METRICS))
                links.append(link)
            except OSError:
                link.close()
            del links[:max(0, len(links) - 300)]
            time.sleep(0.02)

    def __exit__(self, *_):
        os.kill(self.child, signal.SIGTERM)
        os.waitpid(self.child, 0)


def metrics(lab):
    """Seconds until the metrics were read."""
    begun = time.monotonic()
    with inside(lab.router):
        with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=15) as answer:
            answer.read()
    return time.monotonic() - begun


def status(lab):
    """Seconds until the router has told of itself."""
    begun = time.monotonic()
    lab.status()
    return time.monotonic() - begun


class Askers:
    """Hosts that ask for errors: raw frames out of one link, answers told apart by their words."""

    def __init__(self, lab, port):
        self.port, self.line = port, Station(lab.hosts, f"h{port}")
        # ICMP alone.
        program = [(0x28, 0, 0, 12), (0x15, 0, 3, 0x800), (0x30, 0, 0, 23), (0x15, 0, 1, 1), (6, 0, 0, 0xffff), (6, 0, 0, 0)]
        code = b"".join(struct.pack("HBBI", *one) for one in program)
        self.code = ctypes.create_string_buffer(code, len(code))
        self.line.socket.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(self.code)))

    def ask(self, frames, kind, pause=0.05):
        """How many of the frames, each from a source of its own, are answered by an error of this type."""
        self.line.receive()
        own, answered = {frame[26:30] for frame in frames}, set()

        def take():
            for frame in self.line.receive():
                if len(frame) > 34 and frame[34] == kind and frame[30:34] in own:
                    answered.add(frame[30:34])

        for frame in frames:
            self.line.send(frame)
            time.sleep(pause)
            take()
        until = time.monotonic() + 0.5
        while time.monotonic() < until and len(answered) < len(frames):
            time.sleep(0.01)
            take()
        return len(answered)

    def close(self):
        self.line.close()


def _asks(port, sources, destination, ttl, size, flags):
    return [bytes(_from(port) / IP(src=source, dst=destination, ttl=ttl, flags=flags) / UDP(sport=9, dport=9) / Raw(bytes(size)))
            for source in sources]


def asks_expired(first=1, count=20):
    """Packets of as many hosts behind c that end here."""
    return _asks("c", [f"203.0.113.{first + number}" for number in range(count)], "198.51.100.9", 1, 18, 0)


def asks_big(first=1, count=20):
    """Packets of as many hosts behind b that are too big for c's link."""
    return _asks("b", [f"198.51.100.{first + number}" for number in range(count)], "203.0.113.9", 64, 1372, "DF")


class Asked:
    """Asks for metrics, status and smaller packets now and then, in a thread; a context manager."""

    def __init__(self, lab, every):
        self.lab, self.every, self.ends = lab, every, threading.Event()
        self.waits = {"metrics": [], "status": []}
        self.asked = self.answered = 0
        self.thread = threading.Thread(target=self._run)
        self.askers = Askers(lab, "b")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        self.askers.close()

    def _run(self):
        while not self.ends.wait(self.every):
            for name, ask in [("metrics", metrics), ("status", status)]:
                try:
                    self.waits[name].append(ask(self.lab))
                except (OSError, RuntimeError, subprocess.TimeoutExpired):
                    self.waits[name].append(None)
            frames = asks_big(count=5)
            self.asked += len(frames)
            self.answered += self.askers.ask(frames, 3, 0.02)

    def found(self):
        """What came of it: longest waits, and questions without an answer."""
        found = {"big_asked": self.asked, "big_answered": self.answered}
        for name, waits in self.waits.items():
            told = [one for one in waits if one is not None]
            found |= {f"{name}_asked": len(waits), f"{name}_unanswered": len(waits) - len(told),
                      f"{name}_most_s": round(max(told, default=0), 3)}
        return found

    def holds(self):
        """Whether all were answered; of small questions nine of ten."""
        return all(None not in waits for waits in self.waits.values()) and self.answered >= 0.9 * self.asked


# Where hosts are: the third number of their addresses, whose link it is, and the VLAN.
PLACES = {"b": (2, "b", None), "c": (3, "c", None), "b.8": (8, "b", 8)}


def tag(lab):
    """VLANs 7 and 8 between the router and the hosts behind b; whether this kernel has such."""
    try:
        for number in (7, 8):
            for space, link in ((lab.router, "pb"), (lab.hosts, "hb")):
                command("ip", "-n", space, "link", "add", "link", link, "name", f"{link}.{number}", "type", "vlan", "id", str(number))
                command("ip", "-n", space, "link", "set", f"{link}.{number}", "up")
            command("ip", "-n", lab.router, "address", "add", f"198.18.{number}.1/24", "dev", f"pb.{number}")
    except RuntimeError:
        return False
    return True


class Hosts:
    """Hosts behind b and c, and in a VLAN behind b if there is one, that answer ARP, each asked for once: addresses from 60 on."""

    def __init__(self, lab, tagged=False):
        self.lab, self.next = lab, 60
        self.lines = {place: Station(lab.hosts, f"h{place}") for place in PLACES if tagged or PLACES[place][2] is None}
        program = [(0x28, 0, 0, 12), (0x15, 1, 0, 0x806), (0x15, 0, 1, 0x800), (6, 0, 0, 0xffff), (6, 0, 0, 0)]
        code = b"".join(struct.pack("HBBI", *one) for one in program)
        self.code = ctypes.create_string_buffer(code, len(code))
        for line in self.lines.values():
            line.socket.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(self.code)))

    def wait(self, place, patience=5.0):
        """Seconds until the first of a packet each 50 ms has come to a host that was not known; none if that takes too long."""
        self.next += 1
        network, port, _ = PLACES[place]
        address = f"198.18.{network}.{self.next}"
        packed, source = socket.inet_aton(address), "c" if port == "b" else "b"
        frame = bytes(_from(source) / IP(src=HOST4[source], dst=address) / UDP(sport=9, dport=9) / Raw(MARK))
        line, begun, sent = self.lines[place], time.monotonic(), 0
        line.receive()
        while (passed := time.monotonic() - begun) < patience:
            if passed >= sent * 0.05:
                self.lines[source].send(frame)
                sent += 1
            for seen in line.receive():
                if seen[12:14] == b"\x08\x06" and seen[38:42] == packed and seen[20:22] == b"\0\1":
                    reply = ARP(op=2, hwsrc=HOST_MAC[port], psrc=address, hwdst=ROUTER_MAC[port], pdst=socket.inet_ntoa(seen[28:32]))
                    line.send(bytes(Ether(src=HOST_MAC[port], dst=ROUTER_MAC[port]) / reply))
                elif seen[30:34] == packed and MARK in seen:
                    return time.monotonic() - begun
            time.sleep(0.001)
        return None


def exported(lab, ebb, flood):
    """Packets of others beside a flood that stand in the records of flows, of those that were sent; each flood packet a flow of its own,
    far more flows than are kept."""
    file = f"{lab.directory}/flows"
    lab.start(ebb, router='apps = ["ipfix"]\nworkers = 1', sections=f'[ipfix]\nfile = "{file}"\nflows = 4096')
    honest = Honest(lab, "c", 500)
    with flood or contextlib.nullcontext():
        time.sleep(0.5)
        lost, sent = honest.run(3)
    honest.close()
    lab.stop()
    collector = Collector()
    with open(file, "rb") as records:
        collector.stream(records.read())
    found = sum(record["packets"] for record in collector.flows if (record["source"], record["destination_port"]) == (HOST4["c"], PORT))
    return found + lost, sent

"""Raw frames in and out of the hosts' ends of the links."""

import contextlib
import ctypes
import select
import socket
import struct
import threading
import time

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER = 64 << 20
# Frames sent before the answers are read, so that no queue on the way overflows.
BURST = 32

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(namespace):
    """The calling thread in a network namespace, for as long as it lasts."""
    with open(f"/proc/self/task/{threading.get_native_id()}/ns/net", "rb") as here, open(
        f"/run/netns/{namespace}", "rb"
    ) as there:
        _set_namespace(there)
        try:
            yield
        finally:
            _set_namespace(here)


def _set_namespace(file):
    if _libc.setns(file.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Station:
    """One end of a link, by its interface in a network namespace."""

    def __init__(self, namespace, interface):
        self.name = f"{interface} in {namespace}"
        with inside(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind((interface, ETH_P_ALL))
        self.socket.setblocking(False)

    def send(self, frame):
        """Sends one frame; waits while the interface has no room. False when it is refused."""
        for _ in range(1000):
            try:
                self.socket.send(frame)
                return True
            except BlockingIOError:
                select.select([], [self.socket], [], 0.1)
            except OSError as error:
                if error.errno != 105:  # ENOBUFS
                    return False
                time.sleep(0.001)
        raise RuntimeError(f"{self.name} takes no frame of {len(frame)} bytes: {frame.hex()}")

    def receive(self):
        """All frames that are there, with the tag that the kernel keeps beside them put back."""
        frames = []
        while True:
            try:
                frame, ancillary, _, _ = self.socket.recvmsg(65536, 256)
            except BlockingIOError:
                return frames
            for level, kind, data in ancillary:
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, _, _, _, _, tag, tpid = struct.unpack("IIIHHHH", data[:20])
                    if status & TP_STATUS_VLAN_VALID:
                        tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                        frame = frame[:12] + struct.pack("!HH", tpid, tag) + frame[12:]
            frames.append(frame)

    def close(self):
        self.socket.close()


def collect(stations, quiet, limit, react=None):
    """Yields (port, frame) until nothing has come for `quiet` seconds, at most `limit` in all."""
    by_number = {station.socket.fileno(): port for port, station in stations.items()}
    last = begun = time.monotonic()
    while (now := time.monotonic()) < min(last + quiet, begun + limit):
        timeout = min(last + quiet, begun + limit) - now
        for number in select.select(list(by_number), [], [], max(timeout, 0))[0]:
            port = by_number[number]
            for frame in stations[port].receive():
                last = time.monotonic()
                if react:
                    react(port, frame)
                yield port, frame


def exchange(stations, sends, quiet=0.5, limit=10.0, react=None):
    """Sends (port, frame) pairs and returns the (port, frame) pairs that come back."""
    seen = []
    for start in range(0, len(sends), BURST):
        for port, frame in sends[start:start + BURST]:
            stations[port].send(frame)
        seen += collect(stations, 0.004, 0.2, react)
    seen += collect(stations, quiet, limit, react)
    return seen

"""Numbered UDP packets of many flows, a few every 5 ms, from one network namespace to another: what is lost, and for how long a
flow stands still."""

import ctypes
import os
import socket
import struct
import threading
import time

FLOWS, EVERY_S, PORT = 32, 0.005, 7001
CLONE_NEWNET = 0x40000000
# Linux include/uapi/asm-generic/socket.h: when the kernel had the packet.
SO_TIMESTAMPNS = 35
libc = ctypes.CDLL(None, use_errno=True)


def opened_in(space, address, port):
    """A UDP socket of a namespace."""
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{space}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), space)
        try:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.bind((address, port))
        finally:
            libc.setns(own.fileno(), CLONE_NEWNET)
    return opened


class Trickle:
    """Sends until it is ended."""

    def __init__(self, sender, source, receiver, destination):
        self.to = (destination, PORT)
        self.senders = [opened_in(sender, source, 20000 + 37 * flow) for flow in range(FLOWS)]
        self.receiver = opened_in(receiver, destination, PORT)
        self.receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.receiver.settimeout(0.05)
        self.quiet = self.over = False
        self.sent = 0
        # By flow: when its last packet came; by flow and number: which came.
        self.last, self.longest, self.came = {}, {}, set()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]
        for thread in self.threads:
            thread.start()

    def _send(self):
        number, due = 0, time.monotonic()
        while not self.quiet:
            for flow, sender in enumerate(self.senders):
                try:
                    sender.sendto(struct.pack("!II", flow, number), self.to)
                    self.sent += 1
                except OSError:
                    pass  # The host's own queue is full, or it has no neighbour: nothing was sent.
            number += 1
            due = max(due + EVERY_S, time.monotonic() - EVERY_S)
            time.sleep(max(0.0, due - time.monotonic()))

    def _receive(self):
        while not self.over:
            try:
                data, extras, _, _ = self.receiver.recvmsg(64, 128)
            except TimeoutError:
                continue
            flow = struct.unpack("!I", data[:4])[0]
            at = next(struct.unpack("=qq", told) for _, kind, told in extras if kind == SO_TIMESTAMPNS)
            at = at[0] + at[1] * 1e-9
            if flow in self.last:
                self.longest[flow] = max(self.longest.get(flow, 0.0), at - self.last[flow])
            self.last[flow] = at
            self.came.add(data)

    def begin(self):
        """Forgets how long flows stood still."""
        self.longest = {}

    def longest_ms(self):
        """The longest that a flow has stood still since then; one that still does counts."""
        now = time.time()
        still = [now - at for at in self.last.values()]
        return 1e3 * max([*self.longest.values(), *still], default=0.0)

    def flowing(self):
        """Whether packets of all flows have come lately."""
        now = time.time()
        return len(self.last) == FLOWS and all(now - at < 0.2 for at in self.last.values())

    def end(self):
        """Ends it; returns how many were sent and how many of them were lost."""
        self.quiet = True
        self.threads[0].join()
        time.sleep(0.3)
        self.over = True
        self.threads[1].join()
        for opened in [*self.senders, self.receiver]:
            opened.close()
        return self.sent, self.sent - len(self.came)

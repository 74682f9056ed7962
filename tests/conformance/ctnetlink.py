"""The kernel's table of connections as `conntrack -D` and `conntrack -U --mark` change it: linux/netfilter/nfnetlink_conntrack.h."""

import contextlib
import socket
import struct

from wire import inside

NETLINK_NETFILTER = 12
NEW, GET, DELETE = 0x100, 0x101, 0x102
REQUEST, ACK, DUMP = 1, 4, 0x300
ERROR, DONE = 2, 3
CTA_TUPLE_ORIG, CTA_MARK = 1, 8
NESTED = 0x8000


def _ask(sock, kind, flags, family=0, attributes=b""):
    """One request; the bodies of its answer."""
    body = struct.pack("BBH", family, 0, 0) + attributes
    sock.send(struct.pack("IHHII", 16 + len(body), kind, REQUEST | flags, 1, 0) + body)
    found = []
    while True:
        data = sock.recv(1 << 18)
        while len(data) >= 16:
            length, got = struct.unpack("IH", data[:6])
            if got == DONE:
                return found
            if got == ERROR:
                error = struct.unpack("i", data[16:20])[0]
                if error:
                    raise OSError(-error, "the table of connections")
                return found
            found.append(data[16:length])
            data = data[(length + 3) & ~3:]


def _socket(namespace):
    with inside(namespace):
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    sock.settimeout(10)
    return sock


def delete_all(namespace):
    """Forgets all connections."""
    with _socket(namespace) as sock:
        _ask(sock, DELETE, ACK)


def clear_marks(namespace):
    """Takes the marks off all connections."""
    with _socket(namespace) as sock:
        for body in _ask(sock, GET, DUMP):
            at = 4
            while at + 4 <= len(body):
                length, kind = struct.unpack("HH", body[at:at + 4])
                if kind & ~NESTED == CTA_TUPLE_ORIG:
                    whole = body[at:at + ((length + 3) & ~3)]
                    none = struct.pack("=HH", 8, CTA_MARK) + b"\0\0\0\0"
                    # One that has run out meanwhile has no mark.
                    with contextlib.suppress(FileNotFoundError):
                        _ask(sock, NEW, ACK, body[0], whole + none)
                at += (length + 3) & ~3

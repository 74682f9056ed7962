"""What may differ between the kernel's forwarding and the router's, each with its reason."""

import collections
import ipaddress

from lab import HOST4, HOST6, PORTS, ROUTER4, ROUTER6

OWN = {ipaddress.ip_address(text).packed for table in (ROUTER4, ROUTER6) for text in table.values()}
OWN_SUBNETS = [ipaddress.ip_network(f"{text}/24", strict=False) for text in ROUTER4.values()]
OWN_BROADCASTS = {net.broadcast_address.packed for net in OWN_SUBNETS} | {
    net.network_address.packed for net in OWN_SUBNETS
}

# Two ways lead there.
SPLIT = [ipaddress.ip_network(text) for text in ("198.19.0.0/16", "2001:db8:300::/48")]

HOSTS = {ipaddress.ip_address(text).packed for table in (HOST4, HOST6) for text in table.values()}
CONNECTED = [ipaddress.ip_network(f"198.18.{number}.0/24") for number in (1, 2, 3)] + [
    ipaddress.ip_network(f"2001:db8:{port}::/64") for port in PORTS
]

# Why a packet's fate may differ, and the packets for which that holds: the choices in
# crates/apps/src/route/README.md, and what Linux does in a way of its own.
REASONS = [
    ("destination of class E: dropped; Linux forwards it",
     lambda packet: _v4(packet) and packet[16] >= 240),
    ("address on network 0: dropped (RFC 1812 section 5.3.7); Linux takes all but 0.0.0.0 as unicast",
     lambda packet: _v4(packet) and 0 in (packet[12], packet[16])),
    ("destination ::, dropped; Linux says that there is no route",
     lambda packet: _v6(packet) and not any(packet[24:40])),
    ("larger than one of two ways: each hashes flows in its own manner",
     lambda packet: _is_split(packet) and len(packet) > 1300),
    ("IPv4-mapped source: dropped; Linux forwards it",
     lambda packet: _v6(packet) and packet[8:20] == bytes(10) + b"\xff\xff"),
    ("ICMPv6 error that leaves by another link than the packet came: from the address of the link "
     "it leaves by; Linux takes that of the other",
     lambda packet: _v6(packet) and packet[8:14] == b"\x20\x01\x0d\xb8\x02\x00"),
    ("source that is an own or a broadcast address: forwarded; Linux drops it",
     lambda packet: _v4(packet) and (packet[12:16] in OWN or packet[12:16] in OWN_BROADCASTS)),
    ("source ::, dropped (RFC 4291 section 2.5.2); Linux sends it back to the link it came by",
     lambda packet: _v6(packet) and not any(packet[8:24])),
    ("error about an extended echo (RFC 8335): sent; Linux sends none",
     lambda packet: _v4(packet) and packet[9] == 1 and packet[(packet[0] & 15) * 4:][:1] in b"*+"),
    ("silent neighbour: the error quotes the packet as it came; Linux, with its TTL lowered",
     lambda packet: _is_silent(packet)),
]


def _v4(packet):
    return len(packet) >= 20 and packet[0] >> 4 == 4


def _v6(packet):
    return len(packet) >= 40 and packet[0] >> 4 == 6


def _is_split(packet):
    if _v4(packet):
        return ipaddress.ip_address(packet[16:20]) in SPLIT[0]
    return _v6(packet) and ipaddress.ip_address(packet[24:40]) in SPLIT[1]


def _is_silent(packet):
    destination = packet[16:20] if _v4(packet) else packet[24:40] if _v6(packet) else b""
    if not destination or destination in OWN or destination in HOSTS:
        return False
    return any(ipaddress.ip_address(destination) in network for network in CONNECTED)


def normalised(seen):
    """Counts what came out, without the routers' own affairs, and with those bytes made equal in
    which two runs of one router differ: the identification of packets that a router makes itself,
    the times it writes, and the choice between two ways."""
    counts = collections.Counter()
    for port, frame in seen:
        if not _own_affair(frame):
            frame = _comparable(frame)
            if _is_split(frame[14:]):
                port, frame = "b or c", bytes(12) + frame[12:]
            counts[port, frame] += 1
    return counts


def _own_affair(frame):
    """ARP, neighbour and multicast listener discovery with its redirects, IGMP."""
    if frame[12:14] == b"\x08\0":
        return frame[23] == 2
    if frame[12:14] != b"\x86\xdd":
        return True
    packet = frame[14:]
    following, at = packet[6], 40
    if following == 0 and len(packet) > 48:
        following, at = packet[40], 48 + packet[41] * 8
    kind = packet[at] if following == 58 and len(packet) > at else 0
    return kind in (130, 131, 132, 143) or 133 <= kind <= 137


def _comparable(frame):
    if frame[12:14] == b"\x08\0" and _made_here(frame[14:]):
        start = 14 + (frame[14] & 15) * 4
        body = frame[34:]
        if frame[23] == 1 and frame[start:start + 1] == b"\x0e":
            body = frame[34:start + 2] + b"\0\0" + frame[start + 4:start + 12]  # without times
        return frame[:18] + b"\0\0" + frame[20:24] + b"\0\0" + frame[26:34] + body
    return frame


def _made_here(packet):
    """Whether a router made the packet: from its address, before any hop."""
    return packet[12:16] in OWN and packet[8] == 64


def number_of(frame):
    """The number of the frame that this one comes from, or None: the identification or the flow
    label, in errors that of the packet they quote."""
    packet = frame[14:]
    if len(packet) >= 20 and packet[0] >> 4 == 4:
        start = (packet[0] & 15) * 4
        inner = packet[start + 8:]
        if not _made_here(packet):
            return int.from_bytes(packet[4:6], "big")
        if packet[9] == 1 and packet[start] in (3, 5, 11, 12) and len(inner) >= 6:
            return int.from_bytes(inner[4:6], "big")
        return None
    if len(packet) >= 40 and packet[0] >> 4 == 6:
        inner = packet[48:]
        if packet[6] == 58 and packet[8:24] in OWN and packet[40] < 128:
            return int.from_bytes(inner[1:4], "big") & 0xfffff if len(inner) >= 4 else None
        return None if packet[8:24] in OWN else int.from_bytes(packet[1:4], "big") & 0xfffff
    return None


def compare(frames, kernel, own):
    """The numbers of frames that differ as listed, by reason, and the other differences as pairs of
    a number (None where it is not known) and words."""
    explained, rest = collections.defaultdict(set), []
    for whose, only in (("kernel", kernel - own), ("router", own - kernel)):
        for (port, frame), count in sorted(only.items()):
            number = number_of(frame)
            if number is not None and number >= len(frames):
                number = None
            packet = frames[number][14:] if number is not None else b""
            reason = next((text for text, fits in REASONS if fits(packet)), None)
            if reason:
                explained[reason].add(number)
            else:
                rest.append((number, f"only from the {whose} at {port}: {count} x {frame.hex()}"))
    return explained, rest

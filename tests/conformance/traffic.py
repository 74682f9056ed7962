"""Frames to send: packets of captures, generated ones, and damaged ones. All by a seed."""

import glob
import os
import random
import socket

from scapy.utils import RawPcapNgReader, RawPcapReader

from expect import checksum
from lab import HOST4, HOST6, HOST_MAC, MORE_HOSTS4, ROUTER4, ROUTER6, ROUTER_MAC

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../shared/data/pcap")
ETHERNET, RAW = 1, (12, 14, 101, 228, 229)
PACKET_LEN_MAX = 1500

DESTINATIONS4 = [
    "198.51.100.9", "198.51.100.201", "203.0.113.9", "198.19.3.4", "8.8.8.8", "192.0.2.9",
    "192.0.2.70", "192.0.2.130", ROUTER4["a"], ROUTER4["b"], HOST4["a"], HOST4["c"], "224.0.0.1",
    "239.1.2.3", "255.255.255.255", "198.18.2.255", "127.0.0.1", "0.0.0.0", "0.1.2.3", "240.0.0.1",
]
# Many hosts, because Linux sends each of them only five errors about rejecting routes at once.
SOURCES4 = [
    *MORE_HOSTS4, HOST4["a"], "9.9.9.9", "203.0.113.50", "0.0.0.0",
    "127.0.0.1", "224.0.0.5", "255.255.255.255", "240.0.0.1", ROUTER4["a"], "198.18.1.255",
]
DESTINATIONS6 = [
    "2001:db8:100::9", "2001:db8:100:80::9", "2001:db8:200::9", "2001:db8:300::9", "2001:db9::1",
    "2001:db8:666::9", "2001:db8:666:1::9", "2001:db8:666:2::9", ROUTER6["a"], ROUTER6["b"],
    HOST6["a"], HOST6["c"], "ff02::1234", "ff0e::1", "::", "::1", "fec0::1", "fe80::99",
]
SOURCES6 = [
    HOST6["a"], HOST6["a"], HOST6["a"], "2001:db9::9", "2001:db8:200::50", "::", "::1",
    "ff02::1", "::ffff:192.0.2.1", "fec0::9",
]
OPTIONS4 = [b"", b"", b"", b"", b"\1\1\1\0", b"\x1e\x04\xab\xcd", b"\x07\x07\x04\0\0\0\0\0",
            b"\x07\x02\x04\0", b"\x83\x07\x04\xc6\x33\x64\x09\0", b"\x94\x04\0\0"]
HEADERS6 = [None, None, None, None, (0, b"\x1e\x04abcd"), (0, b"\x5e\x04abcd"),
            (0, b"\x9e\x04abcd"), (60, b"\xde\x04abcd"), (44, None), (43, b"\x00\x00\0\0\0\0")]


def _bytes4(text):
    return bytes(map(int, text.split(".")))


def _bytes6(text):
    return socket.inet_pton(socket.AF_INET6, text)


def link(kind):
    """A link header from host a to the router."""
    return bytes.fromhex((ROUTER_MAC["a"] + HOST_MAC["a"]).replace(":", "")) + kind


def sealed(header):
    """An IPv4 header with the right checksum."""
    header = bytearray(header)
    header[10:12] = b"\0\0"
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return bytes(header)


def chosen(random, choices, plain):
    """One of the first `plain`, which lead on, most of the time."""
    return random.choice(choices[:plain] if random.random() < 0.7 else choices)


def generated4(random, number):
    """One IPv4 frame whose identification is its number."""
    options = random.choice(OPTIONS4)
    options += b"\0" * (-len(options) % 4)
    size = random.choice([0, 8, 26, 64, 200, 548, 1200, 1272, 1273, 1400, 1480 - len(options)])
    protocol = random.choice([17, 17, 6, 1, 50, 253])
    fragment = random.choice([0, 0, 0, 0x4000, 0x4000, 0x2000, 0x0005, 0x2005, 0x8000])
    payload = random.randbytes(size)
    if protocol == 1 and size >= 8:
        kind = random.choice([0, 3, 8, 8, 11, 5, 42])
        payload = bytes([kind, 0, 0, 0]) + payload[4:]
        payload = payload[:2] + checksum(payload).to_bytes(2, "big") + payload[4:]
    if protocol == 17 and size >= 8:
        payload = payload[:4] + size.to_bytes(2, "big") + b"\0\0" + payload[8:]
    header = bytes([0x45 + len(options) // 4, random.choice([0, 0, 0x10, 0xe0, 0xff])])
    header += (20 + len(options) + size).to_bytes(2, "big") + number.to_bytes(2, "big")
    header += fragment.to_bytes(2, "big") + bytes([random.choice([64, 64, 64, 64, 255, 2, 1, 0]), protocol])
    header += b"\0\0" + _bytes4(chosen(random, SOURCES4, len(MORE_HOSTS4))) + _bytes4(chosen(random, DESTINATIONS4, 4))
    padding = random.randbytes(random.choice([0, 0, 0, 6]))
    return link(b"\x08\0") + sealed(header + options) + payload + padding


def generated6(random, number):
    """One IPv6 frame whose flow label is its number."""
    before = random.choice(HEADERS6)
    size = random.choice([0, 8, 26, 64, 200, 1180, 1232, 1252, 1253, 1400])
    following = random.choice([17, 6, 58, 59, 253])
    payload = random.randbytes(size)
    if following == 58 and size >= 8:
        payload = bytes([random.choice([1, 2, 3, 100, 128, 129, 200]), 0]) + payload[2:]
    if before:
        kind, content = before
        extension = random.randbytes(2) if content is None else b""
        extension = bytes([following, 0]) + (content or b"\0\1" + b"\0\0" + extension)
        following, payload = kind, extension + payload
    word = 6 << 28 | random.choice([0, 0, 0xb9]) << 20 | number
    header = word.to_bytes(4, "big") + len(payload).to_bytes(2, "big")
    header += bytes([following, random.choice([64, 64, 64, 64, 255, 2, 1, 0])])
    header += _bytes6(chosen(random, SOURCES6, 3)) + _bytes6(chosen(random, DESTINATIONS6, 4))
    padding = random.randbytes(random.choice([0, 0, 0, 6]))
    return link(b"\x86\xdd") + header + payload + padding


def damaged(random, frame):
    """A frame with some bytes of its headers changed, cut off or added, but for its number; in half
    of those with an IPv4 header of 20 bytes the checksum is made right again."""
    frame = bytearray(frame)
    kept = (18, 19) if frame[12] == 8 else (15, 16, 17)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        at = random.randrange(12, min(len(frame), 62))
        if at in kept:
            continue
        frame[at] = random.choice([random.randrange(256), frame[at] ^ 1 << random.randrange(8)])
    if frame[12:15] == b"\x08\0\x45" and len(frame) >= 34 and random.random() < 0.5:
        frame[14:34] = sealed(frame[14:34])
    how = random.randrange(6)
    if how == 0:
        del frame[random.randrange(14, len(frame)):]
    elif how == 1:
        frame += random.randbytes(random.randrange(20))
    return bytes(frame)


def captures():
    """The paths of all captures, in order; none where there are no test data."""
    return sorted(glob.glob(f"{DATA}/*"))


def frames_of(path):
    """A capture's link type and its frames, as far as it can be read."""
    kind, frames = None, []
    try:
        with open(path, "rb") as file:
            is_ng = file.read(4) == b"\x0a\x0d\x0d\x0a"
        reader = (RawPcapNgReader if is_ng else RawPcapReader)(path)
        for data, about in reader:
            kind = about.linktype if is_ng else reader.linktype
            frames.append(bytes(data))
    except Exception:  # scapy raises many kinds on malformed captures
        pass
    return kind, frames


def packets_of(path):
    """The IP packets in a capture: (EtherType, packet)."""
    kind, frames = frames_of(path)
    packets = []
    for frame in frames:
        if kind == ETHERNET and frame[12:14] in (b"\x08\0", b"\x86\xdd"):
            packets.append((frame[12:14], frame[14:]))
        elif kind in RAW and frame:
            packets.append((b"\x08\0" if frame[0] >> 4 == 4 else b"\x86\xdd", frame))
    return [(kind, packet) for kind, packet in packets if len(packet) <= PACKET_LEN_MAX]


def patch(packet, at, value):
    """An IPv4 packet with even-placed bytes replaced and its checksum moved along (RFC 1624), so
    that a wrong one stays wrong."""
    old = packet[at:at + len(value)]
    if len(packet) < 20:
        return packet
    total = ~int.from_bytes(packet[10:12], "big") & 0xffff
    for place in range(0, len(value), 2):
        total += (~int.from_bytes(old[place:place + 2], "big") & 0xffff)
        total += int.from_bytes(value[place:place + 2], "big")
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    packet = packet[:at] + value + packet[at + len(value):]
    return packet[:10] + (~total & 0xffff).to_bytes(2, "big") + packet[12:]


def numbered(kind, packet, number):
    """The packet with its identification or flow label set to its number."""
    if kind == b"\x08\0":
        return patch(packet, 4, number.to_bytes(2, "big"))
    word = int.from_bytes(packet[:4], "big") & 0xfff00000 | number
    return word.to_bytes(4, "big") + packet[4:] if len(packet) >= 4 else packet


def readdressed(random, kind, packet):
    """The packet from host a to one of the laboratory's destinations."""
    if kind == b"\x08\0":
        packet = patch(packet, 12, _bytes4(random.choice(MORE_HOSTS4)))
        return patch(packet, 16, _bytes4(random.choice(DESTINATIONS4[:10])))
    if len(packet) < 40:
        return packet
    destination = _bytes6(random.choice(DESTINATIONS6[:10]))
    return packet[:8] + _bytes6(HOST6["a"]) + destination + packet[40:]


def mixed(seed, count_generated, count_damaged, captured=True):
    """Numbered frames of all kinds, as a list in which a frame's place is its number."""
    source = random.Random(seed)
    frames = []
    for _ in range(count_generated):
        make = source.choice([generated4, generated6])
        frames.append(make(source, len(frames)))
    plain = list(frames)
    for _ in range(count_damaged):
        frames.append(damaged(source, renumbered(source.choice(plain), len(frames))))
    for path in captures() if captured else []:
        for kind, packet in packets_of(path)[:12]:
            frames.append(link(kind) + numbered(kind, packet, len(frames)))
            moved = readdressed(source, kind, packet)
            frames.append(link(kind) + numbered(kind, moved, len(frames)))
    assert len(frames) < 1 << 16, "an identification has 16 bits"
    return frames


def renumbered(frame, number):
    return frame[:14] + numbered(frame[12:14], frame[14:], number)

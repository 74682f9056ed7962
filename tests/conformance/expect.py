"""What a row expects of the router, and how what came is put into words."""

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from lab import HOST4, HOST6, HOST_MAC, ROUTER4, ROUTER6, ROUTER_MAC

# Longest errors: RFC 1812 section 4.3.2.3 and RFC 4443 section 2.4(c).
ERROR_MAX = {4: 576, 6: 1280}


def checksum(data):
    """The Internet checksum, RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(int.from_bytes(data[at:at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def packet_of(frame):
    """The IP packet in a frame, without padding."""
    start = 14
    while frame[start - 2:start] in (b"\x81\x00", b"\x88\xa8"):
        start += 4
    packet = frame[start:]
    if packet[0] >> 4 == 4:
        return packet[:int.from_bytes(packet[2:4], "big")]
    return packet[:40 + int.from_bytes(packet[4:6], "big")]


def forwarded(frame, to, vlan=None):
    """What a frame must look like after one hop to the host behind port `to`, byte for byte."""
    packet = bytearray(packet_of(frame))
    if packet[0] >> 4 == 4:
        packet[8] -= 1
        packet[10:12] = b"\0\0"
        packet[10:12] = checksum(bytes(packet[:(packet[0] & 15) * 4])).to_bytes(2, "big")
        kind = b"\x08\x00"
    else:
        packet[7] -= 1
        kind = b"\x86\xdd"
    macs = HOST_MAC[to] + ":" + ROUTER_MAC[to]
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return bytes.fromhex(macs.replace(":", "")) + tag + kind + bytes(packet)


def describe(port, frame):
    """A few words about a frame."""
    ether = Ether(frame)
    ip = ether.getlayer(IP) or ether.getlayer(IPv6)
    tag = f" vlan {ether[Dot1Q].vlan}" if Dot1Q in ether else ""
    if ip is None:
        return f"{port}{tag}: type {ether.type:#06x}"
    body = bytes(ip.payload)
    if ip.version == 4:
        kind, ttl = ip.proto, f"TTL {ip.ttl}"
        first = ip.frag == 0
        if ip.flags.MF or ip.frag:
            ttl += f" fragment at {ip.frag * 8}"
    else:
        kind, ttl, first = ip.nh, f"hop limit {ip.hlim}", True
    if kind in (1, 58) and first and len(body) >= 8:
        if kind == 1 and body[0] in (3, 11, 12) or kind == 58 and body[0] < 128:
            words = f"ICMP {body[0]}/{body[1]}"
            if (kind, body[0], body[1]) == (1, 3, 4) or (kind, body[0]) == (58, 2):
                words += f" MTU {int.from_bytes(body[4:8], 'big')}"
            return f"{port}{tag}: {words} from {ip.src}, quotes {len(body) - 8}"
        return f"{port}{tag}: ICMP {body[0]}/{body[1]} {ttl}"
    return f"{port}{tag}: {len(bytes(ip))} bytes {ttl}"


def describe_all(seen):
    """Words about all frames of a row; many are only counted."""
    words = [describe(port, frame) for port, frame in seen]
    if not words:
        return "nothing"
    if len(words) > 3:
        counts = {port: sum(p == port for p, _ in seen) for port, _ in seen}
        return ", ".join(f"{port}: {count} packets" for port, count in sorted(counts.items()))
    return "; ".join(words)


class Nothing:
    """Nothing comes out anywhere."""

    says = "silence"

    def judge(self, sent, seen):
        return not seen


class Forwarded:
    """Every frame comes out of one port, changed as one hop changes it and in no other byte."""

    def __init__(self, to, vlan=None):
        self.to, self.vlan = to, vlan
        tag = "" if vlan is None else f" with tag {vlan}"
        self.says = f"forwarded to {to}{tag}, byte for byte"

    def judge(self, sent, seen):
        wanted = [(self.to, forwarded(frame, self.to, self.vlan)) for _, frame in sent]
        return sorted(wanted) == sorted(seen)


class Error:
    """One ICMP error per frame, back to the sender, right in every field."""

    def __init__(self, kind, code, mtu=0, version=4, tos=0):
        self.kind, self.code, self.mtu, self.version, self.tos = kind, code, mtu, version, tos
        self.says = f"ICMP error {kind}/{code}" + (f", MTU {mtu}" if mtu else "")

    def judge(self, sent, seen):
        return len(seen) == len(sent) and all(
            self._one(port, frame, answer_port, answer)
            for (port, frame), (answer_port, answer) in zip(sent, seen)
        )

    def _one(self, port, frame, answer_port, answer):
        packet = Ether(answer)
        source, host = (ROUTER4, HOST4) if self.version == 4 else (ROUTER6, HOST6)
        ip = packet.payload
        quoted_from = 28 if self.version == 4 else 48
        body = bytes(ip)[quoted_from - 8:]
        header = self.kind, self.code, self.mtu
        if (ip.version, answer_port, ip.src, ip.dst) != (self.version, port, source[port], host[port]):
            return False
        if (packet.dst, packet.src) != (HOST_MAC[port], ROUTER_MAC[port]):
            return False
        if header != (body[0], body[1], int.from_bytes(body[4:8], "big")):
            return False
        quoted_max = ERROR_MAX[self.version] - quoted_from
        original = packet_of(frame)[:quoted_max]
        if body[8:] != original or not self._checksum_right(ip):
            return False
        if self.version == 4:
            # RFC 1812 section 4.3.2.5: precedence 6, the type of service of the packet.
            return ip.ttl >= 1 and ip.tos == 0xc0 | self.tos and not ip.options
        return ip.hlim >= 1

    @staticmethod
    def _checksum_right(ip):
        raw = bytes(ip)
        if ip.version == 4:
            return checksum(raw[:20]) == 0 and checksum(raw[20:]) == 0
        length = len(raw) - 40
        return checksum(raw[8:40] + length.to_bytes(4, "big") + b"\0\0\0\x3a" + raw[40:]) == 0


class EchoReply:
    """One echo reply with the request's identifier, sequence number and data."""

    def __init__(self, source, version=4):
        self.source, self.version = source, version
        self.says = f"echo reply from {source}"

    def judge(self, sent, seen):
        if len(seen) != 1:
            return False
        ip = Ether(seen[0][1]).payload
        body = bytes(ip.payload)
        reply = 0 if self.version == 4 else 129
        request = b"".join(self._message(packet_of(frame)) for _, frame in sent)
        return ip.src == self.source and body[0] == reply and body[4:] == request[4:len(body)]


    def _message(self, packet):
        """The request, or its part in a fragment."""
        if self.version == 4:
            return packet[20:]
        return packet[48:] if packet[6] == 44 else packet[40:]


class Check:
    """A condition of its own over the packets that came, as scapy sees them."""

    def __init__(self, says, holds):
        self.says, self.holds = says, holds

    def judge(self, sent, seen):
        return bool(self.holds([(port, Ether(frame)) for port, frame in seen]))


def reassembled(to, sent_payload_bytes, mtu):
    """Fragments that fit the MTU, begin at multiples of eight and together are the packet."""

    def holds(seen):
        parts = sorted((packet[IP].frag * 8, packet[IP]) for _, packet in seen)
        if len(parts) < 2 or any(port != to or len(bytes(p[IP])) > mtu for port, p in seen):
            return False
        end = 0
        for offset, ip in parts:
            if offset != end or ip.ttl != 63 or not checksum(bytes(ip)[:ip.ihl * 4]) == 0:
                return False
            end += len(bytes(ip)) - ip.ihl * 4
        more = [bool(ip.flags.MF) for _, ip in parts]
        return end == sent_payload_bytes and more == [True] * (len(parts) - 1) + [False]

    return Check(f"fragments of at most {mtu} bytes to {to} that make up the packet", holds)


__all__ = [
    "ICMP", "IP", "IPv6", "UDP", "Check", "EchoReply", "Error", "Forwarded", "Nothing",
    "checksum", "describe_all", "forwarded", "packet_of", "reassembled",
]

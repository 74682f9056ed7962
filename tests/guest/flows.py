"""UDP flows with sequence numbers over packet sockets, and the hash that spreads them."""

import ipaddress
import select
import socket
import struct
import time

MAGIC = b"ebbguest"
PACKET_OUTGOING = 4
SOL_PACKET, PACKET_AUXDATA = 263, 8
TP_STATUS_VLAN_VALID = 1 << 4


def frame(flow, sequence, destination_mac, source, destination, vlan=0):
    """An Ethernet frame of `flow` (RFC 791, RFC 768; a UDP checksum of 0 says there is none), with
    an 802.1Q tag unless `vlan` is 0."""
    payload = MAGIC + struct.pack("!II", flow, sequence)
    udp = struct.pack("!HHHH", *ports(flow), 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
    header += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", total ^ 0xFFFF) + header[12:]
    macs = bytes.fromhex(destination_mac.replace(":", "")) + bytes.fromhex("020000000002")
    tag = struct.pack("!HH", 0x8100, vlan) if vlan else b""
    return macs + tag + b"\x08\x00" + header + udp


def ports(flow):
    """The UDP ports that tell flows apart, source and destination.

    Spread over all their bits: every bit of a Toeplitz hash is a sum of some bits of its input,
    and where flows differ only in a few, a random key puts all of them into the same half of the
    table once in a hundred boots.
    """
    return (flow * 40503 + 10000) & 0xFFFF, (flow * 30011 + 4321) & 0xFFFF


def toeplitz(key, data):
    """The Toeplitz hash, 32 bits (Microsoft RSS; Virtio 1.2 section 5.1.6.4.4)."""
    bits = int.from_bytes(key, "big")
    length = 8 * len(key)
    result = 0
    for position in range(8 * len(data)):
        if data[position // 8] & (0x80 >> position % 8):
            result ^= (bits >> (length - 32 - position)) & 0xFFFFFFFF
    return result


def flow_hash(key, flow, source, destination):
    """The hash of a flow's addresses and ports, as the network card computes it."""
    data = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return toeplitz(key, data + struct.pack("!HH", *ports(flow)))


class Exchange:
    """Sends flows into one interface and watches what leaves by another, each with its VLAN (0:
    none). What leaves with another one is passed over."""

    def __init__(self, sender, receiver, destination_mac, source, destination, vlans=(0, 0)):
        self.sender = packet_socket(sender)
        self.receiver = packet_socket(receiver)
        self.addresses = (destination_mac, source, destination, vlans[0])
        self.vlan = vlans[1]
        self.sent = {}
        self.seen = {}
        self.priorities = set()
        self.received = self.reordered = self.repeated = 0

    def run(self, flows, seconds, rate_pps, burst):
        """Sends `flows` in turn for `seconds`, `burst` packets at once, at a mean of `rate_pps`."""
        start = time.monotonic()
        count = 0
        while (elapsed := time.monotonic() - start) < seconds:
            if count <= elapsed * rate_pps:
                for position in range(count, count + burst):
                    self.send(position % flows)
                count += burst
            self.take(0.001)

    def send(self, flow):
        """Sends the next packet of a flow."""
        sequence = self.sent.get(flow, 0)
        self.sender.send(frame(flow, sequence, *self.addresses))
        self.sent[flow] = sequence + 1

    def take(self, seconds):
        """Counts what arrives; waits at most `seconds` for the first packet."""
        while select.select([self.receiver], [], [], seconds)[0]:
            seconds = 0
            data, extras, _, address = self.receiver.recvmsg(2048, 64)
            tag = tag_of(extras)
            if address[2] == PACKET_OUTGOING or data[42:50] != MAGIC or tag & 0xFFF != self.vlan:
                continue
            self.priorities.add(tag >> 13)
            flow, sequence = struct.unpack("!II", data[50:58])
            seen = self.seen.setdefault(flow, [set(), -1])
            self.repeated += sequence in seen[0]
            self.reordered += sequence < seen[1]
            seen[0].add(sequence)
            seen[1] = max(seen[1], sequence)
            self.received += 1

    def settle(self, seconds=20.0, quiet_seconds=4.0):
        """Waits until everything sent has arrived, or nothing has for `quiet_seconds`.

        An emulated guest on a busy machine can be held up for long.
        """
        end = time.monotonic() + seconds
        last, since = self.received, time.monotonic()
        while self.lost() > 0 and time.monotonic() < end:
            self.take(0.05)
            if self.received != last:
                last, since = self.received, time.monotonic()
            elif time.monotonic() - since > quiet_seconds:
                break

    def lost(self):
        """Packets sent and not seen."""
        return sum(self.sent.values()) - sum(len(seen[0]) for seen in self.seen.values())

    def close(self):
        """Gives the sockets back."""
        self.sender.close()
        self.receiver.close()


def tag_of(extras):
    """The 802.1Q tag that came with a packet (`struct tpacket_auxdata`): priority and identifier; 0 for none."""
    for level, kind, data in extras:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, tci = struct.unpack_from("=I", data)[0], struct.unpack_from("=H", data, 16)[0]
            return tci if status & TP_STATUS_VLAN_VALID else 0
    return 0


def packet_socket(interface):
    """A packet socket bound to an interface, with room for bursts."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    # The kernel takes tags out of what it shows and tells them aside.
    opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    opened.bind((interface, 0))
    return opened

"""RFC 1812, clause by clause."""

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from expect import Check, EchoReply, Error, Forwarded, Nothing, checksum, reassembled
from lab import HOST4, HOST_MAC, ROUTER4, ROUTER_MAC
from matrix import Row

A, B, C = HOST4["a"], "198.51.100.9", "203.0.113.9"
OWN_BROADCAST, FAR_BROADCAST = "198.18.1.255", "198.18.2.255"
NO_ROUTE, BLACKHOLE, UNREACHABLE, PROHIBIT = "8.8.8.8", "192.0.2.9", "192.0.2.70", "192.0.2.130"
# Answers no ARP request; answers.
SILENT, ANSWERING = "198.18.2.99", "198.18.2.50"


def ether(**fields):
    return Ether(**({"dst": ROUTER_MAC["a"], "src": HOST_MAC["a"]} | fields))


def ip(dst, payload, src=A, link=None, **fields):
    return (link or ether()) / IP(src=src, dst=dst, **({"ttl": 64, "id": 77} | fields)) / payload


def udp(fill, dst=B, size=64, **fields):
    return ip(dst, UDP(sport=4000, dport=9) / Raw(fill(size)), **fields)


def echo(fill, dst, size=64, **fields):
    return ip(dst, ICMP(id=5, seq=6) / Raw(fill(size)), **fields)


def patched(frame, at, value, fix=True):
    """The frame with bytes of its IP header replaced, the checksum made right again."""
    data = bytearray(bytes(frame))
    data[14 + at:14 + at + len(value)] = value
    if fix:
        data[24:26] = b"\0\0"
        data[24:26] = checksum(bytes(data[14:14 + (data[14] & 15) * 4])).to_bytes(2, "big")
    return bytes(data)


def with_options(fill, options, dst=B, **fields):
    """A UDP packet whose header has these option bytes, padded with zeros."""
    options += b"\0" * (-len(options) % 4)
    plain = bytes(udp(fill, dst, **fields))
    total = len(plain) - 14 + len(options)
    frame = plain[:34] + options + plain[34:]
    header = bytes([0x45 + len(options) // 4]) + plain[15:16] + total.to_bytes(2, "big")
    return patched(frame, 0, header)


def fragments(fill, dst, size=64, payload=None, **fields):
    """A datagram in two fragments."""
    whole = bytes(payload or UDP(sport=4000, dport=9, chksum=0) / Raw(fill(size)))
    half = len(whole) // 16 * 8
    return [
        ip(dst, Raw(whole[:half]), flags="MF", proto=fields.get("proto", 17)),
        ip(dst, Raw(whole[half:]), frag=half // 8, proto=fields.get("proto", 17)),
    ]


def echo_fragments(fill, dst):
    return fragments(fill, dst, payload=ICMP(id=5, seq=6) / Raw(fill(120)), proto=1)


def icmp_error(fill, **fields):
    inner = IP(src=B, dst=A, id=1) / UDP(sport=9, dport=9) / Raw(fill(24))
    return ip(B, ICMP(type=3, code=3) / Raw(bytes(inner)), **fields)


def carries(fill):
    """Packets whose checksum makes every kind of carry when the TTL is lowered."""
    frame = bytes(udp(fill, id=0))
    base = checksum(frame[14:34])
    for wanted in (0x0000, 0x00ff, 0x0100, 0xfe00, 0xfeff, 0xff00):
        # One's complement: the identification makes up the difference.
        number = base - wanted if base >= wanted else base - wanted + 0xffff
        yield patched(frame, 4, number.to_bytes(2, "big"))


def flows(fill, dst, count=64):
    """Each of `count` flows twice."""
    frames = [
        ip(dst, UDP(sport=1024 + 7 * flow, dport=80) / Raw(fill(24)), id=flow)
        for flow in range(count)
    ]
    return frames + frames


def balanced(count=64):
    """Every flow keeps to one way and both ways have a fair share."""

    def holds(seen):
        ways = {}
        for port, packet in seen:
            ways.setdefault(packet[UDP].sport, set()).add(port)
        share = sum(way == {"b"} for way in ways.values())
        single = all(len(way) == 1 for way in ways.values())
        return len(seen) == 2 * count and len(ways) == count and single and 16 <= share <= 48

    return Check("every flow on one way, both ways used", holds)


def recorded(seen):
    """Record route: the address of the link it left by is in the option's first place."""
    wanted = b"\x07\x07\x08" + bytes(map(int, ROUTER4["b"].split(".")))
    return [port for port, _ in seen] == ["b"] and wanted in bytes(seen[0][1])[34:44]


def stamped(seen):
    """Timestamp: a time is in the option's first place."""
    option = bytes(seen[0][1])[34:42] if seen else b""
    return [p for p, _ in seen] == ["b"] and option[:3] == b"\x44\x08\x09" and any(option[4:8])


def timestamp(fill):
    token = fill(8)
    return ip(ROUTER4["a"], Raw(sealed(b"\x0d\0\0\0" + token + bytes(8))), proto=1)


def sealed(message):
    return message[:2] + checksum(message).to_bytes(2, "big") + message[4:]


def redirected(seen):
    return any(ICMP in packet and packet[ICMP].type == 5 for _, packet in seen)


def row(section, *arguments, **more):
    return Row(f"RFC 1812 {section}", *arguments, **more)


def header_rows():
    return [
        row("4.2.2.1", "no-operation and end of options are passed on", "UDP, NOP NOP NOP EOL",
            lambda f: [with_options(f, b"\1\1\1\0")], Forwarded("b")),
        row("4.2.2.1", "source routes are followed", "LSRR to the router, then to b",
            lambda f: [with_options(f, b"\x83\x07\x04" + bytes([198, 51, 100, 9]), ROUTER4["a"])],
            Forwarded("b"), instead=Nothing(),
            deviation="options are Linux's, which drops source routes unless told otherwise "
            "(accept_source_route), as RFC 7126 section 4.3 advises"),
        row("4.2.2.1", "record route is filled in", "UDP, record route with room for one",
            lambda f: [with_options(f, b"\x07\x07\x04\0\0\0\0\0")],
            Check(f"forwarded to b, with {ROUTER4['b']} recorded", recorded)),
        row("4.2.2.3", "the unused flag is neither judged nor changed", "UDP, reserved flag set",
            lambda f: [udp(f, flags=4)], Forwarded("b")),
        row("4.2.2.5", "a wrong header checksum: silently discarded", "UDP, checksum wrong by one",
            lambda f: [patched(udp(f), 10, b"\x12\x34", fix=False)], Nothing()),
        row("4.2.2.5", "the checksum is right after every kind of carry",
            "UDP, checksums 0000 00ff 0100 fe00 feff ff00", carries, Forwarded("b")),
        row("4.2.2.6", "unknown options are passed on unchanged", "UDP, option 0x1e",
            lambda f: [with_options(f, b"\x1e\x04\xab\xcd")], Forwarded("b")),
        row("4.2.2.7", "a packet larger than the link is fragmented", "UDP, 1400 bytes, no DF",
            lambda f: [udp(f, C, 1372)], reassembled("c", 1380, 1300)),
        row("4.2.2.8", "fragments for the router itself are reassembled", "echo in two fragments",
            lambda f: echo_fragments(f, ROUTER4["a"]), EchoReply(ROUTER4["a"])),
        row("4.2.2.9", "TTL 1 is good for the router itself", "echo to the router, TTL 1",
            lambda f: [echo(f, ROUTER4["a"], ttl=1)], EchoReply(ROUTER4["a"])),
        row("4.2.2.9", "TTL 0 is good for the router itself", "echo to the router, TTL 0",
            lambda f: [echo(f, ROUTER4["a"], ttl=0)], EchoReply(ROUTER4["a"])),
        row("4.2.2.11", "(a) this host on this network: no destination", "UDP to 0.0.0.0",
            lambda f: [udp(f, "0.0.0.0")], Nothing()),
        row("4.2.2.11", "(c) limited broadcast is not forwarded", "UDP to 255.255.255.255",
            lambda f: [udp(f, "255.255.255.255")], Nothing()),
        row("4.2.2.11", "(d) directed broadcast is no source", f"UDP from {OWN_BROADCAST}",
            lambda f: [udp(f, src=OWN_BROADCAST)], Nothing(), instead=Forwarded("b"),
            deviation="finding out needs a second lookup for every packet; source validation is "
            "off by default (section 5.3.8)"),
        row("4.2.2.11", "(g) loopback never leaves a host", "UDP to 127.0.0.1",
            lambda f: [udp(f, "127.0.0.1")], Nothing()),
    ]


def icmp_rows():
    own = ROUTER4["a"]
    return [
        row("4.3.2.1", "unknown ICMP types to the router: silently discarded", "ICMP type 200",
            lambda f: [ip(own, ICMP(type=200) / Raw(f(32)))], Nothing()),
        row("4.3.2.1", "unknown ICMP types are forwarded", "ICMP type 200 to b",
            lambda f: [ip(B, ICMP(type=200) / Raw(f(32)))], Forwarded("b")),
        row("4.3.2.3", "errors quote as much as fits 576 bytes", "UDP, 1400 bytes, TTL 1",
            lambda f: [udp(f, size=1372, ttl=1)], Error(11, 0)),
        row("4.3.2.4", "errors come from the link's address", "UDP, TTL 1",
            lambda f: [udp(f, C, ttl=1)], Error(11, 0)),
        row("4.3.2.5", "errors have precedence 6 and the packet's TOS", "UDP, TTL 1, TOS 0x10",
            lambda f: [udp(f, ttl=1, tos=0x10)], Error(11, 0, tos=0x10)),
        row("4.3.2.7", "no error about an ICMP error", "ICMP 3/3, TTL 1",
            lambda f: [icmp_error(f, ttl=1)], Nothing()),
        row("4.3.2.7", "an error about an ICMP query", "echo to b, TTL 1",
            lambda f: [echo(f, B, ttl=1)], Error(11, 0)),
        row("4.3.2.7", "no error about an invalid header", "UDP, TTL 1, wrong checksum",
            lambda f: [patched(udp(f, ttl=1), 10, b"\x12\x34", fix=False)], Nothing()),
        row("4.3.2.7", "no error about broadcast destinations", f"UDP to {FAR_BROADCAST}, TTL 1",
            lambda f: [udp(f, FAR_BROADCAST, ttl=1)], Nothing()),
        row("4.3.2.7", "no error about multicast destinations", "UDP to 239.1.2.3, TTL 1",
            lambda f: [udp(f, "239.1.2.3", ttl=1)], Nothing()),
        row("4.3.2.7", "no error about link-layer broadcasts", "UDP to b in a broadcast frame, TTL 1",
            lambda f: [udp(f, ttl=1, link=ether(dst="ff:ff:ff:ff:ff:ff"))], Nothing()),
        row("4.3.2.7", "no error to network 0", "UDP from 0.0.0.0, TTL 1",
            lambda f: [udp(f, ttl=1, src="0.0.0.0")], Nothing()),
        row("4.3.2.7", "no error to multicast sources", "UDP from 224.1.1.1, TTL 1",
            lambda f: [udp(f, ttl=1, src="224.1.1.1")], Nothing()),
        row("4.3.2.7", "no error about fragments but the first", "second fragment, TTL 1",
            lambda f: [ip(B, Raw(f(64)), frag=10, proto=17, ttl=1)], Nothing()),
        row("4.3.2.7", "an error about first fragments", "first fragment, TTL 1",
            lambda f: [udp(f, flags="MF", ttl=1)], Error(11, 0)),
        row("4.3.3.1", "no route: network unreachable", f"UDP to {NO_ROUTE}",
            lambda f: [udp(f, NO_ROUTE)], Error(3, 0)),
        row("4.3.3.1", "the last hop does not answer: host unreachable", f"UDP to {SILENT}",
            lambda f: [udp(f, SILENT)], Error(3, 1), slow=True),
        row("4.3.3.1", "protocol unreachable at the router itself", "protocol 253 to the router",
            lambda f: [ip(own, Raw(f(64)), proto=253)], Error(3, 2)),
        row("4.3.3.1", "port unreachable at the router itself", "UDP port 9 of the router",
            lambda f: [udp(f, own)], Error(3, 3)),
        row("4.3.3.1", "administratively prohibited", "UDP to a prohibit route",
            lambda f: [udp(f, PROHIBIT)], Error(3, 13)),
        row("4.3.3.1", "an unreachable route: host unreachable", "UDP to an unreachable route",
            lambda f: [udp(f, UNREACHABLE)], Error(3, 1)),
        row("4.3.3.4", "time exceeded in transit", "UDP, TTL 1",
            lambda f: [udp(f, ttl=1)], Error(11, 0)),
        row("4.3.3.5", "errors in options: parameter problem", "record route of length 2",
            lambda f: [with_options(f, b"\x07\x02\x04\0")], Error(12, 0, mtu=21 << 24)),
        row("4.3.3.6", "echo: all data comes back", "echo of 1400 bytes to the router",
            lambda f: [echo(f, own, 1372)], EchoReply(own)),
        row("4.3.3.6", "echo: the reply's source is the request's destination",
            "echo to the router's address on b", lambda f: [echo(f, ROUTER4["b"])],
            EchoReply(ROUTER4["b"])),
        row("4.3.3.7", "no information reply", "ICMP information request to the router",
            lambda f: [ip(own, Raw(sealed(b"\x0f\0\0\0" + f(40))), proto=1)], Nothing()),
        row("4.3.3.8", "timestamps may be answered", "ICMP timestamp to the router",
            lambda f: [timestamp(f)],
            Check("timestamp reply", lambda seen: [p[ICMP].type for _, p in seen] == [14])),
        row("4.3.3.9", "address mask requests are answered", "ICMP address mask request",
            lambda f: [ip(own, Raw(sealed(b"\x11\0\0\0" + f(40))), proto=1)],
            Check("address mask reply", lambda seen: len(seen) == 1), instead=Nothing(),
            deviation="address mask messages are deprecated (RFC 6918 section 2.3)"),
    ]


def validation_rows():
    return [
        row("5.2.2", "(1) shorter than a header: discarded", "18 bytes of an IP header",
            lambda f: [bytes(ether(type=0x800)) + b"\x45\0\0\x12" + bytes(6) + f(8)], Nothing()),
        row("5.2.2", "(2) wrong checksum: discarded", "UDP, checksum inverted",
            lambda f: [patched(udp(f), 10, b"\xff\xff", fix=False)], Nothing()),
        row("5.2.2", "(3) not version 4: discarded", "version 5", lambda f: [
            patched(udp(f), 0, b"\x55")], Nothing()),
        row("5.2.2", "(4) header length below 5: discarded", "header length 4",
            lambda f: [patched(udp(f), 0, b"\x44")], Nothing()),
        row("5.2.2", "(5) total length below header length: discarded", "total length 19",
            lambda f: [patched(udp(f), 2, b"\0\x13")], Nothing()),
        row("5.2.2", "longer than the link says: discarded", "total length one byte too long",
            lambda f: [patched(udp(f), 2, b"\0\x5d")], Nothing()),
        row("5.2.2", "shorter than the link says: padding is left behind", "UDP, 18 bytes padding",
            lambda f: [bytes(udp(f)) + f(18)], Forwarded("b")),
        row("5.2.3", "any own address is good on any link", "echo to the address on c",
            lambda f: [echo(f, ROUTER4["c"])], EchoReply(ROUTER4["c"])),
        row("5.2.4.3", "the longest prefix decides", "UDP to 198.51.100.200, route of its /25",
            lambda f: [udp(f, "198.51.100.200")], Forwarded("c")),
        row("5.2.4.3", "the shorter prefix beside it", "UDP to 198.51.100.127, route of its /24",
            lambda f: [udp(f, "198.51.100.127")], Forwarded("b")),
        row("5.2.4.5", "load splitting keeps flows together", "64 flows of two packets, two ways",
            lambda f: flows(f, "198.19.3.4"), balanced()),
        row("5.2.5", "unused bits are passed on", "UDP, TOS 0x03", lambda f: [udp(f, tos=3)],
            Forwarded("b")),
        row("5.2.6", "too large with DF: fragmentation needed, with the MTU", "UDP, 1301 bytes, DF",
            lambda f: [udp(f, C, 1273, flags="DF")], Error(3, 4, 1300)),
        row("5.2.6", "as large as the link with DF: forwarded", "UDP, 1300 bytes, DF",
            lambda f: [udp(f, C, 1272, flags="DF")], Forwarded("c")),
        row("5.2.6", "fragments are not reassembled on the way", "two fragments",
            lambda f: fragments(f, B), Forwarded("b")),
        row("5.2.7.2", "redirects can be sent", "UDP back to the link it came by",
            lambda f: [udp(f, A, src="198.18.1.77")], Check("forwarded and redirected", redirected),
            instead=Forwarded("a"), deviation="not sent, as on routers of today's networks; the "
            "packet is forwarded, and no host depends on redirects"),
        row("5.2.7.3", "no time exceeded about TTL 2", "UDP, TTL 2", lambda f: [udp(f, ttl=2)],
            Forwarded("b")),
    ]


def forwarding_rows():
    return [
        row("5.3.1", "the TTL is lowered by one", "UDP, TTL 255", lambda f: [udp(f, ttl=255)],
            Forwarded("b")),
        row("5.3.1", "TTL 0: discarded with time exceeded", "UDP, TTL 0",
            lambda f: [udp(f, ttl=0)], Error(11, 0)),
        row("5.3.1", "TTL 1 to a multicast group: silence", "UDP to 224.0.1.1, TTL 1",
            lambda f: [udp(f, "224.0.1.1", ttl=1)], Nothing()),
        row("5.3.2", "the type of service is passed on", "UDP, TOS 0x1e",
            lambda f: [udp(f, tos=0x1e)], Forwarded("b")),
        row("5.3.3", "the precedence is passed on", "UDP, TOS 0xe0",
            lambda f: [udp(f, tos=0xe0)], Forwarded("b")),
        row("5.3.4", "link-layer broadcasts are not forwarded", "UDP to b in a broadcast frame",
            lambda f: [udp(f, link=ether(dst="ff:ff:ff:ff:ff:ff"))], Nothing()),
        row("5.3.4", "link-layer multicasts are not forwarded", "UDP to b in a multicast frame",
            lambda f: [udp(f, link=ether(dst="01:00:5e:00:00:05"))], Nothing()),
        row("5.3.4", "frames for other stations are not forwarded", "UDP to b, foreign MAC",
            lambda f: [udp(f, link=ether(dst="02:00:00:00:99:99"))], Nothing()),
        row("5.3.5.1", "limited broadcasts are not forwarded", "UDP to 255.255.255.255, broadcast",
            lambda f: [udp(f, "255.255.255.255", link=ether(dst="ff:ff:ff:ff:ff:ff"))], Nothing()),
        row("5.3.5.2", "directed broadcasts are not forwarded (RFC 2644)", "UDP to b's broadcast",
            lambda f: [udp(f, FAR_BROADCAST)], Nothing()),
        row("5.3.7", "martian source: network 0", "UDP from 0.1.2.3",
            lambda f: [udp(f, src="0.1.2.3")], Nothing()),
        row("5.3.7", "martian source: loopback", "UDP from 127.1.1.1",
            lambda f: [udp(f, src="127.1.1.1")], Nothing()),
        row("5.3.7", "martian source: limited broadcast", "UDP from 255.255.255.255",
            lambda f: [udp(f, src="255.255.255.255")], Nothing()),
        row("5.3.7", "martian source: multicast", "UDP from 224.0.0.5",
            lambda f: [udp(f, src="224.0.0.5")], Nothing()),
        row("5.3.7", "martian source: class E", "UDP from 240.0.0.1",
            lambda f: [udp(f, src="240.0.0.1")], Nothing(), instead=Forwarded("b"),
            deviation="forwarded as Linux does: the range may become unicast"),
        row("5.3.7", "martian destination: network 0", "UDP to 0.1.2.3",
            lambda f: [udp(f, "0.1.2.3")], Nothing()),
        row("5.3.7", "martian destination: loopback", "UDP to 127.9.9.9",
            lambda f: [udp(f, "127.9.9.9")], Nothing()),
        row("5.3.7", "martian destination: class E", "UDP to 240.0.0.1",
            lambda f: [udp(f, "240.0.0.1")], Nothing()),
        row("5.3.7", "a martian stays one with options", "UDP from 127.1.1.1, NOPs",
            lambda f: [with_options(f, b"\1\1\1\1", src="127.1.1.1")], Nothing()),
        row("5.3.7", "equal source and destination is no martian", f"UDP from {B} to {B}",
            lambda f: [udp(f, src=B)], Forwarded("b")),
        row("5.3.8", "source validation is off by default", "UDP from an address without route",
            lambda f: [udp(f, src="9.9.9.9")], Forwarded("b")),
        row("5.3.8", "no way back: no error", "UDP from an address without route, TTL 1",
            lambda f: [udp(f, src="9.9.9.9", ttl=1)], Nothing()),
        row("5.3.9", "a blackhole route discards silently", "UDP to a blackhole route",
            lambda f: [udp(f, BLACKHOLE)], Nothing()),
        row("5.3.13.2", "the security option is passed on", "UDP, option 130",
            lambda f: [with_options(f, b"\x82\x0b" + bytes(9))], Forwarded("b")),
        row("5.3.13.6", "timestamps are filled in", "UDP, timestamp option with room for one",
            lambda f: [with_options(f, b"\x44\x08\x05\0\0\0\0\0")],
            Check("forwarded to b, with a time", stamped)),
        Row("RFC 1122 2.3.2.2", "packets wait for an unresolved neighbour, in order",
            f"three UDP packets to {ANSWERING}, which answers ARP",
            lambda f: [udp(f, ANSWERING, id=number) for number in (1, 2, 3)], Forwarded("b"),
            slow=True),
    ]


def vlan_rows():
    def tag(vid):
        return ether() / Dot1Q(vlan=vid)

    def row8021q(*arguments, **more):
        return Row("IEEE 802.1Q", *arguments, where="replay", **more)

    back = Check("time exceeded to a with tag 7", lambda seen: [
        (port, packet[Dot1Q].vlan, packet[ICMP].type, packet[IP].src) for port, packet in seen
    ] == [("a", 7, 11, "198.18.7.1")])
    near = "198.18.7.2"
    return [
        row8021q("a packet gets the tag of the link it leaves by", "UDP to 198.18.8.2",
                 lambda f: [udp(f, "198.18.8.2")], Forwarded("b", vlan=8)),
        row8021q("a packet loses the tag it came with", "UDP to b with tag 7",
                 lambda f: [udp(f, link=tag(7), src=near)], Forwarded("b")),
        row8021q("a packet goes from tag to tag", "UDP to 198.18.8.2 with tag 7",
                 lambda f: [udp(f, "198.18.8.2", link=tag(7), src=near)], Forwarded("b", vlan=8)),
        row8021q("a priority tag (VLAN 0) is no VLAN", "UDP to b with tag 0",
                 lambda f: [udp(f, link=tag(0))], Forwarded("b")),
        row8021q("frames of unknown VLANs are discarded", "UDP to b with tag 99",
                 lambda f: [udp(f, link=tag(99))], Nothing()),
        row8021q("errors go back into the VLAN", "UDP to b with tag 7, TTL 1",
                 lambda f: [udp(f, link=tag(7), src=near, ttl=1)], back),
    ]


def rows():
    """All rows in the order of the clauses."""
    return header_rows() + icmp_rows() + validation_rows() + forwarding_rows() + vlan_rows()

"""RFC 8200, RFC 4443 and what RFC 4291 says to routers, clause by clause."""

from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting, PadN, RouterAlert, HBHOptUnknown, ICMPv6Unknown,
)
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from expect import Check, EchoReply, Error, Forwarded, Nothing
from ipv4 import balanced
from lab import HOST6, HOST_MAC, ROUTER6, ROUTER_MAC
from matrix import Row

A, B, C = HOST6["a"], "2001:db8:100::9", "2001:db8:200::9"
BOTH, NO_ROUTE = "2001:db8:300::9", "2001:db9::1"
BLACKHOLE, UNREACHABLE, PROHIBIT = "2001:db8:666::9", "2001:db8:666:1::9", "2001:db8:666:2::9"
# Answers no solicitation; answers.
SILENT, ANSWERING = "2001:db8:b::99", "2001:db8:b::50"
LINK_LOCAL, ROUTER_LINK_LOCAL = "fe80::2", "fe80::ff:fe00:a01"


def ether(**fields):
    return Ether(**({"dst": ROUTER_MAC["a"], "src": HOST_MAC["a"]} | fields))


def ip(dst, payload, src=A, link=None, **fields):
    return (link or ether()) / IPv6(src=src, dst=dst, **({"hlim": 64} | fields)) / payload


def udp(fill, dst=B, size=64, before=None, **fields):
    segment = UDP(sport=4000, dport=9, chksum=0x1234) / Raw(fill(size))
    return ip(dst, before / segment if before is not None else segment, **fields)


def echo(fill, dst, size=64, **fields):
    return ip(dst, ICMPv6EchoRequest(id=5, seq=6, data=fill(size)), **fields)


def patched(frame, at, value):
    """The frame with bytes of its IP header replaced."""
    data = bytearray(bytes(frame))
    data[14 + at:14 + at + len(value)] = value
    return bytes(data)


def option(kind):
    """A hop-by-hop header with an unknown option of this type."""
    return IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=kind, optlen=4, optdata=b"abcd")])


def icmp(kind, code, fill, dst=B, **fields):
    """An ICMPv6 message of any type."""
    message = ICMPv6Unknown(type=kind, code=code, msgbody=bytes(4) + fill(64))
    return ip(dst, message, nh=58, **fields)


def echo_fragments(fill, dst):
    """An echo request in two fragments."""
    whole = bytes(ip(dst, ICMPv6EchoRequest(id=5, seq=6, data=fill(120))))[54:]
    first = IPv6ExtHdrFragment(nh=58, offset=0, m=1, id=9) / Raw(whole[:64])
    second = IPv6ExtHdrFragment(nh=58, offset=8, m=0, id=9) / Raw(whole[64:])
    return [ip(dst, first), ip(dst, second)]


def udp_fragments(fill, dst=B, **fields):
    first = IPv6ExtHdrFragment(nh=17, offset=0, m=1, id=9) / UDP(sport=1, dport=9) / Raw(fill(56))
    second = IPv6ExtHdrFragment(nh=17, offset=8, m=0, id=9) / Raw(fill(64))
    return [ip(dst, first, **fields), ip(dst, second, **fields)]


def flows(fill, dst, count=64):
    """Each of `count` flows twice."""
    frames = [
        ip(dst, UDP(sport=1024 + 7 * flow, dport=80) / Raw(fill(24))) for flow in range(count)
    ]
    return frames + frames


def beyond_scope(seen):
    """Destination unreachable, code 2, to the link-local sender."""
    return [(p, f[IPv6].dst, bytes(f[IPv6].payload)[:2]) for p, f in seen] == [
        ("a", LINK_LOCAL, b"\x01\x02")
    ]


def reply_from_link_local(seen):
    return [(port, packet[IPv6].src, bytes(packet[IPv6].payload)[:1]) for port, packet in seen] == [
        ("a", ROUTER_LINK_LOCAL, b"\x81")
    ]


def row(section, *arguments, **more):
    return Row(f"RFC 8200 {section}", *arguments, **more)


def error(kind, code, mtu=0):
    return Error(kind, code, mtu, version=6)


def rfc8200():
    own = ROUTER6["a"]
    routing = IPv6ExtHdrRouting(type=0, addresses=[B])
    return [
        row("3", "not version 6: discarded", "version 5",
            lambda f: [patched(udp(f), 0, b"\x50")], Nothing()),
        row("3", "traffic class and flow label are passed on", "UDP, class 0xb9, label 0xabcde",
            lambda f: [udp(f, tc=0xb9, fl=0xabcde)], Forwarded("b")),
        row("3", "longer than the link says: discarded", "payload length one byte too long",
            lambda f: [patched(udp(f), 4, b"\0\x49")], Nothing()),
        row("3", "shorter than the link says: padding is left behind", "UDP, 18 bytes padding",
            lambda f: [bytes(udp(f)) + f(18)], Forwarded("b")),
        row("3", "shorter than a header: discarded", "39 bytes of a header",
            lambda f: [bytes(udp(f))[:45] + f(8)], Nothing()),
        row("3", "the hop limit is lowered by one", "UDP, hop limit 255",
            lambda f: [udp(f, hlim=255)], Forwarded("b")),
        row("3", "hop limit 2 goes on", "UDP, hop limit 2", lambda f: [udp(f, hlim=2)],
            Forwarded("b")),
        row("3", "hop limit 1: discarded with time exceeded", "UDP, hop limit 1",
            lambda f: [udp(f, hlim=1)], error(3, 0)),
        row("3", "hop limit 0: discarded with time exceeded", "UDP, hop limit 0",
            lambda f: [udp(f, hlim=0)], error(3, 0)),
        row("3", "hop limit 1 is good for the router itself", "echo, hop limit 1",
            lambda f: [echo(f, own, hlim=1)], EchoReply(own, 6)),
        row("4", "routers on the way do not look at extension headers", "destination options, "
            "unknown type 0xde", lambda f: [udp(f, before=IPv6ExtHdrDestOpt(
                options=[HBHOptUnknown(otype=0xde, optlen=4, optdata=b"abcd")]))], Forwarded("b")),
        row("4", "unknown next headers are forwarded", "next header 253",
            lambda f: [ip(B, Raw(f(64)), nh=253)], Forwarded("b")),
        row("4.1", "hop-by-hop options elsewhere than first are not processed on the way",
            "destination options, then hop-by-hop 0x5e", lambda f: [udp(
                f, before=IPv6ExtHdrDestOpt(nh=0) / option(0x5e))], Forwarded("b")),
        row("4.2", "unknown option 00: skipped", "hop-by-hop option 0x1e",
            lambda f: [udp(f, before=option(0x1e))], Forwarded("b")),
        row("4.2", "unknown option 01: discarded", "hop-by-hop option 0x5e",
            lambda f: [udp(f, before=option(0x5e))], Nothing()),
        row("4.2", "unknown option 10: discarded with parameter problem", "hop-by-hop option 0x9e",
            lambda f: [udp(f, before=option(0x9e))], error(4, 2, 42)),
        row("4.2", "unknown option 11: the same for a unicast destination", "hop-by-hop option 0xde",
            lambda f: [udp(f, before=option(0xde))], error(4, 2, 42)),
        row("4.2", "padding options", "hop-by-hop PadN",
            lambda f: [udp(f, before=IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))]))],
            Forwarded("b")),
        row("4.3", "known hop-by-hop options pass", "router alert of an unused value",
            lambda f: [udp(f, before=IPv6ExtHdrHopByHop(options=[RouterAlert(value=36)]))],
            Forwarded("b")),
        row("4.4", "routing headers are not looked at on the way", "type 0 to b",
            lambda f: [udp(f, before=routing)], Forwarded("b")),
        row("4.4", "unknown routing types at the router: parameter problem", "type 0 to the router",
            lambda f: [udp(f, own, before=routing)], error(4, 0, 42)),
        row("4.5", "fragments are forwarded as they are", "two fragments", udp_fragments,
            Forwarded("b")),
        row("4.5", "routers do not fragment", "UDP, 1301 bytes",
            lambda f: [udp(f, C, 1253)], error(2, 0, 1300)),
        row("4.5", "fragments for the router itself are reassembled", "echo in two fragments",
            lambda f: echo_fragments(f, own), EchoReply(own, 6)),
        row("4.7", "what follows no next header is passed on", "next header 59 with data",
            lambda f: [ip(B, Raw(f(64)), nh=59)], Forwarded("b")),
        row("5", "1280 bytes always pass", "UDP, 1280 bytes to c",
            lambda f: [udp(f, C, 1232)], Forwarded("c")),
        row("5", "as large as the link: forwarded", "UDP, 1300 bytes to c",
            lambda f: [udp(f, C, 1252)], Forwarded("c")),
    ]


def rfc4443():
    own = ROUTER6["a"]

    def row(section, *arguments, **more):
        return Row(f"RFC 4443 {section}", *arguments, **more)

    return [
        row("2.1", "unknown errors are forwarded", "ICMPv6 type 100",
            lambda f: [icmp(100, 0, f)], Forwarded("b")),
        row("2.1", "unknown messages are forwarded", "ICMPv6 type 200",
            lambda f: [icmp(200, 0, f)], Forwarded("b")),
        row("2.2", "errors come from the link's address", "UDP to c, hop limit 1",
            lambda f: [udp(f, C, hlim=1)], error(3, 0)),
        row("2.4(b)", "unknown messages to the router: silently discarded", "ICMPv6 type 200",
            lambda f: [icmp(200, 0, f, own)], Nothing()),
        row("2.4(c)", "errors quote as much as fits 1280 bytes", "UDP, 1400 bytes, hop limit 1",
            lambda f: [udp(f, size=1352, hlim=1)], error(3, 0)),
        row("2.4(e.1)", "no error about an ICMPv6 error", "ICMPv6 1/4, hop limit 1",
            lambda f: [icmp(1, 4, f, hlim=1)], Nothing()),
        row("2.4(e.1)", "no error about an unknown ICMPv6 error", "ICMPv6 type 100, hop limit 1",
            lambda f: [icmp(100, 0, f, hlim=1)], Nothing()),
        row("2.4(e.1)", "an error about an ICMPv6 query", "echo to b, hop limit 1",
            lambda f: [echo(f, B, hlim=1)], error(3, 0)),
        row("2.4(e.2)", "no error about a redirect", "ICMPv6 type 137, hop limit 1",
            lambda f: [icmp(137, 0, f, hlim=1)], Nothing(), instead=error(3, 0),
            deviation="neighbour discovery is the kernel's, and Linux answers; a redirect has hop "
            "limit 255 (RFC 4861 section 8.1), so none is ever answered"),
        row("2.4(e.3)", "no error about multicast destinations", "UDP to ff0e::1, hop limit 1",
            lambda f: [udp(f, "ff0e::1", hlim=1)], Nothing()),
        row("2.4(e.4)", "no error about link-layer multicasts", "UDP in a multicast frame, "
            "hop limit 1", lambda f: [udp(f, hlim=1, link=ether(dst="33:33:00:00:00:09"))],
            Nothing()),
        row("2.4(e.5)", "no error about link-layer broadcasts", "UDP in a broadcast frame, "
            "hop limit 1", lambda f: [udp(f, hlim=1, link=ether(dst="ff:ff:ff:ff:ff:ff"))],
            Nothing()),
        row("2.4(e.6)", "no error to the unspecified address", "UDP from ::, hop limit 1",
            lambda f: [udp(f, src="::", hlim=1)], Nothing()),
        row("2.4(e.6)", "no error to multicast sources", "UDP from ff02::1, hop limit 1",
            lambda f: [udp(f, src="ff02::1", hlim=1)], Nothing()),
        row("3.1", "code 0: no route", f"UDP to {NO_ROUTE}",
            lambda f: [udp(f, NO_ROUTE)], error(1, 0)),
        row("3.1", "code 0: an unreachable route", "UDP to an unreachable route",
            lambda f: [udp(f, UNREACHABLE)], error(1, 0)),
        row("3.1", "code 1: administratively prohibited", "UDP to a prohibit route",
            lambda f: [udp(f, PROHIBIT)], error(1, 1)),
        row("3.1", "code 2: beyond the scope of the source", f"UDP from {LINK_LOCAL} to b",
            lambda f: [udp(f, src=LINK_LOCAL)], Check("ICMP error 1/2", beyond_scope), slow=True),
        row("3.1", "code 3: the last hop does not answer", f"UDP to {SILENT}",
            lambda f: [udp(f, SILENT)], error(1, 3), slow=True),
        row("3.1", "code 4: no such port at the router itself", "UDP port 9 of the router",
            lambda f: [ip(own, UDP(sport=4000, dport=9) / Raw(f(64)))], error(1, 4)),
        row("3.1", "a blackhole route discards silently", "UDP to a blackhole route",
            lambda f: [udp(f, BLACKHOLE)], Nothing()),
        row("3.2", "packet too big, with the MTU", "UDP, 1400 bytes to c",
            lambda f: [udp(f, C, 1352)], error(2, 0, 1300)),
        row("3.3", "code 0: hop limit exceeded in transit", "UDP, hop limit 1",
            lambda f: [udp(f, hlim=1)], error(3, 0)),
        row("3.4", "code 1: unknown next header at the router itself", "next header 253",
            lambda f: [ip(own, Raw(f(64)), nh=253)], error(4, 1, 6)),
        row("4.2", "echo: all data comes back", "echo of 1400 bytes to the router",
            lambda f: [echo(f, own, 1352)], EchoReply(own, 6)),
        row("4.2", "echo: the reply's source is the request's destination",
            "echo to the address on c", lambda f: [echo(f, ROUTER6["c"])],
            EchoReply(ROUTER6["c"], 6)),
        row("4.2", "echo to all nodes is answered with a unicast source", "echo to ff02::1",
            lambda f: [echo(f, "ff02::1", src=LINK_LOCAL, link=ether(dst="33:33:00:00:00:01"))],
            Check("echo reply from the link-local address", reply_from_link_local), slow=True),
    ]


def rfc4291():
    def row(section, *arguments, **more):
        return Row(f"RFC 4291 {section}", *arguments, **more)

    return [
        row("2.5.2", "the unspecified source is not forwarded", "UDP from ::",
            lambda f: [udp(f, src="::")], Nothing()),
        row("2.5.2", "the unspecified address is no destination", "UDP to ::",
            lambda f: [udp(f, "::")], Nothing()),
        row("2.5.3", "loopback is no source on a link", "UDP from ::1",
            lambda f: [udp(f, src="::1")], Nothing()),
        row("2.5.3", "loopback is no destination on a link", "UDP to ::1",
            lambda f: [udp(f, "::1")], Nothing()),
        row("2.5.5.2", "IPv4-mapped sources are not forwarded", "UDP from ::ffff:192.0.2.1",
            lambda f: [udp(f, src="::ffff:192.0.2.1")], Nothing()),
        row("2.5.6", "link-local destinations stay on their link", "UDP to fe80::99",
            lambda f: [udp(f, "fe80::99")], Nothing()),
        row("2.5.6", "the router's link-local address answers", "echo",
            lambda f: [echo(f, ROUTER_LINK_LOCAL, src=LINK_LOCAL)],
            EchoReply(ROUTER_LINK_LOCAL, 6), slow=True),
        row("2.5.7", "site-local destinations are like global ones", "UDP to fec0::1, no route",
            lambda f: [udp(f, "fec0::1")], error(1, 0)),
        row("2.7", "multicast is no source", "UDP from ff0e::1",
            lambda f: [udp(f, src="ff0e::1")], Nothing()),
        row("2.7.1", "link-local multicast stays on its link", "UDP to ff02::1234",
            lambda f: [udp(f, "ff02::1234", link=ether(dst="33:33:00:00:12:34"))], Nothing()),
        row("2.3", "the longest prefix decides", "UDP to 2001:db8:100:80::1, route of its /64",
            lambda f: [udp(f, "2001:db8:100:80::1")], Forwarded("c")),
        row("2.3", "equal source and destination is forwarded", f"UDP from {B} to {B}",
            lambda f: [udp(f, src=B)], Forwarded("b")),
        Row("RFC 6438 3", "load splitting keeps flows together", "64 flows of two packets, two ways",
            lambda f: flows(f, BOTH), balanced()),
        Row("RFC 4861 5.2", "packets wait for an unresolved neighbour, in order",
            f"three UDP packets to {ANSWERING}, which answers",
            lambda f: [udp(f, ANSWERING, fl=number) for number in (1, 2, 3)], Forwarded("b"),
            slow=True),
    ]


def rows():
    """All rows in the order of the clauses."""
    return rfc8200() + rfc4443() + rfc4291()

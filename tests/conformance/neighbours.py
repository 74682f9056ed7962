"""Hosts that answer ARP and neighbour solicitations, for rows about unresolved neighbours."""

from scapy.layers.inet6 import (
    ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, IPv6,
)
from scapy.layers.l2 import ARP, Ether

from lab import HOST_MAC

ANSWERING = {"198.18.2.50", "2001:db8:b::50", "fe80::2"}


class Neighbours:
    """Answers for the addresses in `ANSWERING`."""

    def __init__(self, stations):
        self.stations = stations

    def answer(self, port, frame):
        """Looks at one frame that the router sent."""
        if frame[12:14] == b"\x08\x06":
            self._arp(port, Ether(frame)[ARP])
        elif frame[12:14] == b"\x86\xdd" and frame[20:21] == b"\x3a" and frame[54] == 135:
            self._solicitation(port, Ether(frame))

    def _arp(self, port, asked):
        if asked.op == 1 and asked.pdst in ANSWERING:
            mac = HOST_MAC[port]
            reply = ARP(op=2, hwsrc=mac, psrc=asked.pdst, hwdst=asked.hwsrc, pdst=asked.psrc)
            self.stations[port].send(bytes(Ether(dst=asked.hwsrc, src=mac) / reply))

    def _solicitation(self, port, frame):
        target = frame[ICMPv6ND_NS].tgt
        if target in ANSWERING:
            mac = HOST_MAC[port]
            advert = ICMPv6ND_NA(R=0, S=1, O=1, tgt=target) / ICMPv6NDOptDstLLAddr(lladdr=mac)
            header = Ether(dst=frame.src, src=mac) / IPv6(src=target, dst=frame[IPv6].src, hlim=255)
            self.stations[port].send(bytes(header / advert))

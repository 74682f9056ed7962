//! What identifies a flow, and what is known of one: eight words, one line of the cache.
//!
//! Room: pure functions of packets and words; knows neither tables nor messages.

use std::net::{IpAddr, Ipv6Addr};

use ebb_graph::{Packet, PortId};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, ethertype, link, protocol};

use super::gather::Part;

/// Source, destination (IPv4 as IPv4-mapped IPv6 addresses, RFC 4291 section 2.5.5.2), then ports, protocol,
/// input port and VLAN.
pub(super) type Key = [u64; 5];

/// A key, then first and last packet in milliseconds, packets with TCP flags, traffic class and output
/// port, bytes with the VLAN on the way out.
pub(super) type Words = [u64; 8];

/// Input of packets that the router made itself.
const OWN: u8 = u8::MAX;

/// Most packets of one record: beyond, bytes might not fit into 48 bits.
pub(super) const PACKETS_MAX: u32 = 1 << 31;

const MAPPED: u64 = 0xffff << 32;
const FLAGS_AT: u32 = 24;

/// TCP flags that end a connection: FIN and RST (RFC 9293 section 3.1).
const ENDS: u8 = 0x05;
/// SYN.
const BEGINS: u8 = 0x02;

/// One packet as flows see it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) key: Key,
    /// Of the IP packet, header included.
    pub(super) bytes: u32,
    pub(super) flags: u8,
    pub(super) tos: u8,
    pub(super) output: u8,
    pub(super) post_vlan: u16,
}

impl Seen {
    /// Reads a packet on its way out; nothing when it is neither IPv4 nor IPv6.
    #[inline]
    pub(super) fn of(packet: &Packet) -> Option<Seen> {
        let frame = packet.data();
        let link = link(frame)?;
        let l3 = frame.get(link.payload..)?;
        let own = packet.flags & Packet::ORIGINATED != 0;
        let input = if own { OWN } else { packet.input.0 };
        let place = u64::from(input) << 16 | u64::from(if own { 0 } else { packet.vlan });
        let seen = match link.ethertype {
            ethertype::IPV4 => ipv4(l3)?,
            ethertype::IPV6 => ipv6(l3)?,
            _ => return None,
        };
        let [a, b, c, d, transport] = seen.key;
        let (output, post_vlan) = (packet.output.0, link.vlan());
        Some(Seen { key: [a, b, c, d, transport | place], output, post_vlan, ..seen })
    }

    /// A flow that begins with this packet.
    #[inline]
    pub(super) fn begin(&self, now_ms: u32) -> Words {
        let [a, b, c, d, e] = self.key;
        let times = u64::from(now_ms) << 32 | u64::from(now_ms);
        let counts = 1 << 32
            | u64::from(self.flags) << FLAGS_AT
            | u64::from(self.tos) << 16
            | u64::from(self.output) << 8;
        [a, b, c, d, e, times, counts, u64::from(self.bytes) << 16 | u64::from(self.post_vlan)]
    }

    /// Adds this packet to its flow.
    #[inline]
    pub(super) fn add_to(&self, words: &mut Words, now_ms: u32) {
        words[5] = words[5] >> 32 << 32 | u64::from(now_ms);
        words[6] = (words[6] + (1 << 32)) | u64::from(self.flags) << FLAGS_AT;
        words[7] += u64::from(self.bytes) << 16;
    }

    /// Whether it opens a connection: what ended before with the same ports was another one.
    #[inline]
    pub(super) fn opens(&self) -> bool {
        self.flags & (BEGINS | ENDS) == BEGINS
    }
}

/// Packets of a flow that were counted elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) words: Words,
}

impl Delta {
    pub(super) fn of(part: &Part) -> Delta {
        let address = |address: Ipv6Addr| {
            let bits = address.to_bits();
            ((bits >> 64) as u64, bits as u64)
        };
        let (a, b) = address(part.source);
        let (c, d) = address(part.destination);
        let transport = u64::from(both(part.ports)) << 32
            | u64::from(part.protocol) << 24
            | u64::from(part.input.0.0) << 16
            | u64::from(part.input.1);
        let ms = |time: Time| u64::from(ms_of(time.as_nanos()));
        let times = ms(part.seen.0) << 32 | ms(part.seen.1);
        let counts = u64::from(part.packets) << 32
            | u64::from(part.tcp_flags) << FLAGS_AT
            | u64::from(part.tos) << 16
            | u64::from(part.output.0.0) << 8;
        let bytes = part.bytes << 16 | u64::from(part.output.1);
        Delta { words: [a, b, c, d, transport, times, counts, bytes] }
    }

    pub(super) fn key(&self) -> &Key {
        self.words.first_chunk().expect("five words of eight")
    }

    /// Adds its packets to its flow.
    pub(super) fn add_to(&self, words: &mut Words) {
        let last = later(last_ms(words), last_ms(&self.words));
        words[5] = words[5] >> 32 << 32 | u64::from(last);
        words[6] += self.words[6] >> 32 << 32;
        words[6] |= self.words[6] & 0xff << FLAGS_AT;
        words[7] += self.words[7] >> 16 << 16;
    }

    /// Whether a connection was opened among them.
    pub(super) fn opens(&self) -> bool {
        (self.words[6] >> FLAGS_AT) as u8 & BEGINS != 0
    }
}

/// The later of two moments, in milliseconds modulo 2^32.
pub(super) fn later(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other).cast_signed() > 0 { one } else { other }
}

#[inline]
fn ipv4(l3: &[u8]) -> Option<Seen> {
    let header = Ipv4::new(l3)?;
    let (proto, at) = (header.protocol(), header.header_len());
    let (ports, flags) = match header.fragment_offset() {
        0 => transport(proto, l3.get(at..).unwrap_or(&[])),
        _ => (0, 0),
    };
    let mapped = |bits: u32| MAPPED | u64::from(bits);
    Some(Seen {
        key: [
            0,
            mapped(header.source_bits()),
            0,
            mapped(header.destination_bits()),
            u64::from(ports) << 32 | u64::from(proto) << 24,
        ],
        bytes: header.total_len() as u32,
        flags,
        tos: header.tos(),
        ..Seen::default()
    })
}

#[inline]
fn ipv6(l3: &[u8]) -> Option<Seen> {
    let header = Ipv6::new(l3)?;
    let upper = header.upper();
    let (ports, flags) = match upper.fragment_offset.unwrap_or(0) {
        0 => transport(upper.protocol, l3.get(upper.offset..).unwrap_or(&[])),
        _ => (0, 0),
    };
    let (source, destination) = (header.source_bits(), header.destination_bits());
    Some(Seen {
        key: [
            (source >> 64) as u64,
            source as u64,
            (destination >> 64) as u64,
            destination as u64,
            u64::from(ports) << 32 | u64::from(upper.protocol) << 24,
        ],
        bytes: (Ipv6::LEN + header.payload_len()) as u32,
        flags,
        tos: header.traffic_class(),
        ..Seen::default()
    })
}

/// Both ports, and the flags of TCP. ICMP has type and code as its destination port, as NetFlow has it.
#[inline]
fn transport(proto: u8, payload: &[u8]) -> (u32, u8) {
    match (proto, payload) {
        (protocol::ICMP | protocol::ICMPV6, [kind, code, ..]) => {
            (u32::from(*kind) << 8 | u32::from(*code), 0)
        }
        (protocol::TCP, _) => {
            let ports = ebb_wire::transport::ports(proto, payload).unwrap_or_default();
            (both(ports), payload.get(13).copied().unwrap_or(0))
        }
        _ => (both(ebb_wire::transport::ports(proto, payload).unwrap_or_default()), 0),
    }
}

fn both((source, destination): (u16, u16)) -> u32 {
    u32::from(source) << 16 | u32::from(destination)
}

/// Whether a flow's packets ended its connection.
#[inline]
pub(super) fn has_ended(words: &Words) -> bool {
    (words[6] >> FLAGS_AT) as u8 & ENDS != 0
}

/// First packet, milliseconds.
#[inline]
pub(super) fn first_ms(words: &Words) -> u32 {
    (words[5] >> 32) as u32
}

/// Last packet, milliseconds.
#[inline]
pub(super) fn last_ms(words: &Words) -> u32 {
    words[5] as u32
}

/// Packets so far.
#[inline]
pub(super) fn packets(words: &Words) -> u32 {
    (words[6] >> 32) as u32
}

/// Why a record ends (IANA, flowEndReason).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet for the idle timeout.
    Idle = 1,
    /// Older than the active timeout; the flow may go on in another record.
    Active = 2,
    /// Its TCP connection ended.
    Ended = 3,
    /// The router ends.
    Forced = 4,
    /// Its place was needed.
    Evicted = 5,
}

/// Packets of a flow in one direction, as they are reported.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    words: Words,
    /// Why it ends.
    pub reason: EndReason,
}

impl Record {
    pub(super) fn new(words: Words, reason: EndReason) -> Record {
        Record { words, reason }
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        address(self.words[0], self.words[1])
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        address(self.words[2], self.words[3])
    }

    /// Source and destination port; of ICMP 0, and type and code as one number.
    pub fn ports(&self) -> (u16, u16) {
        ((self.words[4] >> 48) as u16, (self.words[4] >> 32) as u16)
    }

    /// Protocol behind extension headers.
    pub fn protocol(&self) -> u8 {
        (self.words[4] >> 24) as u8
    }

    /// Port where it came in; none of what the router made itself.
    pub fn input(&self) -> Option<PortId> {
        let input = (self.words[4] >> 16) as u8;
        (input != OWN).then_some(PortId(input))
    }

    /// VLAN with which it came in, 0 for none.
    pub fn vlan(&self) -> u16 {
        self.words[4] as u16
    }

    /// Port where it left.
    pub fn output(&self) -> PortId {
        PortId((self.words[6] >> 8) as u8)
    }

    /// VLAN with which it left, 0 for none.
    pub fn post_vlan(&self) -> u16 {
        self.words[7] as u16
    }

    /// All TCP flags that were seen.
    pub fn tcp_flags(&self) -> u8 {
        (self.words[6] >> FLAGS_AT) as u8
    }

    /// Type of service or traffic class of its first packet.
    pub fn tos(&self) -> u8 {
        (self.words[6] >> 16) as u8
    }

    /// Packets.
    pub fn packets(&self) -> u64 {
        u64::from(packets(&self.words))
    }

    /// Bytes of IP packets, headers included.
    pub fn bytes(&self) -> u64 {
        self.words[7] >> 16
    }

    /// First packet in milliseconds of the worker's clock, modulo 2^32.
    pub fn first_ms(&self) -> u32 {
        first_ms(&self.words)
    }

    /// Last packet.
    pub fn last_ms(&self) -> u32 {
        last_ms(&self.words)
    }

    /// What both directions of a conversation have in common, and whether this one comes first there.
    pub(super) fn conversation(&self) -> ([u64; 5], bool) {
        let [a, b, c, d, transport, ..] = self.words;
        let (source, destination) = self.ports();
        let (here, there) = ((a, b, source), (c, d, destination));
        let first = here <= there;
        let (low, high) = if first { (here, there) } else { (there, here) };
        let transport = u64::from(low.2) << 48 | u64::from(high.2) << 32 | (transport >> 24 & 0xff);
        ([low.0, low.1, high.0, high.1, transport], first)
    }
}

fn address(high: u64, low: u64) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

/// Milliseconds modulo 2^32 of a time in nanoseconds.
pub(super) fn ms_of(nanos: u64) -> u32 {
    (nanos / 1_000_000) as u32
}

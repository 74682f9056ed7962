//! The last node: turns packets that cannot go on into ICMP errors about themselves, in their own
//! frames (RFC 1812 section 4.3, RFC 4443).

use std::net::IpAddr;
use std::sync::Arc;

use ebb_graph::{Batch, DropReason, Node, Outputs, Packet};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, checksum, ethertype, icmp, protocol};

use super::budget::Budget;
use super::fib::Reader;
use super::input::{V4, is_v4};
use super::table::Kind;
use super::{Fib, InterfaceId, RouteCounters, checksums};
use crate::application::{Application, OWN_SOURCE};

/// Output to the forwarding node.
pub(super) const TO_FORWARD: usize = 0;

/// Link, IP and ICMP header in front of the quoted packet.
const FRONT_V4: usize = 14 + Ipv4::LEN + 8;
const FRONT_V6: usize = 14 + Ipv6::LEN + 8;
/// Longest error: RFC 1812 section 4.3.2.3.
const LEN_MAX_V4: usize = 576;
/// Longest error: RFC 4443 section 2.4(c), the least MTU of IPv6.
const LEN_MAX_V6: usize = 1280;
/// TTL and hop limit of errors, Linux's default.
const TTL: u8 = 64;

/// Why a packet goes no further, when its sender may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    NoRoute,
    LinkDown,
    Unreachable,
    Prohibited,
    TimeExceeded,
    /// Larger than this MTU.
    TooBig(u16),
    NeighbourSilent,
}

impl Fault {
    /// Writes the fault into the packet's fields, for the way to the ICMP node.
    pub(super) fn mark(self, packet: &mut Packet) {
        let (reason, mtu) = match self {
            Fault::NoRoute => (DropReason::NoRoute, 0),
            Fault::LinkDown => (DropReason::LinkDown, 0),
            Fault::Unreachable => (DropReason::Unreachable, 0),
            Fault::Prohibited => (DropReason::Prohibited, 0),
            Fault::TimeExceeded => (DropReason::TtlExpired, 0),
            Fault::TooBig(mtu) => (DropReason::PacketTooBig, mtu),
            Fault::NeighbourSilent => (DropReason::NeighbourUnresolved, 0),
        };
        packet.reason = reason;
        packet.key = u32::from(mtu);
    }
}

/// Type and code of the error for a marked packet. Where RFC 1812 section 5.2.7.1 leaves a choice
/// it is Linux's.
fn type_and_code(reason: DropReason, is_v4: bool) -> (u8, u8) {
    use icmp::{v4, v6};
    if is_v4 {
        match reason {
            DropReason::TtlExpired => (v4::TIME_EXCEEDED, 0),
            DropReason::PacketTooBig => (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED),
            DropReason::Prohibited => (v4::UNREACHABLE, v4::PROHIBITED),
            DropReason::Unreachable | DropReason::NeighbourUnresolved => {
                (v4::UNREACHABLE, v4::HOST)
            }
            _ => (v4::UNREACHABLE, v4::NET),
        }
    } else {
        match reason {
            DropReason::TtlExpired => (v6::TIME_EXCEEDED, 0),
            DropReason::PacketTooBig => (v6::PACKET_TOO_BIG, 0),
            DropReason::Prohibited => (v6::UNREACHABLE, v6::PROHIBITED),
            DropReason::NeighbourUnresolved => (v6::UNREACHABLE, v6::ADDRESS),
            _ => (v6::UNREACHABLE, v6::NO_ROUTE),
        }
    }
}

/// Makes ICMP errors.
pub(super) struct Icmp {
    reader: Reader,
    counters: Arc<RouteCounters>,
    budget: Budget,
    identification: u16,
    applications: Vec<Arc<dyn Application>>,
}

impl Icmp {
    pub(super) fn new(
        fib: &Arc<Fib>,
        counters: Arc<RouteCounters>,
        applications: Vec<Arc<dyn Application>>,
    ) -> Icmp {
        let budget = Budget::new(&counters.limits());
        Icmp { reader: Reader::new(fib), counters, budget, identification: 0, applications }
    }

    /// What an application made has nobody who could be told but the application.
    fn tell(&self, now: Time, packet: &Packet) {
        if packet.flags & OWN_SOURCE != 0 && packet.reason == DropReason::PacketTooBig {
            let bytes = &packet.data()[usize::from(packet.l3)..];
            self.applications.iter().for_each(|one| one.too_long(now, bytes, packet.key as u16));
        }
    }

    /// Turns a marked packet into an error, or hands it back untouched.
    fn answer(&mut self, now: Time, mut packet: Packet) -> Result<Packet, Packet> {
        let bytes = &packet.data()[usize::from(packet.l3)..];
        let is_v4 = is_v4(&packet);
        let front = if is_v4 { FRONT_V4 } else { FRONT_V6 };
        let may = if is_v4 { may_answer_v4(bytes) } else { may_answer_v6(bytes) };
        if !may
            || packet.flags & Packet::ORIGINATED != 0
            || packet.headroom() + usize::from(packet.l3) < front
        {
            return Err(packet);
        }
        let Some(peer) = sender(bytes, is_v4) else { return Err(packet) };
        let Some(source) = self.source(&packet, peer) else { return Err(packet) };
        let (kind, _) = type_and_code(packet.reason, is_v4);
        let small = packet.reason == DropReason::PacketTooBig;
        if !self.budget.take(now, &self.counters.limits(), peer, kind, small) {
            self.counters.count_suppressed();
            return Err(packet);
        }
        self.counters.count_in_place(packet.reason);
        self.identification = self.identification.wrapping_add(1);
        // What is quoted must not need anybody to finish it.
        checksums::finish_left(&mut packet);
        Ok(match source {
            IpAddr::V4(source) => build_v4(packet, source.octets(), self.identification),
            IpAddr::V6(source) => build_v6(packet, source.octets()),
        })
    }

    /// The address to speak from: of the interface that the error leaves by (RFC 1812
    /// section 4.3.2.4), else of the one where the packet arrived, else of the router.
    fn source(&self, packet: &Packet, peer: IpAddr) -> Option<IpAddr> {
        self.reader.enter();
        let mut hop = self.reader.fib.next_hop(peer);
        if hop.kind == Kind::Group {
            let table = &self.reader.fib.table;
            hop = table.read(table.member(hop.address, 0));
        }
        self.reader.leave();
        let neighbour = match hop.kind {
            Kind::Forward | Kind::Resolve if hop.address_is_v4 == peer.is_ipv4() => hop.neighbour(),
            Kind::Forward | Kind::Resolve | Kind::OnLink => peer,
            // Nobody to be told: no way back, or the router itself is named as the sender.
            _ => return None,
        };
        let interfaces = self.reader.fib.interfaces.load();
        interfaces
            .source_for(hop.interface, neighbour)
            .or_else(|| interfaces.source_for(InterfaceId(packet.interface), peer))
            .or_else(|| interfaces.any_source_for(peer))
    }
}

impl Node for Icmp {
    fn name(&self) -> &'static str {
        "icmp"
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        for packet in batch.drain(..) {
            match self.answer(now, packet) {
                Ok(error) => out.push(TO_FORWARD, error),
                Err(packet) => {
                    self.tell(now, &packet);
                    let reason = packet.reason;
                    out.drop(packet, reason);
                }
            }
        }
    }
}

/// Turns a whole packet that an application cannot take for its length into an error that asks for at most
/// `mtu` bytes, or hands it back where none may be sent. It speaks from `source`, or, where that is of the other
/// version, in the name of the packet's destination. Whose link header it has is left to the caller.
pub(crate) fn too_big(mut packet: Packet, mtu: u16, source: IpAddr) -> Result<Packet, Packet> {
    let bytes = &packet.data()[usize::from(packet.l3)..];
    let is_v4 = bytes[0] >> 4 == 4;
    let (may, front) = match is_v4 {
        true => (may_answer_v4(bytes), FRONT_V4),
        false => (may_answer_v6(bytes), FRONT_V6),
    };
    if !may || packet.headroom() + usize::from(packet.l3) < front {
        return Err(packet);
    }
    let flags = packet.flags;
    let destination = match is_v4 {
        true => IpAddr::from(Ipv4::new(bytes).expect("whole").destination()),
        false => Ipv6::new(bytes).expect("whole").destination().into(),
    };
    Fault::TooBig(mtu).mark(&mut packet);
    let source = if source.is_ipv4() == is_v4 { source } else { destination };
    let mut error = match source {
        IpAddr::V4(source) => build_v4(packet, source.octets(), 0),
        IpAddr::V6(source) => build_v6(packet, source.octets()),
    };
    // It stands for the packet that came: none is counted twice.
    error.flags = flags;
    Ok(error)
}

/// Whom the error would be sent to.
fn sender(bytes: &[u8], is_v4: bool) -> Option<IpAddr> {
    if is_v4 {
        Some(Ipv4::new(bytes)?.source().into())
    } else {
        Some(Ipv6::new(bytes)?.source().into())
    }
}

/// Whether an error about this IPv4 packet may be sent (RFC 1812 section 4.3.2.7): not about ICMP
/// errors nor fragments other than the first. The clauses on broadcast, multicast and invalid
/// sources are kept by the nodes before.
fn may_answer_v4(bytes: &[u8]) -> bool {
    let Some(header) = Ipv4::new(bytes) else { return false };
    if header.fragment_offset() != 0 {
        return false;
    }
    header.protocol() != protocol::ICMP
        || header.payload().first().is_some_and(|kind| !icmp::v4::is_error(*kind))
}

/// Whether an error about this IPv6 packet may be sent (RFC 4443 section 2.4(e)): not about ICMP
/// errors and redirects. In later fragments nothing can be told about the type. Behind more extension
/// headers than are walked there may be an error. Link padding is no part of the packet.
fn may_answer_v6(bytes: &[u8]) -> bool {
    let Some(header) = Ipv6::new(bytes) else { return false };
    let bytes = &bytes[..bytes.len().min(Ipv6::LEN + header.payload_len())];
    let Some(upper) = Ipv6::new(bytes).map(|header| header.upper()) else { return false };
    if upper.is_cut_short() && upper.offset < bytes.len() {
        return false;
    }
    upper.protocol != protocol::ICMPV6
        || upper.fragment_offset.is_some_and(|offset| offset != 0)
        || bytes.get(upper.offset).is_some_and(|kind| !icmp::v6::is_error(*kind))
}

/// Leaves `front` bytes before the first `quoted_max` bytes of the IP packet of `ip_len` bytes,
/// and sets the packet's fields for a new untagged one.
fn open(packet: &mut Packet, front: usize, ip_len: usize, quoted_max: usize) {
    let l3 = usize::from(packet.l3);
    packet.set_len(l3 + ip_len.min(quoted_max));
    packet.push_front(front - l3);
    packet.l3 = 14;
    packet.flags |= Packet::ORIGINATED;
    packet.data_mut()[..14].fill(0);
}

fn build_v4(mut packet: Packet, source: [u8; 4], identification: u16) -> Packet {
    let (kind, code) = type_and_code(packet.reason, true);
    let mtu = packet.key as u16;
    let original = Ipv4::new(&packet.data()[usize::from(packet.l3)..]).expect("validated");
    let (peer, total_len) = (original.source().octets(), original.total_len());
    // RFC 1812 section 4.3.2.5: the same type of service, with the precedence of control traffic.
    let tos = original.tos() & 0x1e | 0xc0;
    packet.kind = V4;
    packet.key = u32::from_be_bytes(peer);
    open(&mut packet, FRONT_V4, total_len, LEN_MAX_V4 - Ipv4::LEN - 8);
    let data = packet.data_mut();
    data[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    let (ip, message) = data[14..].split_at_mut(Ipv4::LEN);
    ip[..2].copy_from_slice(&[0x45, tos]);
    ip[2..4].copy_from_slice(&((Ipv4::LEN + message.len()) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[6..12].copy_from_slice(&[0, 0, TTL, protocol::ICMP, 0, 0]);
    ip[12..16].copy_from_slice(&source);
    ip[16..20].copy_from_slice(&peer);
    let sum = checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    message[..6].copy_from_slice(&[kind, code, 0, 0, 0, 0]);
    message[6..8].copy_from_slice(&mtu.to_be_bytes());
    let sum = checksum::of(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn build_v6(mut packet: Packet, source: [u8; 16]) -> Packet {
    let (kind, code) = type_and_code(packet.reason, false);
    let mtu = packet.key;
    let original = Ipv6::new(&packet.data()[usize::from(packet.l3)..]).expect("validated");
    let peer = original.source().octets();
    let ip_len = Ipv6::LEN + original.payload_len();
    open(&mut packet, FRONT_V6, ip_len, LEN_MAX_V6 - Ipv6::LEN - 8);
    let data = packet.data_mut();
    data[12..14].copy_from_slice(&ethertype::IPV6.to_be_bytes());
    let (ip, message) = data[14..].split_at_mut(Ipv6::LEN);
    ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    ip[4..6].copy_from_slice(&(message.len() as u16).to_be_bytes());
    ip[6..8].copy_from_slice(&[protocol::ICMPV6, TTL]);
    ip[8..24].copy_from_slice(&source);
    ip[24..40].copy_from_slice(&peer);
    message[..4].copy_from_slice(&[kind, code, 0, 0]);
    message[4..8].copy_from_slice(&mtu.to_be_bytes());
    let pseudo = checksum::pseudo_header(&source, &peer, protocol::ICMPV6, message.len());
    let sum = pseudo.bytes(message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

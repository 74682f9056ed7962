//! The nodes: one before routing, which seals and opens, one behind it, which lets nothing out in clear.
//!
//! Neighbours: `policy` says what belongs into which tunnel, `encapsulate` does it. Whatever is not for a tunnel
//! passes as it came.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ebb_graph::{Batch, DropReason, Node, Outputs, Packet, Pool};
use ebb_units::Time;
use ebb_wire::{Fragments, Ipv4, Ipv6, checksum, ethertype, is_group, link, protocol};

use super::Shared;
use super::association::{Inbound, Refusal};
use super::counters::{Counted, Counters};
use super::encapsulate::{self, Opened, Place, UDP_PORT};
use super::numbers::{Number, Taken};
use super::path::{self, LEAST_V6};
use super::policy::{Ends, Policy};
use super::reassembly::{Joined, Piece, Reassembly};
use crate::application::{OPENED, OWN_SOURCE};
use crate::route;

/// What is to become of a packet, by its headers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Pass,
    Drop(Counted),
    Seal(usize, Place),
    /// Tell the sender, who is to send no more than the tunnel's room.
    TooBig(usize, Place),
    /// Seal it in pieces.
    Cut(usize, Place),
    /// The ESP header is there.
    Open(Place, usize),
    /// A piece of a sealed packet.
    Join(Place),
}

/// See the module.
pub(super) struct Tunnels {
    shared: Arc<ArcSwap<Shared>>,
    counters: Arc<Counters>,
    joining: Arc<Mutex<Reassembly>>,
    steps: Vec<Step>,
}

/// The tunnels as they are while a batch passes.
struct Pass<'a> {
    shared: &'a Shared,
    counters: &'a Counters,
    joining: &'a Mutex<Reassembly>,
}

/// A packet's IP header as far as it matters here.
struct Seen {
    place: Place,
    ends: Ends,
    group: bool,
}

/// Nothing for frames that hold no whole IP header.
fn see(packet: &Packet) -> Option<Seen> {
    let data = packet.data();
    let link = link(data)?;
    let (l3, group) = (link.payload, is_group(&link.destination));
    let bytes = &data[l3..];
    let is_v4 = match link.ethertype {
        ethertype::IPV4 => true,
        ethertype::IPV6 => false,
        _ => return None,
    };
    let (len, ends) = ends_of(bytes, is_v4)?;
    Some(Seen { place: Place { l3, len, is_v4 }, ends, group })
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Length and addresses of an IP packet of which at least the header is there.
#[inline]
fn ends_of(bytes: &[u8], is_v4: bool) -> Option<(usize, Ends)> {
    let (len, source, destination) = if is_v4 {
        let header = Ipv4::new(bytes)?;
        let (source, destination) = (header.source_bits(), header.destination_bits());
        (header.total_len(), u128::from(source), u128::from(destination))
    } else {
        let header = Ipv6::new(bytes)?;
        (Ipv6::LEN + header.payload_len(), header.source_bits(), header.destination_bits())
    };
    Some((len, Ends { source, destination, is_v4 }))
}

impl Tunnels {
    pub(super) fn new(
        shared: Arc<ArcSwap<Shared>>,
        counters: Arc<Counters>,
        joining: Arc<Mutex<Reassembly>>,
    ) -> Tunnels {
        let steps = Vec::with_capacity(2 * Batch::RECEIVE_MAX);
        Tunnels { shared, counters, joining, steps }
    }
}

impl Pass<'_> {
    fn step(&self, packet: &Packet, now: Time) -> Step {
        let Some(seen) = see(packet) else { return Step::Pass };
        // Frames for several stations are never forwarded.
        if seen.group {
            return Step::Pass;
        }
        if let Some(step) = self.for_us(packet, &seen, now) {
            return step;
        }
        let (from, to) =
            (self.shared.policy.inbound(seen.ends), self.shared.policy.outbound(seen.ends));
        // What claims to come from behind one peer is not sealed for another; within one tunnel's prefixes, the way
        // out is meant.
        if from.is_some() && from != to && !self.is_between_ends(seen.ends) {
            return Step::Drop(Counted::ClearIn);
        }
        self.outbound(packet, &seen, now).unwrap_or(Step::Pass)
    }

    /// Whether it comes from a peer's end to the tunnel's own, as what exchanges keys does. For tunnels with fixed keys
    /// nobody does; for others, the kernel's policies say what may come to it in clear.
    fn is_between_ends(&self, ends: Ends) -> bool {
        self.shared.pairs[self.shared.fixed..].iter().any(|pair| {
            let outer = &pair.outer;
            (bits(outer.remote), bits(outer.local)) == (ends.source, ends.destination)
                && outer.local.is_ipv4() == ends.is_v4
        })
    }

    /// What comes to a tunnel's own end.
    fn for_us(&self, packet: &Packet, seen: &Seen, now: Time) -> Option<Step> {
        let address: IpAddr = match seen.ends.is_v4 {
            true => IpAddr::V4((seen.ends.destination as u32).into()),
            false => IpAddr::V6(seen.ends.destination.into()),
        };
        if !self.shared.locals.contains(&address) {
            return None;
        }
        let place = seen.place;
        let bytes = &packet.data()[place.l3..];
        let (next, header_len, is_fragment, is_whole) = if place.is_v4 {
            let header = Ipv4::new(bytes)?;
            (
                header.protocol(),
                header.header_len(),
                header.is_fragment(),
                route::is_whole_v4(bytes),
            )
        } else {
            let header = Ipv6::new(bytes)?;
            let (next, is_cut) = match header.next_header() {
                protocol::FRAGMENT => (*bytes.get(Ipv6::LEN)?, true),
                next => (next, false),
            };
            (next, Ipv6::LEN, is_cut, place.len <= bytes.len())
        };
        let icmp = if place.is_v4 { protocol::ICMP } else { protocol::ICMPV6 };
        if next == icmp
            && let Some(request) = path::request(&bytes[..place.len.min(bytes.len())], place.is_v4)
        {
            self.shared.heed(request, now);
        }
        let in_udp = next == protocol::UDP && self.shared.in_udp && place.is_v4;
        if next != protocol::ESP && !in_udp {
            return None;
        }
        if !is_whole {
            // Routing knows why it is to be dropped, and drops it.
            return Some(Step::Pass);
        }
        if next == protocol::ESP {
            return Some(match is_fragment {
                true => Step::Join(place),
                false => Step::Open(place, place.l3 + header_len),
            });
        }
        let udp = bytes.get(header_len..place.len)?;
        let is_first = Ipv4::new(bytes)?.fragment_offset() == 0;
        let port = udp.get(2..4).filter(|_| is_first)?;
        if port != UDP_PORT.to_be_bytes() {
            return None;
        }
        match udp.get(8..)? {
            // Not ESP (RFC 3948 section 2.2): keys are exchanged on the same port, by others, in pieces too.
            [0, 0, 0, 0, ..] => Some(Step::Pass),
            _ if is_fragment => Some(Step::Drop(Counted::Fragments)),
            [0xff] => Some(Step::Drop(Counted::Keepalives)),
            _ => Some(Step::Open(place, place.l3 + header_len + 8)),
        }
    }

    /// What has to leave by a tunnel.
    fn outbound(&self, packet: &Packet, seen: &Seen, now: Time) -> Option<Step> {
        let tunnel = self.shared.policy.outbound(seen.ends)?;
        let place = seen.place;
        let bytes = &packet.data()[place.l3..];
        let (whole, ttl, may_cut) = if place.is_v4 {
            (route::is_whole_v4(bytes), bytes[8], bytes[6] & 0x40 == 0)
        } else {
            (place.len <= bytes.len() && bytes[0] >> 4 == 6, bytes[7], false)
        };
        let fits = || place.len <= usize::from(self.shared.pairs[tunnel].room(now));
        Some(if !whole {
            Step::Drop(Counted::Malformed)
        } else if ttl <= 1 {
            // Routing drops it and tells the sender.
            Step::Pass
        } else if fits() || (!place.is_v4 && place.len <= usize::from(LEAST_V6)) {
            // Senders of IPv6 would make no shorter ones: routers on the way may cut what is sealed.
            Step::Seal(tunnel, place)
        } else if may_cut {
            Step::Cut(tunnel, place)
        } else {
            Step::TooBig(tunnel, place)
        })
    }

    fn take(&self, tunnel: usize, count: u64) -> Taken {
        let out = self.shared.pairs[tunnel].out.as_ref();
        out.map_or(Taken::NONE, |out| out.numbers.take(count))
    }

    fn drop(&self, packet: Packet, why: Counted, out: &mut Outputs<'_>) {
        self.counters.add(why, 1);
        out.drop(packet, DropReason::Application);
    }

    fn seal(
        &self,
        mut packet: Packet,
        (tunnel, place): (usize, Place),
        number: Option<Number>,
        out: &mut Outputs<'_>,
    ) {
        let pair = &self.shared.pairs[tunnel];
        let Some(sealing) = &pair.out else {
            return self.drop(packet, Counted::NoAssociation, out);
        };
        let Some(number) = number else { return self.drop(packet, Counted::NoNumber, out) };
        if sealing.is_spent(number) {
            return self.drop(packet, Counted::Spent, out);
        }
        // Nobody behind could finish a checksum that is sealed.
        route::finish_received(&mut packet);
        if !encapsulate::seal(&mut packet, place, &pair.outer, sealing, number) {
            return self.drop(packet, Counted::NoRoom, out);
        }
        packet.flags |= OWN_SOURCE;
        self.counters.add(Counted::SealedPackets, 1);
        self.counters.add(Counted::SealedBytes, place.len as u64);
        out.push(0, packet);
    }

    /// Sends on what did not come in by a port: into its tunnel, if it has one.
    fn onward(&self, packet: Packet, now: Time, out: &mut Outputs<'_>) {
        let Some(seen) = see(&packet) else { return out.push(0, packet) };
        match self.outbound(&packet, &seen, now) {
            None | Some(Step::Pass) => out.push(0, packet),
            Some(Step::Seal(tunnel, place)) => {
                let number = self.take(tunnel, 1).next();
                self.seal(packet, (tunnel, place), number, out);
            }
            // An error would quote in clear what came sealed.
            Some(Step::TooBig(..)) if self.shared.policy.inbound(seen.ends).is_some() => {
                self.drop(packet, Counted::TooBig, out);
            }
            Some(Step::TooBig(tunnel, place)) => self.too_big(packet, (tunnel, place), now, out),
            Some(Step::Cut(tunnel, place)) => self.cut(packet, (tunnel, place), now, out),
            Some(_) => self.drop(packet, Counted::Malformed, out),
        }
    }

    /// The error goes back in the frame of what caused it, and into a tunnel if the sender is behind one.
    fn too_big(
        &self,
        mut packet: Packet,
        (tunnel, place): (usize, Place),
        now: Time,
        out: &mut Outputs<'_>,
    ) {
        let pair = &self.shared.pairs[tunnel];
        let mut mac = [0; 6];
        mac.copy_from_slice(&packet.data()[..6]);
        packet.l3 = place.l3 as u8;
        self.counters.add(Counted::TooBig, 1);
        route::finish_received(&mut packet);
        let least = if place.is_v4 { 0 } else { LEAST_V6 };
        match route::too_big(packet, pair.room(now).max(least), pair.outer.local) {
            Ok(mut error) => {
                error.data_mut()[..6].copy_from_slice(&mac);
                error.flags |= OWN_SOURCE;
                self.onward(error, now, out);
            }
            Err(packet) => out.drop(packet, DropReason::Application),
        }
    }

    /// Seals the pieces of a packet that may be cut, each in a frame of its own, the first in the packet's: the far
    /// end need not put together what is sealed (RFC 4301 section 7).
    fn cut(
        &self,
        mut packet: Packet,
        (tunnel, place): (usize, Place),
        now: Time,
        out: &mut Outputs<'_>,
    ) {
        // Only a whole packet can be finished.
        route::finish_received(&mut packet);
        let pair = &self.shared.pairs[tunnel];
        let Place { l3, len, .. } = place;
        let room = usize::from(pair.room(now));
        let Some(mut fragments) = Fragments::of(&packet.data()[l3..l3 + len], room) else {
            return self.drop(packet, Counted::Malformed, out);
        };
        let mut bytes = packet.data()[..l3].to_vec();
        bytes.resize(l3 + room, 0);
        let mut next = |bytes: &mut [u8]| fragments.write_next(&mut bytes[l3..]);
        let first_len = next(&mut bytes).expect("the packet is longer than one piece");
        let first = bytes[..l3 + first_len].to_vec();
        let mut pool = Pool::new(self.shared.reserve.clone());
        let mut others = Vec::new();
        while let Some(len) = next(&mut bytes) {
            let Some(frame) = pool.get() else {
                others.into_iter().for_each(|(piece, _): (Packet, _)| pool.put(piece.into_frame()));
                return self.drop(packet, Counted::NoRoom, out);
            };
            let mut piece = frame.fill(&bytes[..l3 + len]);
            piece.flags = packet.flags | Packet::ORIGINATED;
            (piece.interface, piece.vlan, piece.input) =
                (packet.interface, packet.vlan, packet.input);
            others.push((piece, len));
        }
        packet.set_len(first.len());
        packet.data_mut().copy_from_slice(&first);
        self.counters.add(Counted::Cut, 1);
        for (piece, len) in std::iter::once((packet, first_len)).chain(others) {
            let number = self.take(tunnel, 1).next();
            self.seal(piece, (tunnel, Place { len, ..place }), number, out);
        }
    }

    /// Keeps a piece until it is the last, which then is the packet.
    fn join(&self, mut packet: Packet, place: Place, now: Time, out: &mut Outputs<'_>) {
        let Some(seen) = see(&packet) else { return self.drop(packet, Counted::Fragments, out) };
        if !self.is_of_a_peer(seen.ends) && self.shared.follows {
            // The kernel, which puts them together, has more associations than those that are followed.
            return out.push(0, packet);
        }
        let piece = piece(&packet.data()[place.l3..], &seen);
        let Some(piece) = piece.filter(|_| self.is_of_a_peer(seen.ends)) else {
            return self.drop(packet, Counted::Fragments, out);
        };
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        let (joined, given_up) = joining.join(now, &piece);
        drop(joining);
        self.counters.add(Counted::Fragments, given_up);
        match joined {
            // It has been copied: its frame is free.
            Joined::Waits => out.drop(packet, DropReason::Application),
            Joined::Refused => self.drop(packet, Counted::Fragments, out),
            Joined::Whole(bytes, ecn, others) => {
                self.counters.add(Counted::Joined, others);
                if !rebuild(&mut packet, place, &bytes, ecn) {
                    return self.drop(packet, Counted::NoRoom, out);
                }
                self.counters.add(Counted::Reassembled, 1);
                match self.step(&packet, now) {
                    Step::Open(place, esp_at) => self.open(packet, place, esp_at, now, out),
                    _ => self.drop(packet, Counted::Malformed, out),
                }
            }
        }
    }

    /// Nobody else's pieces are kept.
    fn is_of_a_peer(&self, ends: Ends) -> bool {
        self.shared.pairs.iter().any(|pair| {
            let outer = &pair.outer;
            outer.local.is_ipv4() == ends.is_v4
                && (bits(outer.remote), bits(outer.local)) == (ends.source, ends.destination)
        })
    }

    fn open(
        &self,
        mut packet: Packet,
        place: Place,
        esp_at: usize,
        now: Time,
        out: &mut Outputs<'_>,
    ) {
        let Some(spi) = packet.data()[..place.l3 + place.len].get(esp_at..esp_at + 4) else {
            return self.drop(packet, Counted::Malformed, out);
        };
        let spi = u32::from_be_bytes([spi[0], spi[1], spi[2], spi[3]]);
        let into = &self.shared.into;
        let Ok(found) = into.binary_search_by_key(&spi, |(one, _)| one.spi) else {
            // The kernel has more associations than those that are followed.
            if self.shared.follows {
                return out.push(0, packet);
            }
            return self.drop(packet, Counted::UnknownSpi, out);
        };
        let (association, _) = &into[found];
        let inner = match encapsulate::open(&mut packet, place, esp_at, association) {
            Ok(Opened::Packet(inner)) => inner,
            Ok(Opened::Dummy) => return self.drop(packet, Counted::Dummies, out),
            Ok(Opened::Congested) => return self.drop(packet, Counted::Congested, out),
            Err(Refusal::Replayed) => return self.drop(packet, Counted::Replayed, out),
            Err(Refusal::Forged) => return self.drop(packet, Counted::Forged, out),
            Err(Refusal::Malformed) => return self.drop(packet, Counted::Malformed, out),
        };
        // The peer speaks for its own prefixes only (RFC 4301 section 5.2). Tunnels may share what they are opened with.
        let tunnel = see(&packet).and_then(|seen| self.shared.policy.inbound(seen.ends));
        let may = |(one, its): &(Arc<Inbound>, usize)| one.spi == spi && Some(*its) == tunnel;
        if !may(&into[found]) && !into.iter().any(may) {
            return self.drop(packet, Counted::OtherInside, out);
        }
        packet.flags |= OPENED;
        self.counters.add(Counted::OpenedPackets, 1);
        self.counters.add(Counted::OpenedBytes, inner.len as u64);
        self.onward(packet, now, out);
    }
}

impl Node for Tunnels {
    fn name(&self) -> &'static str {
        "esp"
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let mut steps = std::mem::take(&mut self.steps);
        // No longer than for the batch: keys that are no longer used are wiped.
        let shared = self.shared.load();
        let pass = Pass { shared: &shared, counters: &self.counters, joining: &self.joining };
        steps.extend(batch.iter().map(|packet| pass.step(packet, now)));
        if steps.iter().all(|step| *step == Step::Pass) {
            out.forward(0, batch);
        }
        // Numbers are taken for a run of packets at once: workers rarely meet there.
        let (mut numbers, mut run) = (Taken::NONE, 0);
        for (at, packet) in batch.drain(..).enumerate() {
            match steps[at] {
                Step::Pass => out.push(0, packet),
                Step::Drop(why) => pass.drop(packet, why, out),
                Step::TooBig(tunnel, place) => pass.too_big(packet, (tunnel, place), now, out),
                Step::Cut(tunnel, place) => pass.cut(packet, (tunnel, place), now, out),
                Step::Open(place, esp_at) => pass.open(packet, place, esp_at, now, out),
                Step::Join(place) => pass.join(packet, place, now, out),
                Step::Seal(tunnel, place) => {
                    if run == 0 {
                        let same =
                            |step: &&Step| matches!(step, Step::Seal(other, _) if *other == tunnel);
                        run = steps[at..].iter().take_while(same).count() as u64;
                        numbers = pass.take(tunnel, run);
                    }
                    pass.seal(packet, (tunnel, place), numbers.next(), out);
                    run -= 1;
                }
            }
        }
        steps.clear();
        self.steps = steps;
    }
}

/// What a fragment's headers say of it; nothing where they are not as those of tunnels' packets.
fn piece<'a>(bytes: &'a [u8], seen: &Seen) -> Option<Piece<'a>> {
    let (len, Ends { source, destination, is_v4 }) = (seen.place.len, seen.ends);
    let peer = (source, destination, is_v4);
    if is_v4 {
        let header = Ipv4::new(bytes)?;
        let offset = usize::from(header.fragment_offset()) * 8;
        let id = u32::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let (more, ecn) = (bytes[6] & 0x20 != 0, bytes[1] & 3);
        let payload = bytes.get(header.header_len()..len)?;
        return (header.header_len() == Ipv4::LEN).then_some(Piece {
            peer,
            id,
            offset,
            more,
            ecn,
            bytes: payload,
        });
    }
    let payload = bytes.get(Ipv6::LEN..len)?;
    let (head, payload) = payload.split_first_chunk::<8>()?;
    let [_, _, high, low, id @ ..] = *head;
    let field = u16::from_be_bytes([high, low]);
    let (offset, more) = (usize::from(field & !7), field & 1 != 0);
    let (id, ecn) = (u32::from_be_bytes(id), bytes[1] >> 4 & 3);
    Some(Piece { peer, id, offset, more, ecn, bytes: payload })
}

/// The whole packet in the frame of its last piece; false where it does not fit.
fn rebuild(packet: &mut Packet, place: Place, payload: &[u8], ecn: u8) -> bool {
    let Place { l3, is_v4, .. } = place;
    let at = l3 + if is_v4 { Ipv4::LEN } else { Ipv6::LEN };
    if packet.capacity() < at + payload.len() {
        return false;
    }
    packet.set_len(at + payload.len());
    let data = packet.data_mut();
    data[at..].copy_from_slice(payload);
    let head = &mut data[l3..at];
    if is_v4 {
        head[1] = head[1] & !3 | ecn;
        head[2..4].copy_from_slice(&((Ipv4::LEN + payload.len()) as u16).to_be_bytes());
        head[6..8].fill(0);
        head[10..12].fill(0);
        let sum = checksum::of(head);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        head[1] = head[1] & !0x30 | ecn << 4;
        head[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        head[6] = protocol::ESP;
    }
    true
}

/// Stands behind everything else: routing's own errors about what came out of a tunnel, for instance, have no way
/// back into it, and quote what was secret.
pub(super) struct Guard {
    shared: Arc<ArcSwap<Shared>>,
    counters: Arc<Counters>,
}

impl Guard {
    pub(super) fn new(shared: Arc<ArcSwap<Shared>>, counters: Arc<Counters>) -> Guard {
        Guard { shared, counters }
    }

    fn stops(policy: &Policy, packet: &Packet) -> bool {
        if packet.flags & OWN_SOURCE != 0 {
            return false;
        }
        let Some(seen) = see(packet) else { return false };
        if packet.flags & Packet::ORIGINATED != 0
            && let Some(quoted) = quoted(packet, seen.place)
        {
            return policy.inbound(quoted).is_some() || policy.outbound(seen.ends).is_some();
        }
        policy.outbound(seen.ends).is_some()
    }
}

/// The ends of the packet that an ICMP error of the router's own is about.
fn quoted(packet: &Packet, place: Place) -> Option<Ends> {
    let header_len = if place.is_v4 { Ipv4::LEN } else { Ipv6::LEN };
    let bytes = packet.data().get(place.l3 + header_len + 8..)?;
    Some(ends_of(bytes, place.is_v4)?.1)
}

impl Node for Guard {
    fn name(&self) -> &'static str {
        "esp guard"
    }

    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let shared = self.shared.load();
        if !batch.iter().any(|packet| Self::stops(&shared.policy, packet)) {
            return out.forward(0, batch);
        }
        for packet in batch.drain(..) {
            if Self::stops(&shared.policy, &packet) {
                self.counters.add(Counted::ClearOut, 1);
                out.drop(packet, DropReason::Application);
            } else {
                out.push(0, packet);
            }
        }
    }
}

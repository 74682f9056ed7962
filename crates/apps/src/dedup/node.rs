//! The nodes: one behind routing, which encodes, one before it, which decodes.
//!
//! Neighbours: `frame` finds the payload, `encoder` what of it the peer has, `wire` writes and reads it, `peer` has
//! the memory. Whatever is not for a peer passes as it came.

use std::sync::Arc;

use ebb_graph::{Batch, DropReason, Node, Outputs, Packet};
use ebb_units::Time;

use super::counters::{Counted, Counters};
use super::encoder::{Sample, Sampler};
use super::flows::Verdict;
use super::frame::{PAYLOAD_MIN, Place};
use super::peer::{Inbound, Peer, Session};
use super::report::Came;
use super::wire::{self, Fault, REFERENCE_LEN, Reference, SHIM_LEN, Shim, u32_at};
use crate::application::{OPENED, OWN_SOURCE};
use crate::route;

/// Behind routing.
pub(super) struct Encode {
    peers: Arc<[Arc<Peer>]>,
    counters: Arc<Counters>,
    sampler: Sampler,
    starts: Vec<u16>,
    samples: Vec<Sample>,
    references: Vec<Reference>,
    transport: Vec<u8>,
}

impl Encode {
    pub(super) fn new(
        peers: Arc<[Arc<Peer>]>,
        counters: Arc<Counters>,
        sampler: Sampler,
    ) -> Encode {
        let (starts, samples, references) = (Vec::new(), Vec::new(), Vec::new());
        Encode { peers, counters, sampler, starts, samples, references, transport: Vec::new() }
    }

    fn encode(&mut self, now: Time, packet: &mut Packet) {
        let Some(peer) = self.peers.iter().find(|peer| peer.port == packet.output) else { return };
        if !peer.is_alive(now) {
            return;
        }
        let peer = peer.clone();
        let theirs = peer.theirs.load();
        let Some(theirs) = theirs.as_ref() else { return };
        if theirs.mac != [0; 6] && packet.data().get(..6) != Some(&theirs.mac) {
            return;
        }
        let Some(place) = Place::of(packet.data()) else { return };
        let Some(header_len) = place.header_len else { return };
        if place.end - place.l4 < header_len + PAYLOAD_MIN {
            return;
        }
        self.counters.add(Counted::OutPackets, 1);
        self.counters.add(Counted::OutBytes, place.packet_len() as u64);
        let found = self.find(now, (&peer, theirs), packet.data(), place, header_len);
        let Some(found) = found else { return };
        // A checksum is not to be finished by whoever sends an encoded packet.
        route::finish_left(packet);
        self.write(packet, (place, header_len), theirs, found);
    }

    /// Looks for what the peer has, and remembers the payload. Its hash and a sequence number if it is worth it.
    fn find(
        &mut self,
        now: Time,
        (peer, theirs): (&Peer, &Session),
        frame: &[u8],
        place: Place,
        header_len: usize,
    ) -> Option<(u64, u32)> {
        let payload = &frame[place.l4 + header_len..place.end];
        // Before the lock, what needs nothing of what it guards.
        let id = theirs.key.id(payload);
        self.sampler.sample(payload, &mut self.starts, &mut self.samples);
        let flow = place.flow(frame);
        let mut out = peer.outbound();
        if out.session != Some(theirs.key.session) {
            return None;
        }
        out.encoder.prefetch(&self.samples);
        let sequence = place.is_tcp.then(|| u32_at(frame, place.l4 + 4));
        if !peer.is_trusted(now) {
            out.flows.excuse(flow);
        }
        let verdict = out.flows.note(flow, now, sequence, payload.len());
        self.references.clear();
        match verdict {
            Verdict::Again => self.counters.add(Counted::SentAgain, 1),
            Verdict::Fine if peer.is_trusted(now) => {
                let horizon = out.horizon;
                out.encoder.find(payload, &self.samples, &horizon, &mut self.references);
            }
            _ => self.counters.add(Counted::Unacknowledged, 1),
        }
        out.encoder.put(id, payload, &self.samples, &self.references);
        let saved: usize = self.references.iter().map(|of| usize::from(of.len)).sum();
        let added = SHIM_LEN + REFERENCE_LEN * self.references.len();
        if saved <= added {
            return None;
        }
        self.counters.add(Counted::EncodedPackets, 1);
        self.counters.add(Counted::SavedBytes, (saved - added) as u64);
        out.flows.encoded(flow, now);
        out.sequence = out.sequence.wrapping_add(1);
        Some((id, out.sequence))
    }

    fn write(
        &mut self,
        packet: &mut Packet,
        (place, header_len): (Place, usize),
        theirs: &Session,
        (id, sequence): (u64, u32),
    ) {
        let frame = packet.data();
        let (header, payload) = frame[place.l4..place.end].split_at(header_len);
        let shim = Shim {
            header_words: (header_len / 4) as u8,
            references: self.references.len() as u8,
            payload_len: payload.len() as u16,
            session: theirs.key.session,
            sequence,
        };
        let mut shim = shim.to_bytes();
        let check = theirs.key.check(&shim, place.addresses(frame), header, id);
        shim[SHIM_LEN - 8..].copy_from_slice(&check.to_be_bytes());
        let out = &mut self.transport;
        out.clear();
        out.extend(&header[..place.fixed_len]);
        Place::mark(place.is_tcp, out);
        out.extend(shim);
        out.extend(&header[place.fixed_len..]);
        wire::write(&self.references, payload, out);
        place.replace(packet, out);
    }
}

impl Node for Encode {
    fn name(&self) -> &'static str {
        "dedup encode"
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        batch.iter_mut().for_each(|packet| self.encode(now, packet));
        out.forward(0, batch);
    }
}

/// Before routing.
pub(super) struct Decode {
    peers: Arc<[Arc<Peer>]>,
    counters: Arc<Counters>,
    transport: Vec<u8>,
}

impl Decode {
    pub(super) fn new(peers: Arc<[Arc<Peer>]>, counters: Arc<Counters>) -> Decode {
        Decode { peers, counters, transport: Vec::new() }
    }

    /// Why a packet is to be dropped; it is whole otherwise.
    fn decode(&mut self, now: Time, packet: &mut Packet) -> Result<(), Counted> {
        // What came in a tunnel did not come over the link as it is here, and is not for whoever listens there.
        if packet.flags & (OPENED | OWN_SOURCE) != 0 {
            return Ok(());
        }
        let Some(peer) = self.peers.iter().find(|peer| peer.port == packet.input) else {
            return Ok(());
        };
        let Some(place) = Place::of(packet.data()) else { return Ok(()) };
        let peer = peer.clone();
        let Some(header_len) = place.header_len else {
            return self.restore(now, &peer, packet, place);
        };
        let frame = packet.data();
        let payload = &frame[place.l4 + header_len..place.end];
        if payload.len() >= PAYLOAD_MIN && peer.is_alive(now) {
            let id = peer.own.id(payload);
            let mut into = peer.inbound();
            if !into.is_of_another(frame, now) {
                into.came_to(frame);
                let came = Came { name: id as u32, flow: place.flow(frame), encoded: false };
                keep(&peer, &mut into, came, (id, payload), &self.counters);
            }
        }
        Ok(())
    }

    fn restore(
        &mut self,
        now: Time,
        peer: &Peer,
        packet: &mut Packet,
        place: Place,
    ) -> Result<(), Counted> {
        let frame = packet.data();
        let (fixed, rest) = frame[place.l4..place.end].split_at(place.fixed_len);
        // No host takes it either.
        let shim = Shim::read(rest).ok_or(Counted::Malformed)?;
        if shim.session != peer.own.session {
            peer.inbound().greet();
            peer.ring();
            return Err(Counted::OtherSession);
        }
        let header_len = usize::from(shim.header_words) * 4;
        let is_right =
            header_len == place.fixed_len || (place.is_tcp && header_len > place.fixed_len);
        let whole = place.l4 + header_len + usize::from(shim.payload_len);
        let (shim_bytes, rest) = rest.split_at(SHIM_LEN);
        if !is_right || whole > packet.capacity() {
            return Err(Counted::Malformed);
        }
        let (options, encoded) =
            rest.split_at_checked(header_len - place.fixed_len).ok_or(Counted::Malformed)?;
        let out = &mut self.transport;
        out.clear();
        out.extend(fixed);
        Place::unmark(place.is_tcp, out, shim.header_words, shim.payload_len);
        out.extend(options);
        let mut into = peer.inbound();
        match wire::read(&shim, encoded, |name| into.store.named(name), out) {
            Ok(()) => {}
            Err(Fault::Malformed) => return Err(Counted::Malformed),
            Err(Fault::Missing(name)) => {
                into.note(None, Some(name));
                peer.ring();
                return Err(Counted::Missing);
            }
        }
        let (header, payload) = out.split_at(header_len);
        let id = peer.own.id(payload);
        if peer.own.check(shim_bytes, place.addresses(frame), header, id)
            != wire::check_of(shim_bytes)
        {
            // Damaged on the way, or two payloads of one name, which nobody is to refer to again.
            for reference in encoded.chunks_exact(REFERENCE_LEN).take(shim.references.into()) {
                into.note(None, Some(u32_at(reference, 0)));
            }
            peer.ring();
            return Err(Counted::WrongCheck);
        }
        let gap = shim.sequence.wrapping_sub(into.next.unwrap_or(shim.sequence));
        if gap < 1 << 31 {
            self.counters.add(Counted::SequenceGaps, u64::from(gap));
            into.next = Some(shim.sequence.wrapping_add(1));
        }
        into.came_to(frame);
        into.came_from(frame, now);
        let came = Came { name: id as u32, flow: place.flow(frame), encoded: true };
        keep(peer, &mut into, came, (id, payload), &self.counters);
        drop(into);
        let saved = whole.saturating_sub(place.end);
        self.counters.add(Counted::Decoded, 1);
        self.counters.add(Counted::RestoredBytes, saved as u64);
        place.replace(packet, &self.transport);
        // Its sender's side finished its checksums.
        packet.flags &= !(Packet::UNFINISHED | Packet::LEFT);
        Ok(())
    }
}

fn keep(
    peer: &Peer,
    into: &mut Inbound,
    came: Came,
    (id, payload): (u64, &[u8]),
    counters: &Counters,
) {
    let before = into.store.progress();
    into.store.put(id, payload);
    counters.add(Counted::Cached, 1);
    if into.note(Some((came, before)), None) {
        peer.ring();
    }
}

impl Node for Decode {
    fn name(&self) -> &'static str {
        "dedup decode"
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        for mut packet in batch.drain(..) {
            match self.decode(now, &mut packet) {
                Ok(()) => out.push(0, packet),
                Err(why) => {
                    self.counters.add(why, 1);
                    out.drop(packet, DropReason::Application);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_graph::{Pool, PortId};
    use ebb_wire::Template;

    use super::*;
    use crate::dedup::{Dedup, Sampling, Settings};

    /// What is in a tunnel is not told to who listens on the link.
    #[test]
    fn what_came_in_a_tunnel_is_not_kept() {
        let settings =
            Settings { sampling: Sampling::Maxp, period: 32, cache_bytes: 1 << 16, seed: 1 };
        let end =
            |session| Dedup::new(1, &settings, &[(PortId(0), session)], &(Arc::new(|| ()) as _));
        let (near, far) = (end(5), end(6));
        let (now, mut datagram) = (Time::from_nanos(1_000_000_000), Vec::new());
        for (from, to) in [(&near, &far), (&far, &near), (&near, &far)] {
            while from.peers()[0].send(now, &mut datagram) {
                to.peers()[0].receive(&datagram, now);
            }
        }
        let address = |text: &str| text.parse().expect("an address");
        let template = Template::udp(address("192.0.2.1:5"), address("192.0.2.2:6"));
        let mut pool = Pool::standalone(4);
        let mut decode = Decode::new(far.peers.clone(), far.counters[0].clone());
        for (flags, kept) in [(OPENED, 0), (OWN_SOURCE, 0), (0, 1)] {
            let frame = pool.get().expect("a frame");
            let mut packet = frame.fill(&template.to_frame(&[1; 100]));
            packet.flags |= flags;
            assert_eq!(decode.decode(now, &mut packet), Ok(()));
            assert_eq!(far.counters[0].get()[Counted::Cached as usize], kept, "{flags}");
            pool.put(packet.into_frame());
        }
    }
}

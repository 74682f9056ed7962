//! The second node: looks destinations up a batch at a time, decides, rewrites, transmits; keeps
//! packets whose neighbour is unknown.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebb_graph::{Batch, DropReason, Given, Node, Outputs, Packet, PortId};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, flow_hash, redirect_hash};

use super::fib::Reader;
use super::hold::{Awaited, Held, Hold};
use super::icmp::Fault;
use super::input::{PLAIN, is_v4};
use super::rewrite::{rewrite, rewrite_plain};
use super::table::{Kind, NextHop, Table};
use super::validate::{Verdict as Source, forwardable_source};
use super::{FRAGMENT, Fib, Requests, RouteCounters, source};
use crate::application::OWN_SOURCE;

/// Output to the ICMP node.
pub(super) const TO_ICMP: usize = 0;

/// Least time between two looks at waiting neighbours that changes of the table provoke, so that
/// many changes while many packets wait cost little.
const LOOK_PAUSE_MIN: Duration = Duration::from_micros(500);

/// What becomes of a packet after the lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Rewritten already.
    Transmit,
    Kernel,
    Drop(DropReason),
    /// Dropped, and its sender may be told; the packet is marked with the fault.
    Fault,
    /// Waits for a neighbour, which is in [`Forward::awaited`].
    Hold,
    /// Could go, but others still wait for its neighbour: it goes behind them.
    Behind,
}

/// Looks up and forwards.
pub(super) struct Forward {
    reader: Reader,
    requests: Arc<Requests>,
    counters: Arc<RouteCounters>,
    alone: bool,
    hold: Hold,
    /// Since when the packets at hand wait, where another worker held them until now.
    since: Option<Time>,
    /// Neighbours found resolved while packets wait for them.
    ready: Vec<Awaited>,
    /// When waiting neighbours were last looked at, and the table's generation then.
    looked: (Time, u64),
    look_at: Option<Time>,
    keys_v4: Vec<u32>,
    keys_source: Vec<u32>,
    keys_v6: Vec<u128>,
    hops_v4: Vec<u32>,
    hops_source: Vec<u32>,
    hops_v6: Vec<u32>,
    verdicts: Vec<Verdict>,
    /// The neighbours of the packets that are to wait, in the packets' order.
    awaited: Vec<Awaited>,
}

impl Forward {
    pub(super) fn new(
        fib: &Arc<Fib>,
        requests: Arc<Requests>,
        counters: Arc<RouteCounters>,
        alone: bool,
    ) -> Forward {
        let space = 4 * Batch::RECEIVE_MAX;
        Forward {
            reader: Reader::new(fib),
            requests,
            hold: Hold::new(counters.clone()),
            counters,
            alone,
            since: None,
            ready: Vec::new(),
            looked: (Time::ZERO, 0),
            look_at: None,
            keys_v4: Vec::with_capacity(space),
            keys_source: Vec::new(),
            keys_v6: Vec::with_capacity(space),
            hops_v4: Vec::with_capacity(space),
            hops_source: Vec::new(),
            hops_v6: Vec::with_capacity(space),
            verdicts: Vec::with_capacity(space),
            awaited: Vec::new(),
        }
    }

    /// Looks all destinations up, leaving the next hops in the order of each family's packets, and
    /// the sources of packets that are to be filtered. Returns whether all packets are plain.
    fn look_up(&mut self, batch: &Batch) -> bool {
        self.keys_v4.clear();
        self.keys_v6.clear();
        self.keys_source.clear();
        self.keys_v4.resize(batch.len(), 0);
        let plain = batch.iter().zip(&mut self.keys_v4).all(|(packet, key)| {
            *key = packet.key;
            packet.kind == PLAIN
        });
        if plain {
            self.hops_v4.resize(self.keys_v4.len(), 0);
            self.reader.fib.v4.lookup_batch(&self.keys_v4, &mut self.hops_v4);
            self.hops_v6.clear();
            self.hops_source.clear();
            return true;
        }
        self.keys_v4.clear();
        for packet in batch.iter() {
            if is_v4(packet) {
                self.keys_v4.push(packet.key);
                if source::asked(packet) {
                    let header = &packet.data()[usize::from(packet.l3)..];
                    let header = Ipv4::new(header).expect("validated");
                    self.keys_source.push(header.source_bits());
                }
            } else {
                let header = &packet.data()[usize::from(packet.l3)..];
                let header = Ipv6::new(header).expect("validated");
                self.keys_v6.push(header.destination_bits());
            }
        }
        self.hops_v4.resize(self.keys_v4.len(), 0);
        self.hops_v6.resize(self.keys_v6.len(), 0);
        if !self.keys_v4.is_empty() {
            self.reader.fib.v4.lookup_batch(&self.keys_v4, &mut self.hops_v4);
        }
        self.hops_source.resize(self.keys_source.len(), 0);
        if !self.keys_source.is_empty() {
            self.reader.fib.v4.lookup_batch(&self.keys_source, &mut self.hops_source);
        }
        if !self.keys_v6.is_empty() {
            self.reader.fib.v6.lookup_batch(&self.keys_v6, &mut self.hops_v6);
        }
        false
    }

    /// Sends a batch of validated packets on their ways.
    fn route(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        self.reader.enter();
        if self.look_up(batch) && self.hold.len() == 0 {
            self.send_plain(batch, out);
        }
        if !batch.is_empty() {
            self.decide_all(batch);
        }
        self.reader.leave();
        if !batch.is_empty() {
            self.dispatch(now, batch, out);
        }
    }

    /// Sends those of a batch of plain packets on their ways whose next hops are like most, and leaves the
    /// others with theirs. A flow's packets are alike, so none overtakes.
    fn send_plain(&mut self, batch: &mut Batch, out: &mut Outputs<'_>) {
        let (table, counters) = (&self.reader.fib.table, &*self.counters);
        let hops = &mut self.hops_v4[..];
        let (mut at, mut kept) = (0, 0);
        out.transmit_if(batch, |packet| {
            let number = hops[at];
            at += 1;
            let sent = try_plain(packet, number, table, counters);
            if sent.is_none() {
                hops[kept] = number;
                kept += 1;
            }
            sent
        });
        self.hops_v4.truncate(batch.len());
    }

    /// Decides on every packet and rewrites those that are to be transmitted.
    #[inline(never)]
    fn decide_all(&mut self, batch: &mut Batch) {
        self.verdicts.clear();
        let table = &self.reader.fib.table;
        let hold = (self.hold.len() > 0).then_some(&self.hold);
        let (mut next_v4, mut next_v6) = (self.hops_v4.iter(), self.hops_v6.iter());
        let mut next_source = self.hops_source.iter();
        let counters = &*self.counters;
        let alone = self.alone;
        let awaited = &mut self.awaited;
        self.verdicts.extend(batch.iter_mut().map(|packet| {
            let next = if is_v4(packet) { next_v4.next() } else { next_v6.next() };
            let mut number = *next.expect("one next hop per packet");
            if packet.kind == PLAIN
                && hold.is_none()
                && let Some((port, len)) = try_plain(packet, number, table, counters)
            {
                packet.output = port;
                packet.set_len(len);
                return Verdict::Transmit;
            }
            let mut hop = table.read(number);
            if hop.kind == Kind::Group {
                let hash = flow_hash(&packet.data()[usize::from(packet.l3)..]);
                number = table.member(hop.address, hash);
                hop = table.read(number);
            }
            // Destinations that are not reached are told so whatever the source.
            let filtered = match source::asked(packet) {
                true => {
                    let back = table.read(*next_source.next().expect("one way back per source"));
                    let goes = !matches!(
                        hop.kind,
                        Kind::NoRoute | Kind::Blackhole | Kind::Unreachable | Kind::Prohibit
                    );
                    if goes { source::judge(packet, &back, table) } else { None }
                }
                false => None,
            };
            let verdict = match filtered {
                None => decide(packet, &hop, alone, hold, awaited),
                Some(verdict) => verdict,
            };
            if verdict == Verdict::Transmit {
                counters.count_next_hop(number, hop.interface, packet.data().len());
            }
            verdict
        }));
    }

    fn dispatch(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let verdicts = core::mem::take(&mut self.verdicts);
        let mut next = verdicts.iter();
        out.transmit_if(batch, |packet| {
            let transmit = next.next() == Some(&Verdict::Transmit);
            transmit.then(|| (packet.output, packet.len()))
        });
        let mut all_awaited = core::mem::take(&mut self.awaited);
        let mut next_awaited = all_awaited.drain(..);
        let others = verdicts.iter().filter(|verdict| **verdict != Verdict::Transmit);
        for (packet, verdict) in batch.drain(..).zip(others) {
            match *verdict {
                Verdict::Transmit => unreachable!("sent above"),
                Verdict::Kernel => out.kernel(packet),
                Verdict::Drop(reason) => out.drop(packet, reason),
                Verdict::Fault => out.push(TO_ICMP, packet),
                Verdict::Hold | Verdict::Behind => {
                    let awaited = next_awaited.next().expect("one neighbour per waiting packet");
                    if *verdict == Verdict::Behind {
                        self.ready.push(awaited);
                    }
                    self.keep(now, awaited, packet, out);
                }
            }
        }
        drop(next_awaited);
        self.awaited = all_awaited;
        self.verdicts = verdicts;
    }

    fn keep(&mut self, now: Time, awaited: Awaited, packet: Packet, out: &mut Outputs<'_>) {
        let held = self.hold.push(now, self.since, awaited, packet);
        if matches!(held, Held::First | Held::Instead(_)) {
            self.requests.push(awaited.0, awaited.1);
            self.look_at = self.hold.look_at(now);
        }
        if let Held::Full(packet) | Held::Instead(packet) = held {
            out.drop(packet, DropReason::NeighbourUnresolved);
        }
    }

    /// Finds the neighbours whose wait is over, because they are resolved or the route is another
    /// one now, and routes their packets again.
    fn look(&mut self, now: Time, out: &mut Outputs<'_>) {
        let fib = &self.reader.fib;
        self.looked = (now, fib.generation.load(Ordering::Acquire));
        self.reader.enter();
        let waiting = self.hold.awaited();
        let over = waiting.filter(|(awaited, packet)| waits_for(fib, packet) != Some(**awaited));
        self.ready.extend(over.map(|(awaited, _)| *awaited));
        self.reader.leave();
        self.release(now, out);
        self.look_at = self.hold.look_at(now);
    }

    fn release(&mut self, now: Time, out: &mut Outputs<'_>) {
        let mut batch = Batch::new();
        for awaited in core::mem::take(&mut self.ready) {
            batch.extend(self.hold.take(&awaited));
            self.route(now, &mut batch, out);
        }
    }

    fn count(&self) {
        let originated = self.hold.originated();
        self.counters.set_held(self.hold.len() - originated, originated);
    }
}

impl Node for Forward {
    fn name(&self) -> &'static str {
        "forward"
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        if self.hold.len() == 0 {
            self.route(now, batch, out);
            if self.hold.len() > 0 {
                self.count();
            }
            return;
        }
        let generation = self.reader.fib.generation.load(Ordering::Acquire);
        if self.looked.1 != generation && now.since(self.looked.0) >= LOOK_PAUSE_MIN {
            self.look(now, out);
        }
        self.route(now, batch, out);
        if !self.ready.is_empty() {
            self.release(now, out);
        }
        self.count();
    }

    fn poll_at(&self) -> Option<Time> {
        self.look_at
    }

    fn poll(&mut self, now: Time, out: &mut Outputs<'_>) {
        self.look(now, out);
        for awaited in self.hold.timed_out(now) {
            for mut packet in self.hold.take(&awaited) {
                Fault::NeighbourSilent.mark(&mut packet);
                out.push(TO_ICMP, packet);
            }
        }
        for (interface, address) in self.hold.ask_again(now) {
            self.requests.push(interface, address);
        }
        self.look_at = self.hold.look_at(now);
        self.count();
    }

    fn held(&self) -> usize {
        self.hold.len()
    }

    fn give_up(&mut self, leaves: &mut dyn FnMut(PortId, u32) -> bool) -> Vec<Given> {
        let leaves = &mut |packet: &Packet| leaves(packet.input, redirect_hash(packet.data()));
        let given = self.hold.give_up(leaves).into_iter();
        let given = given.map(|(since, packets)| Given::Packets { since, packets }).collect();
        if self.hold.len() == 0 {
            self.look_at = None;
        }
        self.count();
        given
    }

    fn take_over(&mut self, now: Time, given: Given, out: &mut Outputs<'_>) {
        let Given::Packets { since, packets } = given else { return };
        self.since = Some(since);
        let mut batch = Batch::new();
        batch.extend(packets);
        self.route(now, &mut batch, out);
        if !self.ready.is_empty() {
            self.release(now, out);
        }
        self.since = None;
        self.count();
    }
}

/// Rewrites the headers of a plain packet whose next hop is like most and counts it; returns the port and the
/// length with which it leaves. Others it leaves untouched.
#[inline(always)]
fn try_plain(
    packet: &mut Packet,
    number: u32,
    table: &Table,
    counters: &RouteCounters,
) -> Option<(PortId, usize)> {
    let plain = table.read_plain(number)?;
    let len = rewrite_plain(packet, &plain)?;
    counters.count_next_hop(number, plain.interface, len);
    Some((plain.port, len))
}

/// Decides on one packet and rewrites it when it is to be transmitted. The order is RFC 1812's
/// section 5.2.1 and Linux's: local delivery and rejection before TTL, TTL before size.
#[inline]
fn decide(
    packet: &mut Packet,
    hop: &NextHop,
    alone: bool,
    hold: Option<&Hold>,
    waiting: &mut Vec<Awaited>,
) -> Verdict {
    if !matches!(hop.kind, Kind::Forward | Kind::OnLink | Kind::Resolve) {
        return reject(hop.kind, packet);
    }
    let bytes = &packet.data()[usize::from(packet.l3)..];
    let is_v4 = is_v4(packet);
    let (ttl, ip_len) = if is_v4 {
        let header = Ipv4::new(bytes).expect("validated");
        (header.ttl(), header.total_len())
    } else {
        match forwardable_source(bytes) {
            Source::Route | Source::Options => {}
            Source::Kernel => return Verdict::Kernel,
            Source::Drop(reason) => return Verdict::Drop(reason),
        }
        let header = Ipv6::new(bytes).expect("validated");
        (header.hop_limit(), Ipv6::LEN + header.payload_len())
    };
    if ttl <= 1 && packet.flags & Packet::ORIGINATED == 0 {
        return fault(packet, Fault::TimeExceeded);
    }
    if ip_len > usize::from(hop.mtu) {
        // RFC 1812 section 5.2.6: the kernel fragments what may be fragmented, or whoever takes the packet
        // from the exit of a router that is alone. The kernel would not take what has its own address as its source;
        // the application that made it is told.
        let may_fragment = is_v4
            && packet.flags & OWN_SOURCE == 0
            && !Ipv4::new(bytes).expect("validated").dont_fragment();
        if !may_fragment {
            return fault(packet, Fault::TooBig(hop.mtu));
        }
        if !alone {
            return Verdict::Kernel;
        }
    }
    if hop.kind != Kind::Forward || hold.is_some() {
        let awaited = awaited(packet, hop);
        let verdict = if hop.kind != Kind::Forward {
            Verdict::Hold
        } else if hold.is_some_and(|hold| hold.awaits(&awaited)) {
            Verdict::Behind
        } else {
            Verdict::Transmit
        };
        if verdict != Verdict::Transmit {
            waiting.push(awaited);
            return verdict;
        }
    }
    rewrite(packet, hop, ip_len);
    if ip_len > usize::from(hop.mtu) {
        packet.flags |= FRAGMENT;
        packet.key = u32::from(hop.mtu);
    }
    Verdict::Transmit
}

/// Decides on a packet that has no way out of an interface.
#[cold]
fn reject(kind: Kind, packet: &mut Packet) -> Verdict {
    if kind == Kind::Kernel {
        return Verdict::Kernel;
    }
    if !is_v4(packet) {
        match forwardable_source(&packet.data()[usize::from(packet.l3)..]) {
            Source::Route | Source::Options => {}
            Source::Kernel => return Verdict::Kernel,
            Source::Drop(reason) => return Verdict::Drop(reason),
        }
    }
    match kind {
        Kind::Blackhole => Verdict::Drop(DropReason::Blackhole),
        Kind::Unreachable => fault(packet, Fault::Unreachable),
        Kind::Prohibit => fault(packet, Fault::Prohibited),
        Kind::Down => fault(packet, Fault::LinkDown),
        _ => fault(packet, Fault::NoRoute),
    }
}

#[cold]
fn fault(packet: &mut Packet, fault: Fault) -> Verdict {
    fault.mark(packet);
    Verdict::Fault
}

/// The neighbour that `hop` leads to.
fn awaited(packet: &Packet, hop: &NextHop) -> Awaited {
    if hop.kind == Kind::OnLink {
        (hop.interface, destination(packet))
    } else {
        (hop.interface, hop.neighbour())
    }
}

fn destination(packet: &Packet) -> std::net::IpAddr {
    let bytes = &packet.data()[usize::from(packet.l3)..];
    if is_v4(packet) {
        Ipv4::new(bytes).expect("validated").destination().into()
    } else {
        Ipv6::new(bytes).expect("validated").destination().into()
    }
}

/// The neighbour that a packet would have to wait for at present.
fn waits_for(fib: &Fib, packet: &Packet) -> Option<Awaited> {
    let mut hop = fib.next_hop(destination(packet));
    if hop.kind == Kind::Group {
        let hash = flow_hash(&packet.data()[usize::from(packet.l3)..]);
        hop = fib.table.read(fib.table.member(hop.address, hash));
    }
    matches!(hop.kind, Kind::OnLink | Kind::Resolve).then(|| awaited(packet, &hop))
}

//! The second node: looks destinations up a batch at a time, decides, rewrites, transmits; keeps
//! packets whose neighbour is unknown.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebb_graph::{Batch, DropReason, Node, Outputs, Packet};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, flow_hash};

use super::fib::Reader;
use super::hold::{Awaited, Held, Hold};
use super::icmp::Fault;
use super::input::V4;
use super::rewrite::{rewrite, rewrite_plain};
use super::table::{Kind, NextHop};
use super::validate::{Verdict as Source, forwardable_source};
use super::{Fib, Requests, RouteCounters, source};

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
    ) -> Forward {
        let space = 4 * Batch::RECEIVE_MAX;
        Forward {
            reader: Reader::new(fib),
            requests,
            hold: Hold::new(counters.clone()),
            counters,
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
    /// the sources of packets that are to be filtered.
    fn look_up(&mut self, batch: &Batch) {
        self.keys_v4.clear();
        self.keys_v6.clear();
        self.keys_source.clear();
        if batch.iter().all(|packet| packet.kind == V4 && !source::asked(packet)) {
            self.keys_v4.extend(batch.iter().map(|packet| packet.key));
            self.hops_v4.resize(self.keys_v4.len(), 0);
            self.reader.fib.v4.lookup_batch(&self.keys_v4, &mut self.hops_v4);
            self.hops_v6.clear();
            self.hops_source.clear();
            return;
        }
        for packet in batch.iter() {
            if packet.kind == V4 {
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
    }

    /// Sends a batch of validated packets on their ways.
    fn route(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        self.reader.enter();
        self.look_up(batch);
        self.verdicts.clear();
        let table = &self.reader.fib.table;
        let hold = (self.hold.len() > 0).then_some(&self.hold);
        let (mut next_v4, mut next_v6) = (self.hops_v4.iter(), self.hops_v6.iter());
        let mut next_source = self.hops_source.iter();
        let mut all_transmitted = true;
        let counters = &self.counters;
        let awaited = &mut self.awaited;
        self.verdicts.extend(batch.iter_mut().map(|packet| {
            let next = if packet.kind == V4 { next_v4.next() } else { next_v6.next() };
            let mut number = *next.expect("one next hop per packet");
            if hold.is_none()
                && !source::asked(packet)
                && let Some(plain) = table.read_plain(number)
                && rewrite_plain(packet, &plain)
            {
                counters.count_next_hop(number, plain.interface, packet.data().len());
                return Verdict::Transmit;
            }
            let mut hop = table.read(number);
            if hop.kind == Kind::Group {
                packet.hash = flow_hash(&packet.data()[usize::from(packet.l3)..]);
                number = table.member(hop.address, packet.hash);
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
                None => decide(packet, &hop, hold, awaited),
                Some(verdict) => verdict,
            };
            if verdict == Verdict::Transmit {
                counters.count_next_hop(number, hop.interface, packet.data().len());
            } else {
                all_transmitted = false;
            }
            verdict
        }));
        self.reader.leave();
        if all_transmitted {
            batch.drain(..).for_each(|packet| out.transmit(packet));
            return;
        }
        self.dispatch(now, batch, out);
    }

    fn dispatch(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let verdicts = core::mem::take(&mut self.verdicts);
        let mut all_awaited = core::mem::take(&mut self.awaited);
        let mut next_awaited = all_awaited.drain(..);
        for (packet, verdict) in batch.drain(..).zip(&verdicts) {
            match *verdict {
                Verdict::Transmit => out.transmit(packet),
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
        match self.hold.push(now, self.since, awaited, packet) {
            Held::Waits => {}
            Held::First => {
                self.requests.push(awaited.0, awaited.1);
                self.look_at = self.hold.look_at(now);
            }
            Held::Full(packet) => out.drop(packet, DropReason::NeighbourUnresolved),
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

    fn give_up(&mut self, leaves: &mut dyn FnMut(&Packet) -> bool) -> Vec<ebb_graph::Held> {
        let given = self.hold.give_up(leaves).into_iter();
        let given = given.map(|(since, packets)| ebb_graph::Held { since, packets }).collect();
        if self.hold.len() == 0 {
            self.look_at = None;
        }
        self.count();
        given
    }

    fn take_over(&mut self, now: Time, held: ebb_graph::Held, out: &mut Outputs<'_>) {
        self.since = Some(held.since);
        let mut batch = Batch::new();
        batch.extend(held.packets);
        self.route(now, &mut batch, out);
        if !self.ready.is_empty() {
            self.release(now, out);
        }
        self.since = None;
        self.count();
    }
}

/// Decides on one packet and rewrites it when it is to be transmitted. The order is RFC 1812's
/// section 5.2.1 and Linux's: local delivery and rejection before TTL, TTL before size.
#[inline]
fn decide(
    packet: &mut Packet,
    hop: &NextHop,
    hold: Option<&Hold>,
    waiting: &mut Vec<Awaited>,
) -> Verdict {
    if !matches!(hop.kind, Kind::Forward | Kind::OnLink | Kind::Resolve) {
        return reject(hop.kind, packet);
    }
    let bytes = &packet.data()[usize::from(packet.l3)..];
    let is_v4 = packet.kind == V4;
    let (ttl, ip_len) = if is_v4 {
        let header = Ipv4::new(bytes).expect("validated");
        (header.ttl(), header.total_len())
    } else {
        match forwardable_source(bytes) {
            Source::Route => {}
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
        // RFC 1812 section 5.2.6: the kernel fragments what may be fragmented.
        let may_fragment = is_v4 && !Ipv4::new(bytes).expect("validated").dont_fragment();
        return if may_fragment { Verdict::Kernel } else { fault(packet, Fault::TooBig(hop.mtu)) };
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
    Verdict::Transmit
}

/// Decides on a packet that has no way out of an interface.
#[cold]
fn reject(kind: Kind, packet: &mut Packet) -> Verdict {
    if kind == Kind::Kernel {
        return Verdict::Kernel;
    }
    if packet.kind != V4 {
        match forwardable_source(&packet.data()[usize::from(packet.l3)..]) {
            Source::Route => {}
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
    if packet.kind == V4 {
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

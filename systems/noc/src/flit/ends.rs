//! The ends of the network: the processing elements that send and receive, and what they see of it.
//!
//! A router model moves flits and nothing else; it takes them from here one by one and hands them
//! back at their targets. A flit is one word: its packet's place in the pool, and whether it is the
//! packet's head or tail.

use super::arrivals::{Arrivals, Generator, NEVER};
use super::clock::Clock;
use super::demand::Demand;
use super::notes::{Notes, PacketNote};
use super::outcome::Seen;
use super::replies::{Answers, Owed};
use ebb_des::{Rng, Seed};
use rand::Rng as _;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flit: the packet's index, then a bit for the head and a bit for the tail.
pub(super) type Flit = u32;
const HEAD: Flit = 2;
const TAIL: Flit = 1;
const NOBODY: u32 = u32::MAX;
/// Processing elements' cycles of a span over which latencies are averaged.
const COURSE_CYCLES: u64 = 100;

#[inline]
pub(super) fn is_head(flit: Flit) -> bool {
    flit & HEAD != 0
}

#[inline]
pub(super) fn is_tail(flit: Flit) -> bool {
    flit & TAIL != 0
}

#[inline]
pub(super) fn packet_of(flit: Flit) -> usize {
    (flit >> 2) as usize
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    created: u64,
    /// Processing elements' cycle in which its first flit entered.
    entered: u64,
    /// Of a reply, the cycle in which its request was made; else [`NEVER`].
    asked: u64,
    source: u32,
    pub(super) target: u32,
    route: u32,
    flits: u16,
    arrived: u16,
    routers: u16,
    pub(super) layer: u8,
    measured: bool,
}

/// What a tile is sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    packet: u32,
    flits: u16,
    sent: u16,
    /// Virtual channel of the packet, or of the last one.
    pub(super) vc: u8,
    pub(super) layer: u8,
    /// Processing element's cycle in which the first flit is ready.
    ready: u64,
}

impl Sending {
    /// Whether the next flit is a head.
    #[inline]
    pub(super) fn at_head(&self) -> bool {
        self.sent == 0
    }
}

/// The processing elements of all tiles.
pub(super) struct Ends<'a> {
    demand: &'a Demand,
    arrivals: &'a Arrivals,
    clock: Clock,
    window: (u64, u64),
    generators: Vec<Generator>,
    sending: Vec<Sending>,
    busy: Vec<u64>,
    idle: BinaryHeap<Reverse<(u64, u32)>>,
    packets: Vec<Packet>,
    free: Vec<u32>,
    sink_free: Vec<u64>,
    /// What arrived.
    pub(super) seen: Seen,
    /// Single flows and packets, if they are asked for.
    pub(super) notes: Option<Notes>,
    /// Sum of the latencies and number of the packets made in each span of the window.
    course: Vec<(u64, u64)>,
    measured_inside: i64,
    flits_made: u64,
    flits_delivered: u64,
    sent: Vec<u64>,
    received: Vec<u64>,
    /// What is owed, where packets are answered.
    answers: Option<Answers>,
    reply_rng: Rng,
    route_rng: Rng,
}

impl<'a> Ends<'a> {
    /// Ends that measure packets made from cycle `window_start` until the window is closed. Only elements that
    /// are `here` send.
    pub(super) fn new(
        (demand, arrivals): (&'a Demand, &'a Arrivals),
        clock: Clock,
        window_start: u64,
        seed: Seed,
        here: impl Fn(u32) -> bool,
    ) -> Ends<'a> {
        let tiles = demand.tiles();
        let mut generators = Generator::of_tiles(arrivals, demand, seed);
        let elsewhere = generators.iter_mut().zip(0..).filter(|(_, tile)| !here(*tile));
        elsewhere.for_each(|(generator, _)| generator.silence());
        let silent = Sending { packet: NOBODY, flits: 0, sent: 0, vc: 0, layer: 0, ready: 0 };
        let mut ends = Ends {
            demand,
            arrivals,
            clock,
            window: (window_start, u64::MAX),
            generators,
            sending: vec![silent; tiles],
            busy: vec![0; tiles.div_ceil(64)],
            idle: BinaryHeap::with_capacity(tiles),
            packets: Vec::new(),
            free: Vec::new(),
            sink_free: vec![0; tiles],
            seen: Seen::new(),
            notes: None,
            course: Vec::new(),
            measured_inside: 0,
            flits_made: 0,
            flits_delivered: 0,
            sent: vec![0; tiles],
            received: vec![0; tiles],
            answers: demand.replies().map(|how| Answers::new(how, tiles)),
            reply_rng: seed.stream("replies"),
            route_rng: seed.stream("routes"),
        };
        for tile in 0..tiles as u32 {
            ends.await_next(tile, 0, 0);
        }
        ends
    }

    /// From the network's cycle `now` on its clock is another one: what tiles wait for comes at other cycles.
    pub(super) fn retime(&mut self, clock: Clock, now: u64) {
        self.clock = clock;
        self.idle.clear();
        for tile in 0..self.sending.len() as u32 {
            if self.busy[tile as usize / 64] & (1 << (tile % 64)) == 0 {
                self.await_next(tile, self.sending[tile as usize].ready, now);
            }
        }
    }

    /// Puts a tile among the idle until its next packet, not before the network's cycle `now`.
    fn await_next(&mut self, tile: u32, pe_free: u64, now: u64) {
        self.sending[tile as usize].ready = pe_free;
        self.await_request(tile, now);
        if let Some(owed) = self.answers.as_ref().and_then(|answers| answers.next(tile)) {
            self.await_packet(tile, owed.due, now);
        }
    }

    fn await_request(&mut self, tile: u32, now: u64) {
        let created = self.generators[tile as usize].next_created();
        let may = self.answers.as_ref().is_none_or(|answers| answers.may_ask(tile));
        if created != NEVER && may {
            self.await_packet(tile, created, now);
        }
    }

    fn await_packet(&mut self, tile: u32, created: u64, now: u64) {
        let pe_free = self.sending[tile as usize].ready;
        let cycle = self.clock.noc_from_pe(created.max(pe_free)).max(now);
        self.idle.push(Reverse((cycle, tile)));
    }

    /// Lets tiles whose packet is due begin to send.
    pub(super) fn wake(&mut self, now: u64) {
        while let Some(&Reverse((cycle, tile))) = self.idle.peek() {
            if cycle > now {
                break;
            }
            self.idle.pop();
            match self.answers {
                None => self.begin_request(tile),
                Some(_) => self.begin_either(tile, now),
            }
        }
    }

    /// Begins what is due where packets are answered: a reply first. A tile may have been called for
    /// something that it sent meanwhile, or cannot send yet; it is called again for what is left.
    fn begin_either(&mut self, tile: u32, now: u64) {
        let free = self.busy[tile as usize / 64] & (1 << (tile % 64)) == 0;
        let pe_free = self.sending[tile as usize].ready;
        let due = |at: u64| self.clock.noc_from_pe(at.max(pe_free)) <= now;
        let Some(answers) = self.answers.as_mut().filter(|_| free) else { return };
        if let Some(owed) = answers.next(tile).filter(|owed| due(owed.due)) {
            answers.pay(tile);
            self.begin_reply(tile, owed);
            return;
        }
        let created = self.generators[tile as usize].next_created();
        if created != NEVER && due(created) && answers.may_ask(tile) {
            answers.asks(tile);
            self.begin_request(tile);
        }
    }

    fn begin_request(&mut self, tile: u32) {
        let made = self.generators[tile as usize].make(self.arrivals, self.demand);
        let measured = (self.window.0..self.window.1).contains(&made.created);
        self.measured_inside += i64::from(measured);
        self.flits_made += u64::from(made.flits);
        self.begin(Packet {
            created: made.created,
            entered: 0,
            asked: NEVER,
            source: tile,
            target: made.choice.target,
            route: made.choice.route,
            flits: made.flits,
            arrived: 0,
            routers: 0,
            layer: made.choice.layer,
            measured,
        });
    }

    fn begin_reply(&mut self, tile: u32, owed: Owed) {
        let choice = self.demand.back(owed.target, &mut self.reply_rng);
        let flits = self.answers.as_ref().map_or(0, |answers| answers.how.flits);
        self.begin(Packet {
            created: owed.due,
            entered: 0,
            asked: owed.asked,
            source: tile,
            target: owed.target,
            route: choice.route,
            flits,
            arrived: 0,
            routers: 0,
            layer: choice.layer,
            measured: owed.measured,
        });
    }

    /// Gives a packet a place in the pool.
    fn admit(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.packets[index as usize] = packet;
                index
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as u32
            }
        }
    }

    /// What the other half of a network is to know of a flit that goes there: of a head its packet. With the tail
    /// the packet is forgotten here.
    pub(super) fn depart(&mut self, flit: Flit) -> (Option<Packet>, Flit) {
        let index = packet_of(flit);
        let packet = is_head(flit).then(|| self.packets[index]);
        if is_tail(flit) {
            self.free.push(index as u32);
        }
        (packet, flit & (HEAD | TAIL))
    }

    /// A flit that comes from the other half of a network, where the last head on its channel was that of packet
    /// `last`: what it is here.
    pub(super) fn arrive(
        &mut self,
        (packet, kind): (Option<Packet>, Flit),
        last: &mut u32,
    ) -> Flit {
        if let Some(packet) = packet {
            *last = self.admit(packet);
        }
        *last << 2 | kind
    }

    fn begin(&mut self, packet: Packet) {
        let tile = packet.source;
        let index = self.admit(packet);
        let sending = &mut self.sending[tile as usize];
        sending.packet = index;
        sending.flits = packet.flits;
        sending.sent = 0;
        sending.layer = packet.layer;
        sending.ready = sending.ready.max(packet.created);
        self.busy[tile as usize / 64] |= 1 << (tile % 64);
    }

    /// A packet has arrived where packets are answered: a reply frees its tile to ask again, a request
    /// is owed a reply.
    fn answer(&mut self, packet: Packet, at: u64, now: u64) {
        let Some(answers) = &mut self.answers else { return };
        let tile = packet.target;
        if packet.asked != NEVER {
            let could = answers.may_ask(tile);
            answers.answered(tile);
            if packet.measured {
                self.seen.round_trip.record(at - packet.asked);
            }
            if !could {
                self.await_request(tile, now + 1);
            }
            return;
        }
        let due = answers.owe(tile, packet.source, at, packet.created, packet.measured);
        self.flits_made += u64::from(answers.how.flits);
        self.measured_inside += i64::from(packet.measured);
        self.await_packet(tile, due, now + 1);
    }

    /// A channel drawn at random for a packet that enters, where that is so.
    #[inline]
    pub(super) fn channel_to_enter(&mut self, vcs: usize) -> Option<u8> {
        self.demand.enters_anywhere().then(|| self.route_rng.random_range(0..vcs as u8))
    }

    /// Words of the set of tiles that have something to send.
    pub(super) fn words(&self) -> usize {
        self.busy.len()
    }

    /// One of them.
    #[inline]
    pub(super) fn busy(&self, word: usize) -> u64 {
        self.busy[word]
    }

    /// What a busy tile is sending.
    #[inline]
    pub(super) fn sending(&mut self, tile: u32) -> &mut Sending {
        &mut self.sending[tile as usize]
    }

    /// The packet a busy tile is sending.
    #[inline]
    pub(super) fn sending_packet(&self, tile: u32) -> usize {
        self.sending[tile as usize].packet as usize
    }

    /// Whether the tile's clock has brought its next flit to the network's edge.
    #[inline]
    pub(super) fn flit_ready(&self, tile: u32, now: u64) -> bool {
        if self.clock.pe_keeps_up() {
            return true;
        }
        let sending = &self.sending[tile as usize];
        self.clock.noc_from_pe(sending.ready + u64::from(sending.sent)) <= now
    }

    /// Takes the next flit of a busy tile in cycle `now`.
    #[inline]
    pub(super) fn take(&mut self, tile: u32, now: u64) -> Flit {
        let sending = &mut self.sending[tile as usize];
        let mut flit = sending.packet << 2;
        if sending.sent == 0 {
            flit |= HEAD;
            self.packets[sending.packet as usize].entered = self.clock.pe_from_noc(now);
        }
        sending.sent += 1;
        self.sent[tile as usize] += 1;
        if sending.sent == sending.flits {
            flit |= TAIL;
            let pe_free = sending.ready + u64::from(sending.flits);
            self.busy[tile as usize / 64] &= !(1 << (tile % 64));
            self.await_next(tile, pe_free, now + 1);
        }
        flit
    }

    /// The port by which a packet leaves `tile`.
    #[inline]
    pub(super) fn route(&mut self, packet: usize, tile: u32) -> u8 {
        self.route_by(packet, tile, &|_| 0)
    }

    /// The same where what waits behind each port may decide.
    #[inline]
    pub(super) fn route_by(&mut self, packet: usize, tile: u32, used: &dyn Fn(u8) -> u32) -> u8 {
        let packet = &mut self.packets[packet];
        packet.routers += 1;
        if self.demand.is_drawn() {
            let how = (&mut packet.route, &mut packet.layer);
            return self.demand.draw_port(tile, packet.target, how, used, &mut self.route_rng);
        }
        self.demand.next_port(tile, packet.target, &mut packet.route)
    }

    /// The other port by which a packet gets nearer from `tile`, where there are two.
    #[inline]
    pub(super) fn other_port(&self, packet: usize, tile: u32) -> u8 {
        self.demand.other_port(tile, self.packets[packet].target)
    }

    /// The port by which a packet would leave `tile`, its route left where it is.
    #[inline]
    pub(super) fn route_ahead(&self, packet: usize, tile: u32) -> u8 {
        let mut route = self.packets[packet].route;
        self.demand.next_port(tile, self.packets[packet].target, &mut route)
    }

    /// The layer of a packet's virtual channels.
    #[inline]
    pub(super) fn layer(&self, packet: usize) -> u8 {
        self.packets[packet].layer
    }

    /// Receives a flit at `tile` in cycle `now`.
    ///
    /// # Panics
    /// When it is the wrong tile, or a packet's flits do not all come before its tail.
    #[inline]
    pub(super) fn deliver(&mut self, flit: Flit, tile: u32, now: u64) {
        let index = packet_of(flit);
        let packet = &mut self.packets[index];
        assert!(packet.target == tile, "a flit came out at tile {tile}, not {}", packet.target);
        packet.arrived += 1;
        self.flits_delivered += 1;
        let mut at = self.clock.pe_from_noc(now);
        if !self.clock.pe_keeps_up() {
            at = at.max(self.sink_free[tile as usize]);
            self.sink_free[tile as usize] = at + 1;
        }
        if is_tail(flit) {
            assert_eq!(packet.arrived, packet.flits, "flits of a packet were lost or mixed");
            self.received[tile as usize] += u64::from(packet.flits);
            if packet.measured {
                self.measured_inside -= 1;
                let entered = packet.entered;
                self.seen.packet(at - packet.created, at - entered, packet.flits, packet.routers);
                if let Some(notes) = &mut self.notes {
                    let Packet { source, target, flits, routers, created: made, .. } = *packet;
                    let arrived = at;
                    notes.packet(PacketNote {
                        source,
                        target,
                        flits,
                        routers,
                        made,
                        entered,
                        arrived,
                    });
                }
                let span = ((packet.created - self.window.0) / COURSE_CYCLES) as usize;
                if span >= self.course.len() {
                    self.course.resize(span + 1, (0, 0));
                }
                let (sum, count) = &mut self.course[span];
                (*sum, *count) = (*sum + at - packet.created, *count + 1);
            }
            let packet = *packet;
            self.free.push(index as u32);
            self.answer(packet, at, now);
        }
    }

    /// Sum of the latencies and number of the packets made in each span of the window.
    pub(super) fn course(&self) -> &[(u64, u64)] {
        &self.course
    }

    /// Flits made and not delivered, those still at their source included. In half of a network they may be less than
    /// none: what was made in the other one is delivered in this.
    pub(super) fn flits_underway(&self) -> i64 {
        self.flits_made as i64 - self.flits_delivered as i64
    }

    /// Flits that each tile has sent into the network.
    pub(super) fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// Flits of the packets that have arrived at each tile.
    pub(super) fn received(&self) -> &[u64] {
        &self.received
    }

    /// Flits delivered.
    pub(super) fn flits_delivered(&self) -> u64 {
        self.flits_delivered
    }

    /// Flits offered before a processing element's cycle, those still to be drawn included.
    pub(super) fn flits_offered_before(&self, cycle: u64) -> u64 {
        let ahead = |g: &Generator| g.flits_before(cycle, self.arrivals, self.demand);
        self.flits_made + self.generators.iter().map(ahead).sum::<u64>()
    }

    /// Measures no packets made in `cycle` or later.
    pub(super) fn close_window(&mut self, cycle: u64) {
        self.window.1 = cycle;
    }

    /// Measured packets made and not delivered, counted as [`Ends::flits_underway`].
    pub(super) fn measured_inside(&self) -> i64 {
        self.measured_inside
    }

    /// Whether every packet of the window has been made.
    pub(super) fn window_made(&self) -> bool {
        self.generators.iter().all(|generator| generator.next_created() >= self.window.1)
    }

    /// Whether nothing is left to be made.
    pub(super) fn all_made(&self) -> bool {
        self.idle.is_empty()
    }
}

/// Mean latency over the window: processing elements' cycles from its start to that of each span in which packets
/// were made, and their mean latency.
pub(super) fn course(of: &[&[(u64, u64)]]) -> Vec<(u64, f64)> {
    let spans = of.iter().map(|course| course.len()).max().unwrap_or(0);
    let at = |span: usize| {
        let each = of.iter().filter_map(|course| course.get(span));
        each.fold((0, 0), |(sum, count), (more, packets)| (sum + more, count + packets))
    };
    let means = (0..spans).map(|span| (span, at(span))).filter(|(_, (_, count))| *count > 0);
    means
        .map(|(span, (sum, count))| (span as u64 * COURSE_CYCLES, sum as f64 / count as f64))
        .collect()
}

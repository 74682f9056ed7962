//! The balancer's forwarding: one thread, all links, frames rewritten where they lie.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use ebb_cluster::{Balancer, Book, Detector, Liveness, Move, Power, SteeringTable};
use ebb_graph::{Batch, Packet, Pool};
use ebb_ports::{PacketSocket, Port};
use ebb_units::Time;

use super::face::Face;
use super::frame::{Verdict, from_inside, from_outside};
use super::peers::{Bond, Peers};
use super::probe::Probe;

/// Frames that wait for a link at most; more are lost, as in a full queue of a switch.
const BACKLOG_MAX: usize = 4096;
/// Frames held back by one drain at most; then it ends without its marker.
const HELD_MAX: usize = 8192;
/// Between two looks at what the XDP program leaves to the kernel: each is a system call for a link.
const REST_EVERY: Duration = Duration::from_micros(200);
/// Markers are sent again after this.
const MARK_AGAIN: Duration = Duration::from_millis(5);
/// A drain ends without its marker after this.
const DRAIN_MAX: Duration = Duration::from_millis(200);
/// Longest frame that fits the frames' memory behind its headroom.
const FRAME_MAX: usize = 1776;

/// How back-ends are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// Between probes of one pair of sides.
    pub interval: Duration,
    /// Probes in a row that may stay away; 0: there are none, and nobody is found dead.
    pub misses: u32,
}

impl Probing {
    /// No probes: whoever the book has on is taken for alive.
    pub fn none() -> Probing {
        Probing { misses: 0, ..Probing::default() }
    }
}

impl Default for Probing {
    /// Dead after 50 ms of silence.
    fn default() -> Probing {
        Probing { interval: Duration::from_millis(5), misses: 10 }
    }
}

/// A link of the balancer: the fast way, and the one for what the XDP program leaves to the kernel.
pub struct Link {
    /// Frames by whole batches.
    pub port: Box<dyn Port>,
    /// ARP, neighbour discovery, groups, odd packets; `None` where the port gets everything.
    pub rest: Option<PacketSocket>,
}

/// What the forwarding counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Packets that were sent to back-ends by their flow.
    pub balanced: u64,
    /// Their bytes.
    pub balanced_bytes: u64,
    /// Packets that went out to the world.
    pub returned: u64,
    /// Packets that had no back-end to go to.
    pub homeless: u64,
    /// Frames that found a link's queue full.
    pub overrun: u64,
    /// Frames that were not for the cluster.
    pub ignored: u64,
    /// Packets that were held back while their flow moved.
    pub held: u64,
    /// Drains that ended in order.
    pub drains: u64,
    /// Drains that ended without their marker: packets may have changed their order.
    pub drains_cut: u64,
}

/// Something that happened to a back-end, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// When.
    pub at: Time,
    /// Which.
    pub row: u16,
    /// Whether it was found dead, or alive.
    pub dead: bool,
    /// The last sign of life before, when it was found dead.
    pub heard: Time,
}

struct Drain {
    number: u64,
    /// Pairs of sides whose marker is still on its way, a bit each.
    pending: u32,
    begun: Time,
    marked: Time,
    held: VecDeque<(usize, Packet)>,
}

struct Watched {
    detectors: Vec<Detector>,
    heard: Time,
    probed: Time,
    alive: bool,
}

/// The forwarding.
pub struct Plane {
    face: Face,
    logic: Balancer,
    /// Outside and inside of each side, in turn.
    links: Vec<Link>,
    out: Vec<Batch>,
    pool: Pool,
    incoming: Batch,
    /// By slot: 1 + the row that it is moving away from; 0: it stays.
    moving: Vec<u16>,
    drains: BTreeMap<u16, Drain>,
    drained: u64,
    watched: Vec<Watched>,
    probing: Probing,
    peers: Peers,
    counters: Counters,
    found: Vec<Found>,
    /// When it last looked at what is left to the kernel.
    rest_at: Time,
}

impl Plane {
    /// For links in the order outside 0, inside 0, outside 1, inside 1, ...
    pub fn new(
        face: Face,
        links: Vec<Link>,
        pool: Pool,
        (probing, bond): (Probing, &Bond),
        now: Time,
    ) -> Plane {
        assert_eq!(links.len(), 2 * face.sides.len(), "two links for each side");
        let watched = || Watched {
            detectors: (0..face.sides.len())
                .map(|_| Detector::new(probing.interval, probing.misses, now))
                .collect(),
            heard: now,
            probed: Time::ZERO,
            alive: false,
        };
        Plane {
            logic: Balancer::new(&face.weights()),
            out: links.iter().map(|_| Batch::new()).collect(),
            peers: Peers::new(&face, bond, probing, now),
            watched: face.back_ends.iter().map(|_| watched()).collect(),
            face,
            links,
            pool,
            incoming: Batch::new(),
            moving: vec![0; ebb_cluster::SLOTS],
            drains: BTreeMap::new(),
            drained: 0,
            probing,
            counters: Counters::default(),
            found: Vec::new(),
            rest_at: Time::ZERO,
        }
    }

    /// What it counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The decisions behind it.
    pub fn logic(&self) -> &Balancer {
        &self.logic
    }

    /// The balancers, of which this is one.
    pub fn peers(&mut self) -> &mut Peers {
        &mut self.peers
    }

    /// Deaths and returns since the last call.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// The links' descriptors, for sleeping, if it is safe to sleep.
    pub fn prepare_wait(&mut self, fds: &mut Vec<std::os::fd::RawFd>) -> bool {
        fds.clear();
        let mut safe = self.out.iter().all(|batch| batch.is_empty());
        for link in &mut self.links {
            link.port.wait_fds(fds);
            fds.extend(link.rest.as_ref().map(PacketSocket::fd));
            safe &= link.port.prepare_wait();
        }
        safe
    }

    /// Receives, forwards and sends once; returns how many frames there were.
    ///
    /// # Errors
    /// When a link is gone.
    pub fn turn(&mut self, now: Time) -> io::Result<usize> {
        let mut frames = 0;
        let rest = now.since(self.rest_at) >= REST_EVERY;
        if rest {
            self.rest_at = now;
        }
        for link in 0..self.links.len() {
            frames += self.receive(link, rest, now)?;
        }
        for (link, out) in self.links.iter_mut().zip(&mut self.out) {
            if !out.is_empty() {
                link.port.transmit(&mut self.pool, out);
                let excess = out.len().saturating_sub(BACKLOG_MAX);
                self.counters.overrun += excess as u64;
                let kept = out.len() - excess;
                for packet in out.drain(kept..) {
                    self.pool.put(packet.into_frame());
                }
            }
            link.port.flush()?;
        }
        Ok(frames)
    }

    fn receive(&mut self, link: usize, rest: bool, now: Time) -> io::Result<usize> {
        let mut batch = std::mem::take(&mut self.incoming);
        self.links[link].port.receive(&mut self.pool, &mut batch, Batch::RECEIVE_MAX);
        let (pool, place) = (&mut self.pool, &mut batch);
        if let Some(rest) = self.links[link].rest.as_mut().filter(|_| rest) {
            rest.receive(|bytes| {
                if bytes.len() <= FRAME_MAX
                    && let Some(frame) = pool.get()
                {
                    let mut packet = frame.fill(bytes);
                    packet.flags |= Packet::UNFINISHED;
                    place.push(packet);
                }
            })?;
        }
        let count = batch.len();
        for mut packet in batch.drain(..) {
            if packet.flags & Packet::UNFINISHED != 0 {
                ebb_wire::finish_checksums(packet.data_mut());
            }
            if self.peers.several() && self.peers.hear(link, packet.data(), now) {
                self.pool.put(packet.into_frame());
            } else if link.is_multiple_of(2) {
                self.outside(link / 2, packet);
            } else {
                self.inside(link / 2, packet, now);
            }
        }
        self.incoming = batch;
        Ok(count)
    }

    fn outside(&mut self, side: usize, packet: Packet) {
        let several = self.peers.several();
        let verdict = from_outside(&self.face, self.peers.charge(), side, packet.data());
        if several
            && !matches!(verdict, Verdict::Ignore)
            && let Some(host) = packet.data().get(6..12)
        {
            self.peers.saw(side, host.try_into().expect("six bytes"));
        }
        match verdict {
            Verdict::Balance(hash) => {
                let slot = SteeringTable::slot(hash);
                match self.moving[slot] {
                    0 => self.balance(side, slot, packet),
                    from => self.hold(from - 1, side, packet),
                }
            }
            Verdict::Voice => match self.voice() {
                Some(row) => self.deliver(side, row, packet),
                None => self.lose(packet),
            },
            Verdict::Everybody => {
                for row in self.present() {
                    if let Some(frame) = self.pool.get() {
                        let mut copy = frame.fill(packet.data());
                        address_arp(
                            copy.data_mut(),
                            &self.face.back_ends[usize::from(row)].macs[side],
                        );
                        self.deliver(side, row, copy);
                    }
                }
                self.pool.put(packet.into_frame());
            }
            Verdict::Answer(answer) => {
                self.pool.put(packet.into_frame());
                if let Some(frame) = self.pool.get() {
                    self.out[2 * side].push(frame.fill(&answer));
                }
            }
            Verdict::Out | Verdict::Probe(_) | Verdict::Ignore => {
                self.counters.ignored += 1;
                self.pool.put(packet.into_frame());
            }
        }
    }

    fn inside(&mut self, side: usize, mut packet: Packet, now: Time) {
        let (_, verdict) = from_inside(&self.face, self.peers.charge(), side, packet.data_mut());
        match verdict {
            Verdict::Out => {
                self.counters.returned += 1;
                self.out[2 * side].push(packet);
                return;
            }
            Verdict::Probe(probe) => self.came_back(probe, now),
            Verdict::Answer(answer) => {
                if let Some(frame) = self.pool.get() {
                    self.out[2 * side + 1].push(frame.fill(&answer));
                }
            }
            _ => self.counters.ignored += 1,
        }
        self.pool.put(packet.into_frame());
    }

    fn balance(&mut self, side: usize, slot: usize, packet: Packet) {
        match self.logic.table().owner(slot) {
            Some(row) => {
                self.counters.balanced += 1;
                self.counters.balanced_bytes += packet.len() as u64;
                self.deliver(side, row, packet);
            }
            None => self.lose(packet),
        }
    }

    fn lose(&mut self, packet: Packet) {
        self.counters.homeless += 1;
        self.pool.put(packet.into_frame());
    }

    fn deliver(&mut self, side: usize, row: u16, mut packet: Packet) {
        let mac = self.face.back_ends[usize::from(row)].macs[side];
        packet.data_mut()[..6].copy_from_slice(&mac);
        if self.peers.several() {
            // The segment learns from nobody but the balancer that carries a host where the host is.
            let from = self.face.probe_mac(side);
            packet.data_mut()[6..12].copy_from_slice(&from);
        }
        self.out[2 * side + 1].push(packet);
    }

    fn hold(&mut self, from: u16, side: usize, packet: Packet) {
        self.counters.held += 1;
        let drain = self.drains.get_mut(&from).expect("a slot moves only while its row drains");
        drain.held.push_back((side, packet));
    }

    /// The back-end that speaks for the cluster: the book's, or the first that may get flows.
    pub fn voice(&self) -> Option<u16> {
        let voice = self.logic.book().voice.as_ref().and_then(|name| self.logic.row(name));
        if let Some(row) = voice.filter(|row| self.logic.usable(*row)) {
            return Some(row);
        }
        (0..self.watched.len() as u16).find(|row| self.logic.usable(*row))
    }

    /// Back-ends that may have asked for neighbours.
    fn present(&self) -> Vec<u16> {
        let entries = &self.logic.book().entries;
        let on = |row: &u16| {
            entries.get(self.logic.name(*row)).is_some_and(|entry| entry.power != Power::Off)
        };
        (0..self.watched.len() as u16).filter(on).collect()
    }

    /// Follows a book.
    pub fn follow(&mut self, book: &Book, now: Time) {
        let moves = self.logic.follow(book);
        self.carry_out(moves, VecDeque::new(), now);
    }

    fn carry_out(&mut self, moves: Vec<Move>, released: VecDeque<(usize, Packet)>, now: Time) {
        for step in moves {
            match step {
                Move::Drain { from, slots } => {
                    self.drained += 1;
                    let pending = (1 << (self.face.sides.len() * self.face.sides.len())) - 1;
                    let (number, held) = (self.drained, VecDeque::new());
                    let drain = Drain { number, pending, begun: now, marked: now, held };
                    self.drains.insert(from, drain);
                    for slot in slots {
                        self.moving[slot] = from + 1;
                    }
                    self.mark(from);
                }
                Move::Settled { slots } => {
                    for slot in slots {
                        self.moving[slot] = 0;
                    }
                }
            }
        }
        for (side, packet) in released {
            self.outside(side, packet);
        }
    }

    /// Sends the markers of a drain that have not come back behind everything that went before.
    fn mark(&mut self, from: u16) {
        let drain = &self.drains[&from];
        let (number, pending) = (drain.number, drain.pending);
        for pair in 0..(self.face.sides.len() * self.face.sides.len()) as u16 {
            if pending >> pair & 1 == 1 {
                self.send_probe(Probe { row: from, pair, drain: number });
            }
        }
    }

    fn send_probe(&mut self, probe: Probe) {
        if let Some(frame) = self.pool.get() {
            let side = usize::from(probe.pair) / self.face.sides.len();
            self.out[2 * side + 1].push(frame.fill(&probe.frame(&self.face)));
        }
    }

    fn came_back(&mut self, probe: Probe, now: Time) {
        let sides = self.face.sides.len();
        let row = usize::from(probe.row);
        if row >= self.watched.len() || usize::from(probe.pair) >= sides * sides {
            return;
        }
        if probe.drain == 0 {
            let watched = &mut self.watched[row];
            watched.heard = now;
            watched.detectors[usize::from(probe.pair) / sides].answered(now);
            return;
        }
        let Some(drain) = self.drains.get_mut(&probe.row) else { return };
        if drain.number == probe.drain {
            drain.pending &= !(1 << probe.pair);
            if drain.pending == 0 {
                self.counters.drains += 1;
                self.end_drain(probe.row, now);
            }
        }
    }

    fn end_drain(&mut self, from: u16, now: Time) {
        let Some(drain) = self.drains.remove(&from) else { return };
        let moves = self.logic.drained(from);
        self.carry_out(moves, drain.held, now);
    }

    /// Probes, looks who is silent, ends drains that take too long. To be called every millisecond or so.
    pub fn tend(&mut self, now: Time) {
        for row in 0..self.watched.len() as u16 {
            self.watch(row, now);
        }
        for (link, bytes) in self.peers.tend(&self.face, now) {
            if let Some(frame) = self.pool.get() {
                self.out[link].push(frame.fill(&bytes));
            }
        }
        let late: Vec<(u16, bool)> = self
            .drains
            .iter()
            .filter_map(|(row, drain)| {
                let over = now.since(drain.begun) >= DRAIN_MAX || drain.held.len() > HELD_MAX;
                (over || now.since(drain.marked) >= MARK_AGAIN).then_some((*row, over))
            })
            .collect();
        for (row, over) in late {
            if over {
                self.counters.drains_cut += 1;
                self.end_drain(row, now);
            } else {
                self.drains.get_mut(&row).expect("just seen").marked = now;
                self.mark(row);
            }
        }
    }

    fn watch(&mut self, row: u16, now: Time) {
        let sides = self.face.sides.len();
        let present = self.present().contains(&row);
        let watched = &mut self.watched[usize::from(row)];
        let due = present && now.since(watched.probed) >= self.probing.interval;
        if due {
            watched.probed = now;
        }
        watched.detectors.iter_mut().for_each(|one| _ = one.look(now));
        if !present {
            // Whoever comes back proves itself anew.
            let Probing { interval, misses } = self.probing;
            watched.detectors.fill_with(|| Detector::new(interval, misses, now));
        }
        let probed = self.probing.misses > 0;
        let heard_of = watched.detectors.iter().all(|one| one.state() == Liveness::Alive);
        let alive = if probed { heard_of } else { present };
        let (heard, before) = (watched.heard, std::mem::replace(&mut watched.alive, alive));
        if due && probed {
            for from in 0..sides as u16 {
                let to = (from + 1) % sides as u16;
                self.send_probe(Probe { row, pair: from * sides as u16 + to, drain: 0 });
            }
        }
        if alive != before {
            if present {
                self.found.push(Found { at: now, row, dead: !alive, heard });
            }
            let held = if alive { None } else { self.drains.remove(&row) };
            let moves = self.logic.found(row, !alive);
            self.carry_out(moves, held.map(|drain| drain.held).unwrap_or_default(), now);
        }
    }

    /// Gives all frames back.
    pub fn close(&mut self) {
        for drain in std::mem::take(&mut self.drains).into_values() {
            drain.held.into_iter().for_each(|(_, packet)| self.pool.put(packet.into_frame()));
        }
        for (link, out) in self.links.iter_mut().zip(&mut self.out) {
            self.pool.put_batch(out);
            link.port.close(&mut self.pool);
        }
    }
}

/// Puts a back-end's address where an ARP reply names whom it is for.
fn address_arp(frame: &mut [u8], mac: &[u8; 6]) {
    if let Some(link) = ebb_wire::link(frame)
        && link.ethertype == ebb_wire::ethertype::ARP
        && let Some(target) = frame.get_mut(link.payload + 18..link.payload + 24)
    {
        target.copy_from_slice(mac);
    }
}

//! A worker's forwarding: one thread, its queues of all links, frames rewritten where they lie.

mod counters;
mod health;
mod local;
mod spread;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use ebb_cluster::{
    Announcer, Balancer, ClusterPlan, LinkState, Move, Neighbours, Power, SteeringTable,
};
use ebb_graph::{Batch, Packet, Pool};
use ebb_ports::{PacketSocket, Port};
use ebb_units::Time;

use super::frame::{Verdict, from_inside, from_outside};
use super::peers::Peers;
use super::probe::Seal;
use super::topology::Topology;
use super::words::PeerAuthentication;
use super::workers::{Post, Worker, is_talk};
use health::{Drain, Watched};

pub use counters::Counters;
use spread::Asked;

/// Frames that wait for a link at most, shared by the workers; more are lost, as in a full queue of a switch.
const BACKLOG_MAX: usize = 4096;
/// Between two looks at what the XDP program leaves to the kernel: each is a system call for a link.
const REST_EVERY: Duration = Duration::from_micros(200);
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
    /// No probes: whoever the plan has on is taken for alive.
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

/// A link and what waits for it.
#[derive(Default)]
struct LinkQueue {
    link: Option<Link>,
    /// The interface is set down, or the link said so.
    down: bool,
    /// Nobody is at its other end.
    silent: bool,
    out: Batch,
}

impl LinkQueue {
    /// Whether what is sent there can arrive.
    fn carries(&self) -> bool {
        self.link.is_some() && !self.down && !self.silent
    }

    /// The link, if frames can be sent and received there.
    fn usable(&mut self) -> Option<&mut Link> {
        self.link.as_mut().filter(|_| !self.down)
    }
}

/// What one side's neighbours are told and have said.
#[derive(Default)]
struct Talk {
    announcer: Announcer,
    neighbours: Neighbours,
}

/// The forwarding.
pub struct Plane {
    topology: Topology,
    worker: Worker,
    logic: Balancer,
    /// Outside and inside of each side, in turn.
    places: Vec<LinkQueue>,
    /// Links that turned out to be gone, since the last call of [`Plane::take_lost`].
    lost: Vec<usize>,
    /// By side.
    talks: Vec<Talk>,
    pool: Pool,
    incoming: Batch,
    /// By slot: 1 + the row that it is moving away from; 0: it stays.
    moving: Vec<u16>,
    drains: BTreeMap<u16, Drain>,
    drained: u64,
    /// What slots are asked for.
    asked: Asked,
    /// Packets that were sent to each row by their flow.
    carried: Vec<u64>,
    watched: Vec<Watched>,
    probing: Probing,
    seal: Seal,
    peers: Peers,
    counters: Counters,
    found: Vec<Found>,
    /// When it last looked at what is left to the kernel.
    rest_at: Time,
}

impl Plane {
    /// One without links.
    pub fn new(
        topology: Topology,
        worker: Worker,
        pool: Pool,
        (probing, authentication): (Probing, &PeerAuthentication),
        seal: Seal,
        now: Time,
    ) -> Plane {
        let sides = topology.sides.len();
        Plane {
            logic: Balancer::new(&topology.weights()),
            peers: Peers::new(&topology, authentication, probing, now),
            watched: topology.back_ends.iter().map(|_| Watched::new(sides, probing, now)).collect(),
            places: (0..2 * sides).map(|_| LinkQueue::default()).collect(),
            lost: Vec::new(),
            carried: vec![0; topology.back_ends.len()],
            talks: (0..sides).map(|_| Talk::default()).collect(),
            topology,
            worker,
            pool,
            incoming: Batch::new(),
            moving: vec![0; ebb_cluster::SLOTS],
            drains: BTreeMap::new(),
            drained: 0,
            asked: Asked::new(now),
            probing,
            seal,
            counters: Counters::default(),
            found: Vec::new(),
            rest_at: Time::ZERO,
        }
    }

    /// Takes a link into use; links are counted outside 0, inside 0, outside 1, inside 1, ...
    ///
    /// # Panics
    /// When there is one already, or no such place.
    pub fn attach(&mut self, number: usize, link: Link) {
        let place = &mut self.places[number];
        assert!(place.link.is_none(), "link {number} exists");
        (place.link, place.down, place.silent) = (Some(link), false, false);
    }

    /// How many links there are or could be.
    pub fn links(&self) -> usize {
        self.places.len()
    }

    /// Closes a link, if it is there; what waits for it is lost.
    pub fn detach(&mut self, number: usize) {
        let place = &mut self.places[number];
        self.counters.link_down += place.out.len() as u64;
        self.pool.put_batch(&mut place.out);
        if let Some(mut link) = place.link.take() {
            link.port.close(&mut self.pool);
        }
    }

    /// How a link's interface is, by who watches it.
    pub fn set_state(&mut self, number: usize, state: LinkState) {
        let place = &mut self.places[number];
        place.down = !matches!(state, LinkState::Up | LinkState::NoCarrier);
        place.silent = state != LinkState::Up;
    }

    /// Links that turned out to be gone since the last call; they are closed.
    pub fn take_lost(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.lost)
    }

    /// What it counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that were sent to each back-end by their flow, in ascending order of names.
    pub fn carried(&self) -> &[u64] {
        &self.carried
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
        let mut safe = true;
        for place in &mut self.places {
            safe &= place.out.is_empty();
            // The socket of a link that is down would wake us at once.
            let Some(link) = place.usable() else { continue };
            link.port.wait_fds(fds);
            fds.extend(link.rest.as_ref().map(PacketSocket::fd));
            safe &= link.port.prepare_wait();
        }
        safe
    }

    /// Receives, forwards and sends once; returns how many frames there were. A link that fails is left
    /// out; the others go on.
    pub fn turn(&mut self, now: Time) -> usize {
        let mut frames = self.take_posts(now);
        let rest = now.since(self.rest_at) >= REST_EVERY;
        if rest {
            self.rest_at = now;
        }
        for link in 0..self.places.len() {
            frames += self.receive(link, rest, now);
        }
        for link in 0..self.places.len() {
            self.send(link);
        }
        frames
    }

    /// Does what other workers have handed over, no more than waits there at most; returns how much it was.
    fn take_posts(&mut self, now: Time) -> usize {
        let mut posts = 0;
        while posts < self.worker.post_max()
            && let Some(post) = self.worker.take()
        {
            posts += 1;
            match post {
                Post::Frame(number, packet) => self.sort(number, packet, now),
                Post::Host(side, host, _) => self.peers.saw(side, host, now),
            }
        }
        posts
    }

    fn send(&mut self, number: usize) {
        let LinkQueue { link, down, out, .. } = &mut self.places[number];
        let Some(link) = link.as_mut().filter(|_| !*down) else {
            self.counters.link_down += out.len() as u64;
            return self.pool.put_batch(out);
        };
        if !out.is_empty() {
            link.port.transmit(&mut self.pool, out);
            let excess = out.len().saturating_sub(self.worker.share(BACKLOG_MAX));
            self.counters.overrun += excess as u64;
            let kept = out.len() - excess;
            for packet in out.drain(kept..) {
                self.pool.put(packet.into_frame());
            }
        }
        if let Err(error) = link.port.flush() {
            self.fail(number, &error);
        }
    }

    /// A link that is set down stays, and is tried again once its interface is said to be up; one that is
    /// broken has to be opened anew.
    #[cold]
    fn fail(&mut self, number: usize, error: &io::Error) {
        if error.kind() == io::ErrorKind::NetworkDown {
            self.places[number].down = true;
        } else {
            self.detach(number);
            self.lost.push(number);
        }
    }

    fn receive(&mut self, number: usize, rest: bool, now: Time) -> usize {
        let LinkQueue { link, down, .. } = &mut self.places[number];
        let Some(link) = link.as_mut().filter(|_| !*down) else { return 0 };
        let mut batch = std::mem::take(&mut self.incoming);
        link.port.receive(&mut self.pool, &mut batch, Batch::RECEIVE_MAX);
        let fast = batch.len();
        let (pool, place) = (&mut self.pool, &mut batch);
        let mut result = Ok(0);
        if let Some(rest) = link.rest.as_mut().filter(|_| rest) {
            result = rest.receive(|bytes| {
                if bytes.len() <= FRAME_MAX
                    && let Some(frame) = pool.get()
                {
                    let mut packet = frame.fill(bytes);
                    packet.flags |= Packet::UNFINISHED;
                    place.push(packet);
                }
            });
        }
        let count = batch.len();
        for (at, mut packet) in batch.drain(..).enumerate() {
            if packet.flags & Packet::UNFINISHED != 0 {
                ebb_wire::finish_checksums(packet.data_mut());
            }
            if at < fast {
                self.sort(number, packet, now);
            } else {
                self.left(number, packet, now);
            }
        }
        self.incoming = batch;
        if let Err(error) = result {
            self.fail(number, &error);
        }
        count
    }

    /// A frame has come that the XDP program left to the kernel: its flow's worker alone knows where that goes now.
    pub(super) fn left(&mut self, number: usize, packet: Packet, now: Time) {
        let owner = self.worker.owner(packet.data());
        if owner == self.worker.number() {
            self.sort(number, packet, now);
        } else {
            self.hand(owner, number, packet);
        }
    }

    fn sort(&mut self, number: usize, packet: Packet, now: Time) {
        if !self.worker.is_first() && is_talk(packet.data()) {
            self.hand(0, number, packet);
        } else if self.peers.several() && self.peers.hear(number, packet.data(), now) {
            self.pool.put(packet.into_frame());
        } else if number.is_multiple_of(2) {
            self.outside(number / 2, packet, now);
        } else {
            self.inside(number / 2, packet, now);
        }
    }

    /// Gives a frame that came on a link to another worker.
    fn hand(&mut self, to: usize, number: usize, packet: Packet) {
        if let Err(packet) = self.worker.hand(to, number, packet) {
            self.counters.overrun += 1;
            self.pool.put(packet.into_frame());
        }
    }

    fn outside(&mut self, side: usize, packet: Packet, now: Time) {
        let several = self.peers.several();
        let verdict = from_outside(&self.topology, self.worker.accepted(), side, packet.data());
        if several
            && !matches!(verdict, Verdict::Ignore)
            && let Some(host) = packet.data().get(6..12)
        {
            let host = host.try_into().expect("six bytes");
            match self.worker.is_first() {
                true => self.peers.saw(side, host, now),
                false => self.worker.note(side, host, now),
            }
        }
        match verdict {
            Verdict::Balance(hash) => {
                let slot = SteeringTable::slot(hash);
                match self.moving[slot] {
                    0 => self.balance(side, slot, packet),
                    from => self.hold(from - 1, side, packet),
                }
            }
            Verdict::Speaker => match self.speaker() {
                Some(row) => self.deliver(side, row, packet),
                None => self.lose(packet),
            },
            Verdict::Everybody => self.pass_on(side, packet, now),
            Verdict::Answer(answer) => {
                self.send_made(2 * side, &answer);
                self.pass_on(side, packet, now);
            }
            Verdict::Out | Verdict::Probe | Verdict::Ignore => {
                self.counters.ignored += 1;
                self.pool.put(packet.into_frame());
            }
        }
    }

    fn inside(&mut self, side: usize, mut packet: Packet, now: Time) {
        let accepted = self.worker.accepted();
        let said = from_inside(&self.topology, accepted, side, packet.data_mut());
        if let Some(neighbour) = said.asked {
            self.talks[side].neighbours.asked(neighbour, now);
        }
        match said.verdict {
            Verdict::Out => {
                self.counters.returned += 1;
                self.places[2 * side].out.push(packet);
                return;
            }
            Verdict::Probe => return self.came_back(side, packet, now),
            Verdict::Answer(answer) => self.send_made(2 * side + 1, &answer),
            _ => self.counters.ignored += 1,
        }
        self.pool.put(packet.into_frame());
    }

    /// Sends a frame of the balancer's own.
    fn send_made(&mut self, link: usize, bytes: &[u8]) {
        if let Some(frame) = self.pool.get() {
            self.places[link].out.push(frame.fill(bytes));
        }
    }

    fn balance(&mut self, side: usize, slot: usize, packet: Packet) {
        match self.logic.table().owner(slot) {
            Some(row) => {
                self.counters.balanced += 1;
                self.asked.packets[slot] += 1;
                self.carried[usize::from(row)] += 1;
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
        let mac = self.topology.back_ends[usize::from(row)].macs[side];
        packet.data_mut()[..6].copy_from_slice(&mac);
        if self.peers.several() {
            // The segment learns from nobody but the balancer that carries a host where the host is.
            let from = self.topology.probe_mac(side);
            packet.data_mut()[6..12].copy_from_slice(&from);
        }
        self.places[2 * side + 1].out.push(packet);
    }

    fn hold(&mut self, from: u16, side: usize, packet: Packet) {
        self.counters.held += 1;
        let drain = self.drains.get_mut(&from).expect("a slot moves only while its row drains");
        drain.held.push_back((side, packet));
    }

    /// The back-end that speaks for the cluster: the plan's, or the first that may get flows.
    pub fn speaker(&self) -> Option<u16> {
        let speaker = self.logic.plan().speaker.as_ref().and_then(|name| self.logic.row(name));
        if let Some(row) = speaker.filter(|row| self.logic.usable(*row)) {
            return Some(row);
        }
        (0..self.watched.len() as u16).find(|row| self.logic.usable(*row))
    }

    /// Back-ends that may have asked for neighbours.
    fn present(&self) -> Vec<u16> {
        let on = |row: &u16| self.logic.plan().power(self.logic.name(*row)) != Power::Off;
        (0..self.watched.len() as u16).filter(on).collect()
    }

    /// Follows a plan.
    pub fn follow(&mut self, plan: &ClusterPlan, now: Time) {
        let moves = self.logic.follow(plan);
        self.carry_out(moves, VecDeque::new(), now);
    }

    fn carry_out(&mut self, moves: Vec<Move>, released: VecDeque<(usize, Packet)>, now: Time) {
        for step in moves {
            match step {
                Move::Drain { from, slots } => {
                    self.drained += 1;
                    let drain = Drain::new(self.drained, self.topology.sides.len(), now);
                    self.drains.insert(from, drain);
                    for slot in slots {
                        self.moving[slot] = from + 1;
                    }
                    self.mark(from, now);
                }
                Move::Settled { slots } => {
                    for slot in slots {
                        self.moving[slot] = 0;
                    }
                }
            }
        }
        for (side, packet) in released {
            self.outside(side, packet, now);
        }
    }

    /// To be called every millisecond or so, and does what is due: probes, words to other balancers and to
    /// neighbours, drains that take too long.
    pub fn tick(&mut self, now: Time) {
        self.relieve(now);
        self.tend_back_ends(now);
        if !self.worker.is_first() {
            return;
        }
        for (link, bytes) in self.peers.tick(&self.topology, now) {
            self.send_made(link, &bytes);
        }
        self.worker.see(self.peers.accepted(), 1 + self.peers.alive().len() as u32);
        self.announce(now);
    }

    /// Gives all frames back.
    pub fn close(&mut self) {
        for drain in std::mem::take(&mut self.drains).into_values() {
            drain.held.into_iter().for_each(|(_, packet)| self.pool.put(packet.into_frame()));
        }
        (0..self.places.len()).for_each(|link| self.detach(link));
    }
}

//! The slotted router of section 6.6: at every input one queue for each output (VOQ), wormhole
//! switching, and in each slot a greedy maximal weight matching of inputs with outputs, the weight
//! being the queue's length.
//!
//! A flit takes one slot into the network, one per link, and one out of it: a packet of L flits over
//! H links takes `H + L + 1` slots when it meets no other. An output stays with a packet until its
//! tail has left; the packet's queue meanwhile competes for its input like any other.

use super::Network;
use super::allocator::Members;
use super::ends::{Ends, Flit, is_head, is_tail, packet_of};
use super::grid::{Grid, LOCAL, NOWHERE, PORTS, opposite};

/// The router's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(deny_unknown_fields, default)]
pub struct VoqRouter {
    /// Flits that each queue holds; section 6.6 has 50.
    #[schema(least = 1, most = 4096)]
    pub depth: u16,
    /// Flits that a processing element takes in a slot, from different inputs.
    ///
    /// Section 6.6 must have let it take one from each: at its load 1 the hot spot receives 2.46 flits per
    /// slot.
    #[schema(least = 1, most = 5)]
    pub ejection: u8,
}

impl Default for VoqRouter {
    fn default() -> VoqRouter {
        VoqRouter { depth: 50, ejection: PORTS as u8 }
    }
}

impl VoqRouter {
    /// Latency in slots of a packet that meets no other.
    pub fn zero_load_latency(&self, links: u64, flits: u64) -> u64 {
        links + flits + 1
    }
}

const NONE: u8 = u8::MAX;
const QUEUES: usize = PORTS * PORTS;

#[derive(Clone, Copy)]
struct Move {
    tile: u32,
    from: u8,
    to: u8,
    /// Queue at the next tile.
    next: u8,
}

/// All routers of a grid.
pub(super) struct VoqNetwork<'g> {
    grid: &'g Grid,
    depth: usize,
    ejection: u8,
    flits: Vec<Flit>,
    front: Vec<u16>,
    len: Vec<u16>,
    /// For each tile the set of its queues with flits.
    filled: Vec<u32>,
    /// For each input port, the queue that the packet coming in goes to.
    coming: Vec<u8>,
    /// For each output port, the input whose packet has it.
    held: Vec<u8>,
    active: Vec<u64>,
    moves: Vec<Move>,
    link_flits: Vec<u64>,
    inside: i64,
}

impl<'g> VoqNetwork<'g> {
    pub(super) fn new(grid: &'g Grid, how: VoqRouter) -> VoqNetwork<'g> {
        let (tiles, depth) = (grid.tiles(), how.depth as usize);
        VoqNetwork {
            grid,
            depth,
            ejection: how.ejection,
            flits: vec![0; tiles * QUEUES * depth],
            front: vec![0; tiles * QUEUES],
            len: vec![0; tiles * QUEUES],
            filled: vec![0; tiles],
            coming: vec![NONE; tiles * PORTS],
            held: vec![NONE; tiles * PORTS],
            active: vec![0; tiles.div_ceil(64)],
            moves: Vec::new(),
            link_flits: vec![0; tiles * 4],
            inside: 0,
        }
    }

    fn queue(tile: usize, from: u8, to: u8) -> usize {
        tile * QUEUES + from as usize * PORTS + to as usize
    }

    fn front_flit(&self, queue: usize) -> Flit {
        self.flits[queue * self.depth + self.front[queue] as usize]
    }

    /// The queue of the next tile that the front flit of a queue goes to, if it has room.
    fn room_ahead(&self, tile: usize, from: u8, to: u8, ends: &Ends<'_>) -> Option<u8> {
        if to == LOCAL {
            return Some(LOCAL);
        }
        let next = self.grid.neighbour(tile as u32, to);
        debug_assert!(next != NOWHERE, "routes stay on the grid");
        let entry = opposite(to);
        let flit = self.front_flit(Self::queue(tile, from, to));
        let queue = if is_head(flit) {
            ends.route_ahead(packet_of(flit), next)
        } else {
            self.coming[next as usize * PORTS + entry as usize]
        };
        let there = Self::queue(next as usize, entry, queue);
        ((self.len[there] as usize) < self.depth).then_some(queue)
    }

    /// Matches one router's inputs with its outputs for slot `now`.
    fn decide(&mut self, tile: usize, now: u64, ends: &Ends<'_>) {
        let mut bids = [(0u16, 0u8, 0u8); QUEUES];
        let mut count = 0;
        for queue in Members(u64::from(self.filled[tile])) {
            let (from, to) = (queue / PORTS as u8, queue % PORTS as u8);
            let holder = self.held[tile * PORTS + to as usize];
            if holder == NONE || holder == from {
                let turn = ((u64::from(queue) + now) % QUEUES as u64) as u8;
                bids[count] = (self.len[tile * QUEUES + queue as usize], turn, queue);
                count += 1;
            }
        }
        let bids = &mut bids[..count];
        bids.sort_unstable_by(|a, b| b.cmp(a));
        let (mut inputs, mut outputs, mut ejected) = (0u8, 0u8, 0u8);
        for &(_, _, queue) in bids.iter() {
            let (from, to) = (queue / PORTS as u8, queue % PORTS as u8);
            if inputs & (1 << from) != 0 || outputs & (1 << to) != 0 {
                continue;
            }
            if let Some(next) = self.room_ahead(tile, from, to, ends) {
                inputs |= 1 << from;
                ejected += u8::from(to == LOCAL);
                if to != LOCAL || ejected == self.ejection {
                    outputs |= 1 << to;
                }
                self.moves.push(Move { tile: tile as u32, from, to, next });
            }
        }
    }

    fn carry_out(&mut self, moved: Move, now: u64, ends: &mut Ends<'_>) {
        let Move { tile, from, to, next } = moved;
        let tile = tile as usize;
        let queue = Self::queue(tile, from, to);
        let flit = self.front_flit(queue);
        let front = self.front[queue] as usize + 1;
        self.front[queue] = if front == self.depth { 0 } else { front as u16 };
        self.len[queue] -= 1;
        if self.len[queue] == 0 {
            self.filled[tile] &= !(1 << (queue - tile * QUEUES));
            if self.filled[tile] == 0 {
                self.active[tile / 64] &= !(1 << (tile % 64));
            }
        }
        let holds = !is_tail(flit) && (to != LOCAL || self.ejection == 1);
        self.held[tile * PORTS + to as usize] = if holds { from } else { NONE };
        if to == LOCAL {
            ends.deliver(flit, tile as u32, now + 1);
            self.inside -= 1;
            return;
        }
        self.link_flits[tile * 4 + to as usize] += 1;
        let there = self.grid.neighbour(tile as u32, to) as usize;
        if is_head(flit) {
            ends.route(packet_of(flit), there as u32);
        }
        self.push(there, opposite(to), next, flit);
    }

    fn push(&mut self, tile: usize, from: u8, to: u8, flit: Flit) {
        let queue = Self::queue(tile, from, to);
        let slot = (self.front[queue] as usize + self.len[queue] as usize) % self.depth;
        self.flits[queue * self.depth + slot] = flit;
        self.len[queue] += 1;
        self.coming[tile * PORTS + from as usize] = to;
        self.filled[tile] |= 1 << (queue - tile * QUEUES);
        self.active[tile / 64] |= 1 << (tile % 64);
    }

    /// Takes in what processing elements have; it can move on in the next slot.
    fn take_in(&mut self, now: u64, ends: &mut Ends<'_>) {
        ends.wake(now);
        for word in 0..self.active.len() {
            for bit in Members(ends.busy(word)) {
                let tile = word * 64 + bit as usize;
                if !ends.flit_ready(tile as u32, now) {
                    continue;
                }
                let to = if ends.sending(tile as u32).at_head() {
                    ends.route_ahead(ends.sending_packet(tile as u32), tile as u32)
                } else {
                    self.coming[tile * PORTS + LOCAL as usize]
                };
                if (self.len[Self::queue(tile, LOCAL, to)] as usize) < self.depth {
                    let flit = ends.take(tile as u32, now);
                    if is_head(flit) {
                        ends.route(packet_of(flit), tile as u32);
                    }
                    self.push(tile, LOCAL, to, flit);
                    self.inside += 1;
                }
            }
        }
    }
}

impl Network for VoqNetwork<'_> {
    fn step(&mut self, now: u64, ends: &mut Ends<'_>) {
        self.moves.clear();
        for word in 0..self.active.len() {
            for bit in Members(self.active[word]) {
                self.decide(word * 64 + bit as usize, now, ends);
            }
        }
        let moves = std::mem::take(&mut self.moves);
        moves.iter().for_each(|&moved| self.carry_out(moved, now, ends));
        self.moves = moves;
        self.take_in(now, ends);
    }

    fn link_flits(&self) -> &[u64] {
        &self.link_flits
    }

    fn flits_inside(&self) -> i64 {
        self.inside
    }

    /// Nothing moves between two slots, so whatever cannot move in one slot never will; the circle
    /// follows full queues and held outputs.
    fn circle(&self, ends: &Ends<'_>) -> Option<Vec<String>> {
        let first = (0..self.len.len()).find(|&queue| self.len[queue] > 0)?;
        let mut trail = vec![first];
        loop {
            let next = self.waits_for(trail[trail.len() - 1], ends)?;
            if let Some(start) = trail.iter().position(|&queue| queue == next) {
                return Some(trail[start..].iter().map(|&queue| self.describe(queue)).collect());
            }
            trail.push(next);
        }
    }
}

impl VoqNetwork<'_> {
    /// The queue that a queue waits for; `None` when it can move.
    fn waits_for(&self, queue: usize, ends: &Ends<'_>) -> Option<usize> {
        let tile = queue / QUEUES;
        let (from, to) = ((queue % QUEUES / PORTS) as u8, (queue % PORTS) as u8);
        if self.len[queue] == 0 {
            let entry = tile * PORTS + from as usize;
            debug_assert_eq!(self.coming[entry], to, "a packet holds this queue");
            if from == LOCAL {
                return None;
            }
            let before = self.grid.neighbour(tile as u32, from) as usize;
            let holder = self.held[before * PORTS + opposite(from) as usize];
            return (holder != NONE).then(|| Self::queue(before, holder, opposite(from)));
        }
        let holder = self.held[tile * PORTS + to as usize];
        if holder != NONE && holder != from {
            return Some(Self::queue(tile, holder, to));
        }
        if self.room_ahead(tile, from, to, ends).is_some() {
            return None;
        }
        let next = self.grid.neighbour(tile as u32, to);
        let entry = opposite(to);
        let flit = self.front_flit(queue);
        let ahead = if is_head(flit) {
            ends.route_ahead(packet_of(flit), next)
        } else {
            self.coming[next as usize * PORTS + entry as usize]
        };
        Some(Self::queue(next as usize, entry, ahead))
    }

    fn describe(&self, queue: usize) -> String {
        let tile = (queue / QUEUES) as u32;
        let (row, col) = self.grid.place(tile);
        let (from, to) = ((queue % QUEUES / PORTS) as u8, (queue % PORTS) as u8);
        format!(
            "tile ({row},{col}), queue from {} to {}",
            self.grid.port_name(tile, from),
            self.grid.port_name(tile, to)
        )
    }
}

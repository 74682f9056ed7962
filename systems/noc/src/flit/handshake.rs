//! The router of Noxim (Catania, Mineo, Monteleone, Palesi and Patti, "Noxim: an open, extensible and
//! cycle-accurate network on chip simulator", ASAP 2015): wormhole switching over links with a handshake.
//!
//! A flit that is sent in one cycle is taken into the next router's buffer in the cycle after, and its
//! acknowledgement is seen in the one after that (the alternating-bit protocol), so that every link, and the
//! ports between a router and its element, carry one flit in two cycles. An output is reserved by a head for
//! its packet until the tail has left, once for every virtual channel; of several reservations of an output
//! each has its turn for two cycles. Nobody goes on into a buffer that was full a cycle ago.
//!
//! A packet of L flits over H links that meets no other takes `2 (H + 1) + 2 (L - 1)` cycles.

use rand::Rng as _;

use super::Network;
use super::allocator::Members;
use super::ends::{Ends, Flit, is_head, is_tail, packet_of};
use super::grid::{EAST, Grid, LOCAL, NORTH, NOWHERE, PORTS, SOUTH, WEST, opposite};
use ebb_des::{Rng, Seed};

/// The router's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(deny_unknown_fields, default)]
pub struct HandshakeRouter {
    /// Virtual channels of a port, of which a packet keeps the one that its source drew.
    #[schema(least = 1, most = 8)]
    pub vcs: u8,
    /// Flits that each virtual channel's buffer holds.
    #[schema(least = 1, most = 4096)]
    pub depth: u16,
}

impl Default for HandshakeRouter {
    fn default() -> HandshakeRouter {
        HandshakeRouter { vcs: 1, depth: 4 }
    }
}

impl HandshakeRouter {
    /// Latency in cycles of a packet that meets no other.
    pub fn zero_load_latency(&self, links: u64, flits: u64) -> u64 {
        2 * (links + 1) + 2 * (flits - 1)
    }
}

/// No output, as the packet in front has not asked for one.
const NONE: u8 = u8::MAX;
/// Noxim's order of ports, which turns by one in each cycle. Its sixth, to a radio hub, has no packets here.
const TURNS: [u8; 6] = [NORTH, EAST, SOUTH, WEST, LOCAL, NONE];

/// Inputs and virtual channels whose packets share an output, and whose turn it is.
#[derive(Clone, Default)]
struct Reserved {
    by: Vec<(u8, u8)>,
    turn: usize,
}

impl Reserved {
    fn release(&mut self, who: (u8, u8)) {
        let at = self.by.iter().position(|by| *by == who).expect("a tail leaves a reserved output");
        self.by.remove(at);
        if at < self.turn {
            self.turn -= 1;
        } else if self.turn >= self.by.len() {
            self.turn = 0;
        }
    }
}

/// All routers of a grid.
pub(super) struct HandshakeNetwork<'g> {
    grid: &'g Grid,
    vcs: usize,
    depth: usize,
    rng: Rng,
    /// Buffers, at index `(tile * PORTS + port) * vcs + vc`: their flits, the first's place, how many, and
    /// the output that the packet in front leaves by.
    flits: Vec<Flit>,
    front: Vec<u16>,
    len: Vec<u16>,
    out: Vec<u8>,
    /// For each output port its reservations.
    reserved: Vec<Reserved>,
    /// For each input port a flit that has been sent to it, with its virtual channel.
    coming: Vec<Option<(Flit, u8)>>,
    /// For each input port, from when on the next flit may be sent to it.
    clear_at: Vec<u64>,
    /// For each output to an element, the same.
    element_clear_at: Vec<u64>,
    /// For each input port the set of its buffers that were full at the end of the last cycle.
    full: Vec<u8>,
    /// For each tile what keeps it at work: flits, flits that come, reservations.
    work: Vec<u32>,
    sent: Vec<(usize, Flit, u8)>,
    link_flits: Vec<u64>,
    inside: i64,
}

impl<'g> HandshakeNetwork<'g> {
    pub(super) fn new(grid: &'g Grid, how: HandshakeRouter, seed: Seed) -> HandshakeNetwork<'g> {
        let (tiles, vcs, depth) = (grid.tiles(), usize::from(how.vcs), usize::from(how.depth));
        let ports = tiles * PORTS;
        HandshakeNetwork {
            grid,
            vcs,
            depth,
            rng: seed.stream("handshake"),
            flits: vec![0; ports * vcs * depth],
            front: vec![0; ports * vcs],
            len: vec![0; ports * vcs],
            out: vec![NONE; ports * vcs],
            reserved: vec![Reserved::default(); ports],
            coming: vec![None; ports],
            clear_at: vec![0; ports],
            element_clear_at: vec![0; tiles],
            full: vec![0; ports],
            work: vec![0; tiles],
            sent: Vec::new(),
            link_flits: vec![0; tiles * 4],
            inside: 0,
        }
    }

    fn buffer(&self, tile: usize, port: u8, vc: u8) -> usize {
        (tile * PORTS + usize::from(port)) * self.vcs + usize::from(vc)
    }

    fn first(&self, buffer: usize) -> Option<Flit> {
        (self.len[buffer] > 0)
            .then(|| self.flits[buffer * self.depth + usize::from(self.front[buffer])])
    }

    /// Lets heads reserve outputs that no other input has for the same virtual channel.
    fn reserve(&mut self, tile: usize, now: u64, ends: &mut Ends<'_>) {
        for turn in 0..TURNS.len() as u64 {
            let port = TURNS[((4 + now + turn) % TURNS.len() as u64) as usize];
            if port == NONE {
                continue;
            }
            for turn in 0..self.vcs as u64 {
                let vc = ((now + turn) % self.vcs as u64) as u8;
                let buffer = self.buffer(tile, port, vc);
                let Some(flit) = self.first(buffer).filter(|flit| is_head(*flit)) else { continue };
                if self.out[buffer] == NONE {
                    self.out[buffer] = ends.route(packet_of(flit), tile as u32);
                }
                let by = &mut self.reserved[tile * PORTS + usize::from(self.out[buffer])].by;
                if by.iter().all(|(_, other)| *other != vc) {
                    by.push((port, vc));
                    self.work[tile] += 1;
                }
            }
        }
    }

    /// The port at the other end of an output.
    fn ahead(&self, tile: usize, out: u8) -> usize {
        let next = self.grid.neighbour(tile as u32, out);
        debug_assert!(next != NOWHERE, "routes stay on the grid");
        next as usize * PORTS + usize::from(opposite(out))
    }

    /// Whether a flit may be sent by an output.
    fn may_go(&self, tile: usize, out: u8, vc: u8, now: u64) -> bool {
        if out == LOCAL {
            return self.element_clear_at[tile] <= now;
        }
        let there = self.ahead(tile, out);
        let free = self.coming[there].is_none() && self.clear_at[there] <= now;
        free && self.full[there] & (1 << vc) == 0
    }

    /// Lets every input send a flit by one of the outputs whose turn is its own.
    fn forward(&mut self, tile: usize, now: u64, ends: &mut Ends<'_>) {
        for port in TURNS.into_iter().filter(|port| *port != NONE) {
            let mut ways = [(0, 0); PORTS];
            let mut count = 0;
            for out in 0..PORTS as u8 {
                let reserved = &self.reserved[tile * PORTS + usize::from(out)];
                if let Some(&(_, vc)) =
                    reserved.by.get(reserved.turn).filter(|(input, _)| *input == port)
                {
                    ways[count] = (out, vc);
                    count += 1;
                }
            }
            let (out, vc) = match count {
                0 => continue,
                1 => ways[0],
                _ => ways[self.rng.random_range(0..count)],
            };
            let buffer = self.buffer(tile, port, vc);
            if let Some(flit) = self.first(buffer).filter(|_| self.may_go(tile, out, vc, now)) {
                self.send(tile, (port, vc), out, flit, (now, ends));
            }
        }
    }

    fn send(
        &mut self,
        tile: usize,
        from: (u8, u8),
        out: u8,
        flit: Flit,
        (now, ends): (u64, &mut Ends<'_>),
    ) {
        let buffer = self.buffer(tile, from.0, from.1);
        self.front[buffer] = ((usize::from(self.front[buffer]) + 1) % self.depth) as u16;
        self.len[buffer] -= 1;
        self.work[tile] -= 1;
        if is_tail(flit) {
            self.out[buffer] = NONE;
            self.reserved[tile * PORTS + usize::from(out)].release(from);
            self.work[tile] -= 1;
        }
        if out == LOCAL {
            self.element_clear_at[tile] = now + 2;
            self.inside -= 1;
            ends.deliver(flit, tile as u32, now);
            return;
        }
        let there = self.ahead(tile, out);
        self.clear_at[there] = u64::MAX;
        self.link_flits[tile * 4 + usize::from(out)] += 1;
        self.sent.push((there, flit, from.1));
    }

    /// Takes flits that were sent a cycle ago into buffers, and tells which are full.
    fn receive(&mut self, tile: usize, now: u64) {
        for port in 0..PORTS as u8 {
            let at = tile * PORTS + usize::from(port);
            if let Some((flit, vc)) = self.coming[at] {
                let buffer = self.buffer(tile, port, vc);
                if usize::from(self.len[buffer]) < self.depth {
                    let place = (usize::from(self.front[buffer]) + usize::from(self.len[buffer]))
                        % self.depth;
                    self.flits[buffer * self.depth + place] = flit;
                    self.len[buffer] += 1;
                    self.coming[at] = None;
                    self.clear_at[at] = now + 1;
                }
            }
            let is_full =
                |vc: &u8| usize::from(self.len[at * self.vcs + usize::from(*vc)]) == self.depth;
            self.full[at] = (0..self.vcs as u8).filter(is_full).fold(0, |set, vc| set | 1 << vc);
        }
    }

    /// Takes what processing elements have; the router sees it a cycle later.
    fn take_in(&mut self, now: u64, ends: &mut Ends<'_>) {
        ends.wake(now);
        for word in 0..ends.words() {
            for bit in Members(ends.busy(word)) {
                let tile = word * 64 + bit as usize;
                let at = tile * PORTS + usize::from(LOCAL);
                let free = self.coming[at].is_none() && self.clear_at[at] <= now;
                if !free || !ends.flit_ready(tile as u32, now) {
                    continue;
                }
                if ends.sending(tile as u32).at_head() && self.vcs > 1 {
                    ends.sending(tile as u32).vc = self.rng.random_range(0..self.vcs as u8);
                }
                let vc = ends.sending(tile as u32).vc;
                self.coming[at] = Some((ends.take(tile as u32, now), vc));
                self.work[tile] += 1;
                self.inside += 1;
            }
        }
    }
}

impl Network for HandshakeNetwork<'_> {
    fn step(&mut self, now: u64, ends: &mut Ends<'_>) {
        for tile in 0..self.work.len() {
            if self.work[tile] == 0 {
                continue;
            }
            self.reserve(tile, now, ends);
            self.forward(tile, now, ends);
            if now.is_multiple_of(2) {
                let all = &mut self.reserved[tile * PORTS..(tile + 1) * PORTS];
                for reserved in all.iter_mut().filter(|reserved| !reserved.by.is_empty()) {
                    reserved.turn = (reserved.turn + 1) % reserved.by.len();
                }
            }
        }
        for tile in 0..self.work.len() {
            if self.work[tile] > 0 || self.full[tile * PORTS..(tile + 1) * PORTS] != [0; PORTS] {
                self.receive(tile, now);
            }
        }
        for (there, flit, vc) in std::mem::take(&mut self.sent) {
            self.coming[there] = Some((flit, vc));
            self.work[there / PORTS] += 1;
        }
        self.take_in(now, ends);
    }

    fn link_flits(&self) -> &[u64] {
        &self.link_flits
    }

    fn flits_inside(&self) -> i64 {
        self.inside
    }

    /// The circle follows full buffers and reserved outputs, neither of which anybody else can free.
    fn circle(&self, _: &Ends<'_>) -> Option<Vec<String>> {
        let mut ends_well = vec![false; self.len.len()];
        for first in (0..self.len.len()).filter(|&buffer| self.len[buffer] > 0) {
            let mut trail = vec![first];
            while let Some(next) = self.waits_for(trail[trail.len() - 1]) {
                if let Some(start) = trail.iter().position(|&buffer| buffer == next) {
                    let circle = trail[start..].iter().map(|&buffer| self.describe(buffer));
                    return Some(circle.collect());
                }
                if ends_well[next] {
                    break;
                }
                trail.push(next);
            }
            trail.into_iter().for_each(|buffer| ends_well[buffer] = true);
        }
        None
    }
}

impl HandshakeNetwork<'_> {
    /// Tile, port and virtual channel of a buffer.
    fn place(&self, buffer: usize) -> (usize, u8, u8) {
        let (at, vc) = (buffer / self.vcs, (buffer % self.vcs) as u8);
        (at / PORTS, (at % PORTS) as u8, vc)
    }

    /// The buffer whose packet has an output for a virtual channel.
    fn holder(&self, tile: usize, out: u8, vc: u8) -> Option<usize> {
        let by = &self.reserved[tile * PORTS + usize::from(out)].by;
        let &(port, vc) = by.iter().find(|(_, other)| *other == vc)?;
        Some(self.buffer(tile, port, vc))
    }

    /// The buffer that a buffer's packet waits for; `None` when it can move, or need not.
    fn waits_for(&self, buffer: usize) -> Option<usize> {
        let (tile, port, vc) = self.place(buffer);
        if self.len[buffer] == 0 {
            let at = tile * PORTS + usize::from(port);
            if port == LOCAL || self.out[buffer] == NONE || self.coming[at].is_some() {
                return None;
            }
            let before = self.grid.neighbour(tile as u32, port) as usize;
            return self.holder(before, opposite(port), vc);
        }
        let out = self.out[buffer];
        if out == NONE {
            return None;
        }
        let holder = self.holder(tile, out, vc)?;
        if holder != buffer {
            return Some(holder);
        }
        if out == LOCAL {
            return None;
        }
        let there = self.ahead(tile, out) * self.vcs + usize::from(vc);
        (usize::from(self.len[there]) == self.depth).then_some(there)
    }

    fn describe(&self, buffer: usize) -> String {
        let (tile, port, vc) = self.place(buffer);
        let (row, col) = self.grid.place(tile as u32);
        let from = self.grid.port_name(tile as u32, port);
        format!("tile ({row},{col}), channel {vc} from {from}")
    }
}

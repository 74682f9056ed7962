//! A router that is faster inside than its links: more ports into and out of its switch than there are
//! links, or more cycles of its own than of the network's. What has crossed the switch waits at its output for
//! the link, credits at their input for theirs; one flit and what one cycle inside gave back go in a cycle.

use std::collections::VecDeque;

use super::super::allocator::{Pointers, Requests, Set};
use super::super::ends::{Ends, Flit};
use super::VcNetwork;

/// Ports into or out of a switch, at most.
pub(super) const SWITCH_MAX: usize = 64;

/// What such routers keep beyond what all have.
#[derive(Clone)]
pub(super) struct Speedup {
    /// Ports into the switch of each input, and out of it of each output.
    ways: (usize, usize),
    cycles: f64,
    begun: f64,
    requests: Requests<u64, SWITCH_MAX>,
    pointers: Vec<Pointers<SWITCH_MAX>>,
    /// For each port into each switch, the virtual channel whose turn it is.
    turn: Vec<[u8; SWITCH_MAX]>,
    /// At each output: the router's cycle from which a flit can leave, its channel, and the flit.
    flits: Vec<VecDeque<(u64, u8, Flit)>>,
    /// At each input: the router's cycle, and the channels that give back.
    credits: Vec<VecDeque<(u64, u64)>>,
    /// Routers where something waits.
    waiting: Vec<bool>,
}

impl Speedup {
    /// Of `tiles` routers with room for `ports` ports each, of which they have `used`.
    pub(super) fn new(
        ways: (u8, u8),
        cycles: f64,
        tiles: usize,
        (ports, used): (usize, usize),
    ) -> Speedup {
        let ways = (usize::from(ways.0), usize::from(ways.1));
        assert!(used * ways.0.max(ways.1) <= SWITCH_MAX, "a set holds the switch's ports");
        let first = std::array::from_fn(|port| (port % ways.0) as u8);
        Speedup {
            ways,
            cycles,
            begun: 0.0,
            requests: Requests::new(),
            pointers: vec![Pointers::START; tiles],
            turn: vec![first; tiles],
            flits: vec![VecDeque::new(); tiles * ports],
            credits: vec![VecDeque::new(); tiles * ports],
            waiting: vec![false; tiles],
        }
    }

    /// Cycles of the router in the network's next one.
    pub(super) fn cycles(&mut self) -> u64 {
        self.begun += self.cycles;
        let whole = self.begun.floor();
        self.begun -= whole;
        whole as u64
    }
}

impl<S: Set, const PORTS: usize, const N: usize> VcNetwork<'_, S, PORTS, N> {
    /// Allocates the switch where its ports are more than the router's.
    pub(super) fn allocate_wide_switch(
        &mut self,
        tile: usize,
        crossing: S,
        tick: u64,
        ends: &mut Ends<'_>,
    ) {
        let mut fast = self.speedup.take().expect("a faster router");
        let (ways_in, ways_out) = fast.ways;
        let base = tile * PORTS * self.vcs;
        let mut candidate = [[u8::MAX; SWITCH_MAX]; SWITCH_MAX];
        for channel in super::super::allocator::Members(crossing) {
            let out = self.inputs[base + channel as usize].out;
            if self.credits[base + out as usize] == 0 {
                continue;
            }
            let port = self.port_of[channel as usize] as usize;
            let vc = |channel: u8| usize::from(channel) - port * self.vcs;
            let from = port * ways_in + vc(channel) % ways_in;
            let to = self.port_of[out as usize] as usize * ways_out + port % ways_out;
            let turn = usize::from(fast.turn[tile][from]);
            let behind = |channel: u8| (vc(channel) + self.vcs - turn) % self.vcs;
            let before = candidate[from][to];
            if before == u8::MAX || behind(channel) < behind(before) {
                candidate[from][to] = channel;
                fast.requests.ask(from as u8, 1 << to);
            }
        }
        let mut won = Vec::with_capacity(SWITCH_MAX);
        let size = (self.grid.ports() * ways_in.max(ways_out)) as u8;
        let (kind, rounds) = (self.how.allocator, self.how.rounds);
        fast.requests.allocate(kind, rounds, size, &mut fast.pointers[tile], |from, to| {
            won.push((from as usize, to as usize));
        });
        for &(from, to) in &won {
            let channel = candidate[from][to];
            let vc = channel as usize - from / ways_in * self.vcs;
            fast.turn[tile][from] = ((vc + ways_in) % self.vcs) as u8;
        }
        self.speedup = Some(fast);
        for (from, to) in won {
            let (port, out) = ((from / ways_in) as u8, (to / ways_out) as u8);
            self.cross(tile, candidate[from][to], port, out, tick, ends);
        }
    }

    /// Lets a flit wait at output `to` of a faster router, from the cycle after it crossed.
    pub(super) fn wait_for_link(&mut self, tile: usize, to: u8, vc: u8, flit: Flit, tick: u64) {
        let fast = self.speedup.as_mut().expect("a faster router");
        fast.flits[tile * PORTS + usize::from(to)].push_back((tick + 1, vc, flit));
        fast.waiting[tile] = true;
    }

    /// Lets a credit wait at input `from`, together with those of the same cycle.
    pub(super) fn hold_credit(&mut self, tile: usize, from: u8, vc: u8, tick: u64) {
        let fast = self.speedup.as_mut().expect("a faster router");
        let queue = &mut fast.credits[tile * PORTS + usize::from(from)];
        match queue.back_mut() {
            Some((at, vcs)) if *at == tick => *vcs |= 1 << vc,
            _ => queue.push_back((tick, 1 << vc)),
        }
        fast.waiting[tile] = true;
    }

    /// Sends from each port what is next, at the end of a network's cycle.
    pub(super) fn send_waiting(&mut self, now: u64) {
        let mut fast = self.speedup.take().expect("a faster router");
        let ended = self.tick;
        for tile in 0..fast.waiting.len() {
            if !std::mem::take(&mut fast.waiting[tile]) {
                continue;
            }
            for port in 0..self.grid.ports() {
                let at = tile * PORTS + port;
                if fast.flits[at].front().is_some_and(|(ready, ..)| *ready < ended) {
                    let (_, vc, flit) = fast.flits[at].pop_front().expect("one waits");
                    self.send(tile, port as u8, vc, flit, now);
                }
                if let Some((_, vcs)) = fast.credits[at].pop_front() {
                    for vc in super::super::allocator::Members(vcs) {
                        self.send_credit(tile, port as u8, vc, now);
                    }
                }
                fast.waiting[tile] |= !fast.flits[at].is_empty() || !fast.credits[at].is_empty();
            }
        }
        self.speedup = Some(fast);
    }
}

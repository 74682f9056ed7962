//! One router's cycle: virtual channels for the heads that ask, then the switch for the flits that
//! have a channel and a credit.

use super::super::allocator::{Members, Pointers, Set};
use super::super::ends::{Ends, is_tail};
use super::super::grid::LOCAL;
use super::{Arrival, InputVc, Stage, TO_ELEMENT, VcNetwork};

/// Cycles that a channel can be put off, at most, less one; a power of two less one.
const LATER: usize = 15;

/// What a router decides with. Sets are of its input or output virtual channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Core<S, const PORTS: usize, const N: usize> {
    /// Inputs that ask for an output virtual channel.
    asking: S,
    /// Inputs that ask for the switch.
    crossing: S,
    /// Output virtual channels that no packet owns.
    free: S,
    /// Of the others, those that a tail has left by and whose buffers are not empty yet, where that is waited for.
    draining: S,
    /// Cycle up to which inputs may join one of the sets later.
    later_until: u64,
    asking_at: [S; LATER + 1],
    crossing_at: [S; LATER + 1],
    /// For each input port, the virtual channel whose turn it is.
    turn: [u8; PORTS],
    vc_pointers: Pointers<N>,
    sw_pointers: Pointers<PORTS>,
}

impl<S: Set, const PORTS: usize, const N: usize> Core<S, PORTS, N> {
    pub(super) fn new(channels: usize) -> Core<S, PORTS, N> {
        let none = S::default();
        Core {
            asking: none,
            crossing: none,
            free: S::first(channels),
            draining: none,
            later_until: 0,
            asking_at: [none; LATER + 1],
            crossing_at: [none; LATER + 1],
            turn: [0; PORTS],
            vc_pointers: Pointers::START,
            sw_pointers: Pointers::START,
        }
    }

    /// Lets input `channel` ask for an output virtual channel from cycle `when`.
    #[inline]
    pub(super) fn ask_at(&mut self, when: u64, channel: usize) {
        self.asking_at[when as usize & LATER] |= S::only(channel as u8);
        self.later_until = self.later_until.max(when);
    }

    /// Lets input `channel` ask for the switch from cycle `when`.
    #[inline]
    pub(super) fn cross_at(&mut self, when: u64, channel: usize) {
        self.crossing_at[when as usize & LATER] |= S::only(channel as u8);
        self.later_until = self.later_until.max(when);
    }

    #[inline]
    fn begin(&mut self, now: u64) {
        let slot = now as usize & LATER;
        self.asking |= std::mem::take(&mut self.asking_at[slot]);
        self.crossing |= std::mem::take(&mut self.crossing_at[slot]);
    }

    #[inline]
    fn rests_after(&self, now: u64) -> bool {
        (self.asking | self.crossing).is_empty() && self.later_until <= now
    }

    /// Frees output virtual channel `out`, whose buffer has become empty, if its last packet's tail has left.
    #[inline]
    pub(super) fn drained(&mut self, out: u8) {
        let out = self.draining & S::only(out);
        self.draining &= !out;
        self.free |= out;
    }

    /// Whether output virtual channel `out` waits only for its buffer to become empty.
    pub(super) fn is_draining(&self, out: u8) -> bool {
        !(self.draining & S::only(out)).is_empty()
    }

    /// Output virtual channels that no packet owns.
    pub(super) fn free(&self) -> S {
        self.free
    }
}

/// The output virtual channels of a tile that may be asked for.
struct Choice<'a, S> {
    /// Those that no packet owns.
    free: S,
    credits: &'a [u16],
    masks: &'a [u64],
    vcs: usize,
    depth: u16,
}

impl<S: Set> Choice<'_, S> {
    #[inline]
    fn of_layer(&self, input: &InputVc) -> S {
        self.free & self.at(input.layer, input.port)
    }

    /// The channels of a layer at a port.
    #[inline]
    fn at(&self, layer: u8, port: u8) -> S {
        S::shifted(self.masks[layer as usize], port as usize * self.vcs)
    }

    /// What a head under adaptive routing asks for: empty channels of the nearer neighbour with more
    /// credits, else of the other, else the escape. Only a channel whose buffer is empty is taken, so that
    /// every head gets to the front of its buffer and can escape: a packet behind another's tail could wait
    /// in a circle of such tails, none of them at a front.
    fn adaptive(&self, input: &InputVc) -> S {
        let escape = input.layer & !1;
        if input.layer == escape || input.port == LOCAL {
            let chosen =
                if input.port == LOCAL { self.at(escape | 1, LOCAL) } else { S::default() };
            return self.free & (self.at(escape, input.port) | chosen);
        }
        let room = |port: u8| -> u32 {
            Members(self.at(input.layer, port))
                .map(|out| u32::from(self.credits[out as usize]))
                .sum()
        };
        let swap = input.other != input.port && room(input.other) > room(input.port);
        let order = if swap { [input.other, input.port] } else { [input.port, input.other] };
        for port in order {
            let empty = |out: &u8| self.credits[*out as usize] == self.depth;
            let free = Members(self.free & self.at(input.layer, port));
            let set = free.filter(empty).fold(S::default(), |set, out| set | S::only(out));
            if !set.is_empty() {
                return set;
            }
        }
        self.free & self.at(escape, input.port)
    }
}

impl<S: Set, const PORTS: usize, const N: usize> VcNetwork<'_, S, PORTS, N> {
    /// Lets every router with something to decide decide.
    pub(super) fn decide(&mut self, now: u64, ends: &mut Ends<'_>) {
        let cycles = self.speedup.as_mut().map_or(1, |fast| fast.cycles());
        for _ in 0..cycles {
            self.decide_once(self.tick, now, ends);
            self.tick += 1;
        }
        if self.speedup.is_some() {
            self.send_waiting(now);
        }
    }

    /// One cycle of the routers' own, `tick`, in the network's cycle `now`.
    fn decide_once(&mut self, tick: u64, now: u64, ends: &mut Ends<'_>) {
        for word in 0..self.active.len() {
            for bit in Members(self.active[word]) {
                let tile = word * 64 + bit as usize;
                self.cores[tile].begin(tick);
                let crossing = self.cores[tile].crossing;
                if !self.cores[tile].asking.is_empty() {
                    self.allocate_channels(tile, tick);
                }
                if !crossing.is_empty() {
                    match self.speedup {
                        None => self.allocate_switch(tile, crossing, now, ends),
                        Some(_) => self.allocate_wide_switch(tile, crossing, tick, ends),
                    }
                }
                if self.cores[tile].rests_after(tick) {
                    self.active[word] &= !(1 << bit);
                }
            }
        }
    }

    fn allocate_channels(&mut self, tile: usize, now: u64) {
        let size = PORTS * self.vcs;
        let core = &mut self.cores[tile];
        let inputs = &mut self.inputs[tile * size..(tile + 1) * size];
        let choice = Choice {
            free: core.free,
            credits: &self.credits[tile * size..(tile + 1) * size],
            masks: &self.layer_masks,
            vcs: self.vcs,
            depth: self.how.depth,
        };
        for channel in Members(core.asking) {
            let input = &inputs[channel as usize];
            let set = match self.adaptive {
                false => choice.of_layer(input),
                true => choice.adaptive(input),
            };
            self.vc_requests.ask(channel, set);
        }
        let port_of = &self.port_of;
        let when = now + u64::from(self.how.sw_alloc);
        let Core { asking, free, crossing_at, later_until, vc_pointers, .. } = core;
        let (kind, rounds) = (self.how.allocator, self.how.rounds);
        self.vc_requests.allocate(kind, rounds, size as u8, vc_pointers, |channel, out| {
            let input = &mut inputs[channel as usize];
            input.out = out;
            input.port = port_of[out as usize];
            input.stage = Stage::Flowing;
            *asking &= !S::only(channel);
            *free &= !S::only(out);
            crossing_at[when as usize & LATER] |= S::only(channel);
            *later_until = when.max(*later_until);
        });
    }

    fn allocate_switch(&mut self, tile: usize, crossing: S, now: u64, ends: &mut Ends<'_>) {
        let size = PORTS * self.vcs;
        let base = tile * size;
        let mut candidate = [[u8::MAX; PORTS]; PORTS];
        let mut behind = [[u8::MAX; PORTS]; PORTS];
        for channel in Members(crossing) {
            let out = self.inputs[base + channel as usize].out;
            if self.credits[base + out as usize] == 0 {
                continue;
            }
            let from = self.port_of[channel as usize] as usize;
            let to = self.port_of[out as usize] as usize;
            let vc = channel - (from * self.vcs) as u8;
            let turn = self.cores[tile].turn[from];
            let distance = if vc >= turn { vc - turn } else { vc + self.vcs as u8 - turn };
            if distance < behind[from][to] {
                behind[from][to] = distance;
                candidate[from][to] = channel;
                self.sw_requests.ask(from as u8, 1 << to);
            }
        }
        let mut won = [(0u8, 0u8); PORTS];
        let mut count = 0;
        let pointers = &mut self.cores[tile].sw_pointers;
        let (kind, rounds) = (self.how.allocator, self.how.rounds);
        self.sw_requests.allocate(kind, rounds, PORTS as u8, pointers, |from, to| {
            won[count] = (from, to);
            count += 1;
        });
        for &(from, to) in &won[..count] {
            self.cross(tile, candidate[from as usize][to as usize], from, to, now, ends);
        }
    }

    /// Moves the front flit of input `channel` through the switch.
    #[inline]
    pub(super) fn cross(
        &mut self,
        tile: usize,
        channel: u8,
        from: u8,
        to: u8,
        now: u64,
        ends: &mut Ends<'_>,
    ) {
        let base = tile * PORTS * self.vcs;
        let index = base + channel as usize;
        let input = &mut self.inputs[index];
        let flit = self.buffers[index * self.depth + input.front as usize];
        input.front = if input.front as usize + 1 == self.depth { 0 } else { input.front + 1 };
        input.len -= 1;
        let (left, out) = (input.len, input.out);
        let tail = is_tail(flit);
        self.credits[base + out as usize] -= 1;
        let vc = channel - from * self.vcs as u8;
        let core = &mut self.cores[tile];
        core.turn[from as usize] = if vc as usize + 1 == self.vcs { 0 } else { vc + 1 };
        if tail {
            let out = S::only(out);
            match self.how.wait_for_tail_credit {
                true => core.draining |= out,
                false => core.free |= out,
            }
        }
        let out = out - to * self.vcs as u8;
        if self.speedup.is_some() {
            self.wait_for_link(tile, to, out, flit, now);
            self.hold_credit(tile, from, vc, now);
        } else {
            self.send(tile, to, out, flit, now + u64::from(self.how.traversal));
            self.send_credit(tile, from, vc, now);
        }
        let core = &mut self.cores[tile];
        if left > 0 && !tail && self.how.sw_alloc == 1 {
            return;
        }
        core.crossing &= !S::only(channel);
        if left == 0 {
            if tail {
                self.inputs[index].stage = Stage::Empty;
            }
        } else if tail {
            let head = self.buffers[index * self.depth + self.inputs[index].front as usize];
            self.ask(index, tile, head, now + 1, ends);
        } else {
            core.cross_at(now + u64::from(self.how.sw_alloc), channel as usize);
        }
    }

    /// Whether an input virtual channel is in this half of the network.
    #[inline]
    fn is_here(&self, channel: u32) -> bool {
        channel.wrapping_sub(self.here.0) < self.here.1
    }

    /// Sends a flit over the link at port `to`, at the end of cycle `now`.
    #[inline]
    pub(super) fn send(&mut self, tile: usize, to: u8, vc: u8, flit: u32, now: u64) {
        let port = tile * PORTS + to as usize;
        let at = self.across[port] + u32::from(vc);
        let when = now + u64::from(self.cycles[port]) + 1;
        if at & TO_ELEMENT == 0 {
            self.link_flits[self.grid.link(tile as u32, to)] += 1;
            if !self.is_here(at) {
                self.leaving.push((when, Arrival { at, flit }));
                return;
            }
        }
        self.flits.schedule(when, Arrival { at, flit });
    }

    /// Gives a credit back over port `from`, at the end of cycle `now`.
    #[inline]
    pub(super) fn send_credit(&mut self, tile: usize, from: u8, vc: u8, now: u64) {
        let port = tile * PORTS + from as usize;
        let when = now + u64::from(self.cycles[port]) + 1;
        let channel = self.across[port] + u32::from(vc);
        if channel & TO_ELEMENT == 0 {
            let when = when + u64::from(self.how.credit);
            match self.is_here(channel) {
                true => self.credits_back.schedule(when, channel),
                false => self.credits_leaving.push((when, channel)),
            }
        } else {
            let element = self.element_at[port] as usize;
            self.source_credits_back.schedule(when, (element * self.vcs) as u32 + u32::from(vc));
        }
    }
}

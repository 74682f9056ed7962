//! The virtual-channel router: input queues, credits, and a pipeline of route computation, virtual
//! channel allocation, switch allocation and switch traversal (Dally and Towles, "Principles and
//! Practices of Interconnection Networks", 2004, chapter 16), with the timing of BookSim 2's
//! input-queued router (Jiang et al., ISPASS 2013).
//!
//! A packet of L flits over H links takes `(H + 1) * router + (H + 2) * (link + 1) + L - 1` cycles
//! through an empty network, with `router` the sum of its four stages less one.
//!
//! State lies in flat arrays by index: input virtual channel `(tile * ports + port) * vcs + vc`, output
//! virtual channels alike; what waits at elements by element. Only tiles with something to decide are visited.

mod router;
mod speedup;
mod waits;

use super::Network;
use super::allocator::{Allocator, Requests, Set};
use super::demand::Demand;
use super::ends::{Ends, Flit, is_head, packet_of};
use super::grid::{Grid, NOWHERE};
use super::halves::{Crossings, Divisible};
use ebb_des::Wheel;
use router::Core;
use speedup::Speedup;

/// The router's parameters. Delays in network cycles; the defaults are those of BookSim 2's
/// 8 x 8 example configurations.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize, ebb_scenario::Described)]
#[serde(deny_unknown_fields, default)]
pub struct VcRouter {
    /// Virtual channels of every port.
    #[schema(least = 1, most = 16)]
    pub vcs: u8,
    /// Flits that the buffer of a virtual channel holds.
    #[schema(least = 1, most = 4096)]
    pub depth: u16,
    /// Cycles for computing a route; 0 when it was computed one router before.
    #[schema(most = 4)]
    pub routing: u8,
    /// Cycles for allocating a virtual channel.
    #[schema(least = 1, most = 4)]
    pub vc_alloc: u8,
    /// Cycles for allocating the switch.
    #[schema(least = 1, most = 4)]
    pub sw_alloc: u8,
    /// Cycles in the switch.
    #[schema(least = 1, most = 8)]
    pub traversal: u8,
    /// Cycles on a link.
    #[schema(most = 64)]
    pub link: u8,
    /// Cycles on the link between an element and its router; as `link` if absent.
    #[schema(most = 64)]
    pub element_link: Option<u8>,
    /// Whether a link takes `link` cycles for every element that it passes, as in a flattened butterfly.
    pub link_by_length: bool,
    /// Cycles for taking note of a credit.
    #[schema(most = 64)]
    pub credit: u8,
    /// Whether a channel is given on when the buffer behind it is empty again, not with a packet's tail.
    pub wait_for_tail_credit: bool,
    /// How channels and the switch are allocated.
    pub allocator: Allocator,
    /// Rounds of an allocation in one cycle.
    #[schema(least = 1, most = 8)]
    pub rounds: u8,
    /// Ports into the switch for each input, among which its virtual channels are dealt out.
    #[schema(least = 1, most = 8)]
    pub input_speedup: u8,
    /// Ports out of the switch for each output, among which the inputs are dealt out.
    #[schema(least = 1, most = 8)]
    pub output_speedup: u8,
    /// Cycles of a router in one of the network's.
    #[schema(least = 1, most = 8)]
    pub internal_speedup: f64,
}

impl Default for VcRouter {
    fn default() -> VcRouter {
        VcRouter {
            vcs: 4,
            depth: 8,
            routing: 1,
            vc_alloc: 1,
            sw_alloc: 1,
            traversal: 1,
            link: 1,
            element_link: None,
            link_by_length: false,
            credit: 1,
            wait_for_tail_credit: false,
            allocator: Allocator::Islip,
            rounds: 1,
            input_speedup: 1,
            output_speedup: 1,
            internal_speedup: 1.0,
        }
    }
}

impl VcRouter {
    /// Latency of a packet that meets no other, in network cycles: the formula above.
    pub fn zero_load_latency(&self, links: u64, flits: u64) -> u64 {
        let stages = [self.routing, self.vc_alloc, self.sw_alloc, self.traversal];
        let router = stages.into_iter().map(u64::from).sum::<u64>() - 1;
        let ways = links * (u64::from(self.link) + 1) + 2 * (self.element_cycles() + 1);
        (links + 1) * router + ways + flits - 1
    }

    /// Whether it is faster inside than its links.
    pub(crate) fn is_faster(&self) -> bool {
        self.input_speedup > 1 || self.output_speedup > 1 || self.internal_speedup > 1.0
    }

    /// Cycles between an element and its router.
    fn element_cycles(&self) -> u64 {
        u64::from(self.element_link.unwrap_or(self.link))
    }

    /// Cycles on what lies behind `port` of `tile`.
    fn on_link(&self, grid: &Grid, tile: u32, port: u8) -> u64 {
        if grid.beyond(tile, port).is_none() {
            return self.element_cycles();
        }
        let length = if self.link_by_length { grid.length(tile, port) } else { 1 };
        u64::from(self.link) * length as u64
    }
}

/// What the front packet of an input virtual channel is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Empty,
    /// Routed or being routed, without an output virtual channel.
    Asking,
    /// Owns an output virtual channel.
    Flowing,
}

/// An input virtual channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputVc {
    front: u16,
    len: u16,
    stage: Stage,
    /// Port by which the front packet leaves, or may at least.
    port: u8,
    /// The other port by which it may, under adaptive routing.
    other: u8,
    /// Layer of the front packet.
    layer: u8,
    /// Output virtual channel, of the tile's.
    out: u8,
}

/// An arrival: at an input virtual channel, or at the processing element behind an output one.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: u32,
    flit: Flit,
}

const TO_ELEMENT: u32 = 1 << 31;

/// All routers of a grid, each with up to so many ports, of up to `N` virtual channels altogether: as many
/// as a set of `S` holds.
#[derive(Clone)]
pub(super) struct VcNetwork<'g, S: Set, const PORTS: usize, const N: usize> {
    grid: &'g Grid,
    how: VcRouter,
    vcs: usize,
    depth: usize,
    layer_masks: Vec<u64>,
    /// Whether layers come in pairs, the first to escape on and the second to choose on.
    adaptive: bool,
    inputs: Vec<InputVc>,
    buffers: Vec<Flit>,
    credits: Vec<u16>,
    cores: Vec<Core<S, PORTS, N>>,
    /// Behind each port of each tile, the first virtual channel of the port on the other side; of an
    /// element's port its own first one, with [`TO_ELEMENT`].
    across: Vec<u32>,
    /// Cycles on what lies behind each port of each tile.
    cycles: Vec<u16>,
    /// The element at each port of each tile, where one is.
    element_at: Vec<u32>,
    /// The first virtual channel of each element's port.
    home: Vec<u32>,
    port_of: [u8; N],
    source_credits: Vec<u16>,
    source_taken: Vec<u16>,
    /// Of these, those whose packets' tails have left.
    source_left: Vec<u16>,
    active: Vec<u64>,
    flits: Wheel<Arrival>,
    credits_back: Wheel<u32>,
    source_credits_back: Wheel<u32>,
    vc_requests: Requests<S, N>,
    sw_requests: Requests<u64, PORTS>,
    link_flits: Vec<u64>,
    inside: i64,
    /// The routers' own cycle, the network's where they are no faster.
    tick: u64,
    speedup: Option<Box<Speedup>>,
    /// Of half a network its input virtual channels, the first and how many; else all.
    here: (u32, u32),
    /// What goes from here to the other half, with the cycle in which it arrives there.
    leaving: Vec<(u64, Arrival)>,
    credits_leaving: Vec<(u64, u32)>,
    /// For each channel the packet whose head came to it last from the other half.
    from_afar: Vec<u32>,
}

impl<'g, S: Set, const PORTS: usize, const N: usize> VcNetwork<'g, S, PORTS, N> {
    /// Empty routers. `demand` divides the virtual channels of every port among classes and layers.
    pub(super) fn new(grid: &'g Grid, how: VcRouter, demand: &Demand) -> Self {
        assert!(N == S::SIZE && PORTS * how.vcs as usize <= N, "sets hold a router's channels");
        let (tiles, vcs, depth) = (grid.tiles(), how.vcs as usize, how.depth as usize);
        let channels = tiles * PORTS * vcs;
        let stage = Stage::Empty;
        let empty = InputVc { front: 0, len: 0, stage, port: 0, other: 0, layer: 0, out: 0 };
        let mut element_at = vec![NOWHERE; tiles * PORTS];
        let mut home = Vec::with_capacity(grid.elements());
        for element in 0..grid.elements() as u32 {
            let (tile, port) = grid.home(element);
            let at = tile as usize * PORTS + port as usize;
            element_at[at] = element;
            home.push((at * vcs) as u32);
        }
        let ports =
            (0..tiles as u32).flat_map(|tile| (0..PORTS as u8).map(move |port| (tile, port)));
        let across =
            ports.clone().zip(&element_at).enumerate().map(|(at, ((tile, port), element))| {
                if *element != NOWHERE {
                    return (at * vcs) as u32 | TO_ELEMENT;
                }
                let Some(next) = grid.beyond(tile, port) else { return u32::MAX };
                ((next as usize * PORTS + grid.entry(tile, port) as usize) * vcs) as u32
            });
        let across: Vec<u32> = across.collect();
        let cycles: Vec<u16> =
            ports.map(|(tile, port)| how.on_link(grid, tile, port) as u16).collect();
        let far = u64::from(cycles.iter().copied().max().unwrap_or(0));
        let ahead = u64::from(how.traversal) + far + u64::from(how.credit) + 2;
        let mut port_of = [0; N];
        (0..PORTS * vcs).for_each(|channel| port_of[channel] = (channel / vcs) as u8);
        VcNetwork {
            grid,
            how,
            vcs,
            depth,
            layer_masks: demand.channels(vcs),
            adaptive: demand.is_adaptive(),
            inputs: vec![empty; channels],
            buffers: vec![0; channels * depth],
            credits: vec![how.depth; channels],
            cores: vec![Core::new(PORTS * vcs); tiles],
            across,
            cycles,
            element_at,
            port_of,
            source_credits: vec![how.depth; home.len() * vcs],
            source_taken: vec![0; home.len()],
            source_left: vec![0; home.len()],
            home,
            active: vec![0; tiles.div_ceil(64)],
            flits: Wheel::new(ahead),
            credits_back: Wheel::new(ahead),
            source_credits_back: Wheel::new(ahead),
            vc_requests: Requests::new(),
            sw_requests: Requests::new(),
            link_flits: vec![0; grid.link_slots()],
            inside: 0,
            tick: 0,
            speedup: how.is_faster().then(|| {
                let ways = (how.input_speedup, how.output_speedup);
                Box::new(Speedup::new(ways, how.internal_speedup, tiles, (PORTS, grid.ports())))
            }),
            here: (0, channels as u32),
            leaving: Vec::new(),
            credits_leaving: Vec::new(),
            from_afar: Vec::new(),
        }
    }

    #[inline]
    fn activate(&mut self, tile: usize) {
        self.active[tile / 64] |= 1 << (tile % 64);
    }

    fn receive_credits(&mut self, now: u64) {
        while let Some(channel) = self.credits_back.pop(now + 1) {
            let credits = &mut self.credits[channel as usize];
            *credits += 1;
            if *credits == self.how.depth && self.how.wait_for_tail_credit {
                let size = (PORTS * self.vcs) as u32;
                self.cores[(channel / size) as usize].drained((channel % size) as u8);
            }
        }
        while let Some(channel) = self.source_credits_back.pop(now + 1) {
            let credits = &mut self.source_credits[channel as usize];
            *credits += 1;
            if *credits == self.how.depth && self.how.wait_for_tail_credit {
                let (element, vc) = (channel as usize / self.vcs, channel as usize % self.vcs);
                let vc = self.source_left[element] & (1 << vc);
                self.source_left[element] &= !vc;
                self.source_taken[element] &= !vc;
            }
        }
    }

    fn receive_flits(&mut self, now: u64, ends: &mut Ends<'_>) {
        while let Some(Arrival { at, flit }) = self.flits.pop(now + 1) {
            if at & TO_ELEMENT != 0 {
                let channel = at & !TO_ELEMENT;
                let port = channel as usize / self.vcs;
                ends.deliver(flit, self.element_at[port], now);
                self.inside -= 1;
                let back = u64::from(self.cycles[port]) + 1 + u64::from(self.how.credit);
                self.credits_back.schedule(now + back, channel);
            } else {
                self.enqueue(at as usize, flit, ends);
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, channel: usize, flit: Flit, ends: &mut Ends<'_>) {
        let tile = channel / (PORTS * self.vcs);
        let local = channel - tile * PORTS * self.vcs;
        let input = &mut self.inputs[channel];
        assert!((input.len as usize) < self.depth, "a flit came without a credit");
        let mut slot = input.front as usize + input.len as usize;
        if slot >= self.depth {
            slot -= self.depth;
        }
        self.buffers[channel * self.depth + slot] = flit;
        input.len += 1;
        if input.len > 1 {
            return;
        }
        match input.stage {
            Stage::Empty => {
                debug_assert!(is_head(flit), "a packet begins with its head");
                self.ask(channel, tile, flit, self.tick, ends);
            }
            Stage::Flowing => {
                let when = self.tick + u64::from(self.how.sw_alloc) - 1;
                self.cores[tile].cross_at(when, local);
            }
            Stage::Asking => unreachable!("an empty channel asks for nothing"),
        }
        self.activate(tile);
    }

    /// Routes the head at the front of `channel`, in the router's cycle `from`, and lets it ask for an output
    /// virtual channel when the pipeline allows.
    #[inline]
    fn ask(&mut self, channel: usize, tile: usize, head: Flit, from: u64, ends: &mut Ends<'_>) {
        let packet = packet_of(head);
        let (credits, vcs, depth) = (&self.credits, self.vcs, u32::from(self.how.depth));
        let used = |port: u8| {
            let first = (tile * PORTS + usize::from(port)) * vcs;
            let left = credits[first..first + vcs].iter().map(|left| u32::from(*left));
            vcs as u32 * depth - left.sum::<u32>()
        };
        let port = ends.route_by(packet, tile as u32, &used);
        let mut layer = ends.layer(packet);
        let mut other = port;
        if self.adaptive {
            other = ends.other_port(packet, tile as u32);
            // What has escaped stays on the escape channels, which close no cycle by themselves.
            let chooses = self.layer_masks[layer as usize] >> (channel % self.vcs) & 1 == 1;
            layer -= u8::from(!chooses);
        }
        let input = &mut self.inputs[channel];
        (input.port, input.other, input.layer) = (port, other, layer);
        input.stage = Stage::Asking;
        let when = from + u64::from(self.how.routing) + u64::from(self.how.vc_alloc) - 1;
        self.cores[tile].ask_at(when, channel - tile * PORTS * self.vcs);
    }

    fn send_from_elements(&mut self, now: u64, ends: &mut Ends<'_>) {
        let way = self.how.element_cycles() + 1;
        for word in 0..ends.words() {
            for bit in super::allocator::Members(ends.busy(word)) {
                let element = word * 64 + bit as usize;
                if ends.flit_ready(element as u32, now) && self.source_channel(element, ends) {
                    let vc = ends.sending(element as u32).vc as usize;
                    let flit = ends.take(element as u32, now);
                    self.source_credits[element * self.vcs + vc] -= 1;
                    if super::ends::is_tail(flit) {
                        match self.how.wait_for_tail_credit {
                            true => self.source_left[element] |= 1 << vc,
                            false => self.source_taken[element] &= !(1 << vc),
                        }
                    }
                    self.inside += 1;
                    let at = self.home[element] + vc as u32;
                    self.flits.schedule(now + way, Arrival { at, flit });
                }
            }
        }
    }

    /// Whether the element's next flit has a virtual channel with a credit; a head takes the next free
    /// one after the last packet's, or tries one drawn at random.
    #[inline]
    fn source_channel(&mut self, element: usize, ends: &mut Ends<'_>) -> bool {
        let credits = &self.source_credits[element * self.vcs..(element + 1) * self.vcs];
        let sending = ends.sending(element as u32);
        if !sending.at_head() {
            return credits[sending.vc as usize] > 0;
        }
        let drawn = ends.channel_to_enter(self.vcs);
        let sending = ends.sending(element as u32);
        let mask = self.layer_masks[sending.layer as usize];
        let mut vc = sending.vc as usize;
        let (mut tries, drawn) = (self.vcs, drawn.map(usize::from));
        if let Some(drawn) = drawn {
            (vc, tries) = ((drawn + self.vcs - 1) % self.vcs, 1);
        }
        for _ in 0..tries {
            vc = if vc + 1 == self.vcs { 0 } else { vc + 1 };
            let free = self.source_taken[element] & (1 << vc) == 0;
            if free && mask & (1 << vc) != 0 && credits[vc] > 0 {
                sending.vc = vc as u8;
                self.source_taken[element] |= 1 << vc;
                return true;
            }
        }
        false
    }
}

impl<S: Set, const PORTS: usize, const N: usize> Network for VcNetwork<'_, S, PORTS, N> {
    fn step(&mut self, now: u64, ends: &mut Ends<'_>) {
        self.receive_credits(now);
        self.receive_flits(now, ends);
        ends.wake(now);
        self.send_from_elements(now, ends);
        self.decide(now, ends);
    }

    fn link_flits(&self) -> &[u64] {
        &self.link_flits
    }

    fn flits_inside(&self) -> i64 {
        self.inside
    }

    fn circle(&self, _ends: &Ends<'_>) -> Option<Vec<String>> {
        self.wait_circle()
    }
}

impl<S: Set, const PORTS: usize, const N: usize> Divisible for VcNetwork<'_, S, PORTS, N> {
    fn keep(&mut self, tiles: std::ops::Range<usize>) {
        let size = PORTS * self.vcs;
        self.here = ((tiles.start * size) as u32, (tiles.len() * size) as u32);
        self.from_afar = vec![0; self.inputs.len()];
    }

    fn ahead(&self) -> u64 {
        let links = (0..self.across.len()).filter(|port| {
            let across = self.across[*port];
            across != u32::MAX && across & TO_ELEMENT == 0
        });
        let least = links.map(|port| u64::from(self.cycles[port])).min().unwrap_or(0);
        // A flit takes the switch as well, or waits for its link until the end of the cycle.
        let flit = if self.speedup.is_some() { 0 } else { u64::from(self.how.traversal) };
        least + 1 + flit.min(u64::from(self.how.credit))
    }

    fn depart(&mut self, ends: &mut Ends<'_>, to: &mut Crossings) {
        for (when, Arrival { at, flit }) in self.leaving.drain(..) {
            let (packet, kind) = ends.depart(flit);
            to.packets.extend(packet);
            to.flits.push((when, at, kind));
        }
        to.credits.append(&mut self.credits_leaving);
    }

    fn arrive(&mut self, coming: &mut Crossings, ends: &mut Ends<'_>) {
        let mut packets = coming.packets.drain(..);
        for (when, at, kind) in coming.flits.drain(..) {
            let packet = if is_head(kind) { packets.next() } else { None };
            let flit = ends.arrive((packet, kind), &mut self.from_afar[at as usize]);
            self.flits.schedule(when, Arrival { at, flit });
        }
        let credits = coming.credits.drain(..);
        credits.for_each(|(when, channel)| self.credits_back.schedule(when, channel));
    }

    fn joined(&self, other: &Self) -> Self {
        let mut whole = self.clone();
        let size = (PORTS * self.vcs) as u32;
        let (first, count) = other.here;
        let channels = first as usize..(first + count) as usize;
        whole.inputs[channels.clone()].copy_from_slice(&other.inputs[channels.clone()]);
        whole.credits[channels.clone()].copy_from_slice(&other.credits[channels]);
        let tiles = (first / size) as usize..((first + count) / size) as usize;
        whole.cores[tiles.clone()].copy_from_slice(&other.cores[tiles]);
        other.flits.all().for_each(|arrival| whole.flits.schedule(0, arrival));
        other.credits_back.all().for_each(|channel| whole.credits_back.schedule(0, channel));
        whole
    }
}

//! The network's state and its loop.

use ebb_des::{Seed, Wheel};

use super::account::Manager;
use super::awaited::Tokens;
use super::credits::Coming;
use super::meter::Meter;
use super::notes::Notes;
use super::packet::{Kind, Packet, Pool, Queue};
use super::physics::Physics;
use super::routes::Routes;
use super::traffic::{Multipath, Sources, Traffic};
use super::wiring::{NONE, Wiring};
use super::{Pause, SimError};
use crate::dependency::ChannelLabel;
use crate::tables::Tables;
use crate::topology::{HostId, Link, PortNumber, SwitchId, Topology};

/// How often the wait-for graph is searched, ns.
const SEARCH_NS: u64 = 20_000;

/// An event: what happens to which element, and a number that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    kind: u8,
    element: u32,
    extra: u32,
}

pub(super) const HEAD: u8 = 0;
pub(super) const CROSSED: u8 = 1;
pub(super) const SENT: u8 = 2;
pub(super) const WAKE: u8 = 3;
pub(super) const SOURCE: u8 = 4;
pub(super) const ARRIVED: u8 = 5;
pub(super) const STAGE: u8 = 6;

/// The input side of a channel: what came over the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) queue: Queue,
    /// The output that the first packet waits for.
    pub(super) waits: u32,
    /// The next input that waits for the same.
    pub(super) next: u32,
    /// Credits of the packet on its way through the crossbar.
    pub(super) transfer: u16,
    pub(super) busy: bool,
    pub(super) hold: Hold,
    /// Version of the tables in bit 0, lane set of the outputs in bit 1.
    pub(super) rule: u8,
}

/// Why a packet that could go does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Free,
    /// The output's token has not gone.
    Token,
    /// The switch has no new tables yet.
    Tables,
}

/// The output side of a channel: what is to go over the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) queue: Queue,
    pub(super) used: u32,
    pub(super) credits: u32,
    /// Inputs that wait, first and last.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) busy: bool,
    pub(super) starving: bool,
    pub(super) wake: u64,
}

/// The sending side of a port, on whose link its channels take turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// Lanes with packets to send, a bit each.
    pub(super) filled: u16,
    /// The channel of the packet that is on the wire, and its credits.
    pub(super) sending: Option<(u32, u16)>,
    /// The lane whose turn it is.
    pub(super) turn: u8,
    /// Of a host: the last packet was a control packet.
    pub(super) after_control: bool,
    /// What less than a nanosecond the last packet left, ps.
    pub(super) rest_ps: u16,
    /// Bytes sent since this was last asked, and before.
    pub(super) bytes: u64,
    bytes_before: u64,
}

/// What a switch has been told of a change of tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchState {
    /// The new tables are there.
    pub(super) present: bool,
    /// The new rules for lanes are there.
    pub(super) lanes_new: bool,
    /// Old packets are dropped.
    pub(super) purging: bool,
}

impl SwitchState {
    /// No change is under way.
    pub(super) const SETTLED: SwitchState =
        SwitchState { present: true, lanes_new: false, purging: false };
}

/// The packets from a host to another, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    pub(super) sent: u32,
    /// The largest that has arrived.
    pub(super) arrived: u32,
}

/// A fabric with its packets.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) topology: Topology,
    pub(super) physics: Physics,
    pub(super) wiring: Wiring,
    pub(super) routes: Routes,
    pub(super) wheel: Wheel<Event>,
    pub(super) pool: Pool,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    pub(super) coming: Coming,
    pub(super) capacity: u32,
    pub(super) senders: Vec<Sender>,
    pub(super) multipath: Multipath,
    /// Single flows and packets, if they are asked for.
    pub(super) notes: Option<Box<Notes>>,
    pub(super) lanes_of_set: u32,
    pub(super) sources: Sources,
    pub(super) hosts: Vec<HostState>,
    /// Per host: destinations whose packets it holds back.
    pub(super) held: Vec<Vec<u32>>,
    /// By source and target.
    pub(super) sequences: Vec<Sequence>,
    pub(super) switches: Vec<SwitchState>,
    /// By version of the tables: hosts that are not there.
    pub(super) gone: [Vec<bool>; 2],
    pub(super) epoch: u8,
    pub(super) tokens: Tokens,
    pub(super) manager: Manager,
    pub(super) meter: Meter,
    pub(super) flying: u64,
    next_search: u64,
}

/// What a host knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostState {
    pub(super) halted: bool,
    pub(super) version: u8,
    pub(super) present: bool,
    /// Lane sets it may use, a bit each.
    pub(super) sets: u8,
    pub(super) epoch: u8,
    pub(super) armed: u64,
    pub(super) sent: [u64; 2],
    pub(super) received: [u64; 2],
}

/// What a network is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Every switch, host and cable there is, links that are off included.
    pub topology: &'a Topology,
    /// Links, buffers and switches.
    pub physics: &'a Physics,
    /// Traffic of the hosts.
    pub traffic: &'a Traffic,
    /// The tables at the start.
    pub tables: &'a Tables,
    /// Tables that may come: they decide how many lanes there must be.
    pub later: &'a [&'a Tables],
    /// Links that are off at the start.
    pub off: &'a [Link],
    /// Hosts that are not there at the start.
    pub gone: &'a [HostId],
    /// The host that the network manager runs on.
    pub manager: HostId,
    /// Decides all randomness.
    pub seed: Seed,
    /// Length of the spans that are reported, ns.
    pub bin_ns: u64,
    /// Packets before results are collected.
    pub transient: u64,
}

impl Network {
    /// A fabric without packets.
    ///
    /// # Errors
    /// When the tables need more lanes than there are or the fabric cannot be managed.
    pub fn new(setup: &Setup<'_>) -> Result<Network, SimError> {
        let Setup { topology, physics, traffic, .. } = *setup;
        let mut routes = Routes::new(topology, setup.tables, physics.block_entries);
        routes.spread = traffic.multipath != Multipath::First;
        let probe = Wiring::new(topology, 1, physics.flight_ns);
        let mut of_set = highest_lane(&routes, &probe);
        for tables in setup.later {
            let later = Routes::new(topology, tables, physics.block_entries);
            of_set = of_set.max(highest_lane(&later, &probe));
        }
        let lanes = of_set * u32::from(physics.lane_sets) + 1;
        if lanes > 16 {
            return Err(SimError::Lanes { sets: physics.lane_sets, of_set });
        }
        let mut wiring = Wiring::new(topology, lanes, physics.flight_ns);
        wiring.pace(topology, physics).map_err(SimError::NoSuchEnd)?;
        let (ports, channels) = (wiring.ports() as usize, wiring.channels());
        let longest = physics.packet_bytes.max(physics.control_bytes).max(physics.token_bytes);
        let pace = |of: fn(u32, u32) -> u32| {
            u64::from(wiring.byte_ps.iter().copied().reduce(of).unwrap_or(0))
        };
        let wire = |bytes: u16, pace: u64| u64::from(bytes) * pace / 1000;
        let reach = wire(longest, pace(u32::max)) + physics.flight_ns + physics.routing_ns;
        let hosts = topology.hosts().len();
        let input = |channel: u32| Input {
            queue: Queue::EMPTY,
            waits: NONE,
            next: NONE,
            transfer: 0,
            busy: false,
            hold: Hold::Free,
            rule: set_of(channel, lanes, of_set) << 1,
        };
        let shortest = physics.packet_bytes.min(physics.control_bytes).min(physics.token_bytes);
        let shortest = wire(shortest, pace(u32::min));
        let of_hosts = wiring.end_port(0) as usize..wiring.end_port(0) as usize + hosts;
        let host_ps = &wiring.byte_ps[of_hosts];
        let mut network = Network {
            topology: topology.clone(),
            physics: physics.clone(),
            wheel: Wheel::new(reach),
            pool: Pool::default(),
            inputs: (0..channels as u32).map(input).collect(),
            outputs: Vec::new(),
            coming: Coming::new(channels, physics.flight_ns, shortest),
            capacity: physics.buffer_units(),
            senders: vec![Sender::default(); ports],
            notes: None,
            lanes_of_set: of_set,
            sources: Sources::new(traffic, physics, host_ps, setup.seed),
            multipath: traffic.multipath,
            hosts: vec![HostState::new(physics.lane_sets); hosts],
            held: vec![Vec::new(); hosts],
            sequences: vec![Sequence::default(); hosts * hosts],
            switches: vec![SwitchState::SETTLED; wiring.switches as usize],
            gone: [absent(hosts, setup.gone), absent(hosts, setup.gone)],
            epoch: 0,
            tokens: Tokens::new(channels, wiring.switches as usize),
            manager: Manager::new(setup.manager),
            meter: Meter::new(setup.bin_ns.max(1), setup.transient),
            flying: 0,
            next_search: SEARCH_NS,
            wiring,
            routes,
        };
        network.fill_outputs();
        setup.off.iter().for_each(|link| network.switch_link(*link, false));
        for host in 0..hosts as u32 {
            network.arm_source(host);
        }
        Ok(network)
    }

    fn fill_outputs(&mut self) {
        let output = |port: u32| {
            let peer = self.wiring.peer[port as usize];
            let into_switch = peer != NONE && self.wiring.switch[peer as usize] != NONE;
            let credits = if into_switch { self.capacity } else { u32::MAX / 2 };
            Output {
                queue: Queue::EMPTY,
                used: 0,
                credits,
                first: NONE,
                last: NONE,
                busy: false,
                starving: false,
                wake: 0,
            }
        };
        let lanes = self.wiring.lanes;
        self.outputs = (0..self.wiring.channels() as u32).map(|c| output(c / lanes)).collect();
    }

    /// The time, ns.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.wheel.now()
    }

    /// What was counted so far.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Data lanes of one set.
    #[must_use]
    pub fn lanes_of_set(&self) -> u32 {
        self.lanes_of_set
    }

    /// Turns a link on or off. What is queued for a link that goes off is lost.
    pub fn switch_link(&mut self, link: Link, on: bool) {
        for (switch, port) in [link.a, link.b] {
            let port = self.wiring.first[switch.index()] + u32::from(port);
            self.wiring.on[port as usize] = on;
            if on {
                self.link_try(port);
            } else {
                self.discard_queued(port);
                self.reconsider(switch.0);
            }
        }
    }

    fn discard_queued(&mut self, port: u32) {
        for lane in 0..self.wiring.lanes {
            let channel = self.wiring.channel(port, lane);
            while !self.outputs[channel as usize].queue.is_empty() {
                let packet = self.pop_output(channel);
                self.outputs[channel as usize].used -= u32::from(self.pool.get(packet).units);
                self.lose(packet, false);
            }
        }
    }

    /// Bytes that a link carried from each end since this was last asked.
    pub fn take_link_bytes(&mut self, link: Link) -> [u64; 2] {
        [link.a, link.b].map(|(switch, port)| {
            let port = self.wiring.first[switch.index()] + u32::from(port);
            let sender = &mut self.senders[port as usize];
            let bytes = std::mem::take(&mut sender.bytes);
            sender.bytes_before += bytes;
            bytes
        })
    }

    /// Bytes that a port of a switch has sent in all.
    pub fn port_bytes(&self, switch: SwitchId, port: PortNumber) -> u64 {
        self.sent_by(self.wiring.first[switch.index()] + u32::from(port))
    }

    /// Bytes that a host has sent in all.
    pub fn host_bytes(&self, host: HostId) -> u64 {
        self.sent_by(self.wiring.end_port(host.0))
    }

    fn sent_by(&self, port: u32) -> u64 {
        let sender = &self.senders[port as usize];
        sender.bytes + sender.bytes_before
    }

    /// When every host had finished its collective operation, if it has.
    pub fn collective_done_ns(&self) -> Option<u64> {
        self.sources.script.as_ref()?.done_ns
    }

    /// What a port's link carries in a span, in bytes.
    pub fn port_bytes_in(&self, switch: SwitchId, port: PortNumber, span_ns: f64) -> f64 {
        let port = self.wiring.first[switch.index()] + u32::from(port);
        span_ns * 1000.0 / f64::from(self.wiring.byte_ps[port as usize])
    }

    /// The same of a host's link.
    pub fn host_bytes_in(&self, host: HostId, span_ns: f64) -> f64 {
        span_ns * 1000.0 / f64::from(self.wiring.byte_ps[self.wiring.end_port(host.0) as usize])
    }

    /// Notes single flows and packets from now on.
    pub fn note(&mut self, notes: Notes) {
        self.notes = Some(Box::new(notes));
    }

    /// What was noted.
    pub fn take_notes(&mut self) -> Option<Notes> {
        self.notes.take().map(|notes| *notes)
    }

    /// Lets time pass until `end` (ns), the end of a reconfiguration or a deadlock.
    pub fn run_until(&mut self, end: u64) -> Pause {
        loop {
            let until = end.min(self.next_search);
            while let Some(event) = self.wheel.pop(until) {
                self.happen(event);
                if self.manager.finished() {
                    self.meter.clock(self.now());
                    return Pause::Settled;
                }
            }
            if self.now() >= self.next_search {
                self.next_search = self.now() + SEARCH_NS;
                if let Some(cycle) = self.find_deadlock() {
                    return Pause::Deadlock(cycle);
                }
            }
            if self.now() >= end {
                self.meter.clock(self.now());
                return Pause::Reached;
            }
        }
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        let Event { kind, element, extra } = event;
        match kind {
            HEAD => self.head_ready(element),
            CROSSED => self.crossed(element, extra),
            SENT => self.sent(element),
            WAKE => self.link_try(element),
            SOURCE => self.source_due(element),
            ARRIVED => self.arrive(element, extra),
            _ => self.stage_waited(extra),
        }
    }

    #[inline]
    pub(super) fn after(&mut self, delay: u64, kind: u8, element: u32, extra: u32) {
        self.wheel.schedule(self.wheel.now() + delay, Event { kind, element, extra });
    }

    /// The lane set of a channel's lane; the control lane counts as set 0.
    #[inline]
    pub(super) fn set_of(&self, channel: u32) -> u8 {
        set_of(channel, self.wiring.lanes, self.lanes_of_set)
    }

    /// Takes a data packet out of the world, dropped on purpose or lost.
    pub(super) fn lose(&mut self, packet: u32, purpose: bool) {
        let now = self.now();
        let record = self.pool.take(packet);
        if record.kind != Kind::Data {
            return;
        }
        self.meter.clock(now);
        if self.is_stray(&record) {
            self.count_stray(&record);
        } else if purpose {
            self.meter.dropped += 1;
        } else {
            self.meter.lost += 1;
        }
    }

    /// Whether an end of a packet leaves or arrives with the tables.
    pub(super) fn is_stray(&self, record: &Packet) -> bool {
        let gone = |host: u32| self.gone.iter().any(|hosts| hosts[host as usize]);
        gone(record.source) || gone(record.target)
    }

    /// Counts a packet that will not arrive because an end of it leaves or arrives.
    pub(super) fn count_stray(&mut self, record: &Packet) {
        self.meter.strays += 1;
        self.hosts[record.target as usize].received[usize::from(record.epoch & 1)] += 1;
    }

    pub(super) fn plain_packet(&self, kind: Kind, bytes: u16) -> Packet {
        Packet {
            next: NONE,
            source: 0,
            target: 0,
            sequence: 0,
            born: self.now(),
            entered: self.now(),
            ready: 0,
            tail: 0,
            bytes,
            units: self.physics.units(bytes) as u16,
            hops: 0,
            level: 0,
            path: 0,
            epoch: 0,
            kind,
        }
    }

    /// A channel as people read it; `None` for a channel that leaves a host or an agent.
    pub(super) fn place(&self, channel: u32) -> Option<ChannelLabel> {
        let port = self.wiring.port_of(channel);
        let switch = self.wiring.switch[port as usize];
        let (number, lane) =
            (self.wiring.number[port as usize], self.wiring.lane_of(channel) as u8);
        (switch != NONE).then(|| ChannelLabel::of(&self.topology, SwitchId(switch), number, lane))
    }
}

impl HostState {
    fn new(sets: u8) -> HostState {
        HostState {
            halted: false,
            version: 0,
            present: true,
            sets: (1 << sets) - 1,
            epoch: 0,
            armed: u64::MAX,
            sent: [0; 2],
            received: [0; 2],
        }
    }
}

fn absent(hosts: usize, gone: &[HostId]) -> Vec<bool> {
    let mut absent = vec![false; hosts];
    gone.iter().for_each(|host| absent[host.index()] = true);
    absent
}

fn set_of(channel: u32, lanes: u32, of_set: u32) -> u8 {
    let lane = channel % lanes;
    u8::from(lane >= of_set && lane + 1 < lanes)
}

fn highest_lane(routes: &Routes, wiring: &Wiring) -> u32 {
    let mut highest = 0;
    let all = vec![false; wiring.hosts as usize];
    routes.walk(0, wiring, (16, &all), |_, (_, lane)| highest = highest.max(lane));
    u32::from(highest) + 1
}

//! Where packets go under one set of tables.
//!
//! Room: every path of every pair of hosts, followed once per destination and service level: whether
//! it arrives, how long it is, which channels it uses and which dependencies it makes. Judging what
//! comes out is [`crate::check`]'s.

use std::collections::BTreeMap;

use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, ServiceLevel, Tables};
use crate::topology::{HostId, Lid, Owner, Peer, PortNumber, SwitchId, Topology};

/// Why packets of a pair do not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// A switch has no entry for the address.
    NoEntry,
    /// A switch keeps the packet for itself (port 0).
    KeptBySwitch,
    /// The port has no cable or its link is off.
    DeadPort,
    /// The cable ends at another host.
    WrongHost,
    /// The lane table says lane 15 or nothing.
    NoLane,
    /// No service level is known for the pair.
    NoLevel,
    /// The packet comes back to a channel it was in.
    Loop,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Loss::NoEntry => "has no entry for the address",
            Loss::KeptBySwitch => "delivers the packet to itself",
            Loss::DeadPort => "sends the packet to a port without a link",
            Loss::WrongHost => "sends the packet to another host",
            Loss::NoLane => "discards the packet: no lane for its service level",
            Loss::NoLevel => "has no service level for the pair",
            Loss::Loop => "sends the packet in a loop",
        })
    }
}

/// A pair of hosts whose packets do not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Where the packets begin.
    pub source: HostId,
    /// Where they should end.
    pub destination: Lid,
    /// Their level.
    pub level: ServiceLevel,
    /// The switch at which they are lost, or where a loop is entered.
    pub at: SwitchId,
    /// Why.
    pub loss: Loss,
}

/// How many unreachable pairs are kept as examples unless more are asked for.
pub const EXAMPLES: usize = 16;

/// What the paths of all pairs come to.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Which channels wait for which.
    pub graph: DependencyGraph,
    /// Pairs of source host and destination address.
    pub pairs: u64,
    /// Pairs of which some packets do not arrive.
    pub unreachable: u64,
    /// The first of them.
    pub examples: Vec<Unreachable>,
    /// For how many sources packets to an address end at a switch, and why.
    pub broken: BTreeMap<(Lid, SwitchId, Loss), u64>,
    /// Pairs among them that go round in a loop.
    pub looping: u64,
    /// The channels of the first loop found; empty without one.
    pub first_loop: Vec<Channel>,
    /// How many paths (pair and level) have each number of links between switches.
    pub hops: Vec<u64>,
    /// How many paths cross each port, by its dense index.
    pub load: Vec<u64>,
}

/// Follows every pair of hosts. `hosts` says which take part, all when `None`.
#[must_use]
pub fn survey(topology: &Topology, tables: &Tables, hosts: Option<&[bool]>) -> Survey {
    survey_with(topology, tables, hosts, EXAMPLES)
}

/// The same, keeping at most `examples` unreachable pairs.
#[must_use]
pub fn survey_with(
    topology: &Topology,
    tables: &Tables,
    hosts: Option<&[bool]>,
    examples: usize,
) -> Survey {
    let takes_part = |host: HostId| hosts.is_none_or(|hosts| hosts[host.index()]);
    let mut walker = Walker { room: examples, ..Walker::new(topology, tables) };
    let sources: Vec<HostId> = topology.host_ids().filter(|host| takes_part(*host)).collect();
    for destination in sources.iter().flat_map(|host| topology.host(*host).lids()) {
        walker.destination(&sources, destination);
    }
    walker.survey
}

/// The switches and channels that a packet of one pair passes, until it arrives or is lost.
///
/// # Errors
/// Why it does not arrive and at which switch.
pub fn path(
    topology: &Topology,
    tables: &Tables,
    source: HostId,
    destination: Lid,
    level: ServiceLevel,
) -> Result<Vec<Channel>, (SwitchId, Loss)> {
    let start = topology.host(source);
    let (mut switch, mut input) = (start.switch, start.port);
    let mut channels = Vec::new();
    loop {
        let (channel, peer) = step(topology, tables, switch, input, destination, level)
            .map_err(|loss| (switch, loss))?;
        if channels.contains(&channel) {
            return Err((switch, Loss::Loop));
        }
        channels.push(channel);
        match arrive(topology, peer, destination) {
            Ok(None) => return Ok(channels),
            Ok(Some(next)) => (switch, input) = next,
            Err(loss) => return Err((switch, loss)),
        }
    }
}

/// Follows the entries for a switch's own address to its management port.
///
/// # Errors
/// At which switch and why packets end elsewhere.
pub fn to_switch(
    topology: &Topology,
    tables: &Tables,
    start: SwitchId,
    target: SwitchId,
) -> Result<(), (SwitchId, Loss)> {
    let lid = topology.switch(target).lid;
    let mut at = start;
    for _ in 0..=topology.switches().len() {
        let port = tables.forwarding.get(at, lid).ok_or((at, Loss::NoEntry))?;
        match (port, at == target) {
            (0, true) => return Ok(()),
            (0, false) => return Err((at, Loss::KeptBySwitch)),
            _ => {}
        }
        match topology.peer(at, port) {
            Peer::Switch(next, _) => at = next,
            Peer::Host(_) => return Err((at, Loss::WrongHost)),
            Peer::Nothing => return Err((at, Loss::DeadPort)),
        }
    }
    Err((start, Loss::Loop))
}

/// What a switch does with a packet: the channel it is put on and what is at its end.
///
/// # Errors
/// Why it is not put on a channel.
pub fn step(
    topology: &Topology,
    tables: &Tables,
    switch: SwitchId,
    input: PortNumber,
    destination: Lid,
    level: ServiceLevel,
) -> Result<(Channel, Peer), Loss> {
    let output = match tables.forwarding.get(switch, destination) {
        None => return Err(Loss::NoEntry),
        Some(0) => return Err(Loss::KeptBySwitch),
        Some(output) => output,
    };
    let lane = tables.lanes.lane(switch, input, output, level).ok_or(Loss::NoLane)?;
    let peer = topology.peer(switch, output);
    if peer == Peer::Nothing {
        return Err(Loss::DeadPort);
    }
    Ok((Channel::new(topology, switch, output, lane), peer))
}

/// Where a channel's end brings a packet: `None` to its destination, else into the next switch.
fn arrive(
    topology: &Topology,
    peer: Peer,
    destination: Lid,
) -> Result<Option<(SwitchId, PortNumber)>, Loss> {
    match peer {
        Peer::Switch(next, port) => Ok(Some((next, port))),
        Peer::Host(host) if topology.owner(destination) == Owner::Host(host) => Ok(None),
        Peer::Host(_) => Err(Loss::WrongHost),
        Peer::Nothing => Err(Loss::DeadPort),
    }
}

/// What is known of a channel for the destination and level at hand.
#[derive(Clone, Copy, Debug)]
enum Fate {
    OnThisWalk,
    Arrives { hops: u32, next: Option<Channel> },
    Lost { at: SwitchId, loss: Loss },
}

struct Walker<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    survey: Survey,
    /// The walk number in which a channel's fate was learnt; fates of other walks are stale.
    learnt: Vec<u32>,
    fates: Vec<Fate>,
    flow: Vec<u64>,
    /// Channels whose packets arrive, each after the one it leads to.
    arriving: Vec<Channel>,
    round: u32,
    /// Examples kept.
    room: usize,
}

impl<'a> Walker<'a> {
    fn new(topology: &'a Topology, tables: &'a Tables) -> Walker<'a> {
        let graph = DependencyGraph::new(topology);
        let bound = graph.channel_bound();
        let survey = Survey {
            graph,
            pairs: 0,
            unreachable: 0,
            examples: Vec::new(),
            broken: BTreeMap::new(),
            looping: 0,
            first_loop: Vec::new(),
            hops: Vec::new(),
            load: vec![0; topology.port_count()],
        };
        let (learnt, fates) = (vec![0; bound], vec![Fate::OnThisWalk; bound]);
        let flow = vec![0; bound];
        let (arriving, round, room) = (Vec::new(), 0, EXAMPLES);
        Walker { topology, tables, survey, learnt, fates, flow, arriving, round, room }
    }

    fn destination(&mut self, sources: &[HostId], destination: Lid) {
        let own = self.topology.owner(destination);
        let mut levels = 0u16;
        for source in sources.iter().filter(|source| own != Owner::Host(**source)) {
            self.survey.pairs += 1;
            levels |= self.tables.levels.mask(*source, destination);
        }
        let mut bad: Vec<Unreachable> = Vec::new();
        for level in (0..LANES as ServiceLevel).filter(|level| levels >> level & 1 == 1) {
            self.round += 1;
            for source in sources.iter().filter(|source| own != Owner::Host(**source)) {
                if self.tables.levels.mask(*source, destination) >> level & 1 == 1
                    && let Err((at, loss)) = self.follow(*source, destination, level)
                {
                    bad.push(Unreachable { source: *source, destination, level, at, loss });
                }
            }
            self.pour();
        }
        for &source in sources.iter().filter(|source| own != Owner::Host(**source)) {
            if self.tables.levels.mask(source, destination) == 0 {
                let (level, at) = (0, self.topology.host(source).switch);
                let loss = Loss::NoLevel;
                bad.push(Unreachable { source, destination, level, at, loss });
            }
        }
        self.count(bad);
    }

    fn count(&mut self, mut bad: Vec<Unreachable>) {
        bad.sort_by_key(|pair| (pair.source, pair.loss != Loss::Loop, pair.level));
        bad.dedup_by_key(|pair| pair.source);
        self.survey.unreachable += bad.len() as u64;
        self.survey.looping += bad.iter().filter(|pair| pair.loss == Loss::Loop).count() as u64;
        for pair in &bad {
            *self.survey.broken.entry((pair.destination, pair.at, pair.loss)).or_default() += 1;
        }
        let room = self.room.saturating_sub(self.survey.examples.len());
        self.survey.examples.extend(bad.into_iter().take(room));
    }

    /// Follows one pair up to a channel whose fate is known.
    fn follow(
        &mut self,
        source: HostId,
        destination: Lid,
        level: ServiceLevel,
    ) -> Result<(), (SwitchId, Loss)> {
        let start = self.topology.host(source);
        let (mut switch, mut input) = (start.switch, start.port);
        let mut walked: Vec<Channel> = Vec::new();
        let (fate, first) = loop {
            let stepped = step(self.topology, self.tables, switch, input, destination, level);
            let (channel, peer) = match stepped {
                Ok(step) => step,
                Err(loss) => break (Fate::Lost { at: switch, loss }, None),
            };
            match walked.last() {
                Some(before) => {
                    let output = self.topology.port_at(channel.port_index()).1;
                    self.survey.graph.insert(*before, output, channel.lane());
                }
                None => self.survey.graph.touch(channel),
            }
            if self.learnt[channel.index()] == self.round {
                match self.fates[channel.index()] {
                    Fate::OnThisWalk => {
                        self.note_loop(&walked, channel);
                        break (Fate::Lost { at: switch, loss: Loss::Loop }, None);
                    }
                    known => break (known, Some(channel)),
                }
            }
            self.learnt[channel.index()] = self.round;
            self.fates[channel.index()] = Fate::OnThisWalk;
            walked.push(channel);
            match arrive(self.topology, peer, destination) {
                Ok(None) => break (Fate::Arrives { hops: 0, next: None }, None),
                Ok(Some(next)) => (switch, input) = next,
                Err(loss) => break (Fate::Lost { at: switch, loss }, None),
            }
        };
        self.settle(&walked, fate, first)
    }

    /// Writes the fate of every channel of a walk, last first, and sends one path down it.
    fn settle(
        &mut self,
        walked: &[Channel],
        end: Fate,
        joined: Option<Channel>,
    ) -> Result<(), (SwitchId, Loss)> {
        let (mut fate, mut next) = (end, joined);
        for channel in walked.iter().rev() {
            if let Fate::Arrives { hops, .. } = fate {
                let hops = if next.is_some() { hops + 1 } else { hops };
                fate = Fate::Arrives { hops, next };
                self.arriving.push(*channel);
                self.flow[channel.index()] = 0;
            }
            self.fates[channel.index()] = fate;
            next = Some(*channel);
        }
        match fate {
            Fate::Lost { at, loss } => Err((at, loss)),
            Fate::OnThisWalk => unreachable!("a walk ends at a known fate"),
            Fate::Arrives { hops, .. } => {
                if self.survey.hops.len() <= hops as usize {
                    self.survey.hops.resize(hops as usize + 1, 0);
                }
                self.survey.hops[hops as usize] += 1;
                if let Some(first) = next {
                    self.flow[first.index()] += 1;
                }
                Ok(())
            }
        }
    }

    /// Adds what was sent down each channel to the channels after it and to the ports' load.
    fn pour(&mut self) {
        while let Some(channel) = self.arriving.pop() {
            let flow = self.flow[channel.index()];
            self.survey.load[channel.port_index()] += flow;
            if let Fate::Arrives { next: Some(next), .. } = self.fates[channel.index()] {
                self.flow[next.index()] += flow;
            }
        }
    }

    fn note_loop(&mut self, walked: &[Channel], again: Channel) {
        if self.survey.first_loop.is_empty() {
            let start = walked.iter().position(|channel| *channel == again).unwrap_or(0);
            self.survey.first_loop = walked[start..].to_vec();
        }
    }
}

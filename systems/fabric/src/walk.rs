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
    let takes_part = |host: &HostId| hosts.is_none_or(|hosts| hosts[host.index()]);
    let mut walker = Walker { room: examples, ..Walker::new(topology, tables) };
    let hosts = || topology.host_ids().filter(takes_part);
    let senders = Senders::of(topology, hosts(), tables.lanes.is_identity());
    for destination in hosts().flat_map(|host| topology.host(host).lids()) {
        walker.destination(&senders, destination);
    }
    walker.survey
}

/// Hosts in groups whose packets of one level to one address go the same way from the first switch on:
/// those on one switch, unless lanes depend on the port by which packets come in.
pub(crate) struct Senders(Vec<Vec<HostId>>);

impl Senders {
    pub(crate) fn of(
        topology: &Topology,
        hosts: impl Iterator<Item = HostId>,
        any_input: bool,
    ) -> Senders {
        let mut place: BTreeMap<(SwitchId, PortNumber), usize> = BTreeMap::new();
        let mut groups: Vec<Vec<HostId>> = Vec::new();
        for host in hosts {
            let at = topology.host(host);
            let port = if any_input { 0 } else { at.port };
            let group = *place.entry((at.switch, port)).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(host);
        }
        Senders(groups)
    }

    /// No host.
    pub(crate) fn none() -> Senders {
        Senders(Vec::new())
    }

    /// The groups, each with at least one host.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[HostId]> {
        self.0.iter().map(Vec::as_slice)
    }
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

/// Follows the entries for a switch's own address to its management port, or to a switch from which packets
/// arrive there; notes the switches on the way as such.
///
/// # Errors
/// At which switch and why packets end elsewhere.
pub fn to_switch(
    topology: &Topology,
    tables: &Tables,
    start: SwitchId,
    target: SwitchId,
    arrives: &mut [bool],
) -> Result<(), (SwitchId, Loss)> {
    let lid = topology.switch(target).lid;
    let mut at = start;
    let mut way = Vec::new();
    while !arrives[at.index()] {
        let port = tables.forwarding.get(at, lid).ok_or((at, Loss::NoEntry))?;
        way.push(at);
        match (port, at == target) {
            (0, true) => break,
            (0, false) => return Err((at, Loss::KeptBySwitch)),
            _ => {}
        }
        match topology.peer(at, port) {
            Peer::Switch(next, _) => at = next,
            Peer::Host(_) => return Err((at, Loss::WrongHost)),
            Peer::Nothing => return Err((at, Loss::DeadPort)),
        }
        if way.len() > topology.switches().len() {
            return Err((start, Loss::Loop));
        }
    }
    way.into_iter().for_each(|at| arrives[at.index()] = true);
    Ok(())
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

/// What is known of a channel.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The walk number in which its fate was learnt; fates of other walks are stale.
    round: u32,
    fate: Fate,
    /// Hosts' paths that were sent down it.
    flow: u64,
}

struct Walker<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    survey: Survey,
    /// What is known of each channel, by [`Channel::lane_index`].
    known: Vec<Known>,
    ports: usize,
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
        let known = vec![Known { round: 0, fate: Fate::OnThisWalk, flow: 0 }; bound];
        let (ports, arriving, round, room) = (topology.port_count(), Vec::new(), 0, EXAMPLES);
        Walker { topology, tables, survey, known, ports, arriving, round, room }
    }

    fn destination(&mut self, senders: &Senders, destination: Lid) {
        let own = self.topology.owner(destination);
        let masks = &self.tables.levels;
        let others = |group: &[HostId]| {
            group.len() - usize::from(group.iter().any(|it| own == Owner::Host(*it)))
        };
        let mut levels = 0u16;
        let mut sending: Vec<(&[HostId], usize)> = Vec::new();
        for group in senders.groups() {
            let count = others(group);
            self.survey.pairs += count as u64;
            sending.push((group, count));
            if masks.is_uniform() {
                levels |= u16::from(count > 0);
            } else {
                let others = group.iter().filter(|it| own != Owner::Host(**it));
                levels = others.fold(levels, |all, it| all | masks.mask(*it, destination));
            }
        }
        let mut bad: Vec<Unreachable> = Vec::new();
        for level in (0..LANES as ServiceLevel).filter(|level| levels >> level & 1 == 1) {
            self.round += 1;
            let sends = |host: &HostId| {
                own != Owner::Host(*host) && masks.mask(*host, destination) >> level & 1 == 1
            };
            for &(group, others) in &sending {
                let count = match masks.is_uniform() {
                    true => others,
                    false => group.iter().filter(|host| sends(host)).count(),
                };
                if count == 0 {
                    continue;
                }
                if let Err((at, loss)) = self.follow(group[0], count as u64, destination, level) {
                    let pair = |source| Unreachable { source, destination, level, at, loss };
                    bad.extend(group.iter().filter(|host| sends(host)).map(|host| pair(*host)));
                }
            }
            self.pour();
        }
        for &source in sending.iter().flat_map(|(group, _)| *group) {
            if !masks.is_uniform()
                && own != Owner::Host(source)
                && masks.mask(source, destination) == 0
            {
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

    /// Follows the packets of some hosts of a group, of which `source` is one, up to a channel whose fate is
    /// known.
    fn follow(
        &mut self,
        source: HostId,
        hosts: u64,
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
            let known = &mut self.known[channel.lane_index(self.ports)];
            if known.round == self.round {
                match known.fate {
                    Fate::OnThisWalk => {
                        self.note_loop(&walked, channel);
                        break (Fate::Lost { at: switch, loss: Loss::Loop }, None);
                    }
                    known => break (known, Some(channel)),
                }
            }
            (known.round, known.fate) = (self.round, Fate::OnThisWalk);
            walked.push(channel);
            match arrive(self.topology, peer, destination) {
                Ok(None) => break (Fate::Arrives { hops: 0, next: None }, None),
                Ok(Some(next)) => (switch, input) = next,
                Err(loss) => break (Fate::Lost { at: switch, loss }, None),
            }
        };
        self.settle(&walked, fate, first, hosts)
    }

    /// Writes the fate of every channel of a walk, last first, and sends the hosts' paths down it.
    fn settle(
        &mut self,
        walked: &[Channel],
        end: Fate,
        joined: Option<Channel>,
        hosts: u64,
    ) -> Result<(), (SwitchId, Loss)> {
        let (mut fate, mut next) = (end, joined);
        for channel in walked.iter().rev() {
            let known = &mut self.known[channel.lane_index(self.ports)];
            if let Fate::Arrives { hops, .. } = fate {
                let hops = if next.is_some() { hops + 1 } else { hops };
                fate = Fate::Arrives { hops, next };
                self.arriving.push(*channel);
                known.flow = 0;
            }
            known.fate = fate;
            next = Some(*channel);
        }
        match fate {
            Fate::Lost { at, loss } => Err((at, loss)),
            Fate::OnThisWalk => unreachable!("a walk ends at a known fate"),
            Fate::Arrives { hops, .. } => {
                if self.survey.hops.len() <= hops as usize {
                    self.survey.hops.resize(hops as usize + 1, 0);
                }
                self.survey.hops[hops as usize] += hosts;
                if let Some(first) = next {
                    self.known[first.lane_index(self.ports)].flow += hosts;
                }
                Ok(())
            }
        }
    }

    /// Adds what was sent down each channel to the channels after it and to the ports' load.
    fn pour(&mut self) {
        while let Some(channel) = self.arriving.pop() {
            let Known { fate, flow, .. } = self.known[channel.lane_index(self.ports)];
            self.survey.load[channel.port_index()] += flow;
            if let Fate::Arrives { next: Some(next), .. } = fate {
                self.known[next.lane_index(self.ports)].flow += flow;
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

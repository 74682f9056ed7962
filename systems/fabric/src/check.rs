//! Judges one set of tables: everything reached, nothing in a loop, no deadlock.
//!
//! Room: turns a [`Survey`] into a verdict that people and programs read. A set of tables is sound
//! when every pair of hosts reaches each other and the channel dependency graph over all lanes has
//! no cycle (Dally and Seitz 1987, theorem 1).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dependency::cycle::Cycles;
use crate::dependency::{ChannelLabel, DependencyGraph, places};
use crate::tables::{LANES, Lane, Tables};
use crate::topology::{Owner, Peer, SwitchId, Topology};
use crate::walk::{self, Survey};

/// The verdict on one set of tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Reachable, loop-free and deadlock-free.
    pub safe: bool,
    /// Every pair of hosts reaches each other.
    pub reachable: bool,
    /// No packet comes back to a channel it was in.
    pub loop_free: bool,
    /// The dependency graph has no cycle.
    pub deadlock_free: bool,
    /// The same as `deadlock_free`.
    pub acyclic: bool,
    /// Pairs of hosts whose packets do not all arrive.
    pub unreachable: u64,
    /// Channels on a cycle.
    pub channels_in_cycles: u64,
    /// How large the fabric is.
    pub fabric: Size,
    /// Each lane that carries packets.
    pub lanes: Vec<LaneVerdict>,
    /// How long the paths are.
    pub paths: Paths,
    /// How evenly they lie on the links between switches.
    pub load: Load,
    /// A cycle of channels that wait for each other; empty when there is none.
    pub cycle: Vec<ChannelLabel>,
    /// A forwarding loop; empty when there is none.
    pub forwarding_loop: Vec<ChannelLabel>,
    /// Some pairs that do not reach each other.
    pub lost: Vec<LostPair>,
    /// Where packets to an address end instead, and for how many sources; most first.
    pub broken: Vec<BrokenRoute>,
    /// Switches whose own address does not lead to their management port.
    pub unmanaged: Vec<BrokenRoute>,
    /// The directed links between switches that most paths cross, most first.
    pub hot_links: Vec<HotLink>,
}

/// How large a fabric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Switches.
    pub switches: usize,
    /// Host ports.
    pub hosts: usize,
    /// Cables between switches.
    pub links: usize,
    /// Pairs of source host and destination address.
    pub pairs: u64,
    /// Channels in use.
    pub channels: usize,
    /// Edges of the dependency graph.
    pub dependencies: u64,
}

/// One lane. A lane can be free of cycles and still take part in one that changes lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LaneVerdict {
    /// Which.
    pub lane: Lane,
    /// Channels in use.
    pub channels: usize,
    /// Channels of this lane that are on a cycle, through whichever lanes.
    pub channels_in_cycles: usize,
    /// Whether the dependencies within the lane have no cycle.
    pub acyclic: bool,
}

/// How long paths are, in links between switches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paths {
    /// The shortest.
    pub hops_min: usize,
    /// The mean.
    pub hops_mean: f64,
    /// The longest.
    pub hops_max: usize,
    /// How many paths have 0, 1, 2, ... hops.
    pub histogram: Vec<u64>,
}

/// How many paths cross the directed links between switches that can carry packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// On the least used one.
    pub paths_min: u64,
    /// On average.
    pub paths_mean: f64,
    /// On the most used one.
    pub paths_max: u64,
    /// Directed links that no path uses.
    pub unused_links: usize,
}

/// A pair that does not reach each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostPair {
    /// Name of the sending host.
    pub source: String,
    /// Name of the host that should receive.
    pub destination: String,
    /// Its address.
    pub lid: u16,
    /// Name of the switch where the packets end.
    pub at: String,
    /// Why.
    pub loss: walk::Loss,
}

/// An address that packets do not reach from some sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenRoute {
    /// Name of the host or switch that has the address.
    pub destination: String,
    /// The address.
    pub lid: u16,
    /// Name of the switch where the packets end.
    pub at: String,
    /// Its GUID.
    pub guid: String,
    /// Why.
    pub loss: walk::Loss,
    /// Hosts, or for a switch's address switches, whose packets end there.
    pub sources: u64,
}

/// A directed link and how many paths cross it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotLink {
    /// The switch it leaves.
    pub switch: String,
    /// The port.
    pub port: u8,
    /// The switch it leads to.
    pub to: String,
    /// The port there.
    pub to_port: u8,
    /// Paths, a pair of hosts on a service level each.
    pub paths: u64,
}

/// How many links are ranked.
const HOT_LINKS: usize = 10;

/// Judges one set of tables.
#[must_use]
pub fn check(topology: &Topology, tables: &Tables) -> Verdict {
    check_with(topology, tables, walk::EXAMPLES)
}

/// The same, naming at most `examples` pairs that do not reach each other.
#[must_use]
pub fn check_with(topology: &Topology, tables: &Tables, examples: usize) -> Verdict {
    let verdict = judge(topology, &walk::survey_with(topology, tables, None, examples));
    let unmanaged = unmanaged(topology, tables);
    Verdict { safe: verdict.safe && unmanaged.is_empty(), unmanaged, ..verdict }
}

/// Switches whose address some table has an entry for, but which it does not lead to. A switch that
/// nobody can reach by its address cannot be asked for its counters; its own entry says port 0. Whoever asks
/// is at a host, so a switch without hosts may lack entries: those of spines for each other would lead up
/// after down.
pub(crate) fn unmanaged(topology: &Topology, tables: &Tables) -> Vec<BrokenRoute> {
    let mut broken = Vec::new();
    for target in topology.switch_ids() {
        let lid = topology.switch(target).lid;
        let mut ends: BTreeMap<(SwitchId, walk::Loss), u64> = BTreeMap::new();
        let entry = |at| tables.forwarding.get(at, lid);
        if lid == 0 || topology.switch_ids().all(|at| entry(at).is_none()) {
            continue;
        }
        let mut arrives = vec![false; topology.switches().len()];
        for start in topology.switch_ids() {
            let asks = topology.hosts_on(start).next().is_some();
            match walk::to_switch(topology, tables, start, target, &mut arrives) {
                Err((_, walk::Loss::NoEntry)) if !asks => {}
                Err(end) => *ends.entry(end).or_default() += 1,
                Ok(()) => {}
            }
        }
        let route = |((at, loss), sources)| route(topology, (lid, at, loss), sources);
        broken.extend(ends.into_iter().map(route));
    }
    broken
}

fn route(
    topology: &Topology,
    (lid, at, loss): (u16, SwitchId, walk::Loss),
    sources: u64,
) -> BrokenRoute {
    let (at, guid) =
        (topology.switch(at).name.clone(), format!("{:#018x}", topology.switch(at).guid));
    BrokenRoute { destination: owner(topology, lid), lid, at, guid, loss, sources }
}

fn owner(topology: &Topology, lid: u16) -> String {
    match topology.owner(lid) {
        Owner::Host(host) => topology.host(host).name.clone(),
        Owner::Switch(switch) => topology.switch(switch).name.clone(),
        Owner::Nobody => format!("LID {lid}"),
    }
}

fn hot_links(topology: &Topology, load: &[u64]) -> Vec<HotLink> {
    let between = |port: &usize| matches!(topology.peer_at(*port), Peer::Switch(..));
    let mut ports: Vec<usize> =
        (0..load.len()).filter(between).filter(|at| load[*at] > 0).collect();
    ports.sort_by_key(|port| (std::cmp::Reverse(load[*port]), *port));
    let link = |index: &usize| {
        let (switch, port) = topology.port_at(*index);
        let (to, to_port) = topology.far_end(switch, port);
        let switch = topology.switch(switch).name.clone();
        HotLink { switch, port, to, to_port, paths: load[*index] }
    };
    ports.iter().take(HOT_LINKS).map(link).collect()
}

/// Judges what was surveyed.
#[must_use]
pub fn judge(topology: &Topology, survey: &Survey) -> Verdict {
    let cycles = Cycles::of(&survey.graph);
    let (reachable, loop_free) = (survey.unreachable == 0, survey.looping == 0);
    Verdict {
        safe: reachable && loop_free && cycles.is_acyclic(),
        reachable,
        loop_free,
        deadlock_free: cycles.is_acyclic(),
        acyclic: cycles.is_acyclic(),
        unreachable: survey.unreachable,
        channels_in_cycles: cycles.channels,
        fabric: size(topology, survey),
        lanes: lanes(&survey.graph),
        paths: paths(&survey.hops),
        load: load(topology, &survey.load),
        cycle: places(topology, &cycles.example),
        forwarding_loop: places(topology, &survey.first_loop),
        lost: survey.examples.iter().map(|pair| lost(topology, pair)).collect(),
        broken: broken(topology, survey),
        unmanaged: Vec::new(),
        hot_links: hot_links(topology, &survey.load),
    }
}

fn broken(topology: &Topology, survey: &Survey) -> Vec<BrokenRoute> {
    let mut routes: Vec<BrokenRoute> =
        survey.broken.iter().map(|(place, sources)| route(topology, *place, *sources)).collect();
    routes.sort_by_key(|route| std::cmp::Reverse(route.sources));
    routes
}

fn size(topology: &Topology, survey: &Survey) -> Size {
    Size {
        switches: topology.switches().len(),
        hosts: topology.hosts().len(),
        links: topology.links().count(),
        pairs: survey.pairs,
        channels: survey.graph.channels().count(),
        dependencies: survey.graph.edge_count(),
    }
}

fn lanes(graph: &DependencyGraph) -> Vec<LaneVerdict> {
    let knotted = crate::dependency::cycle::on_cycles(graph);
    let of_lane = |lane: Lane| LaneVerdict {
        lane,
        channels: graph.channels().filter(|channel| channel.lane() == lane).count(),
        channels_in_cycles: knotted.iter().filter(|channel| channel.lane() == lane).count(),
        acyclic: Cycles::of(&graph.within_lane(lane)).is_acyclic(),
    };
    let used = graph.lanes();
    (0..LANES as Lane).filter(|lane| used >> lane & 1 == 1).map(of_lane).collect()
}

fn paths(histogram: &[u64]) -> Paths {
    let total: u64 = histogram.iter().sum();
    let sum: u64 = histogram.iter().enumerate().map(|(hops, count)| hops as u64 * count).sum();
    Paths {
        hops_min: histogram.iter().position(|count| *count > 0).unwrap_or(0),
        hops_mean: if total == 0 { 0.0 } else { sum as f64 / total as f64 },
        hops_max: histogram.len().saturating_sub(1),
        histogram: histogram.to_vec(),
    }
}

fn load(topology: &Topology, load: &[u64]) -> Load {
    let links: Vec<u64> = load
        .iter()
        .enumerate()
        .filter(|(port, _)| matches!(topology.peer_at(*port), Peer::Switch(..)))
        .map(|(_, paths)| *paths)
        .collect();
    let sum: u64 = links.iter().sum();
    Load {
        paths_min: links.iter().copied().min().unwrap_or(0),
        paths_mean: if links.is_empty() { 0.0 } else { sum as f64 / links.len() as f64 },
        paths_max: links.iter().copied().max().unwrap_or(0),
        unused_links: links.iter().filter(|paths| **paths == 0).count(),
    }
}

fn lost(topology: &Topology, pair: &walk::Unreachable) -> LostPair {
    LostPair {
        source: topology.host(pair.source).name.clone(),
        destination: owner(topology, pair.destination),
        lid: pair.destination,
        at: topology.switch(pair.at).name.clone(),
        loss: pair.loss,
    }
}

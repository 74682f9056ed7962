//! Routes that are kept when links go off: only entries whose path crossed one of them are made anew.
//!
//! Tables made anew for a fabric that lacks one link may differ in thousands of entries that never used it.
//! Here every other entry stays. New ones grow from what is left of the tree to each address, the nearest
//! first, over the port whose way is the least used; a hop whose dependency would close a cycle with those of
//! all packets is not taken. Where a pair's level is its own (layers, datelines), the pair gets the first level
//! on which its new path closes none. The result is proved like any tables.
//!
//! Tables are a function of those with all links on and of the links that are off, in the order in which they
//! went: all on again are the first tables again.

use super::paths::{FAR, Target, targets};
use super::{Options, RoutingError, accept};
use crate::Fabric;
use crate::check::Verdict;
use crate::dependency::online::OnlineOrder;
use crate::dependency::{Channel, DependencyGraph};
use crate::tables::{LANES, ServiceLevels, Tables};
use crate::topology::{HostId, Link, Peer, PortNumber, SwitchId, Topology};
use crate::walk;

/// The tables of a fabric after these links went off, one after the other; the proof of the last.
///
/// # Errors
/// When no entries can replace some of those that are lost. Tables made anew may do.
pub fn keep(
    home: &Fabric,
    off: &[Link],
    options: &Options,
) -> Result<(Tables, Verdict), RoutingError> {
    let (mut before, mut tables) = (home.topology.clone(), home.tables.clone());
    for link in off {
        let after = before.without(&[*link]);
        tables = repair(&before, &after, tables, options);
        before = after;
    }
    let verdict = accept(&before, &tables)?;
    Ok((tables, verdict))
}

/// The tables with new entries for those over links that `after` lacks; without entries where none is found.
fn repair(before: &Topology, after: &Topology, tables: Tables, options: &Options) -> Tables {
    let count = after.switches().len();
    let targets: Vec<Target> = targets(after).collect();
    let mut kept = tables.clone();
    let mut lost: Vec<(Target, Vec<(SwitchId, u32)>)> = Vec::new();
    for target in targets {
        let was = lengths(before, &tables, target);
        let is = lengths(after, &tables, target);
        let gone: Vec<(SwitchId, u32)> = (0..count as u32)
            .map(|at| (SwitchId(at), was[at as usize]))
            .filter(|(at, was)| *was != FAR && is[at.index()] == FAR)
            .collect();
        gone.iter().for_each(|(at, _)| kept.forwarding.set(*at, target.lid, None));
        if !gone.is_empty() {
            lost.push((target, gone));
        }
    }
    let survey = walk::survey(after, &kept, None);
    let lanes = survey.graph.lanes().checked_ilog2().map_or(1, |top| top as u8 + 1);
    if !lost.is_empty() {
        spare_lanes(after, &mut kept, lanes, options.lanes);
    }
    let start = Repair {
        topology: after,
        order: in_order(&survey.graph),
        load: survey.load,
        hosts: after.switch_ids().map(|at| after.hosts_on(at).count() as u64).collect(),
        lanes: options.lanes.max(lanes),
        tables: kept,
    };
    // Who finds no way because of others' dependencies goes before them.
    for turn in 0..=TURNS_MAX {
        let mut repair = start.clone();
        let stuck: Vec<bool> = lost
            .iter()
            .map(|(target, gone)| {
                !repair.target(*target, gone, Part::Needed { last: turn == TURNS_MAX })
            })
            .collect();
        if turn < TURNS_MAX && stuck.contains(&true) {
            let mut stuck = stuck.into_iter();
            let (first, others) = lost.into_iter().partition(|_| stuck.next() == Some(true));
            lost = first;
            lost.extend::<Vec<_>>(others);
            continue;
        }
        // Switches that no packet needs get entries for those under way, where that closes no cycle.
        for (target, gone) in &lost {
            repair.target(*target, gone, Part::Rest);
        }
        // Spare lanes that no pair needed are nobody's change.
        if repair.tables.levels == tables.levels {
            repair.tables.lanes = tables.lanes;
        }
        return repair.tables;
    }
    unreachable!("the last turn returns")
}

/// Times that addresses are put into another order before pairs are put on other lanes.
const TURNS_MAX: usize = 4;

/// Which entries are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Those that packets of hosts need. The last time, where there are none, pairs get levels of their own.
    Needed {
        /// Whether this is the last time.
        last: bool,
    },
    /// All others.
    Rest,
}

/// Maps levels that no pair has to lanes that no packet uses, where lanes are mapped at all.
fn spare_lanes(topology: &Topology, tables: &mut Tables, used: u8, most: u8) {
    if tables.lanes.is_identity() {
        return;
    }
    let hosts = || topology.host_ids();
    let levels = hosts()
        .flat_map(|host| (1..=topology.top_lid()).map(move |lid| (host, lid)))
        .fold(0, |all, (host, lid)| all | tables.levels.mask(host, lid));
    let level = (u16::BITS - levels.leading_zeros()) as u8;
    for switch in topology.switch_ids() {
        let ports = topology.switch(switch).ports;
        for (input, output) in (0..=ports).flat_map(|it| (0..=ports).map(move |to| (it, to))) {
            let Some(mut row) = tables.lanes.row(switch, input, output).copied() else { continue };
            for (spare, lane) in (level..LANES as u8).zip(used..most) {
                row[usize::from(spare)] = lane;
            }
            tables.lanes.set_row(switch, input, output, row);
        }
    }
}

/// The dependencies of a graph without cycles, so added that nothing has to move.
fn in_order(graph: &DependencyGraph) -> OnlineOrder {
    let mut order = OnlineOrder::new();
    for from in graph.channels() {
        for to in graph.successors(from) {
            // What is cyclic before stays for the proof to refuse.
            let _ = order.add(from, to);
        }
    }
    order
}

/// How many links the way from each switch to a target has; [`FAR`] where entries do not lead there.
fn lengths(topology: &Topology, tables: &Tables, target: Target) -> Vec<u32> {
    const UNKNOWN: u32 = FAR - 1;
    let mut length = vec![UNKNOWN; topology.switches().len()];
    let own = tables.forwarding.get(target.switch, target.lid) == Some(target.port);
    length[target.switch.index()] = if own { 0 } else { FAR };
    let mut way = Vec::new();
    for start in topology.switch_ids() {
        let mut at = start;
        while length[at.index()] == UNKNOWN {
            length[at.index()] = FAR;
            way.push(at);
            let port = tables.forwarding.get(at, target.lid).filter(|port| *port != 0);
            match port.map(|port| topology.peer(at, port)) {
                Some(Peer::Switch(next, _)) => at = next,
                _ => break,
            }
        }
        let mut rest = length[at.index()];
        while let Some(at) = way.pop() {
            rest = if rest == FAR { FAR } else { rest + 1 };
            length[at.index()] = rest;
        }
    }
    length
}

#[derive(Clone)]
struct Repair<'a> {
    topology: &'a Topology,
    tables: Tables,
    order: OnlineOrder,
    /// Paths of hosts on each port.
    load: Vec<u64>,
    /// Hosts on each switch.
    hosts: Vec<u64>,
    /// Levels that pairs may get.
    lanes: u8,
}

impl Repair<'_> {
    /// Entries for a target at the switches that lost theirs: those with hosts and those that keep the
    /// length of their way, then others where these do not suffice. Whether packets of hosts have a way.
    fn target(&mut self, target: Target, gone: &[(SwitchId, u32)], part: Part) -> bool {
        let entry = |tables: &Tables, at: &SwitchId| tables.forwarding.get(*at, target.lid);
        let mut open: Vec<(SwitchId, u32)> =
            gone.iter().copied().filter(|(at, _)| entry(&self.tables, at).is_none()).collect();
        let levels = self.common_levels(target);
        let mut distance = lengths(self.topology, &self.tables, target);
        let waits = |open: &[(SwitchId, u32)], hosts: &[u64]| {
            open.iter().any(|(at, _)| hosts[at.index()] > 0)
        };
        if let Part::Needed { last } = part {
            self.grow(target, &mut open, &mut distance, levels, false);
            if waits(&open, &self.hosts) {
                self.grow(target, &mut open, &mut distance, levels, true);
            }
            if last && waits(&open, &self.hosts) {
                self.grow(target, &mut open, &mut distance, None, true);
            }
            !waits(&open, &self.hosts)
        } else {
            self.grow(target, &mut open, &mut distance, levels, true);
            true
        }
    }

    /// The levels of packets to a target where they do not depend on the source and lanes not on the level's
    /// map; `None` where each pair has its own. Packets to switches are in nobody's way.
    fn common_levels(&self, target: Target) -> Option<u16> {
        if target.port == 0 {
            return Some(0);
        }
        let mask = |host| self.tables.levels.mask(host, target.lid);
        let own = |host: &HostId| {
            let host = self.topology.host(*host);
            (host.switch, host.port) == (target.switch, target.port)
        };
        let mut masks = self.topology.host_ids().filter(|host| !own(host)).map(mask);
        let first = masks.next().unwrap_or(0);
        let common = self.tables.lanes.is_identity()
            && (self.tables.levels.is_uniform() || masks.all(|mask| mask == first));
        common.then_some(first)
    }

    fn grow(
        &mut self,
        target: Target,
        open: &mut Vec<(SwitchId, u32)>,
        distance: &mut [u32],
        levels: Option<u16>,
        all: bool,
    ) {
        if open.is_empty() {
            return;
        }
        let topology = self.topology;
        let mut level = 0;
        loop {
            level += 1;
            let mut settled = Vec::new();
            for (at, was) in open.iter().copied() {
                if !(all || self.hosts[at.index()] > 0 || level <= was) {
                    continue;
                }
                let near = |other: SwitchId| distance[other.index()] < level;
                let neighbours = topology.neighbours(at).filter(|(_, other, _)| near(*other));
                let mut ways: Vec<(u32, u64, u64, PortNumber, SwitchId)> = neighbours
                    .map(|(port, other, _)| {
                        let first = self.load[topology.port_index(at, port)];
                        let most = self.most_loaded(other, target).max(first);
                        (distance[other.index()], most, first, port, other)
                    })
                    .collect();
                ways.sort_unstable();
                let fitting =
                    ways.into_iter().find(|way| self.depend((at, way.3), way.4, target, levels));
                if let Some((.., port, _)) = fitting {
                    self.tables.forwarding.set(at, target.lid, Some(port));
                    self.settle(at, target, levels.is_none());
                    settled.push(at);
                }
            }
            settled.iter().for_each(|at| distance[at.index()] = level);
            open.retain(|(at, _)| !settled.contains(at));
            let deepest = distance.iter().copied().filter(|it| *it != FAR).max().unwrap_or(0);
            if open.is_empty() || settled.is_empty() && level > deepest {
                return;
            }
        }
    }

    /// The ports that packets at a switch pass to a target, by dense index.
    fn way(&self, from: SwitchId, target: Target) -> Vec<usize> {
        super::paths::ports_to(self.topology, &self.tables.forwarding, from, target)
            .unwrap_or_default()
    }

    fn most_loaded(&self, from: SwitchId, target: Target) -> u64 {
        self.way(from, target).into_iter().map(|port| self.load[port]).max().unwrap_or(0)
    }

    /// Adds what packets that go from a port to the switch `next` depend on, on each of some levels; whether
    /// that closes no cycle.
    fn depend(
        &mut self,
        (at, port): (SwitchId, PortNumber),
        next: SwitchId,
        target: Target,
        levels: Option<u16>,
    ) -> bool {
        let onward = self.tables.forwarding.get(next, target.lid);
        let (Some(levels), Some(onward)) = (levels, onward.filter(|_| next != target.switch))
        else {
            return true;
        };
        let edge = |lane| {
            let from = Channel::new(self.topology, at, port, lane);
            (from, Channel::new(self.topology, next, onward, lane))
        };
        let lanes = (0..LANES as u8).filter(|lane| levels >> lane & 1 == 1);
        let edges: Vec<(Channel, Channel)> = lanes.map(edge).collect();
        self.order.add_all(&edges).is_ok()
    }

    /// Counts the paths of a switch's hosts to a target and, where each pair has its own level, finds one.
    fn settle(&mut self, at: SwitchId, target: Target, own_levels: bool) {
        if target.port == 0 {
            return;
        }
        for port in self.way(at, target) {
            self.load[port] += self.hosts[at.index()];
        }
        if own_levels {
            let hosts: Vec<HostId> = self.topology.hosts_on(at).collect();
            hosts.into_iter().for_each(|host| self.place(host, target));
        }
    }

    /// Gives a pair the first level, its own before others, on which its path closes no cycle; none is found
    /// where the proof will refuse the tables.
    fn place(&mut self, host: HostId, target: Target) {
        let own = self.tables.levels.mask(host, target.lid);
        let most = if self.tables.lanes.is_identity() { self.lanes } else { LANES as u8 };
        let own_first = (0..LANES as u8).filter(|level| own >> level & 1 == 1);
        let path = |level| walk::path(self.topology, &self.tables, host, target.lid, level);
        let paths: Result<Vec<_>, _> = own_first.clone().map(path).collect();
        let edges = paths
            .unwrap_or_default()
            .into_iter()
            .flat_map(|path| path.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>());
        // A pair that has several keeps them where it can.
        if own.count_ones() > 1 && self.order.add_all(&edges.collect::<Vec<_>>()).is_ok() {
            return;
        }
        let levels: Vec<u8> = own_first.chain(0..most).collect();
        for level in levels {
            let path = walk::path(self.topology, &self.tables, host, target.lid, level);
            let Ok(path) = path else { continue };
            let edges: Vec<_> = path.windows(2).map(|pair| (pair[0], pair[1])).collect();
            if self.order.add_all(&edges).is_ok() {
                if self.tables.levels.is_uniform() && level > 0 {
                    self.tables.levels = every_pair_on_level_0(self.topology);
                }
                if !self.tables.levels.is_uniform() {
                    self.tables.levels.set_mask(host, target.lid, 1 << level);
                }
                return;
            }
        }
    }
}

fn every_pair_on_level_0(topology: &Topology) -> ServiceLevels {
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    for host in topology.host_ids() {
        (1..=topology.top_lid()).for_each(|lid| levels.add(host, lid, 0));
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{ALL, route};
    use crate::topology::{dragonfly::Dragonfly, grid, tree};
    use crate::transition::Transition;

    /// Entries of the first tables whose path crosses a link.
    fn using(home: &Fabric, after: &Topology) -> u64 {
        let count = |target| {
            let was = lengths(&home.topology, &home.tables, target);
            let is = lengths(after, &home.tables, target);
            was.iter().zip(&is).filter(|(was, is)| **was != FAR && **is == FAR).count() as u64
        };
        targets(after).map(count).sum()
    }

    #[test]
    fn a_link_changes_only_what_used_it_under_every_function() {
        let options = Options::default();
        let fabrics = [
            ("torus", grid::torus(&[4, 4], 2), true),
            ("mesh", grid::mesh(&[4, 4], 1), true),
            ("pods", tree::Pods::of_radix(8).build(), false),
            ("dragonfly", Dragonfly::balanced(2).build(), false),
        ];
        let (mut kept, mut uneven) = (0, [Vec::new(), Vec::new()]);
        for (name, topology, every) in fabrics {
            let topology = topology.expect("a topology");
            let links: Vec<Link> = topology.links().collect();
            for function in ALL {
                let Ok((tables, _)) = route(function, &topology, &options) else { continue };
                let home = Fabric { topology: topology.clone(), tables };
                for link in links.iter().step_by(if every { 3 } else { links.len() / 3 }) {
                    let less = topology.without(&[*link]);
                    let (tables, verdict) = keep(&home, &[*link], &options)
                        .unwrap_or_else(|error| panic!("{name} {} {error}", function.name()));
                    assert!(verdict.safe);
                    let after = Fabric { topology: less.clone(), tables };
                    let [now, then] = [&after, &home].map(|of| &of.tables);
                    assert!(now.levels != then.levels || now.lanes == then.lanes);
                    let change = Transition::between(&home, &after).expect("one fabric");
                    let used = using(&home, &less);
                    assert!(
                        change.changed_entries <= used,
                        "{name} {}: {} of {used}",
                        function.name(),
                        change.changed_entries
                    );
                    if let Ok((_, anew)) = route(function, &less, &options) {
                        // Tables made anew by functions that serve all addresses again are the evenest.
                        let place = usize::from(["dfsssp", "lash"].contains(&function.name()));
                        uneven[place]
                            .push(verdict.load.paths_max as f64 / anew.load.paths_max as f64);
                    }
                    kept += 1;
                }
            }
        }
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        let means = uneven.each_ref().map(|of| mean(of));
        let mosts = uneven.each_ref().map(|of| most(of));
        assert!(kept > 100 && means[0] < 0.97 && mosts[0] < 1.15, "{kept} {means:?} {mosts:?}");
        assert!(means[1] < 1.1 && mosts[1] < 1.45, "{means:?} {mosts:?}");
    }

    #[test]
    fn a_second_link_changes_only_what_used_it_and_all_on_is_as_before() {
        let options = Options::default();
        let topology = grid::torus(&[6, 6], 2).expect("a torus");
        let links: Vec<Link> = topology.links().collect();
        for function in ["up-down", "nue", "layered", "dimension-order"] {
            let function = crate::routing::by_name(function).expect("a function");
            let (tables, _) = route(function, &topology, &options).expect("sound");
            let home = Fabric { topology: topology.clone(), tables };
            let (first, second) = (links[7], links[40]);
            let after = |off: &[Link]| Fabric {
                topology: topology.without(off),
                tables: keep(&home, off, &options).expect("sound").0,
            };
            let (one, two) = (after(&[first]), after(&[first, second]));
            let change = Transition::between(&one, &two).expect("one fabric");
            assert!(change.changed_entries <= using(&one, &two.topology), "{}", function.name());
            assert!(change.changed_entries > 0);
            assert_eq!(after(&[]).tables, home.tables);
        }
    }

    #[test]
    fn a_fabric_in_two_parts_is_refused() {
        let topology = grid::mesh(&[2], 1).expect("a mesh");
        let options = Options::default();
        let (tables, _) = route(ALL[0], &topology, &options).expect("sound");
        let link = topology.links().next().expect("a link");
        let refused = keep(&Fabric { topology, tables }, &[link], &options).expect_err("cut");
        assert!(refused.to_string().contains("do not reach"), "{refused}");
    }
}

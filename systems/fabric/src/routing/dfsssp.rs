//! Deadlock-free single-source-shortest-path routing (Hoefler, Schneider and Lumsdaine 2009; Domke, Hoefler and
//! Nagel 2011): any fabric, shortest paths that avoid links which earlier paths use, lanes where they would wait
//! for each other in a ring.
//!
//! Addresses are served one after the other. Each switch takes, of the shortest ways to one, that over whose links the
//! fewest paths go in all. The first ones knew nothing of the last: all are served again while that makes the most
//! crowded link less so (the papers serve them once). Then all paths are on the first lane; as long as a cycle of
//! dependencies is left there, the paths over its least used dependency move to the next lane, where the same is done.
//! Where it takes fewer lanes, each path goes to the first lane on which it closes no cycle (LASH).

use ebb_deadlock::Layers;

use super::paths::{FAR, PortLoad, Target, distances, fill_shortest, ports_to, targets};
use super::{Options, Routing, RoutingError};
use crate::dependency::cycle::Cycles;
use crate::tables::{ServiceLevels, Tables};
use crate::topology::{Peer, SwitchId, Topology};
use crate::walk::survey;

/// Evenly used shortest paths on as many lanes as they need.
#[derive(Clone, Copy, Debug)]
pub struct Dfsssp;

impl Routing for Dfsssp {
    fn name(&self) -> &'static str {
        "dfsssp"
    }

    fn summary(&self) -> &'static str {
        "shortest paths, globally balanced (DFSSSP): any fabric, as many lanes as needed"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let hosts: Vec<Target> = targets(topology).filter(|target| target.port != 0).collect();
        let mut tables = balanced(topology, &hosts);
        let mut management = PortLoad::new(topology);
        for target in targets(topology).filter(|target| target.port == 0) {
            fill_shortest(topology, &mut tables.forwarding, &mut management, target);
        }
        // Where no dependencies make a cycle one lane is enough, and no list of all paths is needed.
        if Cycles::of(&survey(topology, &tables, None).graph).is_acyclic() {
            return Ok(tables);
        }
        let paths = Paths::of(topology, &tables);
        let lanes = options.lanes;
        let none = RoutingError::LanesExhausted { function: "dfsssp", lanes };
        let most = |layer: &Vec<u8>| layer.iter().copied().max();
        let broken = layers(&paths, lanes);
        let one = broken.as_ref().and_then(most) == Some(0);
        let fitted = if one { None } else { first_fit(&paths, lanes) };
        let layer = broken.into_iter().chain(fitted).min_by_key(most).ok_or(none)?;
        if !one {
            let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
            for (path, layer) in paths.pairs.iter().zip(layer) {
                for host in topology.hosts_on(path.0) {
                    levels.add(host, path.1.lid, layer);
                }
            }
            tables.levels = levels;
        }
        Ok(tables)
    }
}

/// Rounds, in each of which all addresses are served once more, that may bring nothing before no more are tried.
const VAIN_ROUNDS_MAX: usize = 2;

/// Shortest paths to each target over the ways that carry the fewest paths in all.
pub(super) fn balanced(topology: &Topology, targets: &[Target]) -> Tables {
    let mut balance = Balance {
        topology,
        hosts: topology.switch_ids().map(|at| topology.hosts_on(at).count() as u64).collect(),
        load: vec![0; topology.port_count()],
        tables: Tables::empty(topology),
    };
    let mut round = 0;
    balance.serve(targets, round);
    let mut best = (balance.load.iter().copied().max(), balance.tables.clone());
    let mut vain = 0;
    while vain < VAIN_ROUNDS_MAX {
        round += 1;
        balance.serve(targets, round);
        let most = balance.load.iter().copied().max();
        vain += 1;
        if most < best.0 {
            (best, vain) = ((most, balance.tables.clone()), 0);
        }
    }
    best.1
}

struct Balance<'a> {
    topology: &'a Topology,
    /// Hosts on each switch.
    hosts: Vec<u64>,
    /// Paths of hosts over each port between switches, by dense index.
    load: Vec<u64>,
    tables: Tables,
}

impl Balance<'_> {
    /// Makes the entries for each address in turn, in place of those that it has. A link counts by a power of
    /// its load: in later rounds a higher one, so that crowded links count for more than long sums of others.
    fn serve(&mut self, targets: &[Target], round: u32) {
        let power = 3.min(round + 1);
        let topology = self.topology;
        for of_switch in targets.chunk_by(|one, other| one.switch == other.switch) {
            let distance = distances(topology, of_switch[0].switch);
            let mut others: Vec<SwitchId> = topology
                .switch_ids()
                .filter(|at| ![0, FAR].contains(&distance[at.index()]))
                .collect();
            others.sort_by_key(|at| (distance[at.index()], *at));
            for target in of_switch {
                if round > 0 {
                    self.pour(*target, &others, |load, paths| *load -= paths);
                }
                self.lead(*target, &distance, &others, power);
                self.pour(*target, &others, |load, paths| *load += paths);
            }
        }
    }

    fn lead(&mut self, target: Target, distance: &[u32], nearest_first: &[SwitchId], power: u32) {
        let topology = self.topology;
        let mut way = vec![0u128; distance.len()];
        let forwarding = &mut self.tables.forwarding;
        forwarding.set(target.switch, target.lid, Some(target.port));
        for &at in nearest_first {
            let ports = topology.neighbours(at);
            let closer =
                ports.filter(|(_, other, _)| distance[other.index()] + 1 == distance[at.index()]);
            let ways = closer.map(|(port, other, _)| {
                let load = u128::from(self.load[topology.port_index(at, port)]);
                (way[other.index()] + load.pow(power), port)
            });
            let (least, port) = ways.min().expect("a nearer switch");
            way[at.index()] = least;
            forwarding.set(at, target.lid, Some(port));
        }
    }

    /// Changes the load of each port by the paths to a target that cross it.
    fn pour(&mut self, target: Target, nearest_first: &[SwitchId], change: fn(&mut u64, u64)) {
        let mut through = self.hosts.clone();
        for &at in nearest_first.iter().rev() {
            let port = self.tables.forwarding.get(at, target.lid).expect("an entry");
            let paths = through[at.index()];
            change(&mut self.load[self.topology.port_index(at, port)], paths);
            if let Peer::Switch(next, _) = self.topology.peer(at, port) {
                through[next.index()] += paths;
            }
        }
    }
}

/// The paths between switches with hosts and addresses, each with its dependencies.
struct Paths {
    pairs: Vec<(SwitchId, Target)>,
    /// Dependencies by number of all paths, one after the other; where each path's end.
    steps: Vec<u32>,
    ends: Vec<usize>,
    /// The dependencies, in order: from port to port, by dense index.
    edges: Vec<(u32, u32)>,
}

impl Paths {
    fn of(topology: &Topology, tables: &Tables) -> Paths {
        let sources: Vec<SwitchId> =
            topology.switch_ids().filter(|it| topology.hosts_on(*it).next().is_some()).collect();
        let (mut pairs, mut raw, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets(topology).filter(|target| target.port != 0) {
            for &source in &sources {
                let Some(ports) = ports_to(topology, &tables.forwarding, source, target) else {
                    continue;
                };
                raw.extend(ports.windows(2).map(|pair| (pair[0] as u32, pair[1] as u32)));
                ends.push(raw.len());
                pairs.push((source, target));
            }
        }
        let mut edges = raw.clone();
        edges.sort_unstable();
        edges.dedup();
        let number = |edge| edges.binary_search(edge).expect("one of them") as u32;
        let steps = raw.iter().map(number).collect();
        Paths { pairs, steps, ends, edges }
    }

    fn steps(&self, path: usize) -> &[u32] {
        let first = path.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.steps[first..self.ends[path]]
    }
}

/// The lane of each path; `None` when there are too few.
fn layers(paths: &Paths, lanes: u8) -> Option<Vec<u8>> {
    let mut layer = vec![0; paths.pairs.len()];
    let mut over: Vec<Vec<u32>> = vec![Vec::new(); paths.edges.len()];
    for path in 0..paths.pairs.len() {
        for step in paths.steps(path) {
            over[*step as usize].push(path as u32);
        }
    }
    for lane in 0.. {
        let mut search = Search::of(paths, &layer, lane);
        let mut moved = false;
        while let Some(weakest) = search.weakest_of_a_cycle() {
            if lane + 1 == lanes {
                return None;
            }
            moved = true;
            for path in over[weakest].iter().map(|path| *path as usize) {
                if layer[path] == lane {
                    layer[path] = lane + 1;
                    paths.steps(path).iter().for_each(|step| search.uses[*step as usize] -= 1);
                }
            }
        }
        if !moved {
            break;
        }
    }
    Some(layer)
}

/// The same, with each path in turn on the first lane on which it closes no cycle.
fn first_fit(paths: &Paths, lanes: u8) -> Option<Vec<u8>> {
    let mut layers = Layers::new(usize::from(lanes));
    let edge = |step: &u32| paths.edges[*step as usize];
    let edges = |path| paths.steps(path).iter().map(edge).collect::<Vec<_>>();
    (0..paths.pairs.len()).map(|path| layers.place(&edges(path)).ok().map(|it| it as u8)).collect()
}

/// A search for cycles among the dependencies of one lane, which goes on where it was when some are gone.
struct Search<'a> {
    edges: &'a [(u32, u32)],
    /// Paths over each dependency.
    uses: Vec<u32>,
    /// The first dependency of each port.
    first: Vec<usize>,
    /// From where no cycle can be reached.
    closed: Vec<bool>,
    start: usize,
}

impl<'a> Search<'a> {
    fn of(paths: &'a Paths, layer: &[u8], lane: u8) -> Search<'a> {
        let edges = &paths.edges[..];
        let mut uses = vec![0; edges.len()];
        for path in (0..layer.len()).filter(|path| layer[*path] == lane) {
            paths.steps(path).iter().for_each(|step| uses[*step as usize] += 1);
        }
        let ports = edges.iter().map(|(from, to)| from.max(to) + 1).max().unwrap_or(0);
        let first = (0..=ports).map(|port| edges.partition_point(|edge| edge.0 < port)).collect();
        Search { edges, uses, first, closed: vec![false; ports as usize], start: 0 }
    }

    /// The dependency of a cycle that the fewest paths use, the first of several; `None` when there is no cycle.
    fn weakest_of_a_cycle(&mut self) -> Option<usize> {
        let mut open = vec![false; self.closed.len()];
        while self.start < self.closed.len() {
            if self.closed[self.start] {
                self.start += 1;
                continue;
            }
            // Each port with the dependency to be tried next; the one before it is on the way.
            let mut stack = vec![(self.start, self.first[self.start])];
            open[self.start] = true;
            while let Some((at, edge)) = stack.last_mut() {
                if *edge == self.first[*at + 1] {
                    (open[*at], self.closed[*at]) = (false, true);
                    stack.pop();
                    continue;
                }
                let to = self.edges[*edge].1 as usize;
                let used = self.uses[*edge] > 0;
                *edge += 1;
                if used && open[to] {
                    let place = stack.iter().position(|(at, _)| *at == to)?;
                    let cycle = stack[place..].iter().map(|(_, edge)| edge - 1);
                    return cycle.min_by_key(|edge| (self.uses[*edge], *edge));
                }
                if used && !self.closed[to] {
                    open[to] = true;
                    stack.push((to, self.first[to]));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::{dragonfly::Dragonfly, grid, random, tree};
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn shortest_paths_need_few_lanes_and_lie_evenly() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for (topology, diameter, lanes, uneven) in [
            (grid::torus(&[6, 6], 2), 6, 4, 1.4),
            (Dragonfly::balanced(2).build(), 3, 3, 1.4),
            (random::regular(24, 4, 2, &mut rng), 5, 3, 1.45),
            (tree::k_ary_n_tree(3, 3), 4, 1, 1.15),
        ] {
            let topology = topology.expect("a topology");
            let (_, verdict) = route(&Dfsssp, &topology, &Options::default()).expect("sound");
            assert!(verdict.paths.hops_max <= diameter, "{:?}", verdict.paths);
            assert!(verdict.lanes.len() <= lanes, "{:?}", verdict.lanes);
            let most = uneven * verdict.load.paths_mean;
            assert!(verdict.load.paths_max as f64 <= most, "{:?}", verdict.load);
        }
        let torus = grid::torus(&[6, 6], 1).expect("a torus");
        let single = Options { lanes: 1, ..Options::default() };
        let error = route(&Dfsssp, &torus, &single).expect_err("one lane is too few");
        assert!(matches!(error, RoutingError::LanesExhausted { lanes: 1, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn random_graphs_with_links_off_are_served(
            seed in any::<u64>(), half in 4u32..12, degree in 3u32..6, off in 0usize..4
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let topology = random::regular(2 * half, degree, 1, &mut rng).expect("a graph");
            let links: Vec<_> = topology.links().step_by(7).take(off).collect();
            let topology = topology.without(&links);
            prop_assume!(topology.is_connected());
            let routed = route(&Dfsssp, &topology, &Options::default());
            prop_assert!(routed.is_ok(), "{routed:?}");
        }
    }
}

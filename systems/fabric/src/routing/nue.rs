//! Shortest paths within the dependency graph, after Nue (Domke, Hoefler and Matsuoka 2016): while
//! the tree of paths to a destination grows, a hop whose dependency would close a cycle is not
//! taken, so the lanes at hand are always enough. Destinations are spread over the lanes.
//!
//! Every lane begins with the dependencies of a spanning tree; a destination to which some switch
//! finds no other way is reached along that tree, which is always possible. Departure from the
//! paper: no backtracking within a destination, the whole of it falls back to the tree.

use super::paths::{FAR, PortLoad, Target, centre, targets};
use super::{Options, Routing, RoutingError};
use crate::dependency::Channel;
use crate::dependency::online::OnlineOrder;
use crate::tables::{ServiceLevels, Tables};
use crate::topology::{PortNumber, SwitchId, Topology};

/// Shortest paths without cycles on any number of lanes.
#[derive(Clone, Copy, Debug)]
pub struct Nue;

impl Routing for Nue {
    fn name(&self) -> &'static str {
        "nue"
    }

    fn summary(&self) -> &'static str {
        "shortest paths with cycle breaking (Nue): any fabric, any number of lanes"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let lanes = usize::from(options.lanes.max(1));
        let tree = Tree::of(topology);
        let mut orders: Vec<OnlineOrder> = vec![tree.order(topology); lanes];
        let mut tables = Tables::empty(topology);
        let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
        let mut load = PortLoad::new(topology);
        for target in targets(topology) {
            let lane = target.switch.index() % lanes;
            let grown = if target.port == 0 {
                None
            } else {
                grow(topology, &mut orders[lane], &mut load, target)
            };
            let ports = grown.unwrap_or_else(|| tree.towards(topology, target.switch));
            for (switch, port) in topology.switch_ids().zip(ports) {
                let port = if switch == target.switch { Some(target.port) } else { port };
                tables.forwarding.set(switch, target.lid, port);
            }
            if target.port != 0 {
                let level = lane as u8;
                topology.host_ids().for_each(|host| levels.add(host, target.lid, level));
            }
        }
        if lanes > 1 {
            tables.levels = levels;
        }
        Ok(tables)
    }
}

/// The port of every switch towards a target, or nothing when some switch was cut off.
fn grow(
    topology: &Topology,
    order: &mut OnlineOrder,
    load: &mut PortLoad,
    target: Target,
) -> Option<Vec<Option<PortNumber>>> {
    let count = topology.switches().len();
    let mut distance = vec![FAR; count];
    let mut ports: Vec<Option<PortNumber>> = vec![None; count];
    let mut added: Vec<(Channel, Channel)> = Vec::new();
    distance[target.switch.index()] = 0;
    let mut open: Vec<SwitchId> =
        topology.switch_ids().filter(|switch| *switch != target.switch).collect();
    let mut level = 0;
    loop {
        level += 1;
        let mut settled = Vec::new();
        open.retain(|&switch| {
            let mut ways: Vec<(u32, u32, PortNumber, SwitchId)> = topology
                .neighbours(switch)
                .filter(|(_, other, _)| distance[other.index()] < level)
                .map(|(port, other, _)| {
                    let used = load.of(topology, switch, port);
                    (distance[other.index()], used, port, other)
                })
                .collect();
            ways.sort_unstable();
            let way = ways.into_iter().find(|&(_, _, port, other)| {
                let Some(next) = ports[other.index()] else { return true };
                let from = Channel::new(topology, switch, port, 0);
                let to = Channel::new(topology, other, next, 0);
                let fits = order.add(from, to).is_ok();
                if fits {
                    added.push((from, to));
                }
                fits
            });
            if let Some((_, _, port, _)) = way {
                settled.push((switch, port));
            }
            way.is_none()
        });
        for (switch, port) in &settled {
            distance[switch.index()] = level;
            ports[switch.index()] = load.pick(topology, *switch, std::iter::once(*port));
        }
        if open.is_empty() {
            return Some(ports);
        }
        if settled.is_empty() {
            order.remove_all(&added);
            return None;
        }
    }
}

/// A spanning tree: each switch's port to its parent and the parent's port back.
struct Tree {
    parent: Vec<Option<(PortNumber, SwitchId, PortNumber)>>,
}

impl Tree {
    fn of(topology: &Topology) -> Tree {
        let root = centre(topology);
        let mut parent = vec![None; topology.switches().len()];
        let mut queue = std::collections::VecDeque::from([root]);
        while let Some(switch) = queue.pop_front() {
            for (port, other, there) in topology.neighbours(switch) {
                if other != root && parent[other.index()].is_none() {
                    parent[other.index()] = Some((there, switch, port));
                    queue.push_back(other);
                }
            }
        }
        Tree { parent }
    }

    /// The links of the tree, in both directions: from, port, to.
    fn hops(&self) -> impl Iterator<Item = (SwitchId, PortNumber, SwitchId)> + '_ {
        let edges = self.parent.iter().enumerate().filter_map(|(child, link)| {
            link.map(|(up, parent, down)| (SwitchId(child as u32), up, parent, down))
        });
        edges.flat_map(|(child, up, parent, down)| [(child, up, parent), (parent, down, child)])
    }

    /// All dependencies that paths along the tree can make.
    fn order(&self, topology: &Topology) -> OnlineOrder {
        let mut leaving = vec![Vec::new(); self.parent.len()];
        self.hops().for_each(|(from, port, to)| leaving[from.index()].push((port, to)));
        let mut order = OnlineOrder::new();
        for (from, port, through) in self.hops() {
            for &(next, to) in leaving[through.index()].iter().filter(|(_, to)| *to != from) {
                let _ = to;
                let (from, to) = (
                    Channel::new(topology, from, port, 0),
                    Channel::new(topology, through, next, 0),
                );
                assert!(order.add(from, to).is_ok(), "paths along a tree make no cycle");
            }
        }
        order
    }

    /// The port of every switch along the tree towards one of them.
    fn towards(&self, topology: &Topology, target: SwitchId) -> Vec<Option<PortNumber>> {
        let mut ports: Vec<Option<PortNumber>> =
            self.parent.iter().map(|link| link.map(|(up, ..)| up)).collect();
        let mut below = target;
        while let Some((_, parent, down)) = self.parent[below.index()] {
            ports[parent.index()] = Some(down);
            below = parent;
        }
        debug_assert_eq!(ports.len(), topology.switches().len());
        ports
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
    fn any_number_of_lanes_is_enough() {
        for lanes in [1, 2, 4] {
            let options = Options { lanes, ..Options::default() };
            for topology in
                [grid::torus(&[6, 6], 1), Dragonfly::balanced(2).build(), tree::k_ary_n_tree(3, 2)]
            {
                let topology = topology.expect("a topology");
                let (_, verdict) = route(&Nue, &topology, &options).expect("sound");
                assert!(verdict.lanes.len() <= usize::from(lanes));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn random_graphs_with_links_off_are_served(
            seed in any::<u64>(), half in 4u32..10, degree in 3u32..5, lanes in 1u8..4
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let topology = random::regular(2 * half, degree, 1, &mut rng).expect("a graph");
            let topology = topology.without(&topology.links().take(1).collect::<Vec<_>>());
            prop_assume!(topology.is_connected());
            let options = Options { lanes, ..Options::default() };
            prop_assert!(route(&Nue, &topology, &options).is_ok());
        }
    }
}

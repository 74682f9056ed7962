//! Up*/down* (Schroeder and others 1991, Autonet): every link has an up end, and no packet goes up
//! after it has gone down.
//!
//! Switches are ranked; the higher end of a link is up. In fabrics with switches that have no hosts
//! (fat trees) the rank is the distance from the hosts, otherwise, or when that does not connect
//! all hosts, nearness to one root. Ties are parted by number, so the ranks are a total order and
//! no cycle of dependencies can close.

use super::paths::{FAR, PortLoad, Target, centre, distances, fill_shortest, targets};
use super::{Options, Routing, RoutingError};
use crate::tables::Tables;
use crate::topology::{SwitchId, Topology};

/// Up*/down* on one lane.
#[derive(Clone, Copy, Debug)]
pub struct UpDown;

impl Routing for UpDown {
    fn name(&self) -> &'static str {
        "up-down"
    }

    fn summary(&self) -> &'static str {
        "up*/down*: any fabric, one lane, longer paths near the root"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        if let Some(name) = &options.root {
            let found = topology.switches().iter().position(|switch| switch.name == *name);
            let root = found.ok_or_else(|| RoutingError::NoSuchRoot { name: name.clone() })?;
            return Ok(tables(topology, &rank_from_root(topology, SwitchId(root as u32))));
        }
        let hostless = topology.switch_ids().any(|it| topology.hosts_on(it).next().is_none());
        if hostless {
            let proposed = tables(topology, &rank_from_hosts(topology));
            if crate::check::check(topology, &proposed).safe {
                return Ok(proposed);
            }
        }
        Ok(tables(topology, &rank_from_root(topology, centre(topology))))
    }
}

/// Ranks a switch the higher the nearer it is to the root.
pub(crate) fn rank_from_root(topology: &Topology, root: SwitchId) -> Vec<u32> {
    let distance = distances(topology, root);
    ranks(topology, |switch| u32::MAX - distance[switch.index()])
}

/// Ranks a switch the higher the farther it is from the nearest host.
fn rank_from_hosts(topology: &Topology) -> Vec<u32> {
    let mut distance = vec![FAR; topology.switches().len()];
    let mut near: Vec<SwitchId> =
        topology.switch_ids().filter(|it| topology.hosts_on(*it).next().is_some()).collect();
    let mut level = 0;
    while !near.is_empty() {
        near.iter().for_each(|switch| distance[switch.index()] = level);
        level += 1;
        let mut next: Vec<SwitchId> = near
            .iter()
            .flat_map(|switch| topology.neighbours(*switch))
            .map(|(_, other, _)| other)
            .filter(|other| distance[other.index()] == FAR)
            .collect();
        next.sort_unstable();
        next.dedup();
        near = next;
    }
    ranks(topology, |switch| distance[switch.index()])
}

/// A total order: by height, then the lower number is higher.
fn ranks(topology: &Topology, height: impl Fn(SwitchId) -> u32) -> Vec<u32> {
    let mut order: Vec<SwitchId> = topology.switch_ids().collect();
    order.sort_by_key(|switch| (height(*switch), std::cmp::Reverse(*switch)));
    let mut rank = vec![0; order.len()];
    for (place, switch) in order.into_iter().enumerate() {
        rank[switch.index()] = place as u32;
    }
    rank
}

fn tables(topology: &Topology, rank: &[u32]) -> Tables {
    let mut descending: Vec<SwitchId> = topology.switch_ids().collect();
    descending.sort_by_key(|switch| std::cmp::Reverse(rank[switch.index()]));
    let mut tables = Tables::empty(topology);
    let mut load = PortLoad::new(topology);
    for target in targets(topology) {
        to_target(topology, rank, &descending, &mut tables, &mut load, target);
        if target.port == 0 {
            fill_shortest(topology, &mut tables.forwarding, &mut load, target);
        }
    }
    tables
}

/// Entries for one address. A switch that can reach it by going down only does so, since packets
/// may have come down to it; the others go up.
fn to_target(
    topology: &Topology,
    rank: &[u32],
    descending: &[SwitchId],
    tables: &mut Tables,
    load: &mut PortLoad,
    target: Target,
) {
    let higher = |a: SwitchId, b: SwitchId| rank[a.index()] > rank[b.index()];
    let mut down = vec![FAR; rank.len()];
    down[target.switch.index()] = 0;
    let mut queue = std::collections::VecDeque::from([target.switch]);
    while let Some(switch) = queue.pop_front() {
        for (_, other, _) in topology.neighbours(switch) {
            if higher(other, switch) && down[other.index()] == FAR {
                down[other.index()] = down[switch.index()] + 1;
                queue.push_back(other);
            }
        }
    }
    let mut distance = down.clone();
    for &switch in descending {
        if switch == target.switch {
            tables.forwarding.set(switch, target.lid, Some(target.port));
            continue;
        }
        let goes_down = down[switch.index()] != FAR;
        let usable = |other: SwitchId| {
            let next = if goes_down { down[other.index()] } else { distance[other.index()] };
            (higher(switch, other) == goes_down && next != FAR).then_some(next)
        };
        let best = topology.neighbours(switch).filter_map(|(_, other, _)| usable(other)).min();
        let Some(best) = best else { continue };
        let ports = topology.neighbours(switch);
        let ports = ports.filter(|(_, other, _)| usable(*other) == Some(best));
        let port = load.pick(topology, switch, ports.map(|(port, ..)| port));
        tables.forwarding.set(switch, target.lid, port);
        distance[switch.index()] = best + 1;
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
    fn fat_trees_get_shortest_paths_spread_evenly() {
        let tree = tree::Pods::of_radix(4).build().expect("a tree");
        let (_, verdict) = route(&UpDown, &tree, &Options::default()).expect("sound");
        assert_eq!((verdict.paths.hops_min, verdict.paths.hops_max), (0, 4));
        assert!(verdict.load.paths_max <= 2 * verdict.load.paths_mean as u64, "{verdict:?}");
        let tree = tree::k_ary_n_tree(3, 3).expect("a tree");
        let (_, verdict) = route(&UpDown, &tree, &Options::default()).expect("sound");
        assert_eq!(verdict.paths.hops_max, 4);
    }

    #[test]
    fn every_shape_is_served_and_a_root_can_be_named() {
        let shapes =
            [grid::torus(&[5, 5], 1), grid::mesh(&[3, 3, 3], 2), Dragonfly::balanced(2).build()];
        for topology in shapes {
            let topology = topology.expect("a topology");
            assert!(route(&UpDown, &topology, &Options::default()).is_ok());
        }
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let rooted = |name: &str| Options { root: Some(name.to_owned()), ..Options::default() };
        assert!(route(&UpDown, &torus, &rooted("S7")).is_ok());
        assert!(route(&UpDown, &torus, &rooted("S99")).is_err());
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
            prop_assert!(route(&UpDown, &topology, &Options::default()).is_ok());
        }
    }
}

//! Fat-tree routing for shifts (Zahavi, Johnson, Kerbyson and Lang 2010; OpenSM's `ftree`): in a full tree no
//! link carries two of the flows from each host to the host a fixed number further on.
//!
//! Hosts are counted leaf by leaf, leaves in the order in which a root finds them, so that those of a pod follow
//! each other. Each host in turn gets a way down to it from one root (its trunk), at each level over the
//! port that is the next in turn, which in a full tree is the port that the host's number says (D-mod-K). All sources
//! climb to the trunk as soon as they can. Where they cannot, in trees that lack links, the least used port of a
//! shortest way that never climbs after it has gone down does; so no cycle can close on any tree.

use super::paths::{FAR, fill_shortest, targets};
use super::up_down::{Count, Loads, Ways, ranks};
use super::{Options, Routing, RoutingError};
use crate::tables::Tables;
use crate::topology::height::{NOWHERE, levels};
use crate::topology::{SwitchId, Topology};

/// D-mod-K on one lane.
#[derive(Clone, Copy, Debug)]
pub struct Ftree;

impl Routing for Ftree {
    fn name(&self) -> &'static str {
        "ftree"
    }

    fn summary(&self) -> &'static str {
        "fat trees: shifts of all hosts collide on no link (D-mod-K), one lane"
    }

    fn propose(&self, topology: &Topology, _: &Options) -> Result<Tables, RoutingError> {
        let needs = "a fat tree: hosts on the lowest switches only, no cables within a level";
        let wrong = RoutingError::WrongShape { function: "ftree", needs };
        let height = levels(topology).ok_or(wrong)?;
        let rank = ranks(topology, |at| height[at.index()]);
        let mut descending: Vec<SwitchId> = topology.switch_ids().collect();
        descending.sort_by_key(|switch| std::cmp::Reverse(rank[switch.index()]));
        let hosts: Vec<u32> =
            topology.switch_ids().map(|at| topology.hosts_on(at).count() as u32).collect();
        let mut tables = Tables::empty(topology);
        let mut load = Loads::new(topology, Count::Paths);
        let mut trunks = Trunks::new(topology, &height);
        for leaf in in_order(topology, &height) {
            let ways = Ways::to(topology, &rank, &descending, leaf);
            for target in targets(topology).filter(|it| it.switch == leaf && it.port != 0) {
                let preferred = trunks.next(&ways, leaf);
                ways.lead(&hosts, &mut tables, &mut load, target, Some(&preferred));
            }
        }
        let mut management = Loads::new(topology, Count::Addresses);
        for target in targets(topology).filter(|target| target.port == 0) {
            let ways = Ways::to(topology, &rank, &descending, target.switch);
            ways.lead(&hosts, &mut tables, &mut management, target, None);
            fill_shortest(topology, &mut tables.forwarding, &mut management.used, target);
        }
        Ok(tables)
    }
}

/// Switches with hosts, those below one switch after each other: as roots, the lowest number first, find them
/// by going down in the order of ports.
fn in_order(topology: &Topology, height: &[u32]) -> Vec<SwitchId> {
    let up = |from: SwitchId, to: SwitchId| height[to.index()] > height[from.index()];
    let is_root = |at: &SwitchId| !topology.neighbours(*at).any(|(_, other, _)| up(*at, other));
    let mut seen = vec![false; height.len()];
    let mut leaves = Vec::new();
    for root in topology.switch_ids().filter(is_root) {
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            if std::mem::replace(&mut seen[at.index()], true) {
                continue;
            }
            if height[at.index()] == 0 {
                leaves.push(at);
            }
            let first = stack.len();
            let below = topology.neighbours(at).map(|(_, other, _)| other);
            stack.extend(below.filter(|other| up(*other, at) && !seen[other.index()]));
            stack[first..].reverse();
        }
    }
    leaves
}

/// The ways down to hosts from their roots, handed out in turn.
struct Trunks<'a> {
    topology: &'a Topology,
    height: &'a [u32],
    /// Trunks that go down to each port from above, by dense index.
    through: Vec<u32>,
    /// Trunks over each switch.
    over: Vec<u32>,
}

impl<'a> Trunks<'a> {
    fn new(topology: &'a Topology, height: &'a [u32]) -> Trunks<'a> {
        let (ports, switches) = (topology.port_count(), topology.switches().len());
        Trunks { topology, height, through: vec![0; ports], over: vec![0; switches] }
    }

    /// The trunk of the next host on a leaf, and all switches that climb to it on shortest ways.
    fn next(&mut self, ways: &Ways, leaf: SwitchId) -> Vec<bool> {
        let mut preferred = vec![false; self.over.len()];
        let mut at = leaf;
        loop {
            preferred[at.index()] = true;
            let above = self.topology.neighbours(at).filter(|(_, other, _)| {
                let height = self.height[other.index()];
                height != NOWHERE && height > self.height[at.index()]
            });
            let index = |port| self.topology.port_index(at, port);
            // A switch that has fewer trunks goes first where a leaf has fewer hosts than ports.
            let turn = above.min_by_key(|(port, other, _)| {
                (self.through[index(*port)], self.over[other.index()], *port)
            });
            let Some((port, other, _)) = turn else { break };
            self.through[self.topology.port_index(at, port)] += 1;
            self.over[other.index()] += 1;
            at = other;
        }
        for (switch, mut next) in ways.nearest_first() {
            if ways.down[switch.index()] == FAR {
                preferred[switch.index()] = next.any(|next| preferred[next.index()]);
            }
        }
        preferred
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{route, up_down::UpDown};
    use crate::topology::{Builder, Peer, grid, tree};
    use proptest::prelude::*;

    /// The most flows on a link between switches when each host sends to the one some number further on, leaf
    /// by leaf; for every such number.
    fn most_of_shifts(topology: &Topology, tables: &Tables) -> Option<u32> {
        let height = levels(topology).expect("a tree");
        let leaves = in_order(topology, &height);
        let hosts: Vec<_> = leaves.iter().flat_map(|leaf| topology.hosts_on(*leaf)).collect();
        let most = |shift: usize| {
            let mut flows = vec![0; topology.port_count()];
            for (place, source) in hosts.iter().enumerate() {
                let to = topology.host(hosts[(place + shift) % hosts.len()]).lid;
                let path = crate::walk::path(topology, tables, *source, to, 0).expect("a way");
                for port in path.iter().map(|channel| channel.port_index()) {
                    flows[port] += u32::from(matches!(topology.peer_at(port), Peer::Switch(..)));
                }
            }
            flows.into_iter().max().unwrap_or(0)
        };
        (1..hosts.len()).map(most).max()
    }

    /// The same fabric with its switches in another order, as they are found in a real one.
    fn scrambled(topology: &Topology) -> Topology {
        let mut builder = Builder::new();
        let mut order: Vec<SwitchId> = topology.switch_ids().collect();
        order.sort_by_key(|at| (at.0.wrapping_mul(2_654_435_761), *at));
        let mut place = vec![SwitchId(0); order.len()];
        for at in order {
            place[at.index()] = builder.plain_switch(topology.switch(at).ports);
        }
        for link in topology.links() {
            let end = |(at, port): (SwitchId, u8)| (place[at.index()], port);
            builder.cable(end(link.a), end(link.b)).expect("free ports");
        }
        for host in topology.hosts() {
            builder.plain_host(place[host.switch.index()], host.port).expect("a free port");
        }
        builder.finish().expect("a fabric")
    }

    #[test]
    fn shifts_collide_nowhere_in_full_trees() {
        let trees = [tree::k_ary_n_tree(3, 3), tree::Pods::of_radix(6).build()];
        for topology in trees.into_iter().map(|tree| scrambled(&tree.expect("a tree"))) {
            let (tables, verdict) = route(&Ftree, &topology, &Options::default()).expect("sound");
            // What a leaf's hosts send and get, on as many links as it has hosts.
            let leaf = topology.hosts()[0].switch;
            let (all, on_leaf) = (topology.hosts().len(), topology.hosts_on(leaf).count());
            assert_eq!(verdict.load.paths_max, (all - on_leaf) as u64, "{:?}", verdict.load);
            assert_eq!(most_of_shifts(&topology, &tables), Some(1));
        }
    }

    #[test]
    fn leaves_with_few_hosts_take_turns_and_other_shapes_are_refused() {
        let pods = tree::Pods { pods: 4, leaves: 4, spines: 4, cores_per_spine: 3, hosts: 3 };
        let topology = pods.build().expect("a tree");
        let (_, verdict) = route(&Ftree, &topology, &Options::default()).expect("sound");
        // Each leaf's three hosts are reached over three of its four links, all further ones are used.
        assert_eq!(verdict.load.unused_links, 16);
        assert!(
            verdict.load.paths_max as f64 <= 1.35 * verdict.load.paths_mean,
            "{:?}",
            verdict.load
        );
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let refused = route(&Ftree, &torus, &Options::default()).expect_err("no tree");
        assert!(refused.to_string().contains("a fat tree"), "{refused}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn trees_that_lack_links_are_served(
            radix in 2u32..5, first in 0usize..40, step in 5usize..30
        ) {
            let topology = tree::Pods::of_radix(2 * radix).build().expect("a tree");
            let links: Vec<_> = topology.links().skip(first).step_by(step).take(4).collect();
            let topology = topology.without(&links);
            prop_assume!(topology.is_connected());
            if levels(&topology).is_some() && route(&UpDown, &topology, &Options::default()).is_ok() {
                let routed = route(&Ftree, &topology, &Options::default());
                prop_assert!(routed.is_ok() || !reached_by_tree(&topology), "{routed:?}");
            }
        }
    }

    /// Whether every leaf reaches every other by going up, then down.
    fn reached_by_tree(topology: &Topology) -> bool {
        let height = levels(topology).expect("a tree");
        let rank = ranks(topology, |at| height[at.index()]);
        let mut descending: Vec<SwitchId> = topology.switch_ids().collect();
        descending.sort_by_key(|switch| std::cmp::Reverse(rank[switch.index()]));
        let leaves: Vec<SwitchId> = topology.hosts().iter().map(|host| host.switch).collect();
        leaves.iter().all(|leaf| {
            let ways = Ways::to(topology, &rank, &descending, *leaf);
            let reached: Vec<SwitchId> = ways.nearest_first().map(|(at, _)| at).collect();
            leaves.iter().all(|other| reached.contains(other))
        })
    }
}

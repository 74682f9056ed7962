//! Up*/down* (Schroeder and others 1991, Autonet): every link has an up end, and no packet goes up
//! after it has gone down.
//!
//! Switches are ranked; the higher end of a link is up. In fabrics with switches that have no hosts
//! (fat trees) the rank is the distance from the hosts. Where every switch has hosts, but some have far
//! fewer than others (spines with an aggregation node each), it is the distance from those with many, and
//! one of these is put above all, over which the few reach each other. Otherwise, or when that does not
//! connect all hosts, the rank is nearness to one root. Ties are parted by number, so the ranks are a total
//! order and no cycle of dependencies can close.
//!
//! Among the ports of shortest legal paths a switch takes the one that fewest paths of hosts cross so far,
//! with as many counted as come through the switch for the address. Around one root, where paths crowd
//! anyway, fewest addresses may do better: all counts are tried.

use super::paths::{FAR, PortLoad, Target, centre, distances, fill_shortest, targets};
use super::{Options, Routing, RoutingError};
use crate::check::unmanaged;
use crate::tables::Tables;
use crate::topology::height::heights;
use crate::topology::{PortNumber, SwitchId, Topology};

/// Most switches that are tried above all others.
const TURNS_MAX: usize = 16;

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
            let root = topology.switch_called(name)?;
            return Ok(around(topology, root).tables);
        }
        let hosts = |switch| topology.hosts_on(switch).count();
        if topology.switch_ids().any(|switch| hosts(switch) == 0) {
            let leaves = topology.switch_ids().filter(|switch| hosts(*switch) > 0).collect();
            let height = heights(topology, leaves);
            let rank = ranks(topology, |at| height[at.index()]);
            let proposed = proposal(topology, &rank, Count::Paths);
            // What follows a total order closes no cycle; only a way can be missing.
            if proposed.lost == 0 && unmanaged(topology, &proposed.tables).is_empty() {
                return Ok(proposed.tables);
            }
        }
        let centred = around(topology, centre(topology));
        let tried = around_leaves(topology).into_iter().filter(|other| other.lost == 0);
        let best = tried.min_by_key(|other| (other.paths_max, other.hops));
        Ok(match best {
            Some(best) if centred.lost > 0 || best.paths_max < centred.paths_max => best.tables,
            _ => centred.tables,
        })
    }
}

/// Proposals in which switches with more than half as many hosts as any are the lowest, and one of them the
/// highest; none where that is all switches.
fn around_leaves(topology: &Topology) -> Vec<Proposal> {
    let hosts = |switch: SwitchId| topology.hosts_on(switch).count();
    let most = topology.switch_ids().map(hosts).max().unwrap_or(0);
    let (mut leaves, others): (Vec<_>, Vec<_>) =
        topology.switch_ids().partition(|switch| 2 * hosts(*switch) > most);
    if others.is_empty() {
        return Vec::new();
    }
    let height = heights(topology, leaves.clone());
    let cables = |switch: &SwitchId| topology.neighbours(*switch).count();
    leaves.sort_by_key(|switch| (std::cmp::Reverse(cables(switch)), *switch));
    let above = |turn: SwitchId| {
        let rank = ranks(topology, |at| if at == turn { FAR } else { height[at.index()] });
        proposal(topology, &rank, Count::Paths)
    };
    leaves.into_iter().take(TURNS_MAX).map(above).collect()
}

/// Ranks a switch the higher the nearer it is to the root.
pub(crate) fn rank_from_root(topology: &Topology, root: SwitchId) -> Vec<u32> {
    let distance = distances(topology, root);
    ranks(topology, |switch| u32::MAX - distance[switch.index()])
}

/// A total order: by height, then the lower number is higher.
pub(super) fn ranks(topology: &Topology, height: impl Fn(SwitchId) -> u32) -> Vec<u32> {
    let mut order: Vec<SwitchId> = topology.switch_ids().collect();
    order.sort_by_key(|switch| (height(*switch), std::cmp::Reverse(*switch)));
    let mut rank = vec![0; order.len()];
    for (place, switch) in order.into_iter().enumerate() {
        rank[switch.index()] = place as u32;
    }
    rank
}

/// The better of the proposals around one root.
fn around(topology: &Topology, root: SwitchId) -> Proposal {
    let rank = rank_from_root(topology, root);
    let counts =
        [Count::Addresses, Count::AllAddresses].map(|count| proposal(topology, &rank, count));
    let paths = proposal(topology, &rank, Count::Paths);
    let better = |best: Proposal, other: Proposal| {
        if other.paths_max < best.paths_max { other } else { best }
    };
    counts.into_iter().fold(paths, better)
}

/// What makes a port used when another is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Paths of hosts that cross it.
    Paths,
    /// Addresses of hosts that a switch reaches through it.
    Addresses,
    /// The same with those of switches.
    AllAddresses,
}

/// How much ports carry.
pub(super) struct Loads {
    count: Count,
    /// What ports are chosen by.
    pub(super) used: PortLoad,
    /// Paths that cross them.
    paths: PortLoad,
}

impl Loads {
    pub(super) fn new(topology: &Topology, count: Count) -> Loads {
        Loads { count, used: PortLoad::new(topology), paths: PortLoad::new(topology) }
    }
}

/// Tables with what is known of their paths.
struct Proposal {
    tables: Tables,
    /// Switches with hosts from which some address has no way.
    lost: usize,
    /// Paths on the most used port between switches.
    paths_max: u32,
    /// Links that all paths cross together.
    hops: u64,
}

fn proposal(topology: &Topology, rank: &[u32], count: Count) -> Proposal {
    let mut descending: Vec<SwitchId> = topology.switch_ids().collect();
    descending.sort_by_key(|switch| std::cmp::Reverse(rank[switch.index()]));
    let hosts: Vec<u32> =
        topology.switch_ids().map(|at| topology.hosts_on(at).count() as u32).collect();
    let mut tables = Tables::empty(topology);
    // Packets of the subnet manager are few: they do not count as load of data.
    let mut load = Loads::new(topology, count);
    let mut management = Loads::new(topology, Count::Addresses);
    let (mut lost, mut hops) = (0, 0);
    let mut ways: Option<(SwitchId, Ways)> = None;
    for target in targets(topology) {
        let known = ways.take().filter(|(switch, _)| *switch == target.switch);
        let (switch, way) = known.unwrap_or_else(|| {
            (target.switch, Ways::to(topology, rank, &descending, target.switch))
        });
        let far = |at: &SwitchId| hosts[at.index()] > 0 && way.distance[at.index()] == FAR;
        if target.port == 0 {
            let all = count == Count::AllAddresses;
            let load = if all { &mut load } else { &mut management };
            way.lead(&hosts, &mut tables, load, target, None);
            fill_shortest(topology, &mut tables.forwarding, &mut load.used, target);
        } else {
            lost += topology.switch_ids().filter(far).count();
            hops += way.lead(&hosts, &mut tables, &mut load, target, None);
        }
        ways = Some((switch, way));
    }
    Proposal { tables, lost, paths_max: load.paths.most(), hops }
}

/// The shortest legal ways from every switch to one.
pub(super) struct Ways {
    /// Links down only; [`FAR`] where that does not lead there.
    pub(super) down: Vec<u32>,
    /// Links of the way that is taken.
    distance: Vec<u32>,
    /// Switches that have a way, the farthest first, with the end of their part of `ports`.
    farthest_first: Vec<(SwitchId, usize)>,
    /// The ports of shortest legal ways: own port, its dense index, the switch there.
    ports: Vec<(PortNumber, usize, SwitchId)>,
    rank: Vec<u32>,
}

impl Ways {
    /// A switch that can reach it by going down only does so, since packets may have come down to it;
    /// the others go up.
    pub(super) fn to(
        topology: &Topology,
        rank: &[u32],
        descending: &[SwitchId],
        end: SwitchId,
    ) -> Ways {
        let mut down = vec![FAR; rank.len()];
        down[end.index()] = 0;
        let mut queue = std::collections::VecDeque::from([end]);
        while let Some(switch) = queue.pop_front() {
            for (_, other, _) in topology.neighbours(switch) {
                if rank[other.index()] > rank[switch.index()] && down[other.index()] == FAR {
                    down[other.index()] = down[switch.index()] + 1;
                    queue.push_back(other);
                }
            }
        }
        let mut ways = Ways {
            distance: down.clone(),
            down,
            farthest_first: Vec::new(),
            ports: Vec::new(),
            rank: rank.to_vec(),
        };
        for &switch in descending.iter().filter(|switch| **switch != end) {
            let nearest = topology.neighbours(switch).map(|(_, other, _)| ways.over(switch, other));
            if let Some(nearest) = nearest.min().filter(|nearest| *nearest != FAR) {
                ways.distance[switch.index()] = nearest + 1;
            }
        }
        let mut order: Vec<SwitchId> = topology.switch_ids().collect();
        order.retain(|switch| ways.distance[switch.index()] != FAR);
        order.sort_by_key(|switch| (std::cmp::Reverse(ways.distance[switch.index()]), *switch));
        for switch in order {
            let own = ways.distance[switch.index()];
            for (port, other, _) in topology.neighbours(switch) {
                if own > 0 && ways.over(switch, other) == own - 1 {
                    ways.ports.push((port, topology.port_index(switch, port), other));
                }
            }
            ways.farthest_first.push((switch, ways.ports.len()));
        }
        ways
    }

    /// Links that remain at the neighbour `other` when a packet goes there from `switch`; [`FAR`] where it
    /// must not.
    fn over(&self, switch: SwitchId, other: SwitchId) -> u32 {
        let goes_down = self.down[switch.index()] != FAR;
        let higher = self.rank[switch.index()] > self.rank[other.index()];
        match (higher == goes_down, goes_down) {
            (false, _) => FAR,
            (true, true) => self.down[other.index()],
            (true, false) => self.distance[other.index()],
        }
    }

    /// Switches that have a way, the nearest first, each with the switches that its shortest legal ways lead to.
    pub(super) fn nearest_first(
        &self,
    ) -> impl Iterator<Item = (SwitchId, impl Iterator<Item = SwitchId>)> {
        (0..self.farthest_first.len()).rev().map(|place| {
            let (switch, end) = self.farthest_first[place];
            let first = place.checked_sub(1).map_or(0, |before| self.farthest_first[before].1);
            (switch, self.ports[first..end].iter().map(|(_, _, next)| *next))
        })
    }

    /// Makes the entries for an address of the switch, over switches that are preferred where there are such, and gives
    /// the links that all hosts' packets to it cross. Paths gather from the farthest switches on, and every switch
    /// knows how many come through it.
    pub(super) fn lead(
        &self,
        hosts: &[u32],
        tables: &mut Tables,
        load: &mut Loads,
        target: Target,
        preferred: Option<&[bool]>,
    ) -> u64 {
        let mut paths = hosts.to_vec();
        let (mut hops, mut first) = (0, 0);
        for &(switch, end) in &self.farthest_first {
            let ports = &self.ports[std::mem::replace(&mut first, end)..end];
            if switch == target.switch {
                tables.forwarding.set(switch, target.lid, Some(target.port));
                continue;
            }
            let through = paths[switch.index()];
            // The lowest number of several, since they are in order.
            let used = |way: &&(_, usize, _)| load.used.at(way.1);
            let first = preferred.and_then(|it| {
                ports.iter().filter(|(_, _, next)| it[next.index()]).min_by_key(used)
            });
            let chosen = first.or_else(|| ports.iter().min_by_key(used));
            if let Some(&(port, index, next)) = chosen {
                let more = if load.count == Count::Paths { through } else { 1 };
                load.used.add(index, more);
                if target.port != 0 {
                    load.paths.add(index, through);
                }
                paths[next.index()] += through;
                hops += u64::from(through);
                tables.forwarding.set(switch, target.lid, Some(port));
            }
        }
        hops
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
        assert!(
            verdict.load.paths_max as f64 <= 1.5 * verdict.load.paths_mean,
            "{:?}",
            verdict.load
        );
        let tree = tree::k_ary_n_tree(3, 3).expect("a tree");
        let (_, verdict) = route(&UpDown, &tree, &Options::default()).expect("sound");
        assert_eq!(verdict.paths.hops_max, 4);
    }

    /// Two islands of `leaves` leaves under two middles each, cabled twice to them, and two cores over all.
    fn islands(leaves: u32, hosts: u8) -> Topology {
        let mut builder = crate::topology::Builder::new();
        let cable = |builder: &mut crate::topology::Builder, a, b| {
            let ports = (builder.free_port(a).expect("free"), builder.free_port(b).expect("free"));
            builder.cable((a, ports.0), (b, ports.1)).expect("free ports");
        };
        let cores = [0, 1].map(|_| builder.plain_switch(16));
        for _ in 0..2 {
            let middles = [0, 1].map(|_| builder.plain_switch(32));
            for (middle, core) in
                middles.iter().flat_map(|middle| cores.map(|core| (*middle, core)))
            {
                (0..2).for_each(|_| cable(&mut builder, middle, core));
            }
            for _ in 0..leaves {
                let leaf = builder.plain_switch(32);
                for middle in middles {
                    (0..2).for_each(|_| cable(&mut builder, leaf, middle));
                }
                for _ in 0..hosts {
                    let port = builder.free_port(leaf).expect("free");
                    builder.plain_host(leaf, port).expect("a free port");
                }
            }
        }
        builder.finish().expect("a fabric")
    }

    #[test]
    fn paths_lie_evenly_on_uneven_trees() {
        let (_, verdict) = route(&UpDown, &islands(4, 6), &Options::default()).expect("sound");
        assert!(
            verdict.load.paths_max <= 100 && verdict.load.unused_links == 0,
            "{:?}",
            verdict.load
        );
    }

    #[test]
    fn hosts_on_spines_crowd_no_link() {
        let mut builder = crate::topology::Builder::new();
        let spines = [0, 1, 2].map(|_| builder.plain_switch(16));
        for hosts in [7, 8, 7, 8] {
            let leaf = builder.plain_switch(16);
            for spine in spines {
                for _ in 0..2 {
                    let ports = (builder.free_port(leaf), builder.free_port(spine));
                    builder
                        .cable((leaf, ports.0.expect("free")), (spine, ports.1.expect("free")))
                        .expect("free");
                }
            }
            for _ in 0..hosts {
                let port = builder.free_port(leaf).expect("free");
                builder.plain_host(leaf, port).expect("a free port");
            }
        }
        for spine in spines {
            let port = builder.free_port(spine).expect("free");
            builder.plain_host(spine, port).expect("a free port");
        }
        let fabric = builder.finish().expect("a fabric");
        let (_, verdict) = route(&UpDown, &fabric, &Options::default()).expect("sound");
        assert!(verdict.lanes.len() == 1 && verdict.paths.hops_max == 2, "{:?}", verdict.paths);
        assert!(
            verdict.load.paths_max as f64 <= 1.6 * verdict.load.paths_mean,
            "{:?}",
            verdict.load
        );
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

//! Layered shortest paths between switches (LASH: Skeie, Lysne and Theiss 2002), as subnets want them: both ways
//! between two switches are on the same lane, so that what comes back needs no level of its own, and all hosts of
//! a switch are reached over the same links, so that a level belongs to two switches.
//!
//! `layered` deals out each address by itself, which spreads paths over more links. Here the two ways of
//! a pair go together into the first layer that stays free of cycles. Of shortest paths those over the links
//! with the fewest paths so far are taken.

use ebb_deadlock::Layers;

use super::dfsssp::balanced;
use super::paths::{PortLoad, Target, fill_shortest, ports_to, targets};
use super::{Options, Routing, RoutingError};
use crate::dependency::Channel;
use crate::tables::{ServiceLevels, Tables};
use crate::topology::{SwitchId, Topology};

/// One shortest path for each pair of switches, its way back on the same lane.
#[derive(Clone, Copy, Debug)]
pub struct Lash;

impl Routing for Lash {
    fn name(&self) -> &'static str {
        "lash"
    }

    fn summary(&self) -> &'static str {
        "shortest paths by pairs of switches, both ways on one lane (LASH): any fabric"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let mut first: Vec<Option<Target>> = vec![None; topology.switches().len()];
        let hosts = || targets(topology).filter(|target| target.port != 0);
        for target in hosts() {
            first[target.switch.index()].get_or_insert(target);
        }
        let ends: Vec<Target> = first.iter().flatten().copied().collect();
        let mut tables = balanced(topology, &ends);
        for target in hosts() {
            let like = first[target.switch.index()].expect("its first");
            for at in topology.switch_ids().filter(|at| *at != target.switch) {
                let port = tables.forwarding.get(at, like.lid);
                tables.forwarding.set(at, target.lid, port);
            }
            tables.forwarding.set(target.switch, target.lid, Some(target.port));
        }
        let mut management = PortLoad::new(topology);
        for target in targets(topology).filter(|target| target.port == 0) {
            fill_shortest(topology, &mut tables.forwarding, &mut management, target);
        }
        tables.levels = levels(topology, &tables, &ends, options.lanes)?;
        Ok(tables)
    }
}

/// The level of each pair of switches, for their hosts.
fn levels(
    topology: &Topology,
    tables: &Tables,
    ends: &[Target],
    lanes: u8,
) -> Result<ServiceLevels, RoutingError> {
    let mut layers = Layers::new(usize::from(lanes));
    let mut of_pair = vec![0u8; topology.switches().len().pow(2)];
    let place = |a: SwitchId, b: SwitchId| a.index() * topology.switches().len() + b.index();
    for (number, one) in ends.iter().enumerate() {
        for other in &ends[..number] {
            let way = |from: &Target, to: &Target| {
                let ports = ports_to(topology, &tables.forwarding, from.switch, *to);
                let edge = |pair: &[usize]| (Channel::at(pair[0], 0), Channel::at(pair[1], 0));
                ports.unwrap_or_default().windows(2).map(edge).collect::<Vec<_>>()
            };
            let both = [way(one, other), way(other, one)].concat();
            let none = |_| RoutingError::LanesExhausted { function: "lash", lanes };
            let layer = layers.place(&both).map_err(none)? as u8;
            of_pair[place(one.switch, other.switch)] = layer;
            of_pair[place(other.switch, one.switch)] = layer;
        }
    }
    if layers.count() <= 1 {
        return Ok(ServiceLevels::uniform());
    }
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    for target in targets(topology).filter(|target| target.port != 0) {
        for host in topology.host_ids() {
            let level = of_pair[place(topology.host(host).switch, target.switch)];
            levels.add(host, target.lid, level);
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::{dragonfly::Dragonfly, grid, random};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn both_ways_of_a_pair_are_shortest_and_on_one_lane() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for (topology, diameter, lanes) in [
            (grid::torus(&[6, 6], 2), 6, 4),
            (Dragonfly::balanced(2).build(), 3, 4),
            (random::regular(24, 4, 2, &mut rng), 5, 5),
        ] {
            let topology = topology.expect("a topology");
            let (tables, verdict) = route(&Lash, &topology, &Options::default()).expect("sound");
            assert!(verdict.paths.hops_max <= diameter, "{:?}", verdict.paths);
            assert!(verdict.lanes.len() <= lanes, "{:?}", verdict.lanes);
            for one in topology.host_ids() {
                for other in topology.host_ids() {
                    let level = |from, to| tables.levels.level(from, topology.host(to).lid);
                    assert_eq!(level(one, other), level(other, one));
                }
            }
        }
        let torus = grid::torus(&[6, 6], 1).expect("a torus");
        let single = Options { lanes: 1, ..Options::default() };
        let error = route(&Lash, &torus, &single).expect_err("one lane is too few");
        assert!(matches!(error, RoutingError::LanesExhausted { lanes: 1, .. }));
    }
}

//! Layered shortest paths after LASH (Skeie, Lysne and Theiss 2002): every pair of switches keeps
//! its shortest path and is put into the first layer whose dependencies stay free of cycles. A layer
//! is a lane, the pair's service level names it.

use ebb_deadlock::Layers;

use super::paths::{PortLoad, fill_shortest, ports_to, targets};
use super::{Options, Routing, RoutingError};
use crate::dependency::Channel;
use crate::tables::{ServiceLevels, Tables};
use crate::topology::{SwitchId, Topology};

/// Shortest paths on as many lanes as they need.
#[derive(Clone, Copy, Debug)]
pub struct Layered;

impl Routing for Layered {
    fn name(&self) -> &'static str {
        "layered"
    }

    fn summary(&self) -> &'static str {
        "layered shortest paths (LASH): any fabric, as many lanes as needed"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let mut tables = Tables::empty(topology);
        let mut load = PortLoad::new(topology);
        for target in targets(topology) {
            fill_shortest(topology, &mut tables.forwarding, &mut load, target);
        }
        let mut layers = Layers::new(usize::from(options.lanes));
        let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
        let sources: Vec<SwitchId> =
            topology.switch_ids().filter(|it| topology.hosts_on(*it).next().is_some()).collect();
        for target in targets(topology).filter(|target| target.port != 0) {
            for &source in &sources {
                let ports = ports_to(topology, &tables.forwarding, source, target);
                let Some(ports) = ports else { continue };
                let edge = |pair: &[usize]| (Channel::at(pair[0], 0), Channel::at(pair[1], 0));
                let edges: Vec<_> = ports.windows(2).map(edge).collect();
                let lanes = options.lanes;
                let none = |_| RoutingError::LanesExhausted { function: "layered", lanes };
                let layer = layers.place(&edges).map_err(none)? as u8;
                for host in topology.hosts_on(source) {
                    levels.add(host, target.lid, layer);
                }
            }
        }
        tables.levels = levels;
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::{dragonfly::Dragonfly, grid, random};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn shortest_paths_fit_into_few_lanes() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for (topology, diameter, lanes) in [
            (grid::torus(&[6, 6], 1), 6, 4),
            (Dragonfly::balanced(2).build(), 3, 4),
            (random::regular(24, 4, 2, &mut rng), 5, 5),
        ] {
            let topology = topology.expect("a topology");
            let (_, verdict) = route(&Layered, &topology, &Options::default()).expect("sound");
            assert!(verdict.paths.hops_max <= diameter, "{:?}", verdict.paths);
            assert!(verdict.lanes.len() <= lanes, "{:?}", verdict.lanes);
        }
        let torus = grid::torus(&[6, 6], 1).expect("a torus");
        let single = Options { lanes: 1, ..Options::default() };
        let error = route(&Layered, &torus, &single).expect_err("one lane is too few");
        assert!(matches!(error, RoutingError::LanesExhausted { lanes: 1, .. }));
    }
}

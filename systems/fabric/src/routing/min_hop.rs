//! Shortest paths, ties to the least used port: OpenSM's default, which knows nothing of deadlock.
//! [`super::route`] refuses its tables wherever shortest paths make a cycle, as in most tori.

use super::paths::{PortLoad, fill_shortest, targets};
use super::{Options, Routing, RoutingError};
use crate::tables::Tables;
use crate::topology::Topology;

/// Shortest paths on one lane.
#[derive(Clone, Copy, Debug)]
pub struct MinHop;

impl Routing for MinHop {
    fn name(&self) -> &'static str {
        "min-hop"
    }

    fn summary(&self) -> &'static str {
        "shortest paths on one lane; rejected if they can deadlock"
    }

    fn propose(&self, topology: &Topology, _: &Options) -> Result<Tables, RoutingError> {
        let mut tables = Tables::empty(topology);
        let mut load = PortLoad::new(topology);
        for target in targets(topology) {
            fill_shortest(topology, &mut tables.forwarding, &mut load, target);
        }
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::{grid, tree};

    #[test]
    fn a_tree_is_fine_and_a_torus_is_refused() {
        let tree = tree::k_ary_n_tree(2, 3).expect("a tree");
        assert!(route(&MinHop, &tree, &Options::default()).is_ok());
        let torus = grid::torus(&[6, 6], 1).expect("a torus");
        let refused = route(&MinHop, &torus, &Options::default()).expect_err("a cycle");
        assert!(refused.to_string().contains("cycles"), "{refused}");
    }
}

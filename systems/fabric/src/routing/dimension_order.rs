//! Dimension order (Sullivan and Bashkow 1977; Dally and Seitz 1987): the first dimension is
//! finished before the second begins. In a mesh one lane is enough; the rings of a torus need a
//! second one: a path that crosses the dateline of a dimension (between the last switch and the
//! first) uses lane 1 in that whole dimension, others lane 0. Neither lane's ring then closes: on
//! lane 0 no one uses the link across the dateline, on lane 1 no one goes more than half way round
//! from it. The service level has a bit per dimension, so at most four dimensions wrap.

use super::paths::targets;
use super::{Options, Routing, RoutingError};
use crate::tables::{LANES, LaneMap, ServiceLevels, Tables};
use crate::topology::grid::coordinates;
use crate::topology::layout::Layout;
use crate::topology::{PortNumber, Shape, Topology};

/// Dimension order on one lane (mesh) or two (torus).
#[derive(Clone, Copy, Debug)]
pub struct DimensionOrder;

const NEEDS: RoutingError = RoutingError::WrongShape {
    function: "dimension-order",
    needs: "a generated mesh, or a torus of at most four dimensions",
};

impl Routing for DimensionOrder {
    fn name(&self) -> &'static str {
        "dimension-order"
    }

    fn summary(&self) -> &'static str {
        "dimension order: meshes on one lane, tori on two (datelines)"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let Shape::Grid { dims, wrap } = topology.shape() else { return Err(NEEDS) };
        if *wrap && dims.len() > 4 {
            return Err(NEEDS);
        }
        if *wrap && options.lanes < 2 {
            let lanes = options.lanes;
            return Err(RoutingError::LanesExhausted { function: "dimension-order", lanes });
        }
        let mut tables = Tables::empty(topology);
        for target in targets(topology) {
            let there = coordinates(dims, target.switch);
            for switch in topology.switch_ids() {
                let here = coordinates(dims, switch);
                let way = (0..dims.len()).find(|dim| here[*dim] != there[*dim]);
                let port = match way {
                    None => target.port,
                    Some(dim) => {
                        let up = goes_up(here[dim], there[dim], dims[dim], *wrap);
                        2 * dim as PortNumber + if up { 1 } else { 2 }
                    }
                };
                tables.forwarding.set(switch, target.lid, Some(port));
            }
        }
        if *wrap {
            let layout = Layout::of(topology).ok_or(NEEDS)?;
            tables.levels = datelines(topology, &layout);
            tables.lanes = lanes(topology, dims.len());
        }
        Ok(tables)
    }
}

/// The shorter way round; half way round it alternates with the destination.
pub(super) fn goes_up(here: u32, there: u32, size: u32, wrap: bool) -> bool {
    if !wrap {
        return there > here;
    }
    let up = (there + size - here) % size;
    match (2 * up).cmp(&size) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => there.is_multiple_of(2),
    }
}

/// The level of each pair: a bit for each dimension, whether the shortest path crosses the ends of its ring.
pub(super) fn datelines(topology: &Topology, layout: &Layout) -> ServiceLevels {
    let dims = &layout.dims;
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    for source in topology.host_ids() {
        let here = layout.place(topology.host(source).switch);
        for host in topology.hosts() {
            let there = layout.place(host.switch);
            let crosses = |dim: usize| {
                let (here, there) = (here[dim], there[dim]);
                layout.wrap
                    && here != there
                    && goes_up(here, there, dims[dim], true) == (here > there)
            };
            let level = (0..dims.len()).filter(|dim| crosses(*dim)).map(|dim| 1 << dim).sum();
            host.lids().for_each(|lid| levels.add(source, lid, level));
        }
    }
    levels
}

fn lanes(topology: &Topology, dims: usize) -> LaneMap {
    let mut lanes = LaneMap::new(topology);
    for switch in topology.switch_ids() {
        let ports = topology.switch(switch).ports;
        for output in 0..=ports {
            let dim = usize::from(output.saturating_sub(1)) / 2;
            let link = output > 0 && dim < dims;
            let mut row = [0; LANES];
            for (level, lane) in row.iter_mut().enumerate().filter(|_| link) {
                *lane = (level >> dim & 1) as u8;
            }
            (0..=ports).for_each(|input| lanes.set_row(switch, input, output, row));
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::{grid, tree};

    #[test]
    fn grids_are_routed_on_shortest_paths() {
        for (topology, lanes, diameter) in [
            (grid::mesh(&[4, 5], 1), 1, 7),
            (grid::mesh(&[3, 3, 3], 2), 1, 6),
            (grid::torus(&[8, 8], 1), 2, 8),
            (grid::torus(&[5, 4, 3], 1), 2, 5),
            (grid::torus(&[4, 4, 4, 3], 1), 2, 7),
            (grid::torus(&[2, 3], 1), 2, 2),
        ] {
            let topology = topology.expect("a grid");
            let (_, verdict) =
                route(&DimensionOrder, &topology, &Options::default()).expect("sound");
            assert_eq!((verdict.lanes.len(), verdict.paths.hops_max), (lanes, diameter));
        }
    }

    #[test]
    fn other_shapes_missing_links_and_single_lanes_are_refused() {
        let tree = tree::k_ary_n_tree(2, 2).expect("a tree");
        assert!(route(&DimensionOrder, &tree, &Options::default()).is_err());
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let less = torus.without(&[torus.links().next().expect("a link")]);
        assert!(route(&DimensionOrder, &less, &Options::default()).is_err());
        let single = Options { lanes: 1, ..Options::default() };
        assert!(route(&DimensionOrder, &torus, &single).is_err());
        let torus = grid::torus(&[5, 5], 1).expect("a torus");
        let mut tables = DimensionOrder.propose(&torus, &Options::default()).expect("tables");
        tables.levels = ServiceLevels::uniform();
        assert!(crate::routing::accept(&torus, &tables).is_err(), "one lane closes the rings");
    }
}

//! West-first (Glass and Ni 1992): in a two-dimensional mesh no packet turns to the west, so all
//! westward hops come first. North, south and east are free, and links off among them are avoided;
//! a westward link can be off only where nothing needs it.

use std::collections::VecDeque;

use super::paths::{FAR, PortLoad, Target, targets};
use super::{Options, Routing, RoutingError};
use crate::tables::Tables;
use crate::topology::{PortNumber, Shape, SwitchId, Topology};

/// West-first on one lane.
#[derive(Clone, Copy, Debug)]
pub struct WestFirst;

const WEST: PortNumber = 2;

impl Routing for WestFirst {
    fn name(&self) -> &'static str {
        "west-first"
    }

    fn summary(&self) -> &'static str {
        "west-first turn model: two-dimensional meshes, also with links off"
    }

    fn propose(&self, topology: &Topology, _: &Options) -> Result<Tables, RoutingError> {
        match topology.shape() {
            Shape::Grid { dims, wrap: false } if dims.len() == 2 => {}
            _ => {
                let needs = "a generated mesh of two dimensions";
                return Err(RoutingError::WrongShape { function: "west-first", needs });
            }
        }
        let mut tables = Tables::empty(topology);
        let mut load = PortLoad::new(topology);
        for target in targets(topology) {
            to_target(topology, &mut tables, &mut load, target);
        }
        Ok(tables)
    }
}

/// Entries for one address: by the shortest way without a westward hop where there is one, else
/// west. A packet on a way without westward hops stays on such ways.
fn to_target(topology: &Topology, tables: &mut Tables, load: &mut PortLoad, target: Target) {
    let mut distance = vec![FAR; topology.switches().len()];
    distance[target.switch.index()] = 0;
    let mut queue = VecDeque::from([target.switch]);
    while let Some(switch) = queue.pop_front() {
        for (_, other, there) in topology.neighbours(switch) {
            if there != WEST && distance[other.index()] == FAR {
                distance[other.index()] = distance[switch.index()] + 1;
                queue.push_back(other);
            }
        }
    }
    for switch in topology.switch_ids() {
        let port = match distance[switch.index()] {
            0 => Some(target.port),
            FAR => topology.neighbours(switch).map(|(port, ..)| port).find(|port| *port == WEST),
            own => load.pick(topology, switch, closer(topology, &distance, switch, own)),
        };
        tables.forwarding.set(switch, target.lid, port);
    }
}

fn closer<'a>(
    topology: &'a Topology,
    distance: &'a [u32],
    switch: SwitchId,
    own: u32,
) -> impl Iterator<Item = PortNumber> + 'a {
    let ports = topology
        .neighbours(switch)
        .filter(move |(port, other, _)| *port != WEST && distance[other.index()] == own - 1);
    ports.map(|(port, ..)| port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::grid;

    #[test]
    fn vertical_links_can_be_off_and_horizontal_ones_cannot() {
        let mesh = grid::mesh(&[5, 4], 1).expect("a mesh");
        let (_, verdict) = route(&WestFirst, &mesh, &Options::default()).expect("sound");
        assert_eq!(verdict.paths.hops_max, 7);
        let off = |vertical: bool| {
            let fits = |link: &&crate::topology::Link| (link.a.1 >= 3) == vertical;
            let links: Vec<_> = mesh.links().collect();
            let link = *links.iter().filter(fits).nth(3).expect("a link");
            route(&WestFirst, &mesh.without(&[link]), &Options::default())
        };
        assert!(off(true).is_ok());
        assert!(off(false).is_err());
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        assert!(route(&WestFirst, &torus, &Options::default()).is_err());
    }
}

//! Dimension order on tori and meshes that lack links, with two levels of quality of service (torus-2QoS as
//! OpenSM's manual describes it).
//!
//! Packets go along the first dimension, then the next. Around a ring they take the shorter way, or the other one
//! where links of that are off. Where a ring is cut in two, they step aside in a later dimension first, to a ring
//! that is not. A pair's service level says which datelines its path crosses when all links are on, a bit for
//! each dimension, so that it stays what it is when links go off; bit 3 is the quality of service.
//!
//! Switches of a file have places where the cables say them (`topology::layout`).
//!
//! The lane of a link is its dimension's bit of the level; 2 more where a packet turns back into an earlier
//! dimension, which only those that stepped aside do; 4 more for the second quality of service.

use super::dimension_order::{datelines, goes_up};
use super::paths::{Target, targets};
use super::{Options, Routing, RoutingError};
use crate::tables::{LANES, LaneMap, Tables};
use crate::topology::layout::Layout;
use crate::topology::{Peer, PortNumber, SwitchId, Topology};

/// Dimension order around links that are off.
#[derive(Clone, Copy, Debug)]
pub struct Torus2Qos;

/// Lanes with which both qualities of service have their own.
const BOTH: u8 = 8;

impl Routing for Torus2Qos {
    fn name(&self) -> &'static str {
        "torus-2qos"
    }

    fn summary(&self) -> &'static str {
        "tori and meshes of up to three dimensions, also with links off, two qualities of service"
    }

    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError> {
        let needs = "a torus or mesh of at most three dimensions with the same direction at the same port of every switch";
        let wrong = RoutingError::WrongShape { function: "torus-2qos", needs };
        let Some(layout) = Layout::of(topology) else { return Err(wrong) };
        if layout.dims.len() > 3 {
            return Err(wrong);
        }
        if layout.wrap && options.lanes < 2 {
            let lanes = options.lanes;
            return Err(RoutingError::LanesExhausted { function: "torus-2qos", lanes });
        }
        let mut tables = Tables::empty(topology);
        let grid = Grid { topology, layout: &layout };
        for target in targets(topology) {
            for switch in topology.switch_ids() {
                tables.forwarding.set(switch, target.lid, grid.port(switch, target));
            }
        }
        tables.levels = datelines(topology, &layout);
        if options.lanes >= BOTH {
            for (host, lid) in topology
                .host_ids()
                .flat_map(|host| (1..=topology.top_lid()).map(move |lid| (host, lid)))
            {
                let mask = tables.levels.mask(host, lid);
                tables.levels.set_mask(host, lid, mask | mask << 8);
            }
        }
        tables.lanes = lanes(topology, &layout, options.lanes);
        Ok(tables)
    }
}

struct Grid<'a> {
    topology: &'a Topology,
    layout: &'a Layout,
}

impl Grid<'_> {
    fn port(&self, at: SwitchId, target: Target) -> Option<PortNumber> {
        let (here, there) = (self.layout.place(at), self.layout.place(target.switch));
        let Some(dim) = (0..here.len()).find(|dim| here[*dim] != there[*dim]) else {
            return Some(target.port);
        };
        if let Some(port) = self.along(at, dim, there[dim]) {
            return Some(port);
        }
        // The ring is cut: aside to one from which this dimension's way is whole. All step up where they can, since
        // those who turned back from below and from above could wait for each other.
        let aside = |other: usize| {
            [true, false].map(|up| (self.layout.port(other, up), self.step(at, other, up)))
        };
        let ways = (dim + 1..here.len()).flat_map(aside);
        let whole = |next: SwitchId| self.along(next, dim, there[dim]).is_some();
        ways.into_iter().find(|(_, next)| next.is_some_and(whole)).map(|(port, _)| port)
    }

    /// The port of the way around a ring to a coordinate, the shorter one if it is whole.
    fn along(&self, from: SwitchId, dim: usize, to: u32) -> Option<PortNumber> {
        let place = |at| self.layout.place(at)[dim];
        let up = goes_up(place(from), to, self.layout.dims[dim], self.layout.wrap);
        let is_whole = |up: &bool| {
            let mut at = Some(from);
            while let Some(here) = at.filter(|here| place(*here) != to) {
                at = self.step(here, dim, *up);
            }
            at.is_some()
        };
        [up, !up].into_iter().find(is_whole).map(|up| self.layout.port(dim, up))
    }

    fn step(&self, at: SwitchId, dim: usize, up: bool) -> Option<SwitchId> {
        match self.topology.peer(at, self.layout.port(dim, up)) {
            Peer::Switch(next, _) => Some(next),
            Peer::Host(_) | Peer::Nothing => None,
        }
    }
}

fn lanes(topology: &Topology, layout: &Layout, most: u8) -> LaneMap {
    let mut lanes = LaneMap::new(topology);
    let dim_of = |port: PortNumber| layout.dim_of(port);
    for switch in topology.switch_ids() {
        let ports = topology.switch(switch).ports;
        for (input, output) in (0..=ports).flat_map(|it| (0..=ports).map(move |to| (it, to))) {
            let mut row = [0; LANES];
            for (level, lane) in row.iter_mut().enumerate() {
                let back = dim_of(input) > dim_of(output) && most >= 4;
                *lane =
                    dim_of(output).map_or(0, |dim| (level >> dim & 1) as u8 + 2 * u8::from(back));
                *lane += if most >= BOTH { 4 * (level >> 3) as u8 } else { 0 };
            }
            lanes.set_row(switch, input, output, row);
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route;
    use crate::topology::grid::coordinates;
    use crate::topology::{HostId, Link, grid, tree};
    use proptest::prelude::*;

    #[test]
    fn grids_are_routed_on_shortest_paths_with_two_qualities() {
        for (topology, lanes, diameter) in [
            (grid::mesh(&[4, 5], 1), 2, 7),
            (grid::torus(&[8, 8], 1), 4, 8),
            (grid::torus(&[5, 4, 3], 1), 4, 5),
        ] {
            let topology = topology.expect("a grid");
            let (_, verdict) = route(&Torus2Qos, &topology, &Options::default()).expect("sound");
            assert_eq!((verdict.lanes.len(), verdict.paths.hops_max), (lanes, diameter));
            let few = Options { lanes: 4, ..Options::default() };
            let (_, verdict) = route(&Torus2Qos, &topology, &few).expect("sound");
            assert_eq!(verdict.lanes.len(), lanes / 2);
        }
        let tree = tree::k_ary_n_tree(2, 2).expect("a tree");
        assert!(route(&Torus2Qos, &tree, &Options::default()).is_err());
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let single = Options { lanes: 1, ..Options::default() };
        assert!(route(&Torus2Qos, &torus, &single).is_err());
    }

    #[test]
    fn a_ring_that_is_cut_twice_is_left_and_levels_stay() {
        let torus = grid::torus(&[6, 5], 1).expect("a torus");
        let (whole, _) = route(&Torus2Qos, &torus, &Options::default()).expect("sound");
        let ring = |link: &Link| link.a.0.index() / 6 == 2 && link.b.0.index() / 6 == 2;
        let cut: Vec<Link> = torus.links().filter(ring).step_by(3).collect();
        assert_eq!(cut.len(), 2);
        let less = torus.without(&cut);
        let (tables, verdict) = route(&Torus2Qos, &less, &Options::default()).expect("sound");
        assert_eq!(tables.levels, whole.levels);
        assert!(verdict.lanes.iter().any(|lane| [2, 3].contains(&lane.lane)), "{verdict:?}");
        assert_eq!(tables.levels.mask(HostId(0), torus.hosts()[1].lid), 0x101);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn rings_may_each_lack_a_link(
            dims in prop::collection::vec(3u32..6, 1..4), picks in prop::collection::vec(any::<prop::sample::Index>(), 0..4)
        ) {
            let torus = grid::torus(&dims, 1).expect("a torus");
            let links: Vec<Link> = torus.links().collect();
            // A ring is known by its dimension and the coordinates of the others.
            let ring = |link: &Link| {
                let mut at = coordinates(&dims, link.a.0);
                let dim = usize::from(link.a.1 - 1) / 2;
                at[dim] = 0;
                (dim, at)
            };
            let mut off: Vec<Link> = picks.iter().map(|pick| *pick.get(&links)).collect();
            off.sort_by_key(ring);
            off.dedup_by_key(|link| ring(link));
            let routed = route(&Torus2Qos, &torus.without(&off), &Options::default());
            prop_assert!(routed.is_ok(), "{off:?} {routed:?}");
        }
    }
}

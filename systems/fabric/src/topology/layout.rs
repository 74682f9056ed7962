//! Where the switches of a mesh or torus are, whether it was generated or read from a file.
//!
//! A file tells no coordinates. They follow from the cables where every switch has its cable of each direction
//! at the port of the same number, as one cables a torus: then a port number is a direction, and two steps from
//! anywhere in any order end at the same switch.

use std::collections::VecDeque;

use super::grid::coordinates;
use super::{Peer, PortNumber, Shape, SwitchId, Topology};

/// A mesh or torus with the place of each switch.
pub(crate) struct Layout {
    /// Switches along each dimension.
    pub(crate) dims: Vec<u32>,
    /// Whether the dimensions are rings.
    pub(crate) wrap: bool,
    places: Vec<Vec<u32>>,
    /// Ports up and down of each dimension.
    ports: Vec<[PortNumber; 2]>,
}

impl Layout {
    /// What a generator laid out, or what the cables say; `None` where that is no whole mesh or torus.
    pub(crate) fn of(topology: &Topology) -> Option<Layout> {
        let Shape::Grid { dims, wrap } = topology.shape() else {
            return Layout::by_cables(topology);
        };
        let port = |dim: usize| [2 * dim as PortNumber + 1, 2 * dim as PortNumber + 2];
        Some(Layout {
            dims: dims.clone(),
            wrap: *wrap,
            places: topology.switch_ids().map(|at| coordinates(dims, at)).collect(),
            ports: (0..dims.len()).map(port).collect(),
        })
    }

    /// Coordinates of a switch.
    pub(crate) fn place(&self, at: SwitchId) -> &[u32] {
        &self.places[at.index()]
    }

    /// The port up or down a dimension, the same on every switch.
    pub(crate) fn port(&self, dim: usize, up: bool) -> PortNumber {
        self.ports[dim][usize::from(!up)]
    }

    /// The dimension of a port.
    pub(crate) fn dim_of(&self, port: PortNumber) -> Option<usize> {
        self.ports.iter().position(|pair| pair.contains(&port))
    }

    fn by_cables(topology: &Topology) -> Option<Layout> {
        let ports = directions(topology)?;
        let steps = unrolled(topology, &ports)?;
        let rings = ring_lengths(topology, &ports, &steps);
        let wrap = rings.iter().any(|length| *length > 0);
        if wrap && rings.contains(&0) {
            return None;
        }
        let (mut dims, mut places) = (Vec::new(), vec![Vec::new(); steps.len()]);
        for (dim, ring) in rings.iter().enumerate() {
            let least = steps.iter().map(|at| at[dim]).min()?;
            let most = steps.iter().map(|at| at[dim]).max()?;
            let length = if wrap { *ring } else { most - least + 1 };
            dims.push(length as u32);
            for (place, at) in places.iter_mut().zip(&steps) {
                place.push((at[dim] - least).rem_euclid(length) as u32);
            }
        }
        let mut each = places.clone();
        each.sort_unstable();
        each.dedup();
        let count = dims.iter().try_fold(1usize, |all, dim| all.checked_mul(*dim as usize));
        let whole = each.len() == places.len() && count == Some(places.len());
        whole.then_some(Layout { dims, wrap, places, ports })
    }
}

/// Ports of all switches that are joined with each other, up and down of a dimension.
fn directions(topology: &Topology) -> Option<Vec<[PortNumber; 2]>> {
    let mut pairs: Vec<[PortNumber; 2]> = Vec::new();
    for link in topology.links() {
        let (a, b) = (link.a.1.min(link.b.1), link.a.1.max(link.b.1));
        let known = pairs.iter().find(|pair| pair.contains(&a) || pair.contains(&b));
        match known {
            None if a != b => pairs.push([a, b]),
            Some(pair) if *pair == [a, b] => {}
            _ => return None,
        }
    }
    pairs.sort_unstable();
    (!pairs.is_empty()).then_some(pairs)
}

/// Steps from the first switch to each, along each dimension; `None` where some cannot be reached.
fn unrolled(topology: &Topology, ports: &[[PortNumber; 2]]) -> Option<Vec<Vec<i64>>> {
    let mut steps: Vec<Option<Vec<i64>>> = vec![None; topology.switches().len()];
    *steps.first_mut()? = Some(vec![0; ports.len()]);
    let mut next = VecDeque::from([SwitchId(0)]);
    while let Some(at) = next.pop_front() {
        let here = steps[at.index()].clone()?;
        for (dim, up, to) in around(topology, ports, at) {
            if steps[to.index()].is_none() {
                let mut there = here.clone();
                there[dim] += if up { 1 } else { -1 };
                steps[to.index()] = Some(there);
                next.push_back(to);
            }
        }
    }
    steps.into_iter().collect()
}

/// The length of each dimension's rings, 0 where nothing goes round: what the cables' steps differ by from
/// those to the same switch by another way.
fn ring_lengths(topology: &Topology, ports: &[[PortNumber; 2]], steps: &[Vec<i64>]) -> Vec<i64> {
    let mut lengths = vec![0; ports.len()];
    for at in topology.switch_ids() {
        for (dim, up, to) in around(topology, ports, at) {
            for (other, length) in lengths.iter_mut().enumerate() {
                let step = if other != dim {
                    0
                } else if up {
                    1
                } else {
                    -1
                };
                let apart = steps[at.index()][other] + step - steps[to.index()][other];
                *length = gcd(*length, apart.abs());
            }
        }
    }
    lengths
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Switches beside one: dimension, whether up, and which.
fn around<'a>(
    topology: &'a Topology,
    ports: &'a [[PortNumber; 2]],
    at: SwitchId,
) -> impl Iterator<Item = (usize, bool, SwitchId)> + 'a {
    let all = ports.iter().enumerate();
    let all = all.flat_map(|(dim, pair)| [(dim, true, pair[0]), (dim, false, pair[1])]);
    all.filter_map(move |(dim, up, port)| match topology.peer(at, port) {
        Peer::Switch(to, _) => Some((dim, up, to)),
        Peer::Host(_) | Peer::Nothing => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, dragonfly, grid, tree};
    use proptest::prelude::*;

    #[test]
    fn trees_and_dragonflies_are_no_grids() {
        for topology in [
            tree::k_ary_n_tree(2, 3).expect("a tree"),
            dragonfly::Dragonfly::balanced(2).build().expect("a dragonfly"),
        ] {
            assert!(Layout::by_cables(&topology).is_none());
        }
    }

    proptest! {
        #[test]
        fn cables_tell_what_was_generated(
            dims in prop::collection::vec(2u32..6, 1..4), wrap: bool, picks in prop::collection::vec(any::<prop::sample::Index>(), 0..3)
        ) {
            let topology = if wrap { grid::torus(&dims, 1) } else { grid::mesh(&dims, 1) };
            let whole = topology.expect("a grid");
            let links: Vec<Link> = whole.links().collect();
            let mut off: Vec<Link> = picks.iter().map(|pick| *pick.get(&links)).collect();
            off.sort_unstable();
            off.dedup();
            let topology = whole.without(&off);
            let (known, found) = (Layout::of(&topology).expect("generated"), Layout::by_cables(&topology));
            // Without links the rings of a dimension, or the way to a switch, may be gone.
            prop_assert!(found.is_some() || !off.is_empty());
            let Some(found) = found else { return Ok(()) };
            prop_assert_eq!(&found.dims, &known.dims);
            // A single ring without a link is a row.
            let cut = dims.len() == 1 && !off.is_empty();
            prop_assert!(cut || found.wrap == known.wrap);
            for at in topology.switch_ids() {
                for (dim, size) in dims.iter().enumerate() {
                    let apart = |layout: &Layout, to: SwitchId| {
                        let size = i64::from(*size);
                        (i64::from(layout.place(to)[dim]) - i64::from(layout.place(at)[dim])).rem_euclid(size)
                    };
                    for to in topology.switch_ids() {
                        prop_assert_eq!(apart(&found, to), apart(&known, to));
                    }
                }
            }
        }
    }
}

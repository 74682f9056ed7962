//! Deadlock freedom by the channel dependency graph (Dally and Seitz, 1987): the links are its
//! nodes, and a link depends on the next one when some packet may hold the first while it waits
//! for the second. Without a cycle there is no deadlock.
//!
//! Paths whose union has a cycle are dealt out to layers, one after the other into the first layer
//! that stays acyclic; a layer owns virtual channels that the others do not use (the idea of LASH,
//! Skeie, Lysne and Theiss, 2002, applied to given paths).

use ebb_deadlock::{Layers, OnlineOrder};

use super::grid::{Grid, LOCAL, NOWHERE, opposite};

/// A path that a packet may take: where it starts and the ports it leaves tiles through, without
/// the local port at its end.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// Tile at which the path starts.
    pub source: u32,
    /// Link ports in order.
    pub ports: &'a [u8],
}

/// Layers for `walks`, at most `layers_max`: the layer of each and how many were needed, or a cycle
/// of links that the first path without a place would close.
pub fn layers(
    grid: &Grid,
    walks: &[Walk<'_>],
    layers_max: usize,
) -> Result<(Vec<u8>, usize), Vec<usize>> {
    // One layer for all where that has no cycle, else one after the other.
    let mut union = OnlineOrder::new();
    let add = |walk: &Walk<'_>| union.add_all(&dependencies(grid, walk)).err();
    let Some(closed) = walks.iter().find_map(add) else {
        return Ok((vec![0; walks.len()], 1));
    };
    if layers_max < 2 {
        return Err(closed.cycle);
    }
    let mut layers = Layers::new(layers_max);
    let mut layer_of = Vec::with_capacity(walks.len());
    for walk in walks {
        let layer = layers.place(&dependencies(grid, walk)).map_err(|closed| closed.cycle)?;
        layer_of.push(layer as u8);
    }
    Ok((layer_of, layers.count()))
}

/// A cycle in words: `(0,0)->(0,1) waits for (0,1)->(1,1) waits for ...`.
pub fn describe(grid: &Grid, cycle: &[usize]) -> String {
    let closed = cycle.iter().chain(cycle.first());
    let words: Vec<String> = closed.map(|&link| grid.describe_link(link)).collect();
    words.join(" waits for ")
}

/// A link and the next one, all along a path.
fn dependencies(grid: &Grid, walk: &Walk<'_>) -> Vec<(usize, usize)> {
    let mut tile = walk.source;
    let pair = |pair: &[u8]| {
        let link = grid.link(tile, pair[0]);
        tile = grid.neighbour(tile, pair[0]);
        debug_assert!(tile != NOWHERE && pair[1] != LOCAL);
        (link, grid.link(tile, pair[1]))
    };
    walk.ports.windows(2).map(pair).collect()
}

/// Whether a path turns back on itself somewhere, which no router allows.
pub fn turns_back(ports: &[u8]) -> bool {
    ports.windows(2).any(|pair| pair[1] == opposite(pair[0]))
}

#[cfg(test)]
mod tests {
    use super::super::grid::{EAST, NORTH, SOUTH, WEST};
    use super::*;

    const RING: [(u32, [u8; 2]); 4] =
        [(0, [EAST, SOUTH]), (1, [SOUTH, WEST]), (3, [WEST, NORTH]), (2, [NORTH, EAST])];

    #[test]
    fn four_turns_close_a_cycle_and_two_layers_open_it() {
        let grid = Grid::mesh(2, 2);
        let walks: Vec<Walk<'_>> =
            RING.iter().map(|(source, ports)| Walk { source: *source, ports }).collect();
        let cycle = layers(&grid, &walks, 1).unwrap_err();
        assert_eq!(cycle.len(), 4);
        assert!(describe(&grid, &cycle).starts_with("(0,0)->(0,1) waits for (0,1)->(1,1)"));
        let (layer_of, used) = layers(&grid, &walks, 2).unwrap();
        assert_eq!((layer_of, used), (vec![0, 0, 0, 1], 2));
        assert_eq!(layers(&grid, &walks[..3], 1).unwrap().1, 1);
    }

    #[test]
    fn a_ring_of_links_needs_no_turn() {
        let grid = Grid::torus(1, 4);
        let ports = [EAST, EAST];
        let walks: Vec<Walk<'_>> = (0..4).map(|source| Walk { source, ports: &ports }).collect();
        assert!(layers(&grid, &walks, 1).is_err());
        assert!(layers(&grid, &walks, 2).is_ok());
        assert!(turns_back(&[EAST, WEST]));
    }
}

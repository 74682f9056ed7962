//! Routes that are computed at each router and need no memory.

use super::grid::{EAST, Grid, LOCAL, NORTH, SOUTH, WEST, along_column, along_row};

/// A rule by which routers compute the next port. Only a whole mesh permits [`Order::O1Turn`] and
/// [`Order::Adaptive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Along the row first.
    Xy,
    /// Along the column first.
    Yx,
    /// Either by even chance, packet by packet, each on virtual channels of its own: O1TURN (Seo et
    /// al., "Near-optimal worst-case throughput routing for two-dimensional mesh networks", ISCA 2005).
    O1Turn,
    /// At every router to whichever nearer neighbour has more credits, and where neither has an empty
    /// channel, along XY on a channel kept for that: minimal adaptive routing with an escape (Duato,
    /// "A new theory of deadlock-free adaptive routing in wormhole networks", 1993).
    Adaptive,
    /// Along the row first on a torus, the shorter way round each ring and either of two equal ways by even
    /// chance. On every ring the packets that cross its dateline, between the last tile and the first, have
    /// virtual channels of their own, so that no circle of waiting closes (Dally and Seitz, 1987).
    Dateline,
    /// In a fat tree up by any link, each by even chance, to the nearest router above both elements, then
    /// down by the only way.
    NearestAncestor,
    /// The only way that a network has which lists its links: dimension order in a mesh of several dimensions,
    /// the shortest in a dragonfly.
    Minimal,
    /// By way of any router of a flattened butterfly.
    Valiant,
    /// By way of any router of a mesh that lies between the two.
    Romm,
    /// In a flattened butterfly straight or by way of a router drawn at random, by what waits there.
    Ugal,
    /// In a flattened butterfly along the row or the column first, by what waits there.
    Turn,
}

impl Order {
    /// Layers of virtual channels that it needs. [`Order::Adaptive`] escapes on the first.
    pub fn layers(self) -> usize {
        match self {
            Order::Xy | Order::Yx | Order::NearestAncestor | Order::Minimal => 1,
            Order::O1Turn | Order::Adaptive | Order::Dateline => 2,
            Order::Valiant | Order::Romm | Order::Ugal | Order::Turn => 2,
        }
    }

    /// Whether it needs a mesh: rings would close cycles within a layer.
    pub fn needs_mesh(self) -> bool {
        matches!(self, Order::O1Turn | Order::Adaptive | Order::Romm)
    }

    /// Whether it goes by two halves of a flattened butterfly's way.
    pub fn needs_butterfly(self) -> bool {
        matches!(self, Order::Valiant | Order::Ugal | Order::Turn)
    }
}

/// The port by which a packet leaves the tile `at` (row, column) for the tile `to`.
#[inline]
pub(super) fn dimension_order(row_first: bool, at: (u16, u16), to: (u16, u16)) -> u8 {
    let along_row = if to.1 > at.1 { EAST } else { WEST };
    let along_col = if to.0 > at.0 { SOUTH } else { NORTH };
    match (at.1 != to.1, at.0 != to.0, row_first) {
        (false, false, _) => LOCAL,
        (true, false, _) | (true, true, true) => along_row,
        (false, true, _) | (true, true, false) => along_col,
    }
}

/// The same in a flattened butterfly of `rows` x `cols`, where each dimension takes one hop.
#[inline]
pub(super) fn butterfly_order(
    row_first: bool,
    at: (u16, u16),
    to: (u16, u16),
    (rows, cols): (u16, u16),
) -> u8 {
    let ahead = |from: u16, to: u16, len: u16| usize::from((to + len - from) % len);
    match (at.1 != to.1, at.0 != to.0, row_first) {
        (false, false, _) => LOCAL,
        (true, false, _) | (true, true, true) => along_row(ahead(at.1, to.1, cols)),
        (false, true, _) | (true, true, false) => {
            along_column(usize::from(cols), ahead(at.0, to.0, rows))
        }
    }
}

/// The ports of a dimension-order path, the shorter way round where the grid wraps; along the column
/// first for [`Order::Yx`] only.
pub fn dimension_order_path(grid: &Grid, source: u32, target: u32, order: Order) -> Vec<u8> {
    let ((r0, c0), (r1, c1)) = (grid.place(source), grid.place(target));
    let row = steps(c0, c1, grid.cols(), grid.wraps(), EAST, WEST);
    let col = steps(r0, r1, grid.rows(), grid.wraps(), SOUTH, NORTH);
    match order {
        Order::Yx => [col, row].concat(),
        _ => [row, col].concat(),
    }
}

fn steps(from: usize, to: usize, len: usize, wraps: bool, up: u8, down: u8) -> Vec<u8> {
    let forward = (to + len - from) % len;
    let go_up = if wraps && len > 2 { forward * 2 <= len } else { to >= from };
    let count = match (wraps && len > 2, go_up) {
        (true, true) => forward,
        (true, false) => len - forward,
        (false, _) => to.abs_diff(from),
    };
    vec![if go_up { up } else { down }; count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_way_round_a_torus() {
        let grid = Grid::torus(1, 5);
        assert_eq!(dimension_order_path(&grid, 0, 4, Order::Xy), vec![WEST]);
        assert_eq!(dimension_order_path(&grid, 0, 2, Order::Xy), vec![EAST, EAST]);
        assert_eq!(dimension_order_path(&Grid::mesh(2, 2), 0, 3, Order::Yx), vec![SOUTH, EAST]);
    }
}

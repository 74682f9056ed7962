//! Routes of which routers draw the next hop: round the rings of a torus with datelines, through a fat tree,
//! in two phases, and by a network's own table.

use ebb_des::Rng;
use rand::Rng as _;

use super::grid::{EAST, Grid, NORTH, SOUTH, WEST};
use super::order::Order;
use super::phased::Phased;

/// The layer of all virtual channels, beside two others: on the way to and from an element no circle closes.
pub(super) const ANY: u8 = 2;
/// Mark of a route on its way round a ring, with the port added by which it goes on.
const ROUND: u32 = u32::MAX - 8;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawn {
    /// The way round rings of so many rows and columns.
    Rings(u16, u16),
    /// The way up a tree of this arity and so many levels.
    Tree(u16, u16),
    /// Ports of a table, with a second layer behind a dateline or without.
    Table(bool),
    /// The two phases of a way on a grid of so many rows and columns.
    Phases(Phased, u16, u16),
}

impl Drawn {
    /// What routers of `grid` draw by `order`, if they do.
    pub(super) fn of(grid: &Grid, order: Order) -> Option<Drawn> {
        if let Some(phased) = Phased::of(order) {
            return Some(Drawn::Phases(phased, grid.rows() as u16, grid.cols() as u16));
        }
        if let Some(wires) = grid.wires() {
            return Some(Drawn::Table(wires.has_dateline()));
        }
        if let Some((arity, levels)) = grid.tree_size() {
            return Some(Drawn::Tree(arity as u16, levels as u16));
        }
        (order == Order::Dateline).then(|| Drawn::Rings(grid.rows() as u16, grid.cols() as u16))
    }

    /// The layer in which a packet enters the network.
    pub(super) fn first_layer(self) -> u8 {
        match self {
            Drawn::Rings(..) | Drawn::Table(true) | Drawn::Phases(..) => ANY,
            Drawn::Tree(..) | Drawn::Table(false) => 0,
        }
    }

    /// Whether a packet enters on a channel drawn at random, not on the next free one.
    pub(super) fn enters_anywhere(self) -> bool {
        self == Drawn::Table(true)
    }
}

/// The port by which a packet leaves the tile `at` for another, `to` (both row and column), and its layer:
/// that of the ring on which it goes on. `route` is the packet's mark.
pub(super) fn round(
    (rows, cols): (u16, u16),
    at: (u16, u16),
    to: (u16, u16),
    route: &mut u32,
    layer: &mut u8,
    rng: &mut Rng,
) -> u8 {
    let (from, end, len, up, down) = if at.1 != to.1 {
        (at.1, to.1, cols, EAST, WEST)
    } else {
        (at.0, to.0, rows, SOUTH, NORTH)
    };
    if *route == ROUND + u32::from(up) || *route == ROUND + u32::from(down) {
        return (*route - ROUND) as u8;
    }
    let ahead = (end + len - from) % len;
    let forward = match (2 * ahead).cmp(&len) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Equal => rng.random(),
        std::cmp::Ordering::Greater => false,
    };
    let port = if forward { up } else { down };
    *layer = u8::from(from > end);
    *route = ROUND + u32::from(port);
    port
}

/// The port by which a packet leaves router `at` of level `level`, counted from the roots', for an element
/// that is not there.
pub(super) fn climb(
    (arity, levels): (u16, u16),
    (level, at): (u16, u16),
    element: u32,
    rng: &mut Rng,
) -> u8 {
    let (arity, below) = (u32::from(arity), u32::from(levels - 1 - level));
    // Elements that a router of this level reaches through one port down.
    let branch = arity.pow(below);
    let routers_alike = arity.pow(below);
    let mine = u32::from(at) / routers_alike == element / (branch * arity);
    if mine {
        return (element / branch % arity) as u8;
    }
    (arity + rng.random_range(0..arity)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_deadlock::OnlineOrder;
    use ebb_des::Seed;

    #[test]
    fn datelines_close_no_circle() {
        for len in 3..9u16 {
            let grid = Grid::torus(len.into(), usize::from(len) + 1);
            let size = (len, len + 1);
            let mut order = OnlineOrder::new();
            for seed in 0..4 {
                let mut rng = Seed(seed).stream("routes");
                for source in 0..grid.tiles() as u32 {
                    for target in (0..grid.tiles() as u32).filter(|target| *target != source) {
                        let place = |tile| {
                            let (row, col) = grid.place(tile);
                            (row as u16, col as u16)
                        };
                        let (mut at, mut route, mut layer) = (source, u32::MAX, ANY);
                        let (mut before, mut hops) = (None, 0);
                        while at != target {
                            let port = round(
                                size,
                                place(at),
                                place(target),
                                &mut route,
                                &mut layer,
                                &mut rng,
                            );
                            let channel = grid.link(at, port) * 2 + usize::from(layer);
                            if let Some(before) = before {
                                order.add_all(&[(before, channel)]).expect("no circle");
                            }
                            (before, at, hops) =
                                (Some(channel), grid.neighbour(at, port), hops + 1);
                        }
                        assert!(hops <= len, "{hops} hops on rings of {len}");
                    }
                }
            }
        }
    }

    #[test]
    fn trees_are_climbed_no_further_than_they_must() {
        let grid = Grid::tree(3, 3);
        let mut rng = Seed(1).stream("routes");
        for source in 0..27u32 {
            for target in 0..27u32 {
                let ((mut at, _), (end, port)) = (grid.home(source), grid.home(target));
                let mut hops = 0;
                while at != end {
                    let (level, place) = grid.place(at);
                    let next = climb((3, 3), (level as u16, place as u16), target, &mut rng);
                    (at, hops) = (grid.neighbour(at, next), hops + 1);
                }
                let apart = if source / 3 == target / 3 {
                    0
                } else if source / 9 == target / 9 {
                    2
                } else {
                    4
                };
                assert_eq!((hops, u32::from(port)), (apart, target % 3), "{source} to {target}");
            }
        }
    }
}

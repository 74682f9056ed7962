//! Routes that are chosen where a packet enters: by way of an intermediate router, or along the row or the
//! column first, by what waits at the ports there. Each half has virtual channels of its own.

use ebb_des::Rng;
use rand::Rng as _;

use super::drawn::ANY;
use super::grid::LOCAL;
use super::order::{Order, butterfly_order, dimension_order};

/// What is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phased {
    /// By way of any router (Valiant and Brebner, "Universal schemes for parallel communication", STOC 1981).
    Valiant,
    /// By way of any router between the two (Nesson and Johnsson, "ROMM routing on mesh and torus networks",
    /// SPAA 1995).
    Romm,
    /// Straight, or by way of a router drawn at random, whichever has the smaller product of hops and flits
    /// behind its first port (Singh, "Load-balanced routing in interconnection networks", 2005).
    Ugal,
    /// Along the row or the column first, by the flits behind either port.
    Turn,
}

/// UGAL goes straight unless that is worse by more than so many flits and hops.
const UGAL_BIAS: u64 = 2;

/// Where a packet is, where it goes, and on which kind of grid.
pub(super) struct Way {
    pub(super) at: (u16, u16),
    pub(super) to: (u16, u16),
    /// Rows and columns.
    pub(super) size: (u16, u16),
    /// Whether rows and columns take one hop, as in a flattened butterfly.
    pub(super) butterfly: bool,
}

impl Way {
    fn port(&self, row_first: bool, to: (u16, u16)) -> u8 {
        if self.butterfly {
            butterfly_order(row_first, self.at, to, self.size)
        } else {
            dimension_order(row_first, self.at, to)
        }
    }

    fn hops(from: (u16, u16), to: (u16, u16)) -> u64 {
        u64::from(from.0 != to.0) + u64::from(from.1 != to.1)
    }
}

impl Phased {
    /// What `order` chooses, if it chooses at all.
    pub(super) fn of(order: Order) -> Option<Phased> {
        match order {
            Order::Valiant => Some(Phased::Valiant),
            Order::Romm => Some(Phased::Romm),
            Order::Ugal => Some(Phased::Ugal),
            Order::Turn => Some(Phased::Turn),
            _ => None,
        }
    }

    /// The port by which a packet leaves a router that is not its last. `route` is its mark: the router that it
    /// goes by way of until it is there, or [`STRAIGHT`]; a packet with the layer [`ANY`] has just entered.
    /// `used` tells the flits behind a port.
    pub(super) fn port(
        self,
        way: &Way,
        (route, layer): (&mut u32, &mut u8),
        used: &dyn Fn(u8) -> u32,
        rng: &mut Rng,
    ) -> u8 {
        if *layer == ANY {
            self.enter(way, route, layer, used, rng);
        }
        if self == Phased::Turn {
            return way.port(*layer == 0, way.to);
        }
        let by = ((*route >> 16) as u16, *route as u16);
        if *layer == 0 && by == way.at {
            *layer = 1;
        }
        way.port(true, if *layer == 0 { by } else { way.to })
    }

    fn enter(
        self,
        way: &Way,
        route: &mut u32,
        layer: &mut u8,
        used: &dyn Fn(u8) -> u32,
        rng: &mut Rng,
    ) {
        let (at, to, size) = (way.at, way.to, way.size);
        *layer = 0;
        let by = match self {
            Phased::Turn => {
                let (row, column) = (used(way.port(true, to)), used(way.port(false, to)));
                let column_first = column < row || column == row && rng.random::<bool>();
                *layer = u8::from(column_first);
                return;
            }
            Phased::Valiant => (rng.random_range(0..size.0), rng.random_range(0..size.1)),
            Phased::Romm => {
                let between = |rng: &mut Rng, a: u16, b: u16| rng.random_range(a.min(b)..=a.max(b));
                let col = between(rng, at.1, to.1);
                (between(rng, at.0, to.0), col)
            }
            Phased::Ugal => {
                let draw = |rng: &mut Rng, a: u16, b: u16, len: u16| {
                    if a == b { a } else { rng.random_range(0..len) }
                };
                let col = draw(rng, at.1, to.1, size.1);
                let by = (draw(rng, at.0, to.0, size.0), col);
                let straight = Way::hops(at, to) * u64::from(used(way.port(true, to)));
                let port = way.port(true, by);
                let around = if port == LOCAL {
                    u64::MAX / 2
                } else {
                    (Way::hops(at, by) + Way::hops(by, to)) * u64::from(used(port))
                };
                *layer = u8::from(straight <= around + UGAL_BIAS);
                by
            }
        };
        *route = u32::from(by.0) << 16 | u32::from(by.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_des::Seed;

    fn walk(
        rule: Phased,
        size: (u16, u16),
        butterfly: bool,
        used: &dyn Fn(u8) -> u32,
    ) -> Vec<usize> {
        let mut rng = Seed(1).stream("routes");
        let places = || (0..size.0).flat_map(|row| (0..size.1).map(move |col| (row, col)));
        let grid = if butterfly {
            super::super::Grid::butterfly(size.0.into(), size.1.into())
        } else {
            super::super::Grid::mesh(size.0.into(), size.1.into())
        };
        let mut hops = Vec::new();
        for (from, to) in places().flat_map(|from| places().map(move |to| (from, to))) {
            let (mut at, mut route, mut layer, mut count) = (from, u32::MAX, ANY, 0);
            while at != to {
                let way = Way { at, to, size, butterfly };
                let before = if layer == ANY { 0 } else { layer };
                let port = rule.port(&way, (&mut route, &mut layer), used, &mut rng);
                assert!(layer >= before || rule == Phased::Turn, "layers only go up");
                let tile = u32::from(at.0) * u32::from(size.1) + u32::from(at.1);
                let (row, col) = grid.place(grid.neighbour(tile, port));
                (at, count) = ((row as u16, col as u16), count + 1);
            }
            hops.push(count);
        }
        hops
    }

    #[test]
    fn ways_end_where_they_should_and_are_no_longer_than_they_may() {
        let none = |_| 0;
        let most = |rule, butterfly| walk(rule, (5, 4), butterfly, &none).into_iter().max();
        assert_eq!(most(Phased::Romm, false), Some(7), "as short as the shortest");
        assert_eq!(most(Phased::Valiant, true), Some(4));
        assert_eq!(most(Phased::Turn, true), Some(2));
        assert_eq!(most(Phased::Ugal, true), Some(2), "straight through an empty network");
    }

    #[test]
    fn ugal_goes_around_what_is_full() {
        let full = |port: u8| if port.is_multiple_of(2) { 40 } else { 0 };
        let hops = walk(Phased::Ugal, (1, 8), true, &full);
        assert!(hops.contains(&2), "{hops:?}");
        assert!(hops.iter().all(|hops| *hops <= 2), "{hops:?}");
    }
}

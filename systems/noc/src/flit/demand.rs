//! What the tiles send where and by which paths: rates, destinations and routes, ready to be drawn
//! from cycle after cycle.
//!
//! Dimension-order routes are computed at each router and need no memory; any other set of paths is
//! stored, and a packet carries its place in it. Paths that could deadlock together get layers of
//! virtual channels, or are refused (see [`super::deadlock`]).

use super::channels;
use super::deadlock::{self, Walk};
use super::drawn::{self, Drawn};
use super::grid::{Grid, LOCAL};
use super::order::{Order, butterfly_order, dimension_order, dimension_order_path};
use super::phased::Way;
use super::replies::Replies;
use super::wired::Wires;
use ebb_des::Rng;
use rand::Rng as _;
use std::ops::Range;
use std::sync::Arc;

/// One way of a flow through the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowPath {
    /// The tiles' link ports in order; empty for traffic to the own tile.
    pub ports: Vec<u8>,
    /// Share of the flow that goes this way.
    pub share: f64,
}

/// The traffic of one pair of tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Sending tile.
    pub source: u32,
    /// Receiving tile.
    pub target: u32,
    /// Flits per processing element's cycle, 0 to 1.
    pub rate: f64,
    /// Its paths; empty means by the demand's dimension order.
    pub paths: Vec<FlowPath>,
}

/// Why a demand cannot be simulated.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum DemandError {
    /// The paths can wait for each other in a circle.
    #[error("the routing can deadlock with {layers} layer(s) of virtual channels: {cycle}")]
    Deadlock {
        /// The circle in words.
        cycle: String,
        /// Layers that were to be had.
        layers: usize,
    },
    /// A tile is asked to send more than its link into the network takes.
    #[error("tile {tile} has a rate of {rate} flits per cycle; the most is 1")]
    Overload {
        /// The tile.
        tile: u32,
        /// Its rate.
        rate: f64,
    },
    /// Routes for another kind of network.
    #[error("routes with datelines need a torus, routes to the nearest ancestor a fat tree")]
    Shape,
    /// Routes that only a mesh permits, on a torus.
    #[error("O1TURN and adaptive routing need a mesh: the rings of a torus would close cycles")]
    Torus,
    /// A path takes a missing link, turns back or ends elsewhere.
    #[error("a path from tile {source_tile} to tile {target} {what}")]
    Path {
        /// Its start.
        source_tile: u32,
        /// Its end.
        target: u32,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Marks a route that routers compute, along the row first.
const COMPUTED: u32 = u32::MAX;
/// The same along the column first.
const COMPUTED_YX: u32 = u32::MAX - 1;

/// What a draw yields: where to and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Receiving tile.
    pub target: u32,
    /// Capacities of the route in the store, or the mark of a computed one.
    pub route: u32,
    /// Layer of virtual channels.
    pub layer: u8,
}

/// Rates, destinations and routes of all tiles.
#[derive(Debug, Clone)]
pub struct Demand {
    order: Order,
    place: Vec<(u16, u16)>,
    /// Rows and columns of a flattened butterfly.
    butterfly: Option<(u16, u16)>,
    /// Tile and port of every element, where not all have a tile's number and its local port.
    homes: Vec<(u32, u8)>,
    /// What routers draw at each hop.
    drawn: Option<Drawn>,
    wires: Option<Arc<Wires>>,
    rates: Vec<f64>,
    uniform: Option<bool>,
    start: Vec<u32>,
    cumulative: Vec<f64>,
    choices: Vec<Choice>,
    hops: Vec<u8>,
    layers: usize,
    unproven: bool,
    replies: Option<Replies>,
}

impl Demand {
    /// Every tile sends `rate` flits per cycle to all others alike, or to all tiles including
    /// itself, by `order` on a mesh. Needs memory for neither pairs nor paths.
    pub fn uniform(
        grid: &Grid,
        rate: f64,
        to_self_too: bool,
        order: Order,
    ) -> Result<Demand, DemandError> {
        let mut demand = Demand::empty(grid, order)?;
        demand.uniform = Some(to_self_too);
        demand.rates = vec![rate; grid.elements()];
        demand.checked()
    }

    /// The traffic of `flows`. Those without paths go by `order`, which only a mesh allows; with
    /// paths there may be up to `layers_max` layers of virtual channels. `trust` skips the proof of
    /// deadlock freedom, for watching deadlocks.
    pub fn of_flows(
        grid: &Grid,
        flows: &[Flow],
        order: Order,
        layers_max: usize,
        trust: bool,
    ) -> Result<Demand, DemandError> {
        if grid.wraps() && order.needs_mesh() {
            return Err(DemandError::Torus);
        }
        let mut demand = Demand::empty(grid, order)?;
        let mut sorted: Vec<&Flow> = flows.iter().filter(|flow| flow.rate > 0.0).collect();
        sorted.sort_by_key(|flow| (flow.source, flow.target));
        let rings = grid.wraps() && order != Order::Dateline;
        let stored = rings || sorted.iter().any(|flow| !flow.paths.is_empty());
        assert!(!stored || grid.is_plain(), "stored paths lead between tiles");
        let expanded: Vec<(&Flow, Vec<FlowPath>)> =
            sorted.into_iter().map(|flow| (flow, paths_of(grid, flow, order, stored))).collect();
        for (flow, paths) in &expanded {
            paths.iter().try_for_each(|path| check_path(grid, flow, path))?;
        }
        if stored {
            demand.layers = 1;
        }
        let layer_of = if stored && !trust {
            demand.deal_layers(grid, &expanded, layers_max)?
        } else {
            expanded.iter().map(|(_, paths)| vec![0; paths.len().max(1)]).collect()
        };
        demand.unproven = stored && trust;
        demand.store(&expanded, &layer_of, stored);
        demand.checked()
    }

    fn empty(grid: &Grid, order: Order) -> Result<Demand, DemandError> {
        let fits = match order {
            Order::Dateline => grid.wraps(),
            Order::NearestAncestor => grid.tree_size().is_some(),
            Order::Minimal => grid.is_wired(),
            Order::Romm => grid.is_mesh(),
            _ if order.needs_butterfly() => grid.is_butterfly(),
            _ => grid.tree_size().is_none() && !grid.is_wired(),
        };
        if !fits {
            return Err(DemandError::Shape);
        }
        let drawn = Drawn::of(grid, order);
        let dateline = drawn == Some(Drawn::Table(true));
        let homes = (0..grid.elements() as u32).map(|element| grid.home(element));
        let place = (0..grid.tiles() as u32)
            .map(|tile| {
                let (row, col) = grid.place(tile);
                (row as u16, col as u16)
            })
            .collect();
        Ok(Demand {
            order,
            place,
            homes: if grid.is_plain() { Vec::new() } else { homes.collect() },
            drawn,
            wires: grid.wires().cloned(),
            butterfly: grid.is_butterfly().then(|| (grid.rows() as u16, grid.cols() as u16)),
            rates: vec![0.0; grid.elements()],
            uniform: None,
            start: Vec::new(),
            cumulative: Vec::new(),
            choices: Vec::new(),
            hops: Vec::new(),
            layers: if dateline { 2 } else { order.layers() },
            unproven: false,
            replies: None,
        })
    }

    fn deal_layers(
        &mut self,
        grid: &Grid,
        flows: &[(&Flow, Vec<FlowPath>)],
        layers_max: usize,
    ) -> Result<Vec<Vec<u8>>, DemandError> {
        let ways = flows.iter().map(|(_, paths)| paths.len()).max().unwrap_or(0);
        let mut whose = Vec::new();
        let mut walks = Vec::new();
        for way in 0..ways {
            for (index, (flow, paths)) in flows.iter().enumerate() {
                if let Some(path) = paths.get(way) {
                    whose.push((index, way));
                    walks.push(Walk { source: flow.source, ports: &path.ports });
                }
            }
        }
        let (dealt, used) = deadlock::layers(grid, &walks, layers_max).map_err(|cycle| {
            DemandError::Deadlock { cycle: deadlock::describe(grid, &cycle), layers: layers_max }
        })?;
        self.layers = used;
        let mut layer_of: Vec<Vec<u8>> =
            flows.iter().map(|(_, paths)| vec![0; paths.len()]).collect();
        for ((index, way), layer) in whose.into_iter().zip(dealt) {
            layer_of[index][way] = layer;
        }
        Ok(layer_of)
    }

    fn store(&mut self, flows: &[(&Flow, Vec<FlowPath>)], layer_of: &[Vec<u8>], stored: bool) {
        let mut next = 0;
        for tile in 0..self.rates.len() as u32 {
            self.start.push(self.choices.len() as u32);
            let mut sum = 0.0;
            while next < flows.len() && flows[next].0.source == tile {
                let (flow, paths) = &flows[next];
                let mut push = |rate: f64, route: u32, layer: u8| {
                    sum += rate;
                    self.cumulative.push(sum);
                    self.choices.push(Choice { target: flow.target, route, layer });
                };
                if !stored {
                    push(flow.rate, COMPUTED, 0);
                }
                let whole: f64 = paths.iter().map(|path| path.share).sum();
                for (path, layer) in paths.iter().zip(&layer_of[next]) {
                    push(flow.rate * path.share / whole, self.hops.len() as u32, *layer);
                    self.hops.extend_from_slice(&path.ports);
                    self.hops.push(LOCAL);
                }
                next += 1;
            }
            self.rates[tile as usize] = sum;
        }
        self.start.push(self.choices.len() as u32);
    }

    fn checked(self) -> Result<Demand, DemandError> {
        match self.rates.iter().position(|&rate| rate > 1.0 + 1e-9) {
            Some(tile) => Err(DemandError::Overload { tile: tile as u32, rate: self.rates[tile] }),
            None => Ok(self),
        }
    }

    /// Flits per cycle that a tile offers.
    pub fn rate(&self, tile: u32) -> f64 {
        self.rates[tile as usize]
    }

    /// Number of elements.
    pub fn tiles(&self) -> usize {
        self.rates.len()
    }

    /// Layers of virtual channels that the routes need, in every message class.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Message classes with virtual channels of their own: 1, or 2 where replies have some.
    pub fn classes(&self) -> usize {
        1 + usize::from(self.replies.is_some_and(|replies| replies.classes))
    }

    /// Whether routers choose between the nearer neighbours by their credits.
    pub fn is_adaptive(&self) -> bool {
        self.order == Order::Adaptive && self.layers == 2
    }

    /// The same, whose packets are requests that are answered.
    #[must_use]
    pub fn answered(self, replies: Replies) -> Demand {
        Demand { replies: Some(replies), ..self }
    }

    /// How packets are answered, if they are.
    pub fn replies(&self) -> Option<Replies> {
        self.replies
    }

    /// The virtual channels of each layer of each class, as sets: classes and layers get as equal
    /// parts as can be, the first ones larger; adaptive routes escape on one channel of a class.
    pub(super) fn channels(&self, vcs: usize) -> Vec<u64> {
        let parts = channels::Parts { classes: self.classes(), layers: self.layers };
        channels::masks(vcs, parts, self.is_adaptive(), self.drawn)
    }

    /// Whether nobody has proven that the routes cannot deadlock.
    pub fn unproven(&self) -> bool {
        self.unproven
    }

    /// Draws a destination and a route for a packet of `tile`, whose rate is not 0.
    pub fn draw(&self, tile: u32, rng: &mut Rng) -> Choice {
        if let Some(to_self_too) = self.uniform {
            let tiles = self.tiles() as u32;
            let target = if to_self_too || tiles == 1 {
                rng.random_range(0..tiles)
            } else {
                let other = rng.random_range(0..tiles - 1);
                other + u32::from(other >= tile)
            };
            return self.computed(target, rng);
        }
        let row = self.start[tile as usize] as usize..self.start[tile as usize + 1] as usize;
        let choice = self.pick(row, 0.0, rng);
        if choice.route == COMPUTED { self.computed(choice.target, rng) } else { choice }
    }

    /// A route that routers compute, from anywhere to `target`.
    fn computed(&self, target: u32, rng: &mut Rng) -> Choice {
        let (route, layer) = match self.order {
            Order::Xy => (COMPUTED, 0),
            Order::Yx => (COMPUTED_YX, 0),
            Order::O1Turn if rng.random::<bool>() => (COMPUTED_YX, 1),
            Order::O1Turn => (COMPUTED, 0),
            // On the channels that it may choose among; what escapes goes along XY.
            Order::Adaptive => (COMPUTED, 1),
            _ => (COMPUTED, self.drawn.map_or(0, Drawn::first_layer)),
        };
        Choice { target, route, layer }
    }

    /// The route of a reply to `target`, in the class of replies.
    ///
    /// # Panics
    /// When the demand's routes are not computed: nobody said then how to go back.
    pub(super) fn back(&self, target: u32, rng: &mut Rng) -> Choice {
        assert!(self.hops.is_empty(), "stored routes have no path back");
        let choice = self.computed(target, rng);
        let class = self.layers * (self.classes() - 1);
        Choice { layer: choice.layer + class as u8, ..choice }
    }

    /// Draws a route from `tile` to `target`; `None` when the demand has none between the two.
    pub fn towards(&self, tile: u32, target: u32, rng: &mut Rng) -> Option<Choice> {
        if self.start.is_empty() {
            return Some(self.computed(target, rng));
        }
        let row = self.start[tile as usize] as usize..self.start[tile as usize + 1] as usize;
        let first = row.start + self.choices[row.clone()].partition_point(|c| c.target < target);
        let last = row.start + self.choices[row.clone()].partition_point(|c| c.target <= target);
        let before = if first > row.start { self.cumulative[first - 1] } else { 0.0 };
        if first == last {
            return None;
        }
        let choice = self.pick(first..last, before, rng);
        Some(if choice.route == COMPUTED { self.computed(target, rng) } else { choice })
    }

    fn pick(&self, range: Range<usize>, before: f64, rng: &mut Rng) -> Choice {
        let first = range.start;
        let sums = &self.cumulative[range];
        let point = before + rng.random::<f64>() * (sums[sums.len() - 1] - before);
        let index = sums.partition_point(|&sum| sum <= point).min(sums.len() - 1);
        self.choices[first + index]
    }

    /// The port by which a packet leaves `tile`; `route` moves on to the next tile's.
    #[inline]
    pub fn next_port(&self, tile: u32, target: u32, route: &mut u32) -> u8 {
        if *route < COMPUTED_YX {
            let port = self.hops[*route as usize];
            *route += 1;
            return port;
        }
        self.port_towards(*route == COMPUTED, tile, target)
    }

    /// The other port that leads nearer to `target`, where there are two; else that of
    /// [`Demand::next_port`].
    #[inline]
    pub(super) fn other_port(&self, tile: u32, target: u32) -> u8 {
        self.port_towards(false, tile, target)
    }

    /// The tile and the port of an element.
    #[inline]
    fn home(&self, element: u32) -> (u32, u8) {
        self.homes.get(element as usize).copied().unwrap_or((element, LOCAL))
    }

    /// Whether routers draw the next hop.
    #[inline]
    pub(super) fn is_drawn(&self) -> bool {
        self.drawn.is_some()
    }

    /// Whether a packet enters on a channel drawn at random.
    #[inline]
    pub(super) fn enters_anywhere(&self) -> bool {
        self.drawn.is_some_and(Drawn::enters_anywhere)
    }

    /// The port by which a packet leaves `tile` where routers draw it; `route` and `layer` are the packet's, and
    /// `used` tells the flits behind a port.
    pub(super) fn draw_port(
        &self,
        tile: u32,
        target: u32,
        (route, layer): (&mut u32, &mut u8),
        used: &dyn Fn(u8) -> u32,
        rng: &mut Rng,
    ) -> u8 {
        let drawn = self.drawn.expect("routers draw the next hop");
        let (home, port) = self.home(target);
        let table = drawn == Drawn::Table(true);
        if table && *layer == drawn::ANY {
            *layer = 0;
        }
        if home == tile {
            *layer = if table { *layer } else { drawn.first_layer() };
            return port;
        }
        let (at, to) = (self.place[tile as usize], self.place[home as usize]);
        match drawn {
            Drawn::Rings(rows, cols) => drawn::round((rows, cols), at, to, route, layer, rng),
            Drawn::Tree(arity, levels) => drawn::climb((arity, levels), at, target, rng),
            Drawn::Table(_) => {
                let wires = self.wires.as_ref().expect("a table");
                let port = wires.next(tile, home);
                *layer |= u8::from(wires.is_dateline(port));
                port
            }
            Drawn::Phases(phased, rows, cols) => {
                let butterfly = self.butterfly.is_some();
                let way = Way { at, to, size: (rows, cols), butterfly };
                phased.port(&way, (route, layer), used, rng)
            }
        }
    }

    #[inline]
    fn port_towards(&self, row_first: bool, tile: u32, target: u32) -> u8 {
        let mut target = target;
        if !self.homes.is_empty() {
            let (home, port) = self.homes[target as usize];
            if home == tile {
                return port;
            }
            target = home;
        }
        let (at, to) = (self.place[tile as usize], self.place[target as usize]);
        match self.butterfly {
            None => dimension_order(row_first, at, to),
            Some(size) => butterfly_order(row_first, at, to, size),
        }
    }
}

fn paths_of(grid: &Grid, flow: &Flow, order: Order, stored: bool) -> Vec<FlowPath> {
    if flow.paths.is_empty() && stored {
        let ports = dimension_order_path(grid, flow.source, flow.target, order);
        return vec![FlowPath { ports, share: 1.0 }];
    }
    flow.paths.iter().filter(|path| path.share > 0.0).cloned().collect()
}

fn check_path(grid: &Grid, flow: &Flow, path: &FlowPath) -> Result<(), DemandError> {
    let wrong =
        |what| Err(DemandError::Path { source_tile: flow.source, target: flow.target, what });
    let mut tile = flow.source;
    for &port in &path.ports {
        if !grid.has_link(tile, port) {
            return wrong("uses a link that does not exist");
        }
        tile = grid.neighbour(tile, port);
    }
    match () {
        () if tile != flow.target => wrong("ends elsewhere"),
        () if deadlock::turns_back(&path.ports) => wrong("turns back on itself"),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_des::Seed;

    fn both_orders(grid: &Grid, rate: f64) -> Vec<Flow> {
        let tiles = grid.tiles() as u32;
        let pairs =
            (0..tiles).flat_map(|s| (0..tiles).map(move |t| (s, t))).filter(|(s, t)| s != t);
        pairs
            .map(|(source, target)| {
                let paths = [Order::Xy, Order::Yx].map(|order| FlowPath {
                    ports: dimension_order_path(grid, source, target, order),
                    share: 0.5,
                });
                Flow { source, target, rate, paths: paths.to_vec() }
            })
            .collect()
    }

    #[test]
    fn two_paths_need_two_layers() {
        let grid = Grid::mesh(3, 3);
        let flows = both_orders(&grid, 0.01);
        let refused = Demand::of_flows(&grid, &flows, Order::Xy, 1, false).unwrap_err();
        assert!(refused.to_string().contains("waits for"), "{refused}");
        assert_eq!(Demand::of_flows(&grid, &flows, Order::Xy, 2, false).unwrap().layers(), 2);
        assert_eq!(Demand::of_flows(&grid, &flows, Order::Xy, 1, true).unwrap().layers(), 1);
    }

    #[test]
    fn draws_follow_rates() {
        let grid = Grid::mesh(1, 3);
        let flow = |target, rate| Flow { source: 0, target, rate, paths: Vec::new() };
        let demand =
            Demand::of_flows(&grid, &[flow(1, 0.1), flow(2, 0.3)], Order::Xy, 1, false).unwrap();
        let mut rng = Seed(1).stream("draw");
        let far = (0..10_000).filter(|_| demand.draw(0, &mut rng).target == 2).count();
        assert!((7_200..7_800).contains(&far), "{far}");
        assert!((demand.rate(0) - 0.4).abs() < 1e-12);
        assert_eq!(demand.towards(0, 1, &mut rng).unwrap().target, 1);
        assert_eq!(demand.towards(1, 0, &mut rng), None);
    }

    #[test]
    fn uniform_leaves_out_the_own_tile_unless_told() {
        let grid = Grid::mesh(2, 2);
        let mut rng = Seed(1).stream("draw");
        let others = Demand::uniform(&grid, 0.5, false, Order::Xy).unwrap();
        assert!((0..1000).all(|_| others.draw(2, &mut rng).target != 2));
        let all = Demand::uniform(&grid, 0.5, true, Order::Xy).unwrap();
        assert!((0..1000).any(|_| all.draw(2, &mut rng).target == 2));
        let over = Demand::uniform(&grid, 1.5, true, Order::Xy);
        assert_eq!(over.unwrap_err(), DemandError::Overload { tile: 0, rate: 1.5 });
    }

    #[test]
    fn classes_and_layers_share_the_channels() {
        let grid = Grid::mesh(2, 2);
        let of = |order| Demand::uniform(&grid, 0.1, false, order).unwrap();
        assert_eq!(of(Order::Xy).channels(4), [0b1111]);
        assert_eq!(of(Order::O1Turn).channels(5), [0b00111, 0b11000]);
        assert_eq!(of(Order::Adaptive).channels(4), [0b0001, 0b1110]);
        let replies = Replies { classes: true, ..Replies::default() };
        let both = of(Order::Adaptive).answered(replies);
        assert_eq!(both.channels(6), [0b000001, 0b000110, 0b001000, 0b110000]);
        let together = of(Order::Xy).answered(Replies { classes: false, ..replies });
        assert_eq!(together.channels(3), [0b111]);
        let stored: Vec<_> = channels::parts(0, 8, 3).collect();
        assert_eq!(stored, [(0, 3), (3, 3), (6, 2)]);
    }
}

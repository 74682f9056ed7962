//! Ideal Power Control on several planes with a proven gap (Li 2012, eqs. 7.7-7.12).
//!
//! The unknowns that make it hard are the planes' capacities u (u_0 >= u_1 >= ...); at fixed u it
//! is linear. Two planes are closed by [`super::two`]. For more, boxes of u are halved, those first
//! whose bound is lowest. A box's bound is that of the best [`Cut`] over its corners; a program is
//! solved in the corner that looks lowest, for a flow and another cut, unless the cuts there show
//! that it is no better than what is known.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ebb_lp::Program;
use ebb_scenario::Progress;

use super::BoundError;
use super::cut::Cut;
use super::master::{Master, Plane};
use super::pricing::{Ways, offers};
use super::single::{first_paths, scaled_flows};
use super::two;
use crate::{Flow, Mesh, Path, Routed, Routes, Traffic, VoltageRange};

/// How near flow and bound should come on three planes or more, relative to the power.
const GAP: f64 = 5e-10;
/// Programs solved and boxes looked at before the gap that is left is reported as it is.
const SOLVES_MAX: usize = 300;
const BOXES_MAX: usize = 4_000;

/// The least power on several planes, proven.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanesBound {
    /// Nothing needs less.
    pub lower: f64,
    /// What `routes` need.
    pub upper: f64,
    /// The planes' expansion factors, the master's (smallest) first.
    pub alphas: Vec<f64>,
    /// The load of each link of each plane, in units of its capacity.
    pub loads: Vec<Vec<f64>>,
    /// The flow on each plane.
    pub routes: Vec<Vec<Routed>>,
    /// Linear programs solved.
    pub solves: usize,
}

/// The capacities of the planes of a box.
#[derive(Clone, Debug)]
struct Cell {
    bound: f64,
    low: Vec<f64>,
    high: Vec<f64>,
    /// How many cuts its bound has seen.
    seen: usize,
    /// Those of them that are highest in its middle.
    active: Vec<usize>,
}

/// Cuts that a box hands to its halves.
const ACTIVE: usize = 20;
/// A program is solved for every so many boxes at least, whatever the cuts say.
const BOXES_PER_SOLVE: usize = 6;

/// The best bound over a box from cuts, given the values of each at its corners. Any mean of cuts
/// is a bound too and as concave, hence least at a corner: along a ridge where several are equal it
/// is flat where each alone falls off. The best mean is the solution of a small matrix game.
fn best_mean(values: &[Vec<f64>], known: f64) -> f64 {
    let least = |values: &Vec<f64>| values.iter().copied().fold(f64::INFINITY, f64::min);
    let single = values.iter().map(least).fold(0.0, f64::max);
    if single >= known || values.len() < 2 {
        return single;
    }
    let scale = values.iter().flatten().map(|value| value.abs()).fold(0.0, f64::max);
    if scale <= 0.0 || !scale.is_finite() {
        return single;
    }
    let mut game = Program::linear();
    let worth = game.column(-1.0, f64::NEG_INFINITY, f64::INFINITY, &[]);
    let one = game.row(1.0, 1.0, &[]);
    let corner = |_| game.row(0.0, f64::INFINITY, &[(worth, -1.0)]);
    let corners: Vec<_> = (0..values[0].len()).map(corner).collect();
    let column = |values: &Vec<f64>| {
        let mut entries: Vec<_> =
            corners.iter().copied().zip(values.iter().map(|value| value / scale)).collect();
        entries.push((one, 1.0));
        game.column(0.0, 0.0, 1.0, &entries)
    };
    let columns: Vec<_> = values.iter().map(column).collect();
    let Ok(solution) = game.solve() else { return single };
    let parts: Vec<f64> = columns.iter().map(|&column| solution.value(column).max(0.0)).collect();
    let total: f64 = parts.iter().sum();
    let mean = |corner: usize| {
        parts.iter().zip(values).map(|(part, values)| part * values[corner]).sum::<f64>() / total
    };
    let mixed = (0..values[0].len()).map(mean).fold(f64::INFINITY, f64::min);
    if mixed.is_finite() { single.max(mixed) } else { single }
}

impl Cell {
    fn middle(&self) -> Vec<f64> {
        self.low.iter().zip(&self.high).map(|(low, high)| (low + high) / 2.0).collect()
    }

    /// Looks at the cuts that are new.
    fn see(&mut self, cuts: &[Cut], known: f64) {
        let middle = self.middle();
        let all = self.active.iter().copied().chain(self.seen..cuts.len());
        let mut ranked: Vec<(f64, usize)> = all.map(|cut| (cuts[cut].at(&middle), cut)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.truncate(ACTIVE);
        self.active = ranked.into_iter().map(|(_, cut)| cut).collect();
        let corners = self.corners();
        let at_corners = |cut: &usize| corners.iter().map(|u| cuts[*cut].at(u)).collect();
        let values: Vec<Vec<f64>> = self.active.iter().map(at_corners).collect();
        self.bound = self.bound.max(best_mean(&values, known));
        self.seen = cuts.len();
    }

    /// Leaves of the box what u_0 >= u_1 >= ... permits; `false` where that is nothing.
    fn order(&mut self) -> bool {
        for plane in 1..self.low.len() {
            self.high[plane] = self.high[plane].min(self.high[plane - 1]);
            let below = self.low.len() - plane;
            self.low[below - 1] = self.low[below - 1].max(self.low[below]);
        }
        self.low.iter().zip(&self.high).all(|(low, high)| low <= high)
    }

    fn corners(&self) -> Vec<Vec<f64>> {
        let corner = |which: u32| {
            let sides = self.low.iter().zip(&self.high).enumerate();
            let side = |(plane, (low, high)): (usize, (&f64, &f64))| {
                if which >> plane & 1 == 1 { *high } else { *low }
            };
            sides.map(side).collect()
        };
        (0..1_u32 << self.low.len()).map(corner).collect()
    }

    /// The corner where its cuts permit the least.
    fn lowest_corner(&self, cuts: &[Cut]) -> Vec<f64> {
        let model = |u: &[f64]| self.active.iter().map(|&cut| cuts[cut].at(u)).fold(0.0, f64::max);
        let lowest =
            self.corners().into_iter().map(|u| (model(&u), u)).min_by(|a, b| a.0.total_cmp(&b.0));
        lowest.expect("a box has corners").1
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Cell) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cell {}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Cell) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lowest bound is the greatest, so that a heap gives it first; ties by place.
impl Ord for Cell {
    fn cmp(&self, other: &Cell) -> Ordering {
        let place = |cell: &Cell| cell.low.iter().map(|u| u.to_bits()).collect::<Vec<_>>();
        other.bound.total_cmp(&self.bound).then_with(|| place(self).cmp(&place(other)))
    }
}

pub(super) struct Best {
    pub(super) power: f64,
    pub(super) capacities: Vec<f64>,
    loads: Vec<Vec<f64>>,
    routes: Vec<Vec<Routed>>,
}

/// What is known of a problem.
pub(super) struct Search<'a> {
    pub(super) ways: Ways<'a>,
    pub(super) flows: Vec<Flow>,
    master: Master<'a>,
    pub(super) scale: f64,
    /// The least capacity, at the lowest voltage.
    pub(super) low: f64,
    cuts: Vec<Cut>,
    pub(super) best: Option<Best>,
    pub(super) solves: usize,
}

/// The least power of `traffic` on `planes` planes over all splittable routings and voltages.
/// `starts` are capacities worth trying first: the fullest link of each plane of allocations.
///
/// # Errors
/// When nothing is sent, no path joins two tiles that talk, or no routing fits.
pub fn least_power_planes(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let (flows, scale) = scaled_flows(mesh, traffic)?;
    let keys = first_paths(mesh, &flows);
    closed(Ways::Any(mesh), (keys, scale), range, planes, starts, progress)
}

/// The least power on `planes` planes when every part of a flow keeps its path of `routes`, on whichever
/// planes it is, over all ways to share the parts out and all voltages. No allocation of these routes to
/// planes needs less.
///
/// # Errors
/// When nothing is sent, or the routes do not fit the planes.
pub fn least_power_of_routes(
    mesh: &Mesh,
    routes: &Routes,
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let parts = routes.flows.iter().flat_map(|routed| {
        let flow = routed.flow;
        let some = routed.paths.iter().filter(|way| way.share > 0.0);
        some.map(move |way| (Flow { rate: flow.rate * way.share, ..flow }, way.path.clone()))
    });
    let mut keys: Vec<(Flow, Path)> = parts.collect();
    let total: f64 = keys.iter().map(|(flow, _)| flow.rate).sum();
    if keys.is_empty() {
        return Err(BoundError::Empty);
    }
    let scale = keys.len() as f64 / total;
    keys.iter_mut().for_each(|(flow, _)| flow.rate *= scale);
    let paths: Vec<Path> = keys.iter().map(|(_, path)| path.clone()).collect();
    closed(Ways::Given(mesh, &paths), (keys, scale), range, planes, starts, progress)
}

/// Searches from the paths `keys` of the flows, whose rates are multiplied by `scale`.
fn closed(
    ways: Ways<'_>,
    (keys, scale): (Vec<(Flow, Path)>, f64),
    range: VoltageRange,
    planes: usize,
    starts: &[Vec<f64>],
    progress: &dyn Progress,
) -> Result<PlanesBound, BoundError> {
    let mesh = ways.mesh();
    let flows: Vec<Flow> = keys.iter().map(|(flow, _)| *flow).collect();
    let plane = Plane { hop_cost: 1.0, low: scale, price: 0.0 };
    let master = Master::new(mesh, keys, &vec![plane; planes]);
    let low = scale * range.floor();
    let none = vec![vec![0.0; mesh.links().len()]; planes];
    let cuts = vec![Cut::new(ways, &flows, &none)];
    let (best, solves) = (None, 0);
    let mut search = Search { ways, flows, master, scale, low, cuts, best, solves };
    for start in starts {
        let mut u: Vec<f64> = start.iter().map(|load| (load * scale).max(low)).collect();
        u.sort_by(|a, b| b.total_cmp(a));
        if u.len() == planes {
            search.probe_own(&u)?;
        }
    }
    search.probe_own(&vec![scale; planes])?;
    if search.best.is_none() {
        return Err(BoundError::PlanesCapacity);
    }
    let lower = match planes {
        2 => two::close(&mut search, progress)?,
        _ => search.close(planes, progress)?,
    };
    search.finish(lower)
}

impl Search<'_> {
    /// Halves boxes until flow and bound meet, or the solver gives up; the bound.
    fn close(&mut self, planes: usize, progress: &dyn Progress) -> Result<f64, BoundError> {
        let whole = (vec![self.low; planes], vec![self.scale.max(self.low); planes]);
        let whole = Cell { bound: 0.0, low: whole.0, high: whole.1, seen: 0, active: Vec::new() };
        let mut heap = BinaryHeap::from([whole]);
        let mut boxes = 0;
        while let Some(mut cell) = heap.pop() {
            let known = self.best.as_ref().map_or(f64::INFINITY, |best| best.power);
            if cell.seen < self.cuts.len() {
                cell.see(&self.cuts, known);
                heap.push(cell);
                continue;
            }
            boxes += 1;
            let spent = boxes > BOXES_MAX || self.solves > SOLVES_MAX || progress.stopped();
            if cell.bound >= known * (1.0 - GAP) || spent {
                return Ok(cell.bound.min(known));
            }
            let corner = cell.lowest_corner(&self.cuts);
            let model = self.cuts.iter().map(|cut| cut.at(&corner)).fold(0.0, f64::max);
            if model < known * (1.0 - 0.1 * GAP) {
                if self.probe_own(&corner).is_err() {
                    return Ok(cell.bound.min(known));
                }
                heap.push(cell);
                continue;
            }
            let due = boxes > BOXES_PER_SOLVE * self.solves;
            if due && self.probe_own(&cell.middle()).is_err() {
                return Ok(cell.bound.min(known));
            }
            halve(&cell, &self.cuts, known, &mut heap);
            if boxes % 256 == 0 {
                let note = format!(
                    "bound: gap {:.1e}, {} programs",
                    1.0 - cell.bound / known,
                    self.solves
                );
                progress.at(0.0, &note);
            }
        }
        Ok(self.best.as_ref().map_or(0.0, |best| best.power))
    }

    /// Solves the program at capacities `u` and the costs that go with them: a flow and a cut.
    fn probe_own(&mut self, u: &[f64]) -> Result<(), BoundError> {
        let costs: Vec<f64> = u.iter().map(|at| at * at / (u[0] * u[0])).collect();
        let prices = self.probe(&costs, u)?;
        let relative = |(prices, cost): (&Vec<f64>, &f64)| {
            prices.iter().map(|price| price / cost).collect::<Vec<_>>()
        };
        let prices: Vec<Vec<f64>> = prices.iter().zip(&costs).map(relative).collect();
        self.cuts.push(Cut::new(self.ways, &self.flows, &prices));
        Ok(())
    }

    /// Solves the program at capacities `u` and a hop's `costs` on each plane, and keeps its flow if
    /// it is the best; the links' prices.
    pub(super) fn probe(&mut self, costs: &[f64], u: &[f64]) -> Result<Vec<Vec<f64>>, BoundError> {
        let hops = self.flows.len() as f64 * self.ways.mesh().nodes() as f64;
        for (plane, &cost) in costs.iter().enumerate() {
            let price = 1e2 * hops / u[plane].max(0.01 * self.scale);
            self.master.set_plane(plane, Plane { hop_cost: cost, low: u[plane], price });
        }
        let point = loop {
            let point = self.master.solve()?;
            self.solves += 1;
            let before = self.master.size();
            for (plane, loads) in point.loads.iter().enumerate() {
                for (link, &load) in loads.iter().enumerate() {
                    if load > u[plane] * (1.0 - 1e-12) {
                        self.master.watch(plane, link);
                    }
                }
            }
            let lengths: Vec<Vec<f64>> = point
                .prices
                .iter()
                .zip(costs)
                .map(|(prices, cost)| prices.iter().map(|price| cost + price).collect())
                .collect();
            for offer in offers(self.ways, &self.master, &self.flows, &lengths, &point.loads) {
                self.master.add_way(offer.commodity, offer.plane, offer.path);
            }
            if self.master.size() == before {
                break point;
            }
        };
        let fullest = |loads: &Vec<f64>| loads.iter().copied().fold(self.low, f64::max);
        let capacities: Vec<f64> = point.loads.iter().map(fullest).collect();
        let power: f64 = capacities.iter().zip(&point.hop_rate).map(|(u, hops)| u * u * hops).sum();
        let fits =
            capacities.iter().all(|&u| u <= self.scale * (1.0 + crate::routes::CAPACITY_SLACK));
        if fits && self.best.as_ref().is_none_or(|best| power < best.power) {
            let routes = self.master.routes(&point, 1.0 / self.scale);
            self.best = Some(Best { power, capacities, loads: point.loads, routes });
        }
        Ok(point.prices)
    }

    fn finish(self, lower: f64) -> Result<PlanesBound, BoundError> {
        let scale = self.scale;
        let best = self.best.ok_or(BoundError::PlanesCapacity)?;
        let volume = scale * scale * scale;
        Ok(PlanesBound {
            lower: lower / volume,
            upper: best.power / volume,
            alphas: best.capacities.iter().map(|u| scale / u).collect(),
            loads: best
                .loads
                .iter()
                .map(|loads| loads.iter().map(|load| load / scale).collect())
                .collect(),
            routes: best.routes,
            solves: self.solves,
        })
    }
}

/// The halves of a box across its relatively widest side, those left out that hold no u with
/// u_0 >= u_1 >= ...
fn halve(cell: &Cell, cuts: &[Cut], known: f64, heap: &mut BinaryHeap<Cell>) {
    let middle = cell.middle();
    let width = |plane: usize| (cell.high[plane] - cell.low[plane]) / cell.high[plane];
    let widest = (0..middle.len()).max_by(|&a, &b| width(a).total_cmp(&width(b)).then(b.cmp(&a)));
    let widest = widest.expect("there is a plane");
    for upper in [false, true] {
        let mut half = cell.clone();
        let side = if upper { &mut half.low } else { &mut half.high };
        side[widest] = middle[widest];
        if half.order() {
            half.see(cuts, known);
            heap.push(half);
        }
    }
}

//! Ideal Power Control on several planes with a proven gap (Zhang 2011, eqs. 7.7-7.12).
//!
//! The unknowns that make it hard are the planes' capacities u (u_0 >= u_1 >= ...); at fixed u it
//! is linear. Boxes of u are halved, those first whose bound is lowest. A box's bound is that of
//! the best [`Cut`] over its corners; a program is solved in its middle, for a flow and another
//! cut, where the cuts there are do not already show that the middle is no better than what is
//! known.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ebb_scenario::Progress;

use super::BoundError;
use super::cut::Cut;
use super::master::{Master, Plane};
use super::pricing::offers;
use super::single::{first_paths, scaled_flows};
use crate::{Flow, Mesh, Routed, Traffic, VoltageRange};

/// How near flow and bound must come on two planes, relative to the power.
const GAP: f64 = 5e-10;
/// Programs solved and boxes looked at before the gap that is left is reported as it is.
const SOLVES_MAX: usize = 3_000;
const BOXES_MAX: usize = 400_000;

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

struct Best {
    power: f64,
    capacities: Vec<f64>,
    loads: Vec<Vec<f64>>,
    routes: Vec<Vec<Routed>>,
}

struct Search<'a> {
    mesh: &'a Mesh,
    flows: Vec<Flow>,
    master: Master<'a>,
    scale: f64,
    low: f64,
    cuts: Vec<Cut>,
    best: Option<Best>,
    solves: usize,
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
    let plane = Plane { hop_cost: 1.0, low: scale, price: 0.0 };
    let master = Master::new(mesh, first_paths(mesh, &flows), &vec![plane; planes]);
    let low = scale * range.floor();
    let none = vec![vec![0.0; mesh.links().len()]; planes];
    let cuts = vec![Cut::new(mesh, &flows, &none)];
    let (best, solves) = (None, 0);
    let mut search = Search { mesh, flows, master, scale, low, cuts, best, solves };
    for start in starts {
        let mut u: Vec<f64> = start.iter().map(|load| (load * scale).max(low)).collect();
        u.sort_by(|a, b| b.total_cmp(a));
        if u.len() == planes {
            search.probe(&u)?;
        }
    }
    search.probe(&vec![scale; planes])?;
    let lower = search.close(planes, progress)?;
    search.finish(lower)
}

impl Search<'_> {
    /// Halves boxes until flow and bound meet; the bound.
    fn close(&mut self, planes: usize, progress: &dyn Progress) -> Result<f64, BoundError> {
        let whole = (vec![self.low; planes], vec![self.scale.max(self.low); planes]);
        let mut heap = BinaryHeap::from([Cell { bound: 0.0, low: whole.0, high: whole.1, seen: 0 }]);
        let mut boxes = 0;
        while let Some(mut cell) = heap.pop() {
            if cell.seen < self.cuts.len() {
                let least = |cut: &Cut| cut.least(&cell.low, &cell.high);
                let bound = self.cuts[cell.seen..].iter().map(least).fold(cell.bound, f64::max);
                (cell.bound, cell.seen) = (bound, self.cuts.len());
                heap.push(cell);
                continue;
            }
            boxes += 1;
            let known = self.best.as_ref().map_or(f64::INFINITY, |best| best.power);
            let spent = boxes > BOXES_MAX || self.solves > SOLVES_MAX || progress.stopped();
            if cell.bound >= known * (1.0 - GAP) || spent {
                return Ok(cell.bound.min(known));
            }
            let middle: Vec<f64> =
                cell.low.iter().zip(&cell.high).map(|(low, high)| (low + high) / 2.0).collect();
            let model = self.cuts.iter().map(|cut| cut.at(&middle)).fold(0.0, f64::max);
            if model < known * (1.0 - 0.1 * GAP) {
                self.probe(&middle)?;
            }
            halve(&cell, &middle, &mut heap);
            if boxes % 256 == 0 {
                let note = format!("bound: gap {:.1e}, {} programs", 1.0 - cell.bound / known, self.solves);
                progress.at(0.0, &note);
            }
        }
        Ok(self.best.as_ref().map_or(0.0, |best| best.power))
    }

    /// Solves the program at capacities `u`: a flow and a cut.
    fn probe(&mut self, u: &[f64]) -> Result<(), BoundError> {
        let top = u[0] * u[0];
        let costs: Vec<f64> = u.iter().map(|u| u * u / top).collect();
        let hops = self.flows.len() as f64 * self.mesh.nodes() as f64;
        for (plane, &cost) in costs.iter().enumerate() {
            let price = 1e2 * hops / u[plane];
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
                .zip(&costs)
                .map(|(prices, cost)| prices.iter().map(|price| cost + price).collect())
                .collect();
            for offer in offers(self.mesh, &self.master, &self.flows, &lengths, &point.loads) {
                self.master.add_way(offer.commodity, offer.plane, offer.path);
            }
            if self.master.size() == before {
                break point;
            }
        };
        let relative = |(prices, cost): (&Vec<f64>, &f64)| {
            prices.iter().map(|price| price / cost).collect::<Vec<_>>()
        };
        let prices: Vec<Vec<f64>> = point.prices.iter().zip(&costs).map(relative).collect();
        self.cuts.push(Cut::new(self.mesh, &self.flows, &prices));
        let fullest = |loads: &Vec<f64>| loads.iter().copied().fold(self.low, f64::max);
        let capacities: Vec<f64> = point.loads.iter().map(fullest).collect();
        let power: f64 = capacities.iter().zip(&point.hop_rate).map(|(u, hops)| u * u * hops).sum();
        let fits = capacities.iter().all(|&u| u <= self.scale * (1.0 + crate::routes::CAPACITY_SLACK));
        if fits && self.best.as_ref().is_none_or(|best| power < best.power) {
            let routes = self.master.routes(&point, 1.0 / self.scale);
            self.best = Some(Best { power, capacities, loads: point.loads, routes });
        }
        Ok(())
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
fn halve(cell: &Cell, middle: &[f64], heap: &mut BinaryHeap<Cell>) {
    let width = |plane: usize| (cell.high[plane] - cell.low[plane]) / cell.high[plane];
    let widest = (0..middle.len()).max_by(|&a, &b| width(a).total_cmp(&width(b)).then(b.cmp(&a)));
    let widest = widest.expect("there is a plane");
    for upper in [false, true] {
        let mut half = cell.clone();
        let side = if upper { &mut half.low } else { &mut half.high };
        side[widest] = middle[widest];
        let ordered = (1..middle.len()).all(|plane| half.high[plane - 1] >= half.low[plane]);
        if ordered {
            heap.push(half);
        }
    }
}

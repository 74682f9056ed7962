//! Ideal Power Control on one plane, exactly (Li 2012, eqs. 6.4-6.6).
//!
//! With u = 1/alpha, the power is u^2 g(u), where g(u) is the least sum of rate x hops when no
//! link carries more than u. The walk asks for the lowest place of what is proven so far
//! ([`lowest`]), solves the program there, and either finds a better flow or a line that lifts
//! that place, until flow and bound meet.

use ebb_lp::LpError;
use ebb_scenario::Progress;

use super::envelope::{Line, Lowest, lowest};
use super::master::{Master, Plane, Point};
use super::pricing::{Ways, distance_rate, offers};
use super::shortest::Shortest;
use super::{Bound, BoundError, Certificate};
use crate::routes::CAPACITY_SLACK;
use crate::{Flow, Mesh, Path, Routed, TopologyError, Traffic, VoltageRange};

/// How near flow and bound must come, relative to the power.
pub(super) const GAP: f64 = 1e-10;
/// Programs solved before the gap that is left is reported as it is.
const SOLVES_MAX: usize = 5_000;

/// The best flow so far.
struct Best {
    power: f64,
    capacity: f64,
    loads: Vec<f64>,
    prices: Vec<f64>,
    routes: Vec<Routed>,
}

struct Walk<'a> {
    mesh: &'a Mesh,
    flows: Vec<Flow>,
    master: Master<'a>,
    /// Rates are multiplied by this, so that a mean flow is 1 and tolerances mean what they say.
    scale: f64,
    low: f64,
    high: f64,
    /// The capacity that the first paths need.
    first: f64,
    lines: Vec<Line>,
    /// The capacity below which the prices of each line prove that nothing fits.
    least: Vec<f64>,
    prices: Vec<Vec<f64>>,
    best: Option<Best>,
    /// The bound when the last question was asked.
    asked_at: f64,
    solves: usize,
}

/// The least power of `traffic` on one plane over all splittable routings and voltages.
///
/// # Errors
/// When nothing is sent, no path joins two tiles that talk, or no routing fits the capacity.
pub fn least_power(
    mesh: &Mesh,
    traffic: &Traffic,
    range: VoltageRange,
    progress: &dyn Progress,
) -> Result<Bound, BoundError> {
    let mut walk = Walk::new(mesh, traffic, range, progress)?;
    walk.run(progress)?;
    walk.finish()
}

/// The flows times `scale`, by source, and that scale.
pub(super) fn scaled_flows(mesh: &Mesh, traffic: &Traffic) -> Result<(Vec<Flow>, f64), BoundError> {
    let mut flows: Vec<Flow> = traffic.flows().collect();
    let total: f64 = flows.iter().map(|flow| flow.rate).sum();
    if flows.is_empty() {
        return Err(BoundError::Empty);
    }
    for same in flows.chunk_by(|a, b| a.source == b.source) {
        let distance = mesh.distances(same[0].source);
        if let Some(flow) = same.iter().find(|flow| distance[flow.destination].is_none()) {
            let (from, to) = (flow.source, flow.destination);
            return Err(TopologyError::Disconnected { from, to }.into());
        }
    }
    let scale = flows.len() as f64 / total;
    flows.iter_mut().for_each(|flow| flow.rate *= scale);
    Ok((flows, scale))
}

/// A shortest path for each flow, to begin with: XY, or one source after another over the links
/// that those before it loaded least, whichever fills its fullest link less.
pub(super) fn first_paths(mesh: &Mesh, flows: &[Flow]) -> Vec<(Flow, Path)> {
    let spread = spread_paths(mesh, flows);
    match xy_paths(mesh, flows) {
        Some(xy) if fullest(mesh, &xy) < fullest(mesh, &spread) => xy,
        _ => spread,
    }
}

/// The load of the fullest link.
fn fullest(mesh: &Mesh, keys: &[(Flow, Path)]) -> f64 {
    let mut loads = vec![0.0; mesh.links().len()];
    for (flow, path) in keys {
        path.iter().for_each(|&link| loads[link] += flow.rate);
    }
    loads.into_iter().fold(0.0, f64::max)
}

fn xy_paths(mesh: &Mesh, flows: &[Flow]) -> Option<Vec<(Flow, Path)>> {
    let walk = |flow: &Flow| {
        let mut path = Path::new();
        let mut at = flow.source;
        for (direction, steps) in mesh.towards(at, flow.destination).into_iter().flatten() {
            for _ in 0..steps {
                let link = mesh.link(at, direction)?;
                path.push(link);
                at = mesh.links()[link].to;
            }
        }
        Some((*flow, path))
    };
    flows.iter().map(walk).collect()
}

fn spread_paths(mesh: &Mesh, flows: &[Flow]) -> Vec<(Flow, Path)> {
    let mut loads = vec![0.0; mesh.links().len()];
    let mut shortest = Shortest::new(mesh);
    let mut keys = Vec::with_capacity(flows.len());
    for same in flows.chunk_by(|a, b| a.source == b.source) {
        let fullest = loads.iter().copied().fold(1e-300, f64::max);
        let longest = 1e-3 / mesh.nodes() as f64;
        let lengths: Vec<f64> = loads.iter().map(|load| 1.0 + longest * load / fullest).collect();
        shortest.run(mesh, same[0].source, &lengths);
        for flow in same {
            let path = shortest.path(mesh, flow.destination);
            path.iter().for_each(|&link| loads[link] += flow.rate);
            keys.push((*flow, path));
        }
    }
    keys
}

impl<'a> Walk<'a> {
    fn new(
        mesh: &'a Mesh,
        traffic: &Traffic,
        range: VoltageRange,
        progress: &'a dyn Progress,
    ) -> Result<Walk<'a>, BoundError> {
        let (flows, scale) = scaled_flows(mesh, traffic)?;
        let keys = first_paths(mesh, &flows);
        let (low, high) = (scale * range.floor(), scale);
        let first = fullest(mesh, &keys).max(low);
        let plane = Plane { hop_cost: 1.0, low, price: 0.0 };
        let master = Master::new(mesh, keys, &[plane], progress);
        let (lines, least, prices) = (Vec::new(), Vec::new(), Vec::new());
        let (best, asked_at, solves) = (None, 0.0, 0);
        let mut walk = Walk {
            mesh,
            flows,
            master,
            scale,
            low,
            high,
            first,
            lines,
            least,
            prices,
            best,
            asked_at,
            solves,
        };
        walk.learn(&vec![0.0; mesh.links().len()]);
        Ok(walk)
    }

    fn run(&mut self, progress: &dyn Progress) -> Result<(), BoundError> {
        let (mut low, mut price) = (self.low, 2.0 * self.lines[0].at_zero / self.first);
        while self.solves < SOLVES_MAX && !progress.stopped() {
            self.master.set_plane(0, Plane { hop_cost: 1.0, low, price });
            let point = match self.master.solve() {
                Err(LpError::Interrupted) => break,
                other => other?,
            };
            self.solves += 1;
            let capacity = point.loads[0].iter().copied().fold(self.low, f64::max);
            self.consider(&point, capacity);
            self.learn(&point.prices[0]);
            let floor = self.least.iter().copied().fold(self.low, f64::max);
            if self.best.is_none() && floor > self.high * (1.0 + CAPACITY_SLACK) {
                return Err(BoundError::Capacity { load: floor / self.scale });
            }
            let lowest = lowest(&self.lines, floor, self.high.max(floor));
            if self.done(&lowest) {
                return Ok(());
            }
            if !self.extend(&point, capacity) {
                (low, price) = self.next_question(&lowest, &point, capacity, price);
            }
            let gap = self.best.as_ref().map_or(1.0, |best| 1.0 - lowest.power / best.power);
            progress.at(0.0, &format!("bound: gap {gap:.1e} after {} programs", self.solves));
        }
        Ok(())
    }

    fn done(&self, lowest: &Lowest) -> bool {
        self.best.as_ref().is_some_and(|best| best.power <= lowest.power * (1.0 + GAP))
    }

    fn consider(&mut self, point: &Point, capacity: f64) {
        let power = capacity * capacity * point.hop_rate[0];
        let fits = capacity <= self.high * (1.0 + CAPACITY_SLACK);
        if fits && self.best.as_ref().is_none_or(|best| power < best.power) {
            self.best = Some(Best {
                power,
                capacity,
                loads: point.loads[0].clone(),
                prices: point.prices[0].clone(),
                routes: self.master.routes(point, 1.0 / self.scale).swap_remove(0),
            });
        }
    }

    /// The line of these prices.
    fn learn(&mut self, prices: &[f64]) {
        let lengths: Vec<f64> = prices.iter().map(|price| 1.0 + price).collect();
        let at_zero = distance_rate(Ways::Any(self.mesh), &self.flows, &[lengths]);
        self.lines.push(Line { at_zero, slope: prices.iter().sum() });
        self.least.push(least_capacity(self.mesh, &self.flows, prices));
        self.prices.push(prices.to_vec());
    }

    /// Adds overfull links and cheaper paths; `false` where there are none.
    fn extend(&mut self, point: &Point, capacity: f64) -> bool {
        let (columns, rows) = self.master.size();
        let near = capacity * (1.0 - NEAR);
        for (link, &load) in point.loads[0].iter().enumerate() {
            if load > near {
                self.master.watch(0, link);
            }
        }
        let lengths = vec![point.prices[0].iter().map(|price| 1.0 + price).collect()];
        let ways = Ways::Any(self.mesh);
        let mut offers = offers(ways, &self.master, &self.flows, &lengths, &point.loads);
        offers.truncate((self.master.commodities() / 8).max(200));
        for offer in offers {
            self.master.add_way(offer.commodity, offer.plane, offer.path);
        }
        self.master.size() != (columns, rows)
    }

    /// What to ask once the program has its best answer: the slope at which its vertex would be
    /// the best (d ln g = -2 d ln u), then the lowest place that the lines leave, with a price of
    /// more capacity that rises as long as the bound does not.
    fn next_question(&mut self, lowest: &Lowest, point: &Point, u: f64, price: f64) -> (f64, f64) {
        let Some(best) = &self.best else { return (self.low, 10.0 * price) };
        let slope = 2.0 * point.hop_rate[0] / u;
        let stuck = lowest.power <= self.asked_at * (1.0 + 1e-13);
        self.asked_at = lowest.power;
        if !stuck && (slope / price - 1.0).abs() > 1e-6 {
            return (self.low, slope);
        }
        let steep = (best.power / lowest.u.powi(2) - point.hop_rate[0]) / (u - lowest.u);
        let steep = if steep.is_finite() { steep.abs() } else { 0.0 };
        (lowest.u, 4.0 * slope.max(steep).max(if stuck { price } else { 0.0 }))
    }

    fn finish(self) -> Result<Bound, BoundError> {
        let Walk { lines, least, prices, best, scale, low, high, solves, .. } = self;
        let best = best.ok_or(BoundError::Stopped)?;
        let proofs: Vec<(Line, f64)> = lines.into_iter().zip(least).collect();
        let proven = proven(&proofs, low, high);
        let volume = scale * scale * scale;
        let u = best.capacity / scale;
        let prices = needed(&proofs, prices, low, high, proven);
        let certificate = Certificate { prices, range_floor: low / scale };
        Ok(Bound {
            lower: proven.min(best.power) / volume,
            upper: best.power / volume,
            alpha: scale / best.capacity,
            loads: best.loads.iter().map(|load| load / scale).collect(),
            shadow_prices: best.prices.iter().map(|price| price * u * u).collect(),
            routes: best.routes,
            certificate,
            solves,
        })
    }
}

/// Links that carry at least this much less than the fullest are not watched.
const NEAR: f64 = 1e-12;

/// The capacity below which prices prove that nothing fits: the traffic's length under the prices
/// over what a unit of capacity is worth.
pub(super) fn least_capacity(mesh: &Mesh, flows: &[Flow], prices: &[f64]) -> f64 {
    let worth: f64 = prices.iter().sum();
    if worth > 0.0 {
        distance_rate(Ways::Any(mesh), flows, &[prices.to_vec()]) / worth
    } else {
        0.0
    }
}

/// The bound of lines and least capacities together.
pub(super) fn proven(proofs: &[(Line, f64)], low: f64, high: f64) -> f64 {
    let floor = proofs.iter().map(|(_, least)| *least).fold(low, f64::max);
    let lines: Vec<Line> = proofs.iter().map(|(line, _)| *line).collect();
    lowest(&lines, floor, high.max(floor)).power
}

/// The prices that the bound `power` rests on: one after another is left out while the rest prove
/// as much.
fn needed(
    proofs: &[(Line, f64)],
    prices: Vec<Vec<f64>>,
    low: f64,
    high: f64,
    power: f64,
) -> Vec<Vec<f64>> {
    let mut keep: Vec<usize> = (0..proofs.len()).collect();
    let mut at = 0;
    while at < keep.len() && keep.len() > 1 {
        let out = keep.remove(at);
        let rest: Vec<(Line, f64)> = keep.iter().map(|&proof| proofs[proof]).collect();
        if proven(&rest, low, high) < power * (1.0 - 1e-13) {
            keep.insert(at, out);
            at += 1;
        }
    }
    keep.into_iter().map(|proof| prices[proof].clone()).collect()
}

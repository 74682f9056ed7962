//! Programs at given capacities and costs of the planes, and the best flow that they found.

use super::BoundError;
use super::master::{Master, Plane};
use super::pricing::{Ways, offers};
use crate::{Flow, Routed};

/// The best flow known.
pub(super) struct Best {
    pub(super) power: f64,
    pub(super) capacities: Vec<f64>,
    pub(super) loads: Vec<Vec<f64>>,
    pub(super) routes: Vec<Vec<Routed>>,
}

/// What is known of a problem.
pub(super) struct Search<'a> {
    pub(super) ways: Ways<'a>,
    pub(super) flows: Vec<Flow>,
    pub(super) master: Master<'a>,
    pub(super) scale: f64,
    /// The least capacity, at the lowest voltage.
    pub(super) low: f64,
    pub(super) best: Option<Best>,
    pub(super) solves: usize,
}

impl Search<'_> {
    /// Solves the program at capacities `u` and the costs that go with them.
    pub(super) fn probe_own(&mut self, u: &[f64]) -> Result<(), BoundError> {
        let costs: Vec<f64> = u.iter().map(|at| at * at / (u[0] * u[0])).collect();
        self.probe(&costs, u).map(|_| ())
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
}

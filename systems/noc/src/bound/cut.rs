//! What link prices prove about several planes.
//!
//! With plane k at voltage cost c_k = u_k^2 and capacity u_k, prices v_k >= 0 per link, relative to
//! c_k, prove that the power is at least
//!
//! B(c) = sum over flows of rate x min over k of c_k dist(1 + v_k)  -  sum over k of c_k^1.5 V_k,
//!
//! V_k being the sum of the prices v_k. The first sum is a minimum of linear functions of c, and
//! -c^1.5 is concave, so B is concave in c: over a box it is least at a corner.

use super::pricing::Ways;
use crate::Flow;

/// A proven lower bound as a function of the planes' voltages.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Sum of the prices of each plane.
    worth: Vec<f64>,
    /// Rate x distance of each flow on each plane, plane after plane for each flow.
    weighted: Vec<f64>,
}

impl Cut {
    /// What prices `prices` (relative to the cost of a hop of their plane) prove.
    pub(super) fn new(ways: Ways<'_>, flows: &[Flow], prices: &[Vec<f64>]) -> Cut {
        let lengths: Vec<Vec<f64>> = prices
            .iter()
            .map(|plane| plane.iter().map(|price| 1.0 + price.max(0.0)).collect())
            .collect();
        let mut weighted = Vec::with_capacity(flows.len() * prices.len());
        ways.for_each(flows, &lengths, |flow, distances, _| {
            weighted.extend(distances.iter().map(|distance| flow.rate * distance));
        });
        let worth =
            prices.iter().map(|plane| plane.iter().map(|price| price.max(0.0)).sum()).collect();
        Cut { worth, weighted }
    }

    /// B at capacities `u`.
    pub(super) fn at(&self, u: &[f64]) -> f64 {
        let worth: f64 = self.worth.iter().zip(u).map(|(worth, u)| worth * u * u * u).sum();
        let cheapest = |flow: &[f64]| {
            let cost = flow.iter().zip(u).map(|(distance, u)| u * u * distance);
            cost.fold(f64::INFINITY, f64::min)
        };
        let flows: f64 = self.weighted.chunks_exact(u.len()).map(cheapest).sum();
        flows - worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mesh, Pattern, Traffic};
    use proptest::prelude::*;

    fn flows(mesh: &Mesh) -> Vec<Flow> {
        let traffic: Traffic = Pattern::Hotspot.traffic(mesh, &mut ebb_des::Seed(1).stream("t"));
        traffic.flows().collect()
    }

    proptest! {
        /// No place of a box lies below its corners.
        #[test]
        fn a_cut_is_least_at_a_corner(
            prices in proptest::collection::vec(0.0..2.0f64, 48),
            box_ in proptest::collection::vec(0.1..1.0f64, 4),
            inside in proptest::collection::vec(0.0..1.0f64, 2),
        ) {
            let mesh = Mesh::new(3, 3).expect("mesh");
            let flows = flows(&mesh);
            let planes = [prices[..24].to_vec(), prices[24..].to_vec()];
            let cut = Cut::new(Ways::Any(&mesh), &flows, &planes);
            let low = [box_[0].min(box_[1]), box_[2].min(box_[3])];
            let high = [box_[0].max(box_[1]), box_[2].max(box_[3])];
            let u: Vec<f64> = (0..2).map(|k| low[k] + inside[k] * (high[k] - low[k])).collect();
            let corners = [[low[0], low[1]], [low[0], high[1]], [high[0], low[1]], [high[0], high[1]]];
            let least = corners.iter().map(|u| cut.at(u)).fold(f64::INFINITY, f64::min);
            prop_assert!(cut.at(&u) >= least - 1e-12);
        }
    }
}

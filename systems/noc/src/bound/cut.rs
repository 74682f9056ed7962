//! What link prices prove about several planes.
//!
//! With plane k at voltage cost c_k = u_k^2 and capacity u_k, prices v_k >= 0 per link, relative to
//! c_k, prove that the power is at least
//!
//! B(c) = sum over flows of rate x min over k of c_k dist(1 + v_k)  -  sum over k of c_k^1.5 V_k,
//!
//! V_k being the sum of the prices v_k. The first sum is a minimum of linear functions of c, and
//! -c^1.5 is concave, so B is concave in c: over a box it is least at a corner.

use super::pricing::for_each_source;
use crate::{Flow, Mesh};

/// A proven lower bound as a function of the planes' voltages.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Sum of the prices of each plane.
    worth: Vec<f64>,
    flows: Flows,
}

#[derive(Clone, Debug)]
enum Flows {
    /// For two planes: flows by rising ratio of their distances on plane 0 and 1, with the sums of
    /// rate x distance on plane 0 up to each and on plane 1 from each.
    Two { ratio: Vec<f64>, before: Vec<f64>, after: Vec<f64> },
    /// Rate x distance of each flow on each plane, plane after plane for each flow.
    Any(Vec<f64>),
}

impl Cut {
    /// What prices `prices` (relative to the cost of a hop of their plane) prove.
    pub(super) fn new(mesh: &Mesh, flows: &[Flow], prices: &[Vec<f64>]) -> Cut {
        let lengths: Vec<Vec<f64>> = prices
            .iter()
            .map(|plane| plane.iter().map(|price| 1.0 + price.max(0.0)).collect())
            .collect();
        let mut weighted = Vec::with_capacity(flows.len() * prices.len());
        for_each_source(mesh, flows, &lengths, |flow, shortest| {
            weighted
                .extend(shortest.iter().map(|plane| flow.rate * plane.distance(flow.destination)));
        });
        let worth =
            prices.iter().map(|plane| plane.iter().map(|price| price.max(0.0)).sum()).collect();
        let flows = if prices.len() == 2 { two(&weighted) } else { Flows::Any(weighted) };
        Cut { worth, flows }
    }

    /// B at capacities `u`.
    pub(super) fn at(&self, u: &[f64]) -> f64 {
        let worth: f64 = self.worth.iter().zip(u).map(|(worth, u)| worth * u * u * u).sum();
        let flows = match &self.flows {
            Flows::Two { ratio, before, after } => {
                let (c0, c1) = (u[0] * u[0], u[1] * u[1]);
                let split = ratio.partition_point(|&ratio| ratio <= c1 / c0);
                c0 * before[split] + c1 * after[split]
            }
            Flows::Any(weighted) => weighted
                .chunks_exact(u.len())
                .map(|flow| {
                    let cost = flow.iter().zip(u).map(|(distance, u)| u * u * distance);
                    cost.fold(f64::INFINITY, f64::min)
                })
                .sum(),
        };
        flows - worth
    }
}

fn two(weighted: &[f64]) -> Flows {
    let mut pairs: Vec<(f64, f64)> =
        weighted.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let mut before = vec![0.0; pairs.len() + 1];
    let mut after = vec![0.0; pairs.len() + 1];
    for at in 0..pairs.len() {
        before[at + 1] = before[at] + pairs[at].0;
    }
    for at in (0..pairs.len()).rev() {
        after[at] = after[at + 1] + pairs[at].1;
    }
    Flows::Two { ratio: pairs.iter().map(|pair| pair.0 / pair.1).collect(), before, after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pattern, Traffic};
    use proptest::prelude::*;

    fn flows(mesh: &Mesh) -> Vec<Flow> {
        let traffic: Traffic = Pattern::Hotspot.traffic(mesh, &mut ebb_des::Seed(1).stream("t"));
        traffic.flows().collect()
    }

    proptest! {
        /// The quick form for two planes is the plain form, and no place of a box lies below its
        /// corners.
        #[test]
        fn a_cut_is_least_at_a_corner(
            prices in proptest::collection::vec(0.0..2.0f64, 48),
            box_ in proptest::collection::vec(0.1..1.0f64, 4),
            inside in proptest::collection::vec(0.0..1.0f64, 2),
        ) {
            let mesh = Mesh::new(3, 3).expect("mesh");
            let flows = flows(&mesh);
            let planes = [prices[..24].to_vec(), prices[24..].to_vec()];
            let cut = Cut::new(&mesh, &flows, &planes);
            let low = [box_[0].min(box_[1]), box_[2].min(box_[3])];
            let high = [box_[0].max(box_[1]), box_[2].max(box_[3])];
            let u: Vec<f64> = (0..2).map(|k| low[k] + inside[k] * (high[k] - low[k])).collect();
            let corners = [[low[0], low[1]], [low[0], high[1]], [high[0], low[1]], [high[0], high[1]]];
            let least = corners.iter().map(|u| cut.at(u)).fold(f64::INFINITY, f64::min);
            prop_assert!(cut.at(&u) >= least - 1e-12);
            let mut plain = -(0..2).map(|k| u[k].powi(3) * planes[k].iter().sum::<f64>()).sum::<f64>();
            let lengths: Vec<Vec<f64>> =
                planes.iter().map(|plane| plane.iter().map(|price| 1.0 + price).collect()).collect();
            for_each_source(&mesh, &flows, &lengths, |flow, shortest| {
                let cost = |k: usize| u[k] * u[k] * shortest[k].distance(flow.destination);
                plain += flow.rate * cost(0).min(cost(1));
            });
            prop_assert!((plain - cut.at(&u)).abs() < 1e-9);
        }
    }
}

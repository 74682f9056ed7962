//! What measurements of a cluster's parts say about costs.

use ebb_scenario::Invalid;
use serde::Deserialize;

use super::problem::Costs;
use crate::error::ClusterError;

/// What `ebb cluster bench --json` measured, as far as it calibrates the planner. What a machine could not
/// measure is absent and leaves the problem's own value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// As in [`Costs`].
    pub balancer_ns: Option<f64>,
    /// As in [`Costs`].
    pub back_end_ns: Option<f64>,
    /// As in [`Costs`].
    pub mover_ns: Option<f64>,
    /// As in [`Costs`].
    pub contention: Option<f64>,
    /// As in [`Costs`].
    pub migration: Option<f64>,
}

#[derive(Deserialize)]
struct Bench {
    costs: Calibration,
}

impl Calibration {
    /// Out of the bench's JSON.
    ///
    /// # Errors
    /// When it is not that, with the file and the place.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Calibration, ClusterError> {
        let bench: Bench = serde_json::from_slice(bytes).map_err(|error| {
            let remedy = format!("{file}: {error}; write it with `ebb cluster bench --json`");
            Invalid::new("bench", "is not the output of the bench", remedy)
        })?;
        let costs = bench.costs;
        let all = [costs.balancer_ns, costs.back_end_ns, costs.mover_ns, costs.contention];
        let fine = all.into_iter().chain([costs.migration]).flatten().all(f64::is_finite);
        let remedy = format!("{file}: expected finite numbers in `costs`");
        Invalid::unless(fine, "bench", "has a cost that is not a number", remedy)?;
        Ok(costs)
    }

    /// The problem's costs with what was measured instead. Shares that noise made negative are 0.
    #[must_use]
    pub fn applied(self, costs: Costs) -> Costs {
        let or = |measured: Option<f64>, given: f64| measured.map_or(given, |value| value.max(0.0));
        Costs {
            balancer_ns: or(self.balancer_ns, costs.balancer_ns),
            back_end_ns: or(self.back_end_ns, costs.back_end_ns),
            mover_ns: or(self.mover_ns, costs.mover_ns),
            remote_ns: costs.remote_ns,
            contention: or(self.contention, costs.contention),
            migration: or(self.migration, costs.migration).min(0.99),
        }
    }
}

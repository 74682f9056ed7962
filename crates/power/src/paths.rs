//! What forwarding costs a machine by each of the router's two paths, as measured on it (`ebb calibrate --paths`).

use ebb_scenario::{Check, Described, Document, Invalid, ScenarioError};
use ebb_units::PacketsPerSecond;
use serde::{Deserialize, Serialize};

/// What one load costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathCost {
    /// Packets forwarded a second, over all ports.
    pub packets_per_s: f64,
    /// Processors of the whole machine that are busy, less those that the same traffic keeps busy without a router.
    pub cores: f64,
}

/// Costs by load, from the least, as far as either path carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathCosts {
    /// Forwarded in the kernel.
    pub kernel: Vec<PathCost>,
    /// Forwarded by workers.
    pub worker: Vec<PathCost>,
}

/// One of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum ForwardingPath {
    /// Packets go to workers.
    #[default]
    Worker,
    /// Packets are forwarded in the kernel.
    Kernel,
}

impl Check for PathCosts {
    fn check(&self) -> Result<(), Invalid> {
        for (name, curve) in [("kernel", &self.kernel), ("worker", &self.worker)] {
            Invalid::unless(!curve.is_empty(), name, "has no load", "add one measured at least")?;
            let good = |value: f64| value.is_finite() && value >= 0.0;
            let numbers = curve.iter().all(|cost| good(cost.packets_per_s) && good(cost.cores));
            Invalid::unless(
                numbers,
                name,
                "has a value that is no number of packets or cores",
                "expected 0 or more",
            )?;
            let rises = curve.windows(2).all(|pair| pair[0].packets_per_s < pair[1].packets_per_s);
            Invalid::unless(rises, name, "has loads out of order", "begin with the least")?;
        }
        Ok(())
    }
}

impl PathCosts {
    /// Reads a file; `file` is its name for messages.
    ///
    /// # Errors
    /// When it is not TOML, has unknown or missing keys, or loads that do not rise.
    pub fn from_toml(file: &str, text: &str) -> Result<PathCosts, ScenarioError> {
        Document::parse(file, text)?.read()
    }

    /// The file that [`PathCosts::from_toml`] reads back to the same values.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("tables of numbers")
    }

    /// Nanoseconds that a packet takes on a path, by the highest load that was measured, and those that are added where a
    /// processor is woken for one, by the lowest.
    pub fn packet_and_wake_ns(&self, path: ForwardingPath) -> (f64, f64) {
        let curve = match path {
            ForwardingPath::Worker => &self.worker,
            ForwardingPath::Kernel => &self.kernel,
        };
        let each = |cost: Option<&PathCost>| {
            let cost = cost.filter(|cost| cost.packets_per_s > 0.0);
            cost.map_or(0.0, |cost| cost.cores / cost.packets_per_s * 1e9)
        };
        let packet = each(curve.last());
        let lowest = each(curve.iter().find(|cost| cost.packets_per_s > 0.0));
        (packet, (lowest - packet).max(0.0))
    }

    /// Busy processors in the kernel and by workers under this load, measured neighbours joined by straight lines;
    /// `None` where it is more than the path carried.
    pub fn at(&self, load: PacketsPerSecond) -> (Option<f64>, Option<f64>) {
        (on(&self.kernel, load.0), on(&self.worker, load.0))
    }
}

fn on(curve: &[PathCost], load: f64) -> Option<f64> {
    let above = curve.iter().position(|cost| cost.packets_per_s >= load)?;
    let high = curve[above];
    // Below the least load that was measured: in proportion, as if an idle router cost nothing.
    let nothing = PathCost { packets_per_s: 0.0, cores: 0.0 };
    let low = above.checked_sub(1).map_or(nothing, |below| curve[below]);
    let span = high.packets_per_s - low.packets_per_s;
    let share = if span > 0.0 { (load - low.packets_per_s) / span } else { 1.0 };
    Some(low.cores + (high.cores - low.cores) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
        kernel = [{ packets_per_s = 1000, cores = 0.1 }, { packets_per_s = 3000, cores = 0.2 }]\n\
        worker = [{ packets_per_s = 0, cores = 0.05 }, { packets_per_s = 9000, cores = 0.5 }]\n";

    #[test]
    fn costs_lie_on_lines_and_end_where_a_path_carries_no_more() {
        let costs = PathCosts::from_toml("paths.toml", FILE).expect("a good file");
        let at = |load| costs.at(PacketsPerSecond(load));
        assert_eq!(at(500.0).0, Some(0.05));
        assert!((at(2000.0).0.expect("carried") - 0.15).abs() < 1e-12);
        assert_eq!((at(3001.0).0, at(9000.0).1, at(0.0).1), (None, Some(0.5), Some(0.05)));
        let (packet, wake) = costs.packet_and_wake_ns(ForwardingPath::Kernel);
        assert!((packet - 2e5 / 3.0).abs() < 1e-6 && (packet + wake - 1e5).abs() < 1e-6);
        assert_eq!(costs.packet_and_wake_ns(ForwardingPath::Worker).1, 0.0);
        assert_eq!(PathCosts::from_toml("again", &costs.to_toml()), Ok(costs));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("kernel = []\nworker = [{ packets_per_s = 1, cores = 1 }]", "kernel"),
            ("kernel = [{ packets_per_s = 1, cores = -1 }]\nworker = []", "kernel"),
            (
                "kernel = [{ packets_per_s = 1, cores = 1 }]\n\
                 worker = [{ packets_per_s = 5, cores = 1 }, { packets_per_s = 5, cores = 2 }]",
                "worker",
            ),
            ("kernel = [{ packets_per_s = 1, watts = 1 }]\nworker = []", "watts"),
        ] {
            let error = PathCosts::from_toml("paths.toml", text).expect_err(text).to_string();
            assert!(error.contains("paths.toml") && error.contains(said), "{error}");
        }
    }
}

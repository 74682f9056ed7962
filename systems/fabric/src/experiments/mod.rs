//! Published results computed again, one file each.

pub mod measured_power;
pub mod montanana;

use ebb_report::Experiment;

/// Every experiment.
#[must_use]
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![&measured_power::SWITCHES, &montanana::FIGURES]
}

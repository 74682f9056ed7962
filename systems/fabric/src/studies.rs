//! What can be done with a lossless fabric.

use ebb_scenario::Schema;
use ebb_study::{Study, StudyError, Work};

use crate::SimulateError;

/// `ebb sim fabric`.
pub static SIM: Study = Study {
    examples: &[
        "examples/fabric-torus.toml",
        "examples/fabric-collective.toml --set traffic.multipath=first,flow,packet,adaptive",
        "examples/fabric-deadlock.toml",
    ],
    schema: Some(Schema::of::<crate::simulate::Scenario>),
    headlines: &["latency_us.mean", "latency_us.p99", "power_w"],
    ..Study::new(
        "fabric",
        "A lossless fabric: lanes, credits, links that a regulator switches on and off, changes \
        of routing tables with and without deadlock",
        Work::Sim(|document, files, seed, progress| {
            Ok(crate::simulate(document, files, seed, progress)?)
        }),
    )
};

/// `ebb plan fabric`.
pub static PLAN: Study = Study {
    examples: &["examples/fabric-plan.toml", "examples/fabric-plan.toml --json"],
    headlines: &["power_w"],
    schema: Some(Schema::of::<crate::plan::Problem>),
    ..Study::new(
        "fabric",
        "A lossless fabric: the fewest links that carry the traffic, and the links that a \
        regulator leaves on",
        Work::Plan(|document, files, seed, progress| {
            Ok(crate::plan(document, files, seed, progress)?)
        }),
    )
};

/// What was published on fabrics whose links sleep.
pub static REPRODUCE: Study =
    Study::new("fabric", "Fabrics whose links sleep", Work::Reproduce(crate::experiments));

impl From<SimulateError> for StudyError {
    fn from(error: SimulateError) -> StudyError {
        match error {
            SimulateError::Scenario(error) => error.into(),
            SimulateError::File(error) => error.into(),
            SimulateError::Stopped => StudyError::Stopped,
            SimulateError::Bound(_) => StudyError::failed(error),
            other => StudyError::whole(other),
        }
    }
}

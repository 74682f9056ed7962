//! Scenario files through the simulator: `ebb sim fabric`.
//!
//! Room: what users write ([`Scenario`]), one run of it ([`Run`]) and what they read. The network is
//! [`crate::sim`]'s, the schemes are [`crate::schemes`]'.

mod details;
mod given;
mod render;
mod run;
mod scenario;

pub use given::Moment;
pub use render::{peak as latency_peak, plot as time_plot};
pub use run::{Change, Changed, LinkBytes, Outcome, Run};
pub(crate) use scenario::fabric;
pub use scenario::{ChangeText, Scenario, TrafficText};

use ebb_report::Report;
use ebb_scenario::{Document, Files, Progress};

/// Why a scenario was not simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// What was written makes no sense.
    #[error(transparent)]
    Scenario(#[from] ebb_scenario::ScenarioError),
    /// A file of the scenario is malformed.
    #[error(transparent)]
    File(#[from] crate::format::Malformed),
    /// There are no sound tables.
    #[error(transparent)]
    Routing(#[from] crate::routing::RoutingError),
    /// The network cannot be simulated.
    #[error(transparent)]
    Network(#[from] crate::sim::SimError),
    /// Tables do not belong together.
    #[error(transparent)]
    Mismatch(#[from] crate::transition::Mismatch),
    /// Switches must not choose among the ports for several addresses.
    #[error("traffic.multipath = \"adaptive\": {0}; use flow or packet")]
    Spread(#[from] crate::spread::SpreadError),
    /// The bound could not be computed.
    #[error("{0}")]
    Bound(String),
    /// Ended before there was a result.
    #[error("interrupted")]
    Stopped,
}

#[cfg(feature = "solver")]
impl From<ebb_lp::LpError> for SimulateError {
    fn from(error: ebb_lp::LpError) -> SimulateError {
        match error {
            ebb_lp::LpError::Interrupted => SimulateError::Stopped,
            other => SimulateError::Bound(other.to_string()),
        }
    }
}

/// Simulates a scenario.
///
/// # Errors
/// When the scenario makes no sense, its files are malformed, or no sound tables exist.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let scenario: Scenario = document.read_described()?;
    let given = scenario.tables(document, files)?;
    let topology = match &given {
        Some(given) => given.start.topology.clone(),
        None => scenario.topology(document, files, seed)?,
    };
    let run = scenario.run(document, (&topology, given), seed)?;
    let outcome = run.carry_out(progress)?;
    let report = render::report(&scenario, &run, &outcome);
    let noted = topology.notes().iter().map(|note| format!("{}: {note}.", scenario.topology));
    let report = noted.fold(report, Report::text);
    Ok(details::add(report, &run, &outcome))
}

#[cfg(test)]
mod tests;

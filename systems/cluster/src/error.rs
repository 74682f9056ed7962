//! Why there is no plan.

use ebb_scenario::{FileError, Invalid, ScenarioError};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// A file that cannot be read or makes no sense.
    #[error(transparent)]
    Input(#[from] ScenarioError),
    /// A value of the problem that makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No money for what the peak takes.
    #[error(
        "field `budget`: {budget} is not enough for servers that carry the peak of {peak_mbps} \
        Mbps{with}; use at least {least}"
    )]
    Budget {
        /// What was offered.
        budget: f64,
        /// The largest demand.
        peak_mbps: f64,
        /// ` with one to spare`, or nothing.
        with: &'static str,
        /// The least price of servers that carry it.
        least: f64,
    },
    /// The catalogue has too few servers.
    #[error(
        "{file}: field `available`: all servers together carry {most_mbps} Mbps{with}, but the \
        demand rises to {peak_mbps} Mbps; add servers, or leave the field empty for an unlimited \
        number"
    )]
    Capacity {
        /// The catalogue.
        file: String,
        /// What it carries.
        most_mbps: f64,
        /// ` with one to spare`, or nothing.
        with: &'static str,
        /// The largest demand.
        peak_mbps: f64,
    },
    /// The solver found nothing, or is not there.
    #[error("the program has no solution: {0}")]
    Solver(String),
    /// Whoever watches has had enough.
    #[error("interrupted")]
    Stopped,
}

impl From<FileError> for ClusterError {
    fn from(error: FileError) -> ClusterError {
        ClusterError::Input(error.into())
    }
}

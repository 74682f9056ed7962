//! `ebb sim` and `ebb plan`: scenario files through simulators and planners.
//!
//! Room: what all systems have in common on the command line: settings and sweeps, the seed, the
//! run's directory, progress and interruption. The systems themselves are rows of a registry; they
//! get a document, the files it names and a seed, and return a report.

mod args;
mod circuit;
mod cluster;
mod gating;
mod headlines;
mod interval;
mod noc;
mod place;
mod plan;
mod points;
mod progress;
mod repeat;
mod run;
mod saturation;
mod sim;
mod sweep;
mod sweep_report;

pub use place::Directory;
pub use plan::Plan;
pub use progress::Watched;
pub use sim::Sim;

use anyhow::Result;
use ebb_report::Report;
use ebb_scenario::{Document, Files, Progress};

/// A simulator or planner: a function of its document, the files it names and a seed.
pub(crate) type Study = fn(&Document, &dyn Files, u64, &dyn Progress) -> Result<Report>;

/// A system's simulator or planner as a [`Study`]; its error is one of the scenario unless `$why` tells.
macro_rules! study {
    ($function:path) => {
        study!($function, crate::study::Unreadable::because)
    };
    ($function:path, $why:path) => {
        |document, files, seed, progress| $function(document, files, seed, progress).map_err($why)
    };
}
use study;

/// What is being run, for titles and directories.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    /// `sim` or `plan`.
    pub(crate) kind: &'static str,
    /// The system.
    pub(crate) system: &'static str,
    /// What computes it.
    pub(crate) study: Study,
}

/// What is wrong with a problem that could be read, told apart from what goes wrong in a run: both
/// exit statuses are in the manual.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    /// In the words of the error that says what is wrong.
    fn because(error: impl std::fmt::Display) -> anyhow::Error {
        Unreadable(error.to_string()).into()
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

//! Policies that are not of this program: what a study and whoever brings one have in common.
//!
//! Room: values in, values out. A study that can be governed says how ([`Governed`]); a face that can
//! call a user's code brings it ([`Policies`]). Neither knows the other: what is seen and what is done
//! are as serde writes them. Neighbours: `study.rs` declares, `job.rs` carries.

use ebb_report::Report;
use ebb_scenario::{Document, Files, Progress};
use serde_json::Value;

use crate::StudyError;

/// Brings policies of one kind, a fresh one for each run.
pub trait Policies: Sync {
    /// What reports call it.
    fn name(&self) -> &str;

    /// What differs wherever its decisions may: results that are kept are told by it.
    fn identity(&self) -> &str;

    /// One that has decided nothing yet, for a plant that is described to it.
    ///
    /// # Errors
    /// Why there is none.
    fn fresh(&self, plant: &Value) -> Result<Box<dyn Decides>, StudyError>;
}

/// A policy of somebody else.
pub trait Decides: Send {
    /// Decides at `at_nanos` on what is seen.
    ///
    /// # Errors
    /// Why it cannot: the run ends with that.
    fn decide(&mut self, at_nanos: u64, seen: &Value) -> Result<Decided, StudyError>;
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What is to be done.
    pub action: Value,
    /// When to decide again even if nothing happens, in nanoseconds; `None` while only events matter.
    pub next_nanos: Option<u64>,
}

/// Runs a scenario under such a policy instead of its own.
pub type Govern =
    fn(&Document, &dyn Files, u64, &dyn Progress, &dyn Policies) -> Result<Report, StudyError>;

/// Shows a policy what a live system recorded: the scenario's own one where none is brought.
pub type Replay = fn(
    &Document,
    &dyn Files,
    &str,
    &dyn Progress,
    Option<&dyn Policies>,
) -> Result<Report, StudyError>;

/// How policies from outside run in a study.
#[derive(Clone, Copy, Debug)]
pub struct Governed {
    /// Runs a scenario under one.
    pub run: Govern,
    /// Shows one the file of this name, which a live system wrote.
    pub replay: Replay,
}

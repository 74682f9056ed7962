use ebb_scenario::{Files, Progress};

use crate::{Claim, Report};

/// Something published that is computed again here: a figure, a table, a number of the text.
pub trait Experiment: Sync {
    /// Short and unique, for the command line: `niccolini2012.fig15`.
    fn id(&self) -> &'static str;

    /// What it shows.
    fn title(&self) -> &'static str;

    /// The published numbers that it is held to.
    fn claims(&self) -> &'static [Claim];

    /// Computes ours.
    ///
    /// # Errors
    /// When it could not be computed. A number that differs is no error: it is a missed claim.
    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError>;
}

/// What an experiment is given.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Decides all randomness.
    pub seed: u64,
    /// Threads it may use.
    pub jobs: usize,
    /// Only see that it works: shorter runs whose numbers mean little.
    pub quick: bool,
    /// Data that others measured, where it is at hand: `traffic/eu_isp_5min.csv` and such.
    pub data: Option<&'a dyn Files>,
    /// Who watches.
    pub progress: &'a dyn Progress,
}

/// Why an experiment could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExperimentError(pub String);

impl ExperimentError {
    /// From any error, whose words are kept.
    pub fn from_error(error: impl core::fmt::Display) -> ExperimentError {
        ExperimentError(error.to_string())
    }
}

/// What an experiment found: a report with its plots, and a number for each claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Tables and plots.
    pub report: Report,
    pub(crate) found: Vec<Found>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) claim: String,
    pub(crate) ours: Option<f64>,
    pub(crate) note: String,
}

impl Findings {
    /// A report, before its numbers.
    pub fn new(report: Report) -> Findings {
        Findings { report, found: Vec::new() }
    }

    /// Our number for the claim `claim`, and what to say about it: where it was missed, the reason.
    #[must_use]
    pub fn found(mut self, claim: &str, ours: f64, note: impl Into<String>) -> Findings {
        let ours = ours.is_finite().then_some(ours);
        self.found.push(Found { claim: claim.to_owned(), ours, note: note.into() });
        self
    }

    /// We have no number for the claim, and why. It counts as missed.
    #[must_use]
    pub fn absent(mut self, claim: &str, reason: impl Into<String>) -> Findings {
        self.found.push(Found { claim: claim.to_owned(), ours: None, note: reason.into() });
        self
    }
}

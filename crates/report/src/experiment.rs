//! Something published that is computed again.

use ebb_des::Summary;
use ebb_scenario::{Files, Progress};

use crate::{Claim, Findings, Ours};

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

/// An experiment as data.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// [`Experiment::id`].
    pub id: &'static str,
    /// [`Experiment::title`].
    pub title: &'static str,
    /// [`Experiment::claims`].
    pub claims: &'static [Claim],
    /// [`Experiment::run`].
    pub run: fn(&Context<'_>) -> Result<Findings, ExperimentError>,
}

impl Experiment for Figure {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn claims(&self) -> &'static [Claim] {
        self.claims
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        (self.run)(context)
    }
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

impl Context<'_> {
    /// `count` seeds after the given one, for what is drawn: a number of ours is a mean over them
    /// with its interval. Two where only see that it works.
    pub fn seeds(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (first, count) = (self.seed, if self.quick { count.min(2) } else { count });
        (0..count).map(move |index| first.wrapping_add(index))
    }

    /// The same numbers under each of [`Context::seeds`]: their means and intervals. Within a seed
    /// everything that is compared has the same arrivals, so that chance falls out of a difference.
    ///
    /// # Errors
    /// The first that a run gives.
    pub fn over_seeds<const N: usize>(
        &self,
        count: u64,
        mut run: impl FnMut(&Context<'_>) -> Result<[f64; N], ExperimentError>,
    ) -> Result<[Ours; N], ExperimentError> {
        let mut values = [Summary::new(); N];
        for seed in self.seeds(count) {
            let context = Context { seed, ..*self };
            for (values, value) in values.iter_mut().zip(run(&context)?) {
                values.push(value);
            }
        }
        Ok(values.map(Ours::from))
    }
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

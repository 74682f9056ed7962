//! A study that is run: once, with further seeds, over settings, or in search of saturation.

use std::path::Path;

use ebb_report::Report;
use ebb_scenario::{Document, Files, Progress, Sweep};

use crate::executor::Executor;
use crate::interval::Interval;
use crate::key::running_program;
use crate::outside::Policies;
use crate::repeat::Repeat;
use crate::shard::Shard;
use crate::study::Study;
use crate::{JobError, StudyError};

/// Who watches a job: besides how far it is, what happens once.
pub trait Watcher: Progress {
    /// Something happened that a user wants to know.
    fn event(&self, event: &Event);
}

/// What happens once in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many runs are finished already.
    RunsReused(usize),
    /// So many points are.
    PointsReused {
        /// These.
        finished: usize,
        /// Of all these.
        all: usize,
    },
}

/// The program that runs a job.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The revision of its source.
    pub revision: &'a str,
    /// Its version.
    pub version: &'a str,
    /// What differs wherever its results may; the bytes of the running program if absent.
    pub identity: Option<&'a str>,
}

impl Program<'_> {
    /// What keys of results hold of it.
    ///
    /// # Errors
    /// When the running program cannot read itself.
    pub(crate) fn identity(&self) -> Result<String, StudyError> {
        match self.identity {
            Some(identity) => Ok(identity.to_owned()),
            None => running_program().map_err(StudyError::failed),
        }
    }
}

/// A study with all that it is run with.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// What is run.
    pub study: &'a Study,
    /// Its scenario, without the seed.
    pub document: &'a Document,
    /// The files that the scenario names.
    pub files: &'a dyn Files,
    /// Decides all that is drawn; the first of several.
    pub seed: u64,
    /// Settings on top of the scenario; several values make a sweep.
    pub sweep: &'a Sweep,
    /// How often each point is computed, if not once.
    pub repeat: Option<&'a Repeat>,
    /// The interval of whose values the most that is stable is looked for.
    pub saturation: Option<&'a Interval>,
    /// The part of the sweep that is computed, if not all of it.
    pub shard: Option<Shard>,
    /// The directory for reports, tables and finished runs.
    pub place: Option<&'a Path>,
    /// The policy that governs instead of the scenario's, if any.
    pub policies: Option<&'a dyn Policies>,
    /// Whether to compute again what an earlier run finished.
    pub fresh: bool,
    /// The program that runs it.
    pub program: Program<'a>,
    /// Who computes.
    pub executor: &'a dyn Executor,
    /// Who watches.
    pub watcher: &'a dyn Watcher,
}

impl Job<'_> {
    /// The first point with the first seed.
    pub(crate) fn once(&self) -> Result<Report, JobError> {
        let document = self.document.with(&self.sweep.points().next().unwrap_or_default())?;
        let Job { study, policies, files, seed, watcher, .. } = *self;
        Ok(study.run_under(policies, &document, files, seed, watcher)?)
    }
}

//! Which way a job is run, and that what it found is saved.

use ebb_report::Report;

use crate::job::Job;
use crate::save::save;
use crate::{JobError, StudyError, merge, parts, saturation, sweep};

impl Job<'_> {
    /// Runs it and saves what it found. Where it was stopped, the report is of what was finished.
    ///
    /// # Errors
    /// What is wrong with the scenario, that nothing was finished when it was stopped, or what failed.
    pub fn run(&self) -> Result<Report, JobError> {
        if self.shard.is_some() && (self.saturation.is_some() || self.sweep.is_empty()) {
            let message = "needs a sweep: give a setting of --set several values";
            return Err(StudyError::in_file("--shard", message).into());
        }
        let report = match (self.saturation, self.repeat, self.sweep.is_empty()) {
            (Some(interval), ..) => saturation::find(self, interval),
            (None, None, true) => self.once(),
            (None, Some(_), true) => merge::repeated(self),
            (None, _, false) => match self.shard {
                Some(shard) => parts::report(self, shard, sweep::part(self)?),
                None => sweep::run(self),
            },
        }?;
        let report = report.figure("seed", self.seed).figure("revision", self.program.revision);
        if let Some(place) = self.place {
            save(&report, place, self)?;
        }
        Ok(report)
    }
}

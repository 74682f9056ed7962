//! What an experiment found.

use ebb_des::Summary;

use crate::{Report, Section};

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
    pub(crate) what: What,
    pub(crate) note: Note,
}

/// What there is for a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Number(Ours),
    /// Tried, and there is none.
    Nothing,
    /// Left out of this run.
    NotRun,
}

/// A number of ours, with what chance there is in it.
///
/// ```
/// use ebb_report::Ours;
/// assert_eq!(Ours::from(3.0), Ours { mean: 3.0, half_width_95: Some(0.0), seeds: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ours {
    /// The value; the mean over the seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean: 0 where nothing is drawn, unknown
    /// where a single seed drew.
    pub half_width_95: Option<f64>,
    /// How many seeds the mean is over; 1 where nothing is drawn.
    pub seeds: u32,
}

impl Ours {
    /// Of one run in which something was drawn.
    pub const fn single(value: f64) -> Ours {
        Ours { mean: value, half_width_95: None, seeds: 1 }
    }
}

/// A number in which nothing is drawn.
impl From<f64> for Ours {
    fn from(value: f64) -> Ours {
        Ours { mean: value, half_width_95: Some(0.0), seeds: 1 }
    }
}

/// Of values that as many seeds drew.
impl From<Summary> for Ours {
    fn from(values: Summary) -> Ours {
        let seeds = u32::try_from(values.count()).unwrap_or(u32::MAX);
        let mean = if seeds == 0 { f64::NAN } else { values.mean() };
        Ours { mean, half_width_95: values.half_width_95(), seeds }
    }
}

/// What there is to say about a number, which may depend on whether it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub(crate) met: String,
    pub(crate) missed: String,
}

impl Note {
    /// Two notes: a miss is explained, and a met claim not excused.
    pub fn verdict(met: impl Into<String>, missed: impl Into<String>) -> Note {
        Note { met: met.into(), missed: missed.into() }
    }
}

impl From<&str> for Note {
    fn from(note: &str) -> Note {
        Note::verdict(note, note)
    }
}

impl From<String> for Note {
    fn from(note: String) -> Note {
        Note::verdict(note.clone(), note)
    }
}

impl Findings {
    /// A report, before its numbers.
    pub fn new(report: Report) -> Findings {
        Findings { report, found: Vec::new() }
    }

    /// Our number for the claim `claim`, and what to say about it: where it was missed, the reason.
    #[must_use]
    pub fn found(self, claim: &str, ours: impl Into<Ours>, note: impl Into<Note>) -> Findings {
        let ours = ours.into();
        let what = if ours.mean.is_finite() { What::Number(ours) } else { What::Nothing };
        self.push(claim, what, note.into())
    }

    /// We have no number for the claim, and why. It counts as missed.
    #[must_use]
    pub fn absent(self, claim: &str, reason: impl Into<Note>) -> Findings {
        self.push(claim, What::Nothing, reason.into())
    }

    /// This run left the claim out (`quick`, or data that are not at hand), and why. It counts
    /// neither as met nor as missed.
    #[must_use]
    pub fn not_run(self, claim: &str, reason: impl Into<Note>) -> Findings {
        self.push(claim, What::NotRun, reason.into())
    }

    /// Titles of plots that neither show what was published nor say that there is nothing.
    pub fn plots_of_ours_alone(&self) -> Vec<&str> {
        let plots = self.report.sections.iter().filter_map(|section| match section {
            Section::Plot(plot) => Some(plot),
            _ => None,
        });
        let alone = plots.filter(|plot| !plot.says_what_was_published());
        alone.map(|plot| plot.title.as_str()).collect()
    }

    fn push(mut self, claim: &str, what: What, note: Note) -> Findings {
        self.found.push(Found { claim: claim.to_owned(), what, note });
        self
    }
}

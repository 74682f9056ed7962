//! What the points of a sweep have in common, and what they come to.

use ebb_report::{Replications, nested};
use ebb_scenario::{Document, Files, Setting, Sweep};
use serde_json::{Map, Value};

use super::args::StudyArgs;
use super::repeat::Repeat;
use super::{Subject, Watched};

/// What to repeat a run with.
pub(super) struct Origin<'a> {
    pub(super) document: &'a Document,
    pub(super) seed: u64,
    pub(super) args: &'a StudyArgs,
}

/// Everything that the points of a sweep have in common.
pub(super) struct Points<'a> {
    pub(super) subject: Subject,
    pub(super) origin: &'a Origin<'a>,
    pub(super) sweep: &'a Sweep,
    pub(super) files: &'a dyn Files,
    pub(super) watched: &'a Watched,
    /// How often each point is computed, if not once.
    pub(super) repeat: Option<Repeat>,
}

impl Points<'_> {
    /// Whether several runs make one point.
    pub(super) fn repeated(&self) -> bool {
        self.repeat.is_some()
    }
}

/// What the runs of each point come to.
pub(super) struct Swept {
    /// Every point with the figures that its runs make together; those that were interrupted are left
    /// out.
    pub(super) rows: Vec<(Vec<Setting>, Replications)>,
    /// The figures of single runs.
    pub(super) columns: Vec<(String, String)>,
    /// Points in all.
    pub(super) all: usize,
    /// Points whose intervals stayed wider than asked.
    pub(super) wide: usize,
}

/// The settings of a point as JSON, with dots and nested.
pub(super) fn settings(point: &[Setting]) -> Map<String, Value> {
    let value = |setting: &Setting| serde_json::to_value(&setting.value).unwrap_or_default();
    nested(&point.iter().map(|setting| (setting.path.clone(), value(setting))).collect())
}

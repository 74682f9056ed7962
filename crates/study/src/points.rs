//! What the points of a sweep come to.

use ebb_report::{Replications, nested};
use ebb_scenario::Setting;
use serde_json::{Map, Value};

/// Names of figures in the order of a single report, with their units.
pub(crate) type Columns = Vec<(String, String)>;

/// What the runs of each point come to.
pub(crate) struct Swept {
    /// Every point with the figures that its runs make together; those that were interrupted are left
    /// out.
    pub(crate) rows: Vec<(Vec<Setting>, Replications)>,
    /// The figures of single runs.
    pub(crate) columns: Columns,
    /// Points in all.
    pub(crate) all: usize,
    /// Points whose intervals stayed wider than asked.
    pub(crate) wide: usize,
}

/// The settings of a point as JSON, with dots and nested.
pub(crate) fn settings(point: &[Setting]) -> Map<String, Value> {
    let value = |setting: &Setting| serde_json::to_value(&setting.value).unwrap_or_default();
    nested(&point.iter().map(|setting| (setting.path.clone(), value(setting))).collect())
}

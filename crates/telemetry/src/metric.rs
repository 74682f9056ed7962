//! Declarations.

use serde::{Deserialize, Serialize};

/// How a value behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only grows while the daemon runs; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations counted by classes of their size.
    Histogram,
}

impl Kind {
    /// The name in JSON and OpenMetrics.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What a value is measured in; it ends the metric's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A number of things, a share or a truth, 0 or 1.
    #[default]
    None,
    /// Time.
    Seconds,
    /// Data.
    Bytes,
    /// Energy.
    Joules,
    /// Power.
    Watts,
    /// Frequency.
    Hertz,
}

impl Unit {
    /// The name in JSON and OpenMetrics; none for plain numbers.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
            Unit::Joules => Some("joules"),
            Unit::Watts => Some("watts"),
            Unit::Hertz => Some("hertz"),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Unit::None
    }
}

/// A value of a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any other.
    Real(f64),
    /// Observations by classes.
    Classes {
        /// Upper ends of the classes, ascending, in the metric's unit; the last class has none.
        edges: Vec<f64>,
        /// Observations in each class: one more than there are edges.
        counts: Vec<u64>,
        /// Sum of all observations, in the metric's unit.
        sum: f64,
    },
}

impl Value {
    /// As one number: of a histogram, how many observations.
    pub fn number(&self) -> f64 {
        match self {
            Value::Count(count) => *count as f64,
            Value::Real(real) => *real,
            Value::Classes { counts, .. } => counts.iter().sum::<u64>() as f64,
        }
    }
}

/// A value, and the values of its metric's labels in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Point(pub Vec<String>, pub Value);

/// What a metric says at a moment.
pub type Points = Vec<Point>;

/// A metric of the state `S` of a daemon.
#[derive(Debug)]
pub struct Metric<S> {
    /// Its name without the daemon's prefix, the unit and `_total`.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Unit,
    /// What it says, in one sentence without its stop.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Its values.
    pub read: fn(&S) -> Points,
}

impl<S> Metric<S> {
    /// A counter of things.
    pub const fn counter(name: &'static str, help: &'static str, read: fn(&S) -> Points) -> Self {
        Metric { name, kind: Kind::Counter, unit: Unit::None, help, labels: &[], read }
    }

    /// A gauge of things.
    pub const fn gauge(name: &'static str, help: &'static str, read: fn(&S) -> Points) -> Self {
        Metric { kind: Kind::Gauge, ..Metric::counter(name, help, read) }
    }

    /// A histogram.
    pub const fn histogram(name: &'static str, help: &'static str, read: fn(&S) -> Points) -> Self {
        Metric { kind: Kind::Histogram, ..Metric::counter(name, help, read) }
    }

    /// The same, measured in `unit`.
    pub const fn in_unit(self, unit: Unit) -> Self {
        Metric { unit, ..self }
    }

    /// The same, with a value for each set of these labels.
    pub const fn by(self, labels: &'static [&'static str]) -> Self {
        Metric { labels, ..self }
    }

    /// The name that users see: `prefix_name_unit_total`.
    pub fn full_name(&self, prefix: &str) -> String {
        let unit = self.unit.name().map(|unit| format!("_{unit}")).unwrap_or_default();
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{prefix}_{}{unit}{total}", self.name)
    }
}

/// The state of a daemon, from which snapshots are made.
pub trait Source: Sized + 'static {
    /// What the daemon is, in a word.
    const DAEMON: &'static str;
    /// With what the names of its metrics begin.
    const PREFIX: &'static str;

    /// Its metrics, in groups.
    fn metrics() -> Vec<&'static [Metric<Self>]>;

    /// Seconds since it started.
    fn uptime_seconds(&self) -> f64;

    /// What is said in words: name and value.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// What an operator should know of, the newest last.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The metrics of a daemon as a table in Markdown.
pub fn table<S: Source>() -> String {
    let mut text = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in S::metrics().into_iter().flatten() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let name = metric.full_name(S::PREFIX);
        let (kind, labels, help) = (metric.kind.name(), labels.join(", "), metric.help);
        text += &format!("| `{name}` | {kind} | {labels} | {help} |\n");
    }
    text
}

//! The values of a moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::PROTOCOL;
use crate::metric::{Kind, Source, Unit, Value};

/// What a daemon says of itself at a moment: the same shape for all daemons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The shape's version, [`PROTOCOL`].
    pub protocol: u32,
    /// Which daemon: `router`, `cluster`, `tor`, `ocs` or `control`.
    pub daemon: String,
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// Between the two looks from which rates were made, by the daemon's own clock; absent without rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What is said in words, such as the mode.
    pub facts: BTreeMap<String, String>,
    /// Metrics by their full names.
    pub metrics: BTreeMap<String, Family>,
    /// What an operator should know of, the newest last.
    pub notes: Vec<String>,
}

/// One metric with all its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// How it behaves.
    pub kind: Kind,
    /// What it is measured in.
    #[serde(default, skip_serializing_if = "Unit::is_none")]
    pub unit: Unit,
    /// What it says.
    pub help: String,
    /// Its values, in the daemon's order.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What it is the value of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: Value,
    /// Of a counter, by how much it grew a second between two looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
}

impl Snapshot {
    /// The snapshot of a state of this process.
    pub fn of<S: Source>(state: &S) -> Snapshot {
        let mut metrics = BTreeMap::new();
        for metric in S::metrics().into_iter().flatten() {
            let labels = metric.labels;
            let sample = |point: crate::Point| {
                let names = labels.iter().map(|name| (*name).to_owned());
                Sample { labels: names.zip(point.0).collect(), value: point.1, per_second: None }
            };
            let samples = (metric.read)(state).into_iter().map(sample).collect();
            let (kind, unit, help) = (metric.kind, metric.unit, metric.help.to_owned());
            metrics.insert(metric.full_name(S::PREFIX), Family { kind, unit, help, samples });
        }
        let facts = state.facts().into_iter().map(|(name, fact)| (name.to_owned(), fact));
        Snapshot {
            protocol: PROTOCOL,
            daemon: S::DAEMON.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: state.uptime_seconds(),
            seconds: None,
            facts: facts.collect(),
            metrics,
            notes: state.notes(),
        }
    }

    /// The same with rates since an earlier look. What is new has counted from nothing; a daemon that was
    /// started anew meanwhile, or a counter that went back, has no rate but 0.
    #[must_use]
    pub fn since(mut self, before: &Snapshot) -> Snapshot {
        let anew = self.pid != before.pid || self.uptime_seconds < before.uptime_seconds;
        let seconds = (self.uptime_seconds - before.uptime_seconds).max(1e-3);
        for (name, family) in &mut self.metrics {
            if family.kind != Kind::Counter {
                continue;
            }
            let old = before.metrics.get(name).map_or(&[][..], |family| &family.samples);
            for (place, sample) in family.samples.iter_mut().enumerate() {
                // Nearly always where it was before: thousands of interfaces are not searched for.
                let same = |old: &&Sample| old.labels == sample.labels;
                let was = old.get(place).filter(same).or_else(|| old.iter().find(same));
                let was = was.map_or(0.0, |old| old.value.number());
                let grown = if anew { 0.0 } else { (sample.value.number() - was).max(0.0) };
                sample.per_second = Some(grown / seconds);
            }
        }
        self.seconds = Some(seconds);
        self
    }

    /// The values of `metric` that have all these labels.
    fn samples<'a>(
        &'a self,
        metric: &str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let samples = self.metrics.get(metric).map_or(&[][..], |family| &family.samples);
        samples.iter().filter(|sample| {
            let has = |(name, value): &(&str, &str)| {
                sample.labels.get(*name).is_some_and(|label| label == value)
            };
            labels.iter().all(has)
        })
    }

    /// The sum of the values of `metric` that have all these labels; none where none has.
    pub fn value(&self, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let values = self.samples(metric, labels).map(|sample| sample.value.number());
        values.reduce(|sum, value| sum + value)
    }

    /// By how much the counters of `metric` with all these labels grew a second, together.
    pub fn rate(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let rates = self.samples(metric, labels).filter_map(|sample| sample.per_second);
        // An empty sum is -0.
        rates.fold(0.0, |sum, rate| sum + rate)
    }

    /// What is said of `name` in words; nothing where nothing is.
    pub fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    /// The different values that a label of `metric` has, in the daemon's order.
    pub fn values_of(&self, metric: &str, label: &str) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for sample in self.samples(metric, &[]) {
            match sample.labels.get(label) {
                Some(value) if !found.contains(&value.as_str()) => found.push(value),
                _ => {}
            }
        }
        found
    }
}

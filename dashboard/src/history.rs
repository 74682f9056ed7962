//! What a daemon said over the last hour, by series: the value of each gauge, the growth a second of each counter.

use std::collections::BTreeMap;

use ebb_telemetry::{Kind, Snapshot};
use serde::Serialize;

/// Looks that are remembered.
pub(crate) const LOOKS_MAX: usize = 3600;
/// Series that are remembered of a daemon, so that its memory is bounded: 4 bytes for each look.
const SERIES_MAX: usize = 2048;

/// Labels of a sample.
type Labels = BTreeMap<String, String>;

/// The last looks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// When each look was taken, in seconds since 1970.
    times: Vec<f64>,
    series: BTreeMap<(String, Labels), Vec<f32>>,
    /// Series for which there was no room.
    left_out: usize,
}

/// Some of the series.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    times: Vec<f64>,
    series: Vec<Series>,
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct Series {
    metric: String,
    labels: Labels,
    /// Beside the times; null where there was none.
    values: Vec<Option<f32>>,
}

impl History {
    /// Remembers a look.
    pub(crate) fn note(&mut self, time: f64, now: &Snapshot) {
        if self.times.len() >= LOOKS_MAX {
            // A tenth at once: moving all by one place each second would cost more.
            let old = LOOKS_MAX / 10;
            self.times.drain(..old);
            self.series.retain(|_, values| {
                values.drain(..old);
                values.iter().any(|value| !value.is_nan())
            });
        }
        let before = self.times.len();
        self.times.push(time);
        self.left_out = 0;
        for (metric, family) in &now.metrics {
            for sample in &family.samples {
                let value = match family.kind {
                    Kind::Counter => sample.per_second,
                    Kind::Gauge => Some(sample.value.number()),
                    Kind::Histogram => None,
                };
                let Some(value) = value else { continue };
                let key = (metric.clone(), sample.labels.clone());
                let room = self.series.len() < SERIES_MAX;
                if !room && !self.series.contains_key(&key) {
                    self.left_out += 1;
                    continue;
                }
                let values = self.series.entry(key).or_default();
                values.resize(before, f32::NAN);
                values.push(value as f32);
            }
        }
        for values in self.series.values_mut() {
            values.resize(before + 1, f32::NAN);
        }
    }

    /// When the last look was taken.
    pub(crate) fn newest(&self) -> f64 {
        self.times.last().copied().unwrap_or(0.0)
    }

    /// Forgets all: another process counts anew.
    pub(crate) fn clear(&mut self) {
        *self = History::default();
    }

    /// The series of these metrics, of the last `seconds`.
    pub(crate) fn tell(&self, metrics: &[&str], seconds: f64) -> Told {
        let from = self.times.partition_point(|time| *time < self.newest() - seconds);
        let wanted = self.series.iter().filter(|((name, _), _)| metrics.contains(&name.as_str()));
        let series = wanted.map(|((metric, labels), values)| Series {
            metric: metric.clone(),
            labels: labels.clone(),
            values: values[from..]
                .iter()
                .map(|value| Some(*value).filter(|value| value.is_finite()))
                .collect(),
        });
        let (series, times) = (series.collect(), self.times[from..].to_vec());
        Told { times, series, left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn snapshot(cores: u32) -> Snapshot {
        serde_json::from_value(json!({
            "protocol": 1, "daemon": "router", "version": "0", "pid": 1, "uptime_seconds": 1.0,
            "facts": {}, "notes": [], "metrics": {
                "cores": { "kind": "gauge", "help": "", "samples": [{ "value": cores }] },
                "packets_total": { "kind": "counter", "help": "", "samples": (0..cores).map(|worker| json!({
                    "labels": { "worker": worker.to_string() }, "value": 7, "per_second": 2.5
                })).collect::<Vec<_>>() },
            }
        }))
        .expect("a snapshot")
    }

    #[test]
    fn series_stand_beside_the_times_whenever_they_began() {
        let mut history = History::default();
        history.note(10.0, &snapshot(1));
        history.note(11.0, &snapshot(2));
        history.note(12.0, &snapshot(1));
        let told = serde_json::to_value(history.tell(&["packets_total"], 60.0)).expect("JSON");
        assert_eq!(told["times"], json!([10.0, 11.0, 12.0]));
        let values: Vec<_> = (0..2).map(|at| &told["series"][at]["values"]).collect();
        assert_eq!(values, [&json!([2.5, 2.5, 2.5]), &json!([null, 2.5, null])]);
        let last = serde_json::to_value(history.tell(&["cores"], 1.0)).expect("JSON");
        assert_eq!(
            (&last["times"], &last["series"][0]["values"]),
            (&json!([11.0, 12.0]), &json!([2.0, 1.0]))
        );
    }

    #[test]
    fn memory_is_bounded_in_looks_and_in_series() {
        let mut history = History::default();
        for look in 0..LOOKS_MAX + 10 {
            history.note(look as f64, &snapshot(2));
        }
        assert!(history.times.len() <= LOOKS_MAX);
        assert!(history.series.values().all(|values| values.len() == history.times.len()));
        history.note(1e9, &snapshot(SERIES_MAX as u32 + 5));
        assert_eq!((history.series.len(), history.left_out > 0), (SERIES_MAX, true));
    }
}

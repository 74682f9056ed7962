use core::time::Duration;

use serde::{Deserialize, Serialize};

/// What an operator may choose about a policy. `poll` and `napi` leave nothing to choose;
/// `model` shares the queue threshold, the count and the times of `powersave`.
///
/// The queue thresholds are those of Niccolini et al. 2012, section 6.1. The paper gives no
/// values for its counters `c_up` and `c_down`; ours are explained at the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `q_h`: a queue longer than this, in packets, is filling up. Published: 32.
    pub queue_high: u32,
    /// `q_l`: a queue shorter than this, in packets, is nearly empty. Published: 4.
    pub queue_low: u32,
    /// `c_up`: capacity is added when more than this many samples in a row found the queue above
    /// `queue_high`. Not published. The default of 4 adds a core after five full batches in a row
    /// each left more than 32 packets behind, 320 packets' time: short of what a ring of 2,048
    /// holds, longer than what one burst of a sender leaves behind.
    pub count_up: u32,
    /// `c_down`: capacity is taken away when more than this many samples in a row found the queue
    /// below `queue_low`. Not published. The default is 16.
    pub count_down: u32,
    /// Most packets a worker receives at once, 1 to 64. Not published; 64 is what the data plane
    /// is built for.
    pub batch: u32,
    /// In silence nothing arrives that would take a sample, so until one core at the lowest
    /// frequency is left, a timer takes one this often, in milliseconds. At least 1.
    pub sample_ms: u32,
    /// Shortest time the queue stays low before capacity is taken away, in milliseconds: the time
    /// a sample stands for varies a thousandfold with the load, `count_down` alone would react to
    /// a pause of microseconds. Unused with `as_published`.
    pub hold_ms: u32,
    /// Longest time before a step that failed is tried again, and the time within which a step up
    /// means that the step down before it failed, in milliseconds. Unused with `as_published`.
    pub hold_max_ms: u32,
    /// The published algorithm and nothing else: no hold, so it oscillates whenever the load lies
    /// between two operating points.
    pub as_published: bool,
    /// How long a packet may wait for the sake of energy, in microseconds, at most 10,000; see
    /// [`Patient`](super::Patient). 0, the default, is as published: a sleeper wakes for every
    /// packet. `ebb router` has a default of its own.
    pub latency_budget_us: u32,
    /// What only `model` asks for.
    pub model: ModelSettings,
}

/// Margins of the policy `model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Capacity kept above the estimated load, percent of the load, at most 1,000. The default of
    /// 20 keeps cores below 83 % busy, where queues stay short.
    pub headroom_percent: u32,
    /// By how much the load, in percent, must lie below what a cheaper point carries with headroom
    /// before that point is chosen, at most 1,000. The default is 10.
    pub hysteresis_percent: u32,
}

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings { headroom_percent: 20, hysteresis_percent: 10 }
    }
}

impl ModelSettings {
    /// Capacity per load, at least 1.
    pub fn headroom(&self) -> f64 {
        1.0 + f64::from(self.headroom_percent) / 100.0
    }

    /// What the load is multiplied by before it counts as low, at least 1.
    pub fn hysteresis(&self) -> f64 {
        1.0 + f64::from(self.hysteresis_percent) / 100.0
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queue_high: 32,
            queue_low: 4,
            count_up: 4,
            count_down: 16,
            batch: 64,
            sample_ms: 1,
            hold_ms: 20,
            hold_max_ms: 5_000,
            as_published: false,
            latency_budget_us: 0,
            model: ModelSettings::default(),
        }
    }
}

/// Settings that make no sense, with the field at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The thresholds leave no band between them.
    #[error("`queue_low` ({low}) must not be above `queue_high` ({high})")]
    Thresholds {
        /// `queue_low`.
        low: u32,
        /// `queue_high`.
        high: u32,
    },
    /// A queue can't be shorter than empty.
    #[error("`queue_low` must be at least 1, or capacity would never be taken away")]
    QueueLow,
    /// The batch memory has another size.
    #[error("`batch` is {0}, it must be 1 to 64")]
    Batch(u32),
    /// A timer without an interval.
    #[error("`sample_ms` must be at least 1")]
    Sample,
    /// The first hold exceeds the longest.
    #[error("`hold_ms` ({first}) must not be above `hold_max_ms` ({longest})")]
    Hold {
        /// `hold_ms`.
        first: u32,
        /// `hold_max_ms`.
        longest: u32,
    },
    /// Longer than what a ring holds.
    #[error("`latency_budget_us` is {0}, it must be at most 10000")]
    Budget(u32),
    /// A margin beyond sense.
    #[error("`model.{field}` is {value}, it must be at most 1000")]
    Percent {
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        value: u32,
    },
}

impl Settings {
    /// Refuses settings that make no sense. The policies stay within their limits with any.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.queue_low > self.queue_high {
            return Err(SettingsError::Thresholds { low: self.queue_low, high: self.queue_high });
        }
        if self.queue_low == 0 {
            return Err(SettingsError::QueueLow);
        }
        if !(1..=64).contains(&self.batch) {
            return Err(SettingsError::Batch(self.batch));
        }
        if self.sample_ms == 0 {
            return Err(SettingsError::Sample);
        }
        if self.hold_ms > self.hold_max_ms {
            return Err(SettingsError::Hold { first: self.hold_ms, longest: self.hold_max_ms });
        }
        if self.latency_budget_us > 10_000 {
            return Err(SettingsError::Budget(self.latency_budget_us));
        }
        let ModelSettings { headroom_percent, hysteresis_percent } = self.model;
        let margins =
            [("headroom_percent", headroom_percent), ("hysteresis_percent", hysteresis_percent)];
        if let Some((field, value)) = margins.into_iter().find(|(_, value)| *value > 1000) {
            return Err(SettingsError::Percent { field, value });
        }
        Ok(())
    }

    /// How long a packet may wait for the sake of energy.
    pub fn latency_budget(&self) -> Duration {
        Duration::from_micros(u64::from(self.latency_budget_us))
    }

    pub(super) fn sample(&self) -> Duration {
        Duration::from_millis(u64::from(self.sample_ms.max(1)))
    }

    pub(super) fn hold(&self) -> Duration {
        Duration::from_millis(u64::from(self.hold_ms))
    }

    pub(super) fn hold_max(&self) -> Duration {
        Duration::from_millis(u64::from(self.hold_max_ms.max(self.hold_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_its_field() {
        let good = Settings::default();
        assert_eq!(good.check(), Ok(()));
        let with = |model| Settings { model, ..good };
        for (bad, field) in [
            (Settings { queue_low: 33, ..good }, "queue_low"),
            (Settings { queue_low: 0, ..good }, "queue_low"),
            (Settings { batch: 0, ..good }, "batch"),
            (Settings { batch: 65, ..good }, "batch"),
            (Settings { sample_ms: 0, ..good }, "sample_ms"),
            (Settings { hold_ms: 5_001, ..good }, "hold_ms"),
            (Settings { latency_budget_us: 10_001, ..good }, "latency_budget_us"),
            (with(ModelSettings { headroom_percent: 1_001, ..good.model }), "headroom_percent"),
            (with(ModelSettings { hysteresis_percent: 1_001, ..good.model }), "hysteresis_percent"),
        ] {
            let message = bad.check().expect_err(field).to_string();
            assert!(message.contains(field), "{message}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_defaulted() {
        let partial: Settings = serde_json::from_str(r#"{"queue_high": 48}"#).expect("partial");
        assert_eq!(partial, Settings { queue_high: 48, ..Settings::default() });
        assert!(serde_json::from_str::<Settings>(r#"{"queue_hi": 48}"#).is_err());
    }
}

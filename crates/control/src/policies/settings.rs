//! What an operator may choose about a policy.

use core::time::Duration;

use ebb_scenario::{Check, Described, Invalid};
use serde::{Deserialize, Serialize};

/// What an operator may choose about a policy. `poll` and `napi` leave nothing to choose;
/// `model` shares the queue threshold, the count and the times of `powersave`.
///
/// The queue thresholds are those of Niccolini et al. 2012, section 6.1. The paper gives no
/// values for its counters `c_up` and `c_down`; ours are explained at the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `q_h`: a queue longer than this, in packets, is filling up. Published: 32.
    #[schema(least = 1, most = 1 << 20)]
    pub queue_high: u32,
    /// `q_l`: a queue shorter than this, in packets, is nearly empty. Published: 4.
    #[schema(least = 1, most = 1 << 20)]
    pub queue_low: u32,
    /// `c_up`: capacity is added when more than this many samples in a row found the queue above
    /// `queue_high`. Not published.
    ///
    /// The default of 4 adds a core after five full batches in a row each left more than 32 packets behind,
    /// 320 packets' time: short of what a ring of 2,048 holds, longer than what one burst of a sender leaves
    /// behind.
    #[schema(most = 1 << 24)]
    pub count_up: u32,
    /// `c_down`: capacity is taken away when more than this many samples in a row found the queue
    /// below `queue_low`. Not published.
    #[schema(most = 1 << 24)]
    pub count_down: u32,
    /// Most packets a worker receives at once. Not published; 64 is what the data plane is built for.
    #[schema(least = 1, most = 64)]
    pub batch: u32,
    /// In silence nothing arrives that would take a sample, so until one core at the lowest
    /// frequency is left, a timer takes one this often.
    #[schema(least = 1, most = 10_000)]
    pub sample_ms: u32,
    /// Shortest time the queue stays low before capacity is taken away. Unused with `as_published`.
    ///
    /// The time a sample stands for varies a thousandfold with the load, `count_down` alone would react to
    /// a pause of microseconds.
    #[schema(most = 600_000)]
    pub hold_ms: u32,
    /// Longest time before a step that failed is tried again, and the time within which a step up
    /// means that the step down before it failed. Unused with `as_published`.
    #[schema(most = 600_000)]
    pub hold_max_ms: u32,
    /// The published algorithm and nothing else: no hold, so it oscillates whenever the load lies
    /// between two operating points.
    pub as_published: bool,
    /// How long a packet may wait for the sake of energy. 0 is as published: a sleeper wakes for every packet.
    ///
    /// See [`Patient`](super::Patient). `ebb router` has a default of its own.
    #[schema(most = 10_000)]
    pub latency_budget_us: u32,
    /// Settings of `model` only.
    pub model: ModelSettings,
}

/// Margins of the policy `model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Capacity kept above the estimated load, percent of the load.
    ///
    /// The default of 20 keeps cores below 83 % busy, where queues stay short.
    #[schema(most = 1000)]
    pub headroom_percent: u32,
    /// By how much the load, in percent, must lie below what a cheaper point carries with headroom
    /// before that point is chosen.
    #[schema(most = 1000)]
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

/// Beyond the declared ranges. The policies stay within their limits with any.
impl Check for Settings {
    fn check(&self) -> Result<(), Invalid> {
        let (low, high) = (self.queue_low, self.queue_high);
        let message = format!("`queue_low` ({low}) must not be above `queue_high` ({high})");
        Invalid::unless(low <= high, "queue_low", message, "set `queue_low` below `queue_high`")?;
        let (first, longest) = (self.hold_ms, self.hold_max_ms);
        let message = format!("`hold_ms` ({first}) must not be above `hold_max_ms` ({longest})");
        Invalid::unless(
            first <= longest,
            "hold_ms",
            message,
            "set `hold_ms` to at most `hold_max_ms`",
        )
    }
}

impl Settings {
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
    use ebb_scenario::schema::checked;

    #[test]
    fn nonsense_is_refused_with_its_field() {
        let good = Settings::default();
        assert_eq!(checked(&good), Ok(()));
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
            let fault = checked(&bad).expect_err(field);
            assert!(fault.field.ends_with(field), "{fault:?}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_defaulted() {
        let partial: Settings = serde_json::from_str(r#"{"queue_high": 48}"#).expect("partial");
        assert_eq!(partial, Settings { queue_high: 48, ..Settings::default() });
        assert!(serde_json::from_str::<Settings>(r#"{"queue_hi": 48}"#).is_err());
    }
}

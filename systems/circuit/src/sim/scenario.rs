//! What is simulated: a fabric and what is sent over it.

use ebb_report::Timelines;
use ebb_scenario::{Check, Described, Invalid};

use crate::energy::Light;
use crate::schedulers;
use crate::tokens::{AHEAD_MAX, Tokens};

/// Above, connections of all pairs would take gigabytes and a schedule minutes.
const RACKS_MAX_SCHEDULED: usize = 1024;

/// A fabric and what is sent over it; times in us, rates in Gb/s.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Racks, each with one link to the switch; more than 1024 with UDP and the rotation alone.
    #[schema(least = 2, most = 10_000)]
    pub racks: usize,
    /// Rate of the links.
    #[serde(default = "Scenario::default_rate_gbps")]
    #[schema(above = 0, most = 10_000_000, default = 10.0)]
    pub rate_gbps: f64,
    /// How long a circuit of the rotation is up.
    #[serde(default = "Scenario::default_day_us")]
    #[schema(above = 0, most = 10_000_000, default = 300.0)]
    pub day_us: f64,
    /// How long they take to be set up (11.5 us in the prototype).
    #[serde(default = "Scenario::default_night_us")]
    #[schema(least = 0, most = 10_000_000, default = 11.5)]
    pub night_us: f64,
    /// The end of a day in which no frame is given to the network card.
    #[serde(default = "Scenario::default_guard_us")]
    #[schema(least = 0, most = 10_000_000, default = 23.5)]
    pub guard_us: f64,
    /// Simulated time.
    #[serde(default = "Scenario::default_duration_ms")]
    #[schema(above = 0, most = 10_000_000, default = 100.0)]
    pub duration_ms: f64,
    /// Frames, with all headers and the gap between frames.
    #[serde(default = "Scenario::default_frame_bytes")]
    #[schema(least = 64, most = 65_536, default = 9000)]
    pub frame_bytes: u64,
    /// Most that a queue holds.
    #[serde(default = "Scenario::default_queue_bytes")]
    #[schema(default = 1_000_000)]
    pub queue_bytes: u64,
    /// Who says which circuits stand: a fixed rotation, or a scheduler that is shown the queues every week.
    #[serde(default = "Scenario::default_scheduler")]
    #[schema(choices = schedulers::words(), default = "round-robin")]
    pub scheduler: String,
    /// What a queue may hand to the card.
    #[serde(default = "Scenario::default_tokens")]
    #[schema(default = Tokens::Pacing)]
    pub tokens: Tokens,
    /// Limit of pacing.
    #[serde(default = "Scenario::default_ahead_bytes")]
    #[schema(default = AHEAD_MAX)]
    pub ahead_bytes: u64,
    /// Traffic of the hosts.
    #[serde(default)]
    pub source: Source,
    /// What the hosts of a rack send at most.
    #[serde(default = "Scenario::default_host_gbps")]
    #[schema(least = 0, most = 10_000_000, default = 8.83)]
    pub host_gbps: f64,
    /// Share of a rack's traffic that goes to rack 0, beside what is spread evenly.
    #[serde(default)]
    #[schema(least = 0, most = 1)]
    pub hot_share: f64,
    /// Rate of an additional packet switch; 0 for none.
    #[serde(default)]
    #[schema(least = 0, most = 10_000_000)]
    pub packet_gbps: f64,
    /// The network card.
    #[serde(default)]
    pub card: Card,
    /// Faults of sync frames.
    #[serde(default)]
    pub jitter: Jitter,
    /// Power of the circuit transceivers.
    #[serde(default)]
    pub light: Light,
    /// Files beside the report.
    #[serde(default)]
    pub output: Timelines,
}

/// Traffic of the hosts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, Described,
)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// As fast as they can; what does not fit a queue is not sent.
    #[default]
    Udp,
    /// One connection for each pair of racks, with the congestion control of RFC 5681.
    Reno,
    /// The same with that of RFC 9438.
    Cubic,
}

/// A network card between a queue and the light.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Card {
    /// Rate at which it receives frames, Gb/s.
    #[schema(above = 0, most = 10_000_000)]
    pub intake_gbps: f64,
    /// Least delay of a frame in it.
    #[schema(least = 0, most = 10_000_000)]
    pub delay_us: f64,
    /// With more than this waiting it may go over to batches.
    pub batch_over_bytes: u64,
    /// How often it does.
    #[schema(least = 0, most = 1)]
    pub batch_share: f64,
    /// How much longer frames then take, least and most.
    #[schema(least = 0, most = 10_000_000)]
    pub batch_delay_us: [f64; 2],
}

impl Default for Card {
    /// The card of the prototype (section 4.4.2): 23.5 us, batches beyond 80 KB that take 10 to
    /// 300 us longer; all frames of a 123.5 us day handed over within 36 us. How often it goes
    /// over to batches is fitted to the published loss with aging tokens.
    fn default() -> Card {
        Card {
            intake_gbps: 34.0,
            delay_us: 23.5,
            batch_over_bytes: 80_000,
            batch_share: 0.0083,
            batch_delay_us: [10.0, 300.0],
        }
    }
}

/// Faults of sync frames (fig. 4.19).
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Jitter {
    /// Share of the days whose two sync frames arrive together, so that the day is sent elsewhere.
    #[schema(least = 0, most = 1)]
    pub together: f64,
    /// Share of sync frames that come after several days, and within which span.
    #[schema(least = 0, most = 1)]
    pub late: f64,
    /// How late those are.
    #[schema(least = 0, most = 10_000_000)]
    pub late_us: [f64; 2],
    /// Share that comes within the night or the day, and within which span.
    #[schema(least = 0, most = 1)]
    pub slow: f64,
    /// How late those are.
    #[schema(least = 0, most = 10_000_000)]
    pub slow_us: [f64; 2],
}

impl Default for Jitter {
    fn default() -> Jitter {
        Jitter {
            together: 0.0047,
            late: 0.0006,
            late_us: [522.0, 624.0],
            slow: 0.0016,
            slow_us: [7.0, 99.0],
        }
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let spans = [
            ("card.batch_delay_us", self.card.batch_delay_us),
            ("jitter.late_us", self.jitter.late_us),
            ("jitter.slow_us", self.jitter.slow_us),
        ];
        for (name, [low, high]) in spans {
            Invalid::unless(
                low < high,
                name,
                "is not a range",
                "expected two numbers, the lower first",
            )?;
        }
        let large = self.source != Source::Udp || self.scheduler != "round-robin";
        let few = self.racks <= RACKS_MAX_SCHEDULED || !large;
        let remedy =
            "expected at most 1024, or more with source = \"udp\" and scheduler = \"round-robin\"";
        Invalid::unless(few, "racks", "is too many for connections or a scheduler", remedy)?;
        let queue = self.queue_bytes >= self.frame_bytes;
        Invalid::unless(
            queue,
            "queue_bytes",
            "is smaller than a frame",
            "expected at least frame_bytes",
        )
    }
}

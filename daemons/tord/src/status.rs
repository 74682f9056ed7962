//! What the live programs say of themselves: data for `ebb tor top`, metrics and the demonstration.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use ebb_power::Basis;

use crate::optical::SwitchStatus;
use crate::plan::{Source, SyncCounters};

/// A top-of-rack switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TorStatus {
    /// Since it started.
    pub uptime_seconds: f64,
    /// Whose days it keeps.
    pub source: Option<Source>,
    /// Whether sync frames are sealed; if not, this is for laboratories.
    pub sealed: bool,
    /// The clock by which they say their times.
    #[serde(default)]
    pub clock: ClockStatus,
    /// What became of sync frames.
    pub sync: SyncCounters,
    /// Its racks.
    pub racks: Vec<RackStatus>,
    /// Rounds of its loops.
    pub rounds: u64,
    /// Processor time of its threads, s.
    pub cpu_seconds: f64,
    /// Time in which its threads could have run and others did, s.
    pub waited_seconds: f64,
    /// How long between two looks at the clock, sleep left out.
    pub looks: Times,
    /// How much later than asked for sleep ended.
    pub woken_late: Times,
    /// Whose days it kept, the latest last and no more than [`SOURCES_MAX`].
    pub sources: Vec<Source>,
    /// Configurations taken over since it started.
    pub reloads: u64,
    /// What it draws.
    #[serde(default)]
    pub energy: Energy,
}

/// The clock of sync frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockStatus {
    /// `monotonic`, the machine's own; `tai`, or a card's.
    pub name: String,
    /// How far it is ahead of the machine's own, ns.
    pub ahead_ns: i64,
    /// Within what that is known, ns.
    pub within_ns: u64,
    /// Looks that found no clock: what was seen before them held.
    pub failed: u64,
    /// How often it was set by more than a millisecond.
    pub stepped: u64,
    /// By whom it is known when frames came.
    #[serde(default)]
    pub arrivals: Arrivals,
}

/// When sync frames came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Frames stamped by the card, whose clock is that of the frames.
    pub by_card: u64,
    /// Frames stamped by the kernel when the driver handed them over.
    pub by_kernel: u64,
    /// Frames of which it is only known when they were read.
    pub unknown: u64,
    /// How long stamped ones had lain there when they were read.
    pub lain: Times,
}

/// What a switch draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Since it started, J.
    pub joules: f64,
    /// Over the last tenth of a second or more, W.
    pub watts: f64,
    /// Where both come from.
    pub basis: Basis,
    /// For each frame that it handed on since it started; none before the first.
    pub joules_per_packet: Option<f64>,
}

/// Most changes that [`TorStatus::sources`] remembers.
pub const SOURCES_MAX: usize = 32;

/// A rack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RackStatus {
    /// Its number.
    pub rack: u8,
    /// Frames from its hosts.
    pub from_hosts: u64,
    /// Frames to its hosts.
    pub to_hosts: u64,
    /// Frames handed to circuits.
    pub sent: u64,
    /// Bytes of them on the link.
    pub sent_bytes: u64,
    /// Frames handed to the packet path.
    pub sent_by_packets: u64,
    /// Frames from the optical switch.
    pub received: u64,
    /// Frames that went back to their queue because the day ended or the card took no more.
    pub requeued: u64,
    /// Packets marked so that their senders slow down, since their queue is long.
    #[serde(default)]
    pub marked: u64,
    /// Frames that no queue had room for, or no day.
    pub dropped_full: u64,
    /// Packets for the switch itself that came by the uplink, or were not the XDP program's to leave to the kernel.
    pub to_kernel: u64,
    /// ICMP errors made.
    pub icmp_sent: u64,
    /// Frames to nobody known, malformed, too long under way, or longer than what the switch's own kernel takes.
    pub dropped_unroutable: u64,
    /// Frames that the kernel lost before they came here.
    pub dropped_receive: u64,
    /// Frames that an interface did not take.
    pub dropped_transmit: u64,
    /// Bytes that wait, by destination.
    pub waiting_bytes: Vec<u64>,
    /// Days with a circuit to another rack.
    pub days: u64,
    /// Days on which something waited when they began.
    pub days_wanted: u64,
    /// Days that left something waiting for the next one.
    pub days_left: u64,
    /// How long after such a day's begin its first frame was handed over.
    pub first_after: Times,
}

/// Upper ends of the classes of small times, ns; the last class has none.
pub const EDGES_NS: [u64; 12] =
    [500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// Classes of small times.
pub const CLASSES: usize = EDGES_NS.len() + 1;

/// Small times, counted by their class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Counts of the [`CLASSES`] that end at [`EDGES_NS`].
    pub counts: Vec<u64>,
    /// All times together, ns.
    pub sum_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: vec![0; CLASSES], sum_ns: 0 }
    }
}

impl Times {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        // Most looks at the clock are of the first class.
        let class = if ns < EDGES_NS[0] { 0 } else { EDGES_NS.partition_point(|edge| *edge <= ns) };
        self.counts[class] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Counts all of another's.
    pub fn add_all(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many there were in the classes from `ns` on.
    pub fn from(&self, ns: u64) -> u64 {
        let first = EDGES_NS.iter().position(|edge| *edge >= ns).map_or(CLASSES, |at| at + 1);
        self.counts.iter().skip(first).sum()
    }
}

/// Parts into which a picture cuts a night and its day.
pub const PARTS: usize = 120;

/// An emulated optical switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OcsStatus {
    /// Since it started.
    pub uptime_seconds: f64,
    /// Whose days it keeps.
    pub source: Option<Source>,
    /// Whether sync frames are sealed; if not, this is for laboratories.
    pub sealed: bool,
    /// The clock by which they say their times.
    #[serde(default)]
    pub clock: ClockStatus,
    /// What became of sync frames.
    pub sync: SyncCounters,
    /// Frames that arrived for a circuit.
    pub frames: u64,
    /// That passed.
    pub passed: u64,
    /// Bytes of those on the link.
    pub passed_bytes: u64,
    /// Dropped: their light was on at night, in part or wholly.
    pub at_night: u64,
    /// Dropped: the circuit went elsewhere.
    pub wrong_circuit: u64,
    /// Dropped: no circuit was known.
    pub unknown: u64,
    /// That passed on the packet path.
    pub by_packets: u64,
    /// Dropped on the packet path, whose buffer was full.
    pub packets_full: u64,
    /// That no output took.
    pub dropped_transmit: u64,
    /// That the kernel lost before they came here.
    pub dropped_receive: u64,
    /// How far outside their day frames were.
    pub outside: Times,
    /// When in a night and its day light began, by [`PARTS`].
    pub day_picture: Vec<u64>,
    /// Processor time of its thread, s.
    pub cpu_seconds: f64,
    /// Configurations taken over since it started.
    pub reloads: u64,
}

impl OcsStatus {
    /// Frames outside their day.
    pub fn outside_their_day(&self) -> u64 {
        self.at_night + self.wrong_circuit + self.unknown
    }
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlStatus {
    /// Since it started.
    pub uptime_seconds: f64,
    /// Sync frames sent.
    pub sent: u64,
    /// Days announced.
    pub days: u64,
    /// Reports of queues received.
    pub reports: u64,
    /// Frames that made no sense.
    pub malformed: u64,
    /// Whether sync frames are sealed; if not, this is for laboratories.
    pub sealed: bool,
    /// The clock by which they say their times.
    #[serde(default)]
    pub clock: ClockStatus,
    /// Reports without a seal of a known key.
    pub forged: u64,
    /// Sealed reports that were heard before, or name a frame of long ago.
    pub replayed: u64,
    /// Configurations taken over since it started: of them the keys.
    pub reloads: u64,
    /// Time that the last schedule took, us.
    pub schedule_us: f64,
    /// The real switch that it sets.
    #[serde(default)]
    pub switch: Option<SwitchStatus>,
}

/// What is not counted up: levels and names.
const LEVELS: [&str; 3] = ["rack", "waiting_bytes", "sources"];

/// What was counted between two looks at a status: every number less what it was, levels as they
/// are. A program that started anew meanwhile has counted from nothing.
///
/// # Panics
/// Never for the types of this module, which are what they are read from.
#[must_use]
pub fn between<T: Serialize + DeserializeOwned>(before: &T, now: &T) -> T {
    let value = |status: &T| serde_json::to_value(status).expect("data");
    let mut counted = value(now);
    take_off(&mut counted, &value(before));
    serde_json::from_value(counted).expect("the same shape")
}

fn take_off(now: &mut Value, before: &Value) {
    match now {
        Value::Number(number) => {
            if let (Some(new), Some(old)) = (number.as_u64(), before.as_u64()) {
                *now = new.saturating_sub(old).into();
            } else if let (Some(new), Some(old)) = (number.as_f64(), before.as_f64()) {
                *now = (new - old).max(0.0).into();
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter_mut().enumerate() {
                take_off(value, &before[index]);
            }
        }
        Value::Object(fields) => {
            let counted = fields.iter_mut().filter(|(name, _)| !LEVELS.contains(&name.as_str()));
            counted.for_each(|(name, value)| take_off(value, &before[name.as_str()]));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_apart_and_levels_stay() {
        let times = |first| {
            let mut times = Times { sum_ns: 100 * first, ..Times::default() };
            (times.counts[0], times.counts[1]) = (first, 1);
            times
        };
        let none =
            Times { counts: [15].into_iter().chain([0; CLASSES - 1]).collect(), sum_ns: 1500 };
        let rack = |sent, waiting| RackStatus {
            rack: 3,
            sent,
            waiting_bytes: vec![waiting],
            first_after: times(sent),
            ..RackStatus::default()
        };
        let status = |seconds, sent, waiting| TorStatus {
            uptime_seconds: seconds,
            source: Some(Source::Controller),
            racks: vec![rack(sent, waiting)],
            sources: vec![Source::Controller],
            ..TorStatus::default()
        };
        let span = between(&status(1.5, 10, 70), &status(4.0, 25, 20));
        assert_eq!(
            span,
            TorStatus {
                racks: vec![RackStatus { first_after: none, ..rack(15, 20) }],
                ..status(2.5, 0, 0)
            }
        );
        // A program that began anew.
        assert_eq!(between(&status(9.0, 50, 0), &status(1.0, 5, 0)).racks[0].sent, 0);
    }
}

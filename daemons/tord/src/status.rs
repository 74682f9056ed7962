//! What the live programs say of themselves: data for `ebb tor top`, metrics and the demonstration.

use serde::{Deserialize, Serialize};

use crate::plan::{Source, SyncCounters};

/// A top-of-rack switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TorStatus {
    /// Since it started.
    pub uptime_seconds: f64,
    /// Whose days it keeps.
    pub source: Option<Source>,
    /// What became of sync frames.
    pub sync: SyncCounters,
    /// Its racks.
    pub racks: Vec<RackStatus>,
    /// Rounds of its loop.
    pub rounds: u64,
    /// Processor time of its thread, s.
    pub cpu_seconds: f64,
    /// Configurations taken over since it started.
    pub reloads: u64,
}

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
    /// Frames that no queue had room for.
    pub dropped_full: u64,
    /// Frames to nobody known, malformed, or too long under way.
    pub dropped_unroutable: u64,
    /// Frames that the kernel lost before they came here.
    pub dropped_receive: u64,
    /// Frames that an interface did not take.
    pub dropped_transmit: u64,
    /// Bytes that wait, by destination.
    pub waiting_bytes: Vec<u64>,
    /// Days on which something waited when they began.
    pub days_wanted: u64,
    /// How long after such a day's begin its first frame was handed over: counts by
    /// [`EDGES_NS`].
    pub first_after: Vec<u64>,
}

/// Upper ends of the classes of small times, ns; the last class has none.
pub const EDGES_NS: [u64; 12] =
    [500, 1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// The class of a time.
pub fn class_of(ns: u64) -> usize {
    EDGES_NS.partition_point(|edge| *edge <= ns)
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
    /// How far outside their day frames were, by [`EDGES_NS`].
    pub outside: Vec<u64>,
    /// When in a night and its day light began, by [`PARTS`].
    pub day_picture: Vec<u64>,
    /// Processor time of its thread, s.
    pub cpu_seconds: f64,
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
    /// Time that the last schedule took, us.
    pub schedule_us: f64,
}

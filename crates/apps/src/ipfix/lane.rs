//! What a worker hands to the exporter: records of ended flows through a bounded queue, and what it counted.
//!
//! One worker writes, one exporter reads; neither waits for the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_queue::ArrayQueue;

use super::flow::{EndReason, Record};
use super::sample::Sample;

/// Records between a worker and the exporter.
const RECORDS: usize = 16_384;
/// Samples of packets there; of the two, a worker has one.
const SAMPLES: usize = 4096;

/// Rung when there is much to export.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Flows with their packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records of flows.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
}

impl Traffic {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        self.flows += 1;
        self.packets += record.packets();
        self.bytes += record.bytes();
    }

    /// Adds what was summed elsewhere.
    pub fn and(self, other: Traffic) -> Traffic {
        Traffic {
            flows: self.flows + other.flows,
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What a worker has counted since it last said so.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) unsampled: u64,
    pub(super) unselected: u64,
    pub(super) other: u64,
    pub(super) begun: u64,
    pub(super) ended: [u64; REASONS],
    pub(super) lost: Traffic,
}

const REASONS: usize = EndReason::Evicted as usize;

/// Names of what a worker counts.
pub(super) const NAMES: [&str; 14] = [
    "metered_packets",
    "metered_bytes",
    "unsampled_packets",
    "unselected_packets",
    "other_packets",
    "flows",
    "ended_idle",
    "ended_active",
    "ended_detected",
    "ended_forced",
    "ended_evicted",
    "lost_flows",
    "lost_packets",
    "lost_bytes",
];

/// See the module.
pub(super) struct Lane {
    records: ArrayQueue<Record>,
    samples: ArrayQueue<Sample>,
    /// Of a worker that has ended, which may be more than the queue holds.
    remains: Mutex<Vec<Record>>,
    counted: [AtomicU64; NAMES.len()],
    rung: AtomicBool,
    bell: Bell,
}

impl core::fmt::Debug for Lane {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lane").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

impl Lane {
    /// For samples, or for records.
    pub(super) fn new(bell: Bell, sampled: bool) -> Lane {
        let (records, samples) = if sampled { (1, SAMPLES) } else { (RECORDS, 1) };
        Lane {
            records: ArrayQueue::new(records),
            samples: ArrayQueue::new(samples),
            remains: Mutex::default(),
            counted: Default::default(),
            rung: AtomicBool::new(false),
            bell,
        }
    }

    /// Who is rung.
    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Hands a record over; back when there is no room.
    pub(super) fn offer(&self, record: Record, sums: &mut Sums) -> Result<(), Record> {
        let offered = self.records.push(record);
        if offered.is_ok() {
            sums.ended[record.reason as usize - 1] += 1;
        }
        self.ring_if(self.records.len() > RECORDS / 2);
        offered
    }

    /// Hands a sample over; false when there is no room.
    pub(super) fn offer_sample(&self, sample: Sample, sums: &mut Sums) -> bool {
        let offered = self.samples.push(sample).is_ok();
        sums.begun += u64::from(offered);
        self.ring_if(self.samples.len() > SAMPLES / 2);
        offered
    }

    fn ring_if(&self, much: bool) {
        if much && !self.rung.swap(true, Relaxed) {
            (self.bell)();
        }
    }

    /// Leaves records behind for good.
    pub(super) fn leave(&self, records: Vec<Record>, sums: &mut Sums) {
        sums.ended[EndReason::Forced as usize - 1] += records.len() as u64;
        self.remains.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
    }

    /// Publishes what was counted, and begins to count anew.
    pub(super) fn publish(&self, sums: &mut Sums) {
        let Sums { packets, bytes, unsampled, unselected, other, begun, ended, lost } =
            std::mem::take(sums);
        let [idle, active, detected, forced, evicted] = ended;
        let numbers = [
            packets,
            bytes,
            unsampled,
            unselected,
            other,
            begun,
            idle,
            active,
            detected,
            forced,
            evicted,
            lost.flows,
            lost.packets,
            lost.bytes,
        ];
        for (counter, more) in self.counted.iter().zip(numbers) {
            if more > 0 {
                // A single writer needs no more.
                counter.store(counter.load(Relaxed) + more, Relaxed);
            }
        }
    }

    /// What was counted, in the order of [`NAMES`].
    pub(super) fn counted(&self) -> [u64; NAMES.len()] {
        std::array::from_fn(|index| self.counted[index].load(Relaxed))
    }

    /// The next sample, for the exporter.
    pub(super) fn take_sample(&self) -> Option<Sample> {
        self.rung.store(false, Relaxed);
        self.samples.pop()
    }

    /// The next record, for the exporter.
    pub(super) fn take(&self) -> Option<Record> {
        self.rung.store(false, Relaxed);
        self.records
            .pop()
            .or_else(|| self.remains.lock().unwrap_or_else(PoisonError::into_inner).pop())
    }
}

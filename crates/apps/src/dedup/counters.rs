//! What one worker's nodes counted.
//!
//! Nobody else writes them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    OutPackets,
    OutBytes,
    EncodedPackets,
    SavedBytes,
    SentAgain,
    Unacknowledged,
    Cached,
    Decoded,
    RestoredBytes,
    SequenceGaps,
    Missing,
    OtherSession,
    WrongCheck,
    Malformed,
}

/// In the same order.
pub(super) const NAMES: [&str; 14] = [
    "out_packets",
    "out_bytes",
    "encoded_packets",
    "saved_bytes",
    "plain_sent_again",
    "plain_unacknowledged",
    "cached_packets",
    "decoded_packets",
    "restored_bytes",
    "sequence_gaps",
    "dropped_missing",
    "dropped_session",
    "dropped_check",
    "dropped_malformed",
];

/// See the module. Lines of the cache of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters([AtomicU64; NAMES.len()]);

impl Counters {
    #[inline]
    pub(super) fn add(&self, which: Counted, more: u64) {
        let counter = &self.0[which as usize];
        // A single writer needs no more.
        counter.store(counter.load(Relaxed) + more, Relaxed);
    }

    pub(super) fn get(&self) -> [u64; NAMES.len()] {
        std::array::from_fn(|index| self.0[index].load(Relaxed))
    }
}

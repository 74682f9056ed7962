//! What one worker's nodes counted.
//!
//! Nobody else writes them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    SealedPackets,
    SealedBytes,
    OpenedPackets,
    OpenedBytes,
    Dummies,
    Keepalives,
    TooBig,
    Cut,
    Reassembled,
    Joined,
    Replayed,
    Forged,
    Malformed,
    UnknownSpi,
    Fragments,
    Congested,
    OtherInside,
    Spent,
    NoNumber,
    NoAssociation,
    NoRoom,
    ClearIn,
    ClearOut,
}

/// In the same order.
pub(super) const NAMES: [&str; 23] = [
    "sealed_packets",
    "sealed_bytes",
    "opened_packets",
    "opened_bytes",
    "dummy_packets",
    "keepalive_packets",
    "too_big_packets",
    "cut_packets",
    "reassembled_packets",
    "joined_fragments",
    "dropped_replayed",
    "dropped_forged",
    "dropped_malformed",
    "dropped_unknown_spi",
    "dropped_fragments",
    "dropped_congested",
    "dropped_other_inside",
    "dropped_sequence_spent",
    "dropped_no_number",
    "dropped_no_association",
    "dropped_no_room",
    "dropped_clear_in",
    "dropped_clear_out",
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

use std::sync::atomic::{AtomicU64, Ordering};

use ebb_graph::DropReason;

/// What one worker's routing nodes did that the exits of its graph do not show.
///
/// One writer (the worker), any number of readers. A packet that provokes an ICMP error lends its
/// frame to the error: it is counted here as dropped in place, and the frame goes on with
/// [`ebb_graph::Packet::ORIGINATED`] set. Counting at the exits only packets without that flag,
/// at every moment between two runs of the graph
///
/// `received = forwarded + to kernel + dropped + sum of dropped_in_place + held`, and
/// `originated = originated at any exit + held_originated`.
#[derive(Debug, Default)]
pub struct RouteCounters {
    dropped_in_place: [AtomicU64; DropReason::COUNT],
    originated: AtomicU64,
    icmp_suppressed: AtomicU64,
    checksums_finished: AtomicU64,
    held: AtomicU64,
    held_originated: AtomicU64,
}

impl RouteCounters {
    /// Received packets whose frame became an ICMP error, by reason in the order of
    /// [`DropReason::ALL`].
    pub fn dropped_in_place(&self) -> [u64; DropReason::COUNT] {
        core::array::from_fn(|index| self.dropped_in_place[index].load(Ordering::Relaxed))
    }

    /// ICMP errors made.
    pub fn originated(&self) -> u64 {
        self.originated.load(Ordering::Relaxed)
    }

    /// ICMP errors not made because of the rate limit.
    pub fn icmp_suppressed(&self) -> u64 {
        self.icmp_suppressed.load(Ordering::Relaxed)
    }

    /// Packets whose checksum a sender had left to hardware and the router finished.
    pub fn checksums_finished(&self) -> u64 {
        self.checksums_finished.load(Ordering::Relaxed)
    }

    /// Received packets that now wait for a neighbour.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// ICMP errors that now wait for a neighbour.
    pub fn held_originated(&self) -> u64 {
        self.held_originated.load(Ordering::Relaxed)
    }

    pub(super) fn count_in_place(&self, reason: DropReason) {
        add(&self.dropped_in_place[reason as usize]);
        add(&self.originated);
    }

    pub(super) fn count_suppressed(&self) {
        add(&self.icmp_suppressed);
    }

    pub(super) fn count_finished(&self) {
        add(&self.checksums_finished);
    }

    pub(super) fn set_held(&self, received: usize, originated: usize) {
        self.held.store(received as u64, Ordering::Relaxed);
        self.held_originated.store(originated as u64, Ordering::Relaxed);
    }
}

/// Adds one; plain load and store are enough for a single writer.
fn add(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

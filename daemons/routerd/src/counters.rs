//! What one worker counts: written by that worker alone, read by anyone at any time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ebb_graph::DropReason;
use ebb_ports::PortCounters;

/// A counter with a single writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds without a locked instruction; only the owning worker calls this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One worker's share of one port; as [`ebb_ports::PortCounters`], refreshed a few times a second.
#[derive(Debug, Default)]
pub struct PortTally {
    received: AtomicU64,
    transmitted: AtomicU64,
    receive_dropped: AtomicU64,
    transmit_invalid: AtomicU64,
    transmit_dropped: AtomicU64,
    /// Bytes of frames received and handed to the port; counted by the worker itself.
    pub bytes: [Counter; 2],
}

impl PortTally {
    /// Publishes what the port counts.
    pub fn set(&self, counters: &PortCounters) {
        self.received.store(counters.received, Relaxed);
        self.transmitted.store(counters.transmitted, Relaxed);
        self.receive_dropped.store(counters.receive_dropped, Relaxed);
        self.transmit_invalid.store(counters.transmit_invalid, Relaxed);
        self.transmit_dropped.store(counters.transmit_dropped, Relaxed);
    }

    /// Adds this worker's share to `sum`.
    pub fn add_to(&self, sum: &mut PortCounters) {
        sum.received += self.received.load(Relaxed);
        sum.transmitted += self.transmitted.load(Relaxed);
        sum.receive_dropped += self.receive_dropped.load(Relaxed);
        sum.transmit_invalid += self.transmit_invalid.load(Relaxed);
        sum.transmit_dropped += self.transmit_dropped.load(Relaxed);
    }
}

/// Sleeps of similar length: within a factor of two, for which idle state they reach depends on it.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// Its number.
    pub count: Counter,
    /// Nanoseconds altogether.
    pub nanos: Counter,
}

impl Sleeps {
    /// Up to 1 us, 2 us, 4 us ... and above 8 ms.
    pub const CLASSES: usize = 15;

    /// The class of a sleep of `nanos`.
    pub fn class(nanos: u64) -> usize {
        ((nanos / 1000).checked_ilog2().map_or(0, |log| log + 1) as usize).min(Self::CLASSES - 1)
    }
}

/// One worker's counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Packets received.
    pub received: Counter,
    /// Received packets that left through a port.
    pub forwarded: Counter,
    /// Received packets handed to the kernel.
    pub to_kernel: Counter,
    /// Messages the router made itself and sent.
    pub originated: Counter,
    /// Messages the router made itself and could not send.
    pub originated_dropped: Counter,
    /// Received packets dropped, by [`DropReason`] as index.
    pub dropped: [Counter; DropReason::COUNT],
    /// Times the worker woke from sleep.
    pub wakeups: Counter,
    /// Receive rounds that brought at least one packet.
    pub batches: Counter,
    /// Nanoseconds asleep, completed sleeps only.
    pub asleep_nanos: Counter,
    /// Completed sleeps by their length.
    pub sleeps: [Sleeps; Sleeps::CLASSES],
    /// Start of the sleep in progress in nanoseconds of the monotonic clock, 0 while awake.
    pub asleep_since: AtomicU64,
    /// Packets waiting in the worker's receive queues when it last looked.
    pub queue_len: AtomicU32,
}

impl WorkerCounters {
    /// Counts a completed sleep.
    pub fn slept(&self, nanos: u64) {
        self.asleep_nanos.add(nanos);
        let class = &self.sleeps[Sleeps::class(nanos)];
        class.count.add(1);
        class.nanos.add(nanos);
    }

    /// Nanoseconds asleep up to `now_nanos`, the sleep in progress included.
    pub fn asleep_until(&self, now_nanos: u64) -> u64 {
        let since = self.asleep_since.load(Relaxed);
        let current = if since == 0 { 0 } else { now_nanos.saturating_sub(since) };
        self.asleep_nanos.get() + current
    }
}

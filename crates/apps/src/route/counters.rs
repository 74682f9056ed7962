//! Counters of the routing nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use ebb_graph::DropReason;

use super::bounds::Bounds;
use super::tally::{Of, Tallies, Volume};
use super::{InterfaceId, RouteLimits};

/// What one worker's routing nodes did that the exits of its graph do not show.
///
/// One writer (the worker), any number of readers. A packet that provokes an ICMP error lends its
/// frame to the error: it is counted here as dropped in place, and the frame goes on with
/// [`ebb_graph::Packet::ORIGINATED`] set. Counting at the exits only packets without that flag,
/// at every moment between two runs of the graph
///
/// `received = forwarded + to kernel + dropped + sum of dropped_in_place + held`, and
/// `originated = originated at any exit + held_originated`.
#[derive(Debug)]
pub struct RouteCounters {
    dropped_in_place: [AtomicU64; DropReason::COUNT],
    originated: AtomicU64,
    icmp_suppressed: AtomicU64,
    checksums_finished: AtomicU64,
    held: AtomicU64,
    held_originated: AtomicU64,
    bounds: Bounds,
    tallies: Tallies,
}

impl Default for RouteCounters {
    fn default() -> RouteCounters {
        RouteCounters::new(&RouteLimits::default())
    }
}

impl RouteCounters {
    pub(super) fn new(limits: &RouteLimits) -> RouteCounters {
        RouteCounters {
            dropped_in_place: Default::default(),
            originated: AtomicU64::new(0),
            icmp_suppressed: AtomicU64::new(0),
            checksums_finished: AtomicU64::new(0),
            held: AtomicU64::new(0),
            held_originated: AtomicU64::new(0),
            bounds: Bounds::new(limits),
            tallies: Tallies::default(),
        }
    }

    /// The bounds in force.
    pub fn limits(&self) -> RouteLimits {
        self.bounds.get()
    }

    /// Exchanges the bounds: they hold from the next packet on. Packets that wait already go on
    /// waiting, also when there are more of them than a new bound allows.
    pub fn set_limits(&self, limits: &RouteLimits) {
        self.bounds.set(limits);
    }

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

    /// What left through the next hop with this number ([`super::FibWriter::next_hops`]).
    pub fn next_hop(&self, number: u32) -> Volume {
        self.tallies.get(Of::NextHop, number)
    }

    /// What arrived to be routed, and what left, on an interface: a port, or a VLAN of one.
    pub fn interface(&self, id: InterfaceId) -> [Volume; 2] {
        [Of::In, Of::Out].map(|way| self.tallies.get(way, u32::from(id.0)))
    }

    #[inline(always)]
    pub(super) fn count_next_hop(&self, number: u32, id: InterfaceId, bytes: usize) {
        self.tallies.count(Of::NextHop, number, 1, bytes as u64);
        self.tallies.count(Of::Out, u32::from(id.0), 1, bytes as u64);
    }

    /// Packets that arrived on one interface, and their bytes.
    #[inline]
    pub(super) fn count_interface(&self, id: InterfaceId, volume: Volume) {
        self.tallies.count(Of::In, u32::from(id.0), volume.packets, volume.bytes);
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

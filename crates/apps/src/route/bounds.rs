//! The bounds of one worker's routing nodes as they are at present: read by the nodes where they
//! apply, exchanged from outside while packets flow.

use core::time::Duration;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::RouteLimits;

/// [`RouteLimits`] that can be exchanged. Each bound stands for itself: nodes that read between two
/// of the stores meet a mixture of old and new, which is as good as either.
#[derive(Debug)]
pub(super) struct Bounds {
    hold_per_neighbour_max: AtomicUsize,
    hold_total_max: AtomicUsize,
    hold_timeout_nanos: AtomicU64,
    icmp_rate_pps: AtomicU32,
    icmp_burst: AtomicU32,
}

impl Bounds {
    pub(super) fn new(limits: &RouteLimits) -> Bounds {
        let bounds = Bounds {
            hold_per_neighbour_max: AtomicUsize::default(),
            hold_total_max: AtomicUsize::default(),
            hold_timeout_nanos: AtomicU64::default(),
            icmp_rate_pps: AtomicU32::default(),
            icmp_burst: AtomicU32::default(),
        };
        bounds.set(limits);
        bounds
    }

    pub(super) fn set(&self, limits: &RouteLimits) {
        let nanos = u64::try_from(limits.hold_timeout.as_nanos()).unwrap_or(u64::MAX);
        self.hold_per_neighbour_max.store(limits.hold_per_neighbour_max, Relaxed);
        self.hold_total_max.store(limits.hold_total_max, Relaxed);
        self.hold_timeout_nanos.store(nanos, Relaxed);
        self.icmp_rate_pps.store(limits.icmp_rate_pps, Relaxed);
        self.icmp_burst.store(limits.icmp_burst, Relaxed);
    }

    pub(super) fn get(&self) -> RouteLimits {
        RouteLimits {
            hold_per_neighbour_max: self.hold_per_neighbour_max.load(Relaxed),
            hold_total_max: self.hold_total_max.load(Relaxed),
            hold_timeout: Duration::from_nanos(self.hold_timeout_nanos.load(Relaxed)),
            icmp_rate_pps: self.icmp_rate_pps.load(Relaxed),
            icmp_burst: self.icmp_burst.load(Relaxed),
        }
    }
}

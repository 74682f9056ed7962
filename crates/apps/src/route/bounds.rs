//! The bounds of one worker's routing nodes as they are at present: read by the nodes where they
//! apply, exchanged from outside while packets flow.

use core::time::Duration;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::{IcmpPerHost, RouteLimits};

/// [`RouteLimits`] that can be exchanged. Each bound stands for itself: nodes that read between two
/// of the stores meet a mixture of old and new, which is as good as either.
#[derive(Debug)]
pub(super) struct Bounds {
    hold_per_neighbour_max: AtomicUsize,
    hold_total_max: AtomicUsize,
    hold_timeout_nanos: AtomicU64,
    icmp_rate_pps: AtomicU32,
    icmp_burst: AtomicU32,
    icmp_v4: PerHost,
    icmp_v6: PerHost,
    icmp_seed: AtomicU64,
}

#[derive(Debug, Default)]
struct PerHost {
    interval_nanos: AtomicU64,
    types: AtomicU32,
}

impl PerHost {
    fn set(&self, bound: &IcmpPerHost) {
        self.interval_nanos.store(nanos(bound.interval), Relaxed);
        self.types.store(bound.types, Relaxed);
    }

    fn get(&self) -> IcmpPerHost {
        IcmpPerHost {
            interval: Duration::from_nanos(self.interval_nanos.load(Relaxed)),
            types: self.types.load(Relaxed),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Bounds {
    pub(super) fn new(limits: &RouteLimits) -> Bounds {
        let bounds = Bounds {
            hold_per_neighbour_max: AtomicUsize::default(),
            hold_total_max: AtomicUsize::default(),
            hold_timeout_nanos: AtomicU64::default(),
            icmp_rate_pps: AtomicU32::default(),
            icmp_burst: AtomicU32::default(),
            icmp_v4: PerHost::default(),
            icmp_v6: PerHost::default(),
            icmp_seed: AtomicU64::default(),
        };
        bounds.set(limits);
        bounds
    }

    pub(super) fn set(&self, limits: &RouteLimits) {
        self.hold_per_neighbour_max.store(limits.hold_per_neighbour_max, Relaxed);
        self.hold_total_max.store(limits.hold_total_max, Relaxed);
        self.hold_timeout_nanos.store(nanos(limits.hold_timeout), Relaxed);
        self.icmp_rate_pps.store(limits.icmp_rate_pps, Relaxed);
        self.icmp_burst.store(limits.icmp_burst, Relaxed);
        self.icmp_v4.set(&limits.icmp_v4);
        self.icmp_v6.set(&limits.icmp_v6);
        self.icmp_seed.store(limits.icmp_seed, Relaxed);
    }

    pub(super) fn get(&self) -> RouteLimits {
        RouteLimits {
            hold_per_neighbour_max: self.hold_per_neighbour_max.load(Relaxed),
            hold_total_max: self.hold_total_max.load(Relaxed),
            hold_timeout: Duration::from_nanos(self.hold_timeout_nanos.load(Relaxed)),
            icmp_rate_pps: self.icmp_rate_pps.load(Relaxed),
            icmp_burst: self.icmp_burst.load(Relaxed),
            icmp_v4: self.icmp_v4.get(),
            icmp_v6: self.icmp_v6.get(),
            icmp_seed: self.icmp_seed.load(Relaxed),
        }
    }
}

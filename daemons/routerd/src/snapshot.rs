//! Fills the [`Status`] from a running router's counters.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use ebb_control::IdleDepth;
use ebb_graph::DropReason;
use ebb_host::clock;
use hdrhistogram::Histogram;

use crate::applications;
use crate::router::Router;
use crate::shared::{Order, WorkerShared};
use crate::status::{
    Energy, Frames, Governor, Latency, Packets, Point, Status, Worker, WorkerState,
};

/// Everything the router itself knows; ports, tables and frames are for the caller to complete.
pub fn of_router(router: &Router) -> Status {
    let now = clock::monotonic();
    let state = router.governor_state();
    let shared = router.shared();
    let uptime = now.since(router.started());
    let workers: Vec<Worker> = shared
        .workers
        .iter()
        .zip(router.cpus())
        .map(|(worker, cpu)| {
            let asleep = worker.counters.asleep_until(now.as_nanos());
            let awake = (uptime.as_nanos() as u64).saturating_sub(asleep) as f64 / 1e9;
            Worker {
                cpu: cpu.map(|cpu| cpu as u32),
                state: match worker.mailbox.order().0 {
                    Order::Park | Order::Stop => WorkerState::Parked,
                    _ => WorkerState::Active,
                },
                packets: packets(worker),
                busy: (awake / uptime.as_secs_f64().max(1e-9)).clamp(0.0, 1.0),
                busy_seconds: awake,
                queue_len: worker.counters.queue_len.load(Relaxed),
                wakeups: worker.counters.wakeups.get(),
                batches: worker.counters.batches.get(),
            }
        })
        .collect();
    let reading = router.energy().read();
    let forwarded: u64 = workers.iter().map(|worker| worker.packets.forwarded).sum();
    let limits = router.limits();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: uptime.as_secs_f64(),
        mode: router.mode(),
        point: Point {
            cores: state.point.cores,
            cores_max: limits.cores,
            frequency: state.point.frequency,
            frequencies: limits.frequencies,
            frequency_hz: router.frequency(state.point.frequency).map(|hertz| hertz.0),
            depth: match state.point.depth {
                IdleDepth::Shallow => "shallow".into(),
                IdleDepth::Deep => "deep".into(),
            },
        },
        workers,
        applications: applications::status(
            router.applications(),
            &router.energy().nodes(),
            &router.names(),
        ),
        latency: latency_of(&merged(router, None)),
        interruption: latency_of(&interruptions(router)),
        energy: Energy {
            joules: reading.joules.0,
            watts: reading.watts.0,
            basis: reading.basis,
            joules_per_packet: (forwarded > 0).then(|| reading.joules.0 / forwarded as f64),
        },
        frames: Frames { total: router.frames_total(), free: router.frames_free() },
        governor: Governor {
            changes: state.changes,
            entries_moved: state.entries_moved,
            late: state.late,
            refusals: state.refusals,
        },
        warnings: state.last_refusal.into_iter().collect(),
        ..Status::default()
    }
}

/// One worker's packets by fate.
pub fn packets(worker: &WorkerShared) -> Packets {
    let counters = &worker.counters;
    let in_place = worker.route.dropped_in_place();
    let dropped: BTreeMap<String, u64> = DropReason::ALL
        .iter()
        .map(|reason| {
            let index = *reason as usize;
            (reason.name().to_owned(), counters.dropped[index].get() + in_place[index])
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    Packets {
        received: counters.received.get(),
        forwarded: counters.forwarded.get(),
        to_kernel: counters.to_kernel.get(),
        held: worker.route.held(),
        dropped,
        originated: counters.originated.get(),
        originated_dropped: counters.originated_dropped.get(),
        icmp_suppressed: worker.route.icmp_suppressed(),
        checksums_finished: worker.route.checksums_finished(),
    }
}

/// Sampled latency over all workers, of one input port or of all.
pub fn merged(router: &Router, port: Option<usize>) -> Histogram<u64> {
    let mut sum = Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("valid bounds");
    for worker in &router.shared().workers {
        let ports = match port {
            Some(port) => &worker.latency[port..=port],
            None => &worker.latency[..],
        };
        for histogram in ports {
            sum.add(&*histogram.lock().expect("latency")).expect("equal bounds");
        }
    }
    sum
}

/// How long workers that were given flows received nothing, per hand-over, over all workers.
pub fn interruptions(router: &Router) -> Histogram<u64> {
    let mut sum = Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("valid bounds");
    for worker in &router.shared().workers {
        sum.add(&*worker.interruption.lock().expect("interruption")).expect("equal bounds");
    }
    sum
}

/// The summary of a histogram of nanoseconds.
pub fn latency_of(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let micros = |nanos: u64| nanos as f64 / 1e3;
    Latency {
        count: histogram.len(),
        min_us: micros(histogram.min()),
        mean_us: histogram.mean() / 1e3,
        p50_us: micros(histogram.value_at_quantile(0.5)),
        p99_us: micros(histogram.value_at_quantile(0.99)),
        max_us: micros(histogram.max()),
    }
}

//! What happened between two looks at a router, as rates.

use std::collections::BTreeMap;

use ebb_power::Basis;
use ebb_routerd::status::{Packets, Status, WorkerState};
use serde::Serialize;

/// Rates between two looks; what is no rate is as of the later.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Interval {
    pub(super) version: String,
    pub(super) uptime_seconds: f64,
    /// Length of the interval by the router's own clock.
    pub(super) seconds: f64,
    pub(super) mode: String,
    pub(super) cores: u16,
    pub(super) cores_max: u16,
    pub(super) frequency_hz: Option<u64>,
    pub(super) idle_depth: String,
    pub(super) received_pps: f64,
    pub(super) forwarded_pps: f64,
    pub(super) to_kernel_pps: f64,
    pub(super) dropped_pps: f64,
    /// Processors' worth of time that workers were awake.
    pub(super) busy_cores: f64,
    pub(super) watts: f64,
    pub(super) energy_basis: Basis,
    /// Of this interval; absent while nothing is forwarded.
    pub(super) joules_per_packet: Option<f64>,
    /// Since the start; absent before the first sample.
    pub(super) latency_us: Option<Percentiles>,
    pub(super) workers: Vec<WorkerRates>,
    pub(super) ports: Vec<PortRates>,
    /// Packets a second, by reason; those that never occurred are absent.
    pub(super) dropped_for: BTreeMap<String, f64>,
    pub(super) dropped_since_start: BTreeMap<String, u64>,
    pub(super) warnings: Vec<String>,
}

/// Delay of sampled packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct WorkerRates {
    pub(super) worker: usize,
    pub(super) cpu: Option<u32>,
    pub(super) state: WorkerState,
    /// Share of the interval that it was awake, 0 to 1.
    pub(super) busy: f64,
    pub(super) received_pps: f64,
    pub(super) forwarded_pps: f64,
    pub(super) dropped_pps: f64,
    pub(super) wakeups_per_second: f64,
    pub(super) queue_len: u32,
}

/// One port. Bits are those of frames without preamble, check sequence and gap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct PortRates {
    pub(super) port: String,
    pub(super) link: &'static str,
    pub(super) received_pps: f64,
    pub(super) transmitted_pps: f64,
    pub(super) received_bps: f64,
    pub(super) transmitted_bps: f64,
    /// Lost to full rings and refused by the interface.
    pub(super) lost_pps: f64,
    pub(super) to_kernel_pps: f64,
    /// Since the start; absent before the first sample.
    pub(super) latency_p99_us: Option<f64>,
}

/// What is drawn over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) received_pps: f64,
    pub(super) forwarded_pps: f64,
    pub(super) dropped_pps: f64,
    pub(super) cores: f64,
    pub(super) busy_cores: f64,
    pub(super) watts: f64,
}

impl Interval {
    /// From one look to a later one.
    pub(super) fn between(before: &Status, now: &Status) -> Interval {
        let span = (now.uptime_seconds - before.uptime_seconds).max(1e-3);
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / span;
        let (old, new) = (before.packets(), now.packets());
        let joules = now.energy.joules - before.energy.joules;
        let forwarded = new.forwarded.saturating_sub(old.forwarded);
        let latency = &now.latency;
        let workers = workers(before, now, span);
        Interval {
            version: now.version.clone(),
            uptime_seconds: now.uptime_seconds,
            seconds: span,
            mode: now.mode.clone(),
            cores: now.point.cores,
            cores_max: now.point.cores_max,
            frequency_hz: now.point.frequency_hz,
            idle_depth: now.point.depth.clone(),
            received_pps: rate(old.received, new.received),
            forwarded_pps: rate(old.forwarded, new.forwarded),
            to_kernel_pps: rate(old.to_kernel, new.to_kernel),
            dropped_pps: rate(old.dropped_total(), new.dropped_total()),
            busy_cores: workers.iter().map(|worker| worker.busy).sum(),
            watts: now.energy.watts,
            energy_basis: now.energy.basis,
            joules_per_packet: (forwarded > 0).then(|| joules.max(0.0) / forwarded as f64),
            latency_us: (latency.count > 0).then_some(Percentiles {
                mean: latency.mean_us,
                p50: latency.p50_us,
                p99: latency.p99_us,
            }),
            workers,
            ports: ports(before, now, span),
            dropped_for: reasons(&old, &new, span),
            dropped_since_start: new.dropped,
            warnings: now.warnings.clone(),
        }
    }

    /// What is drawn of it over time.
    pub(super) fn look(&self) -> Look {
        Look {
            received_pps: self.received_pps,
            forwarded_pps: self.forwarded_pps,
            dropped_pps: self.dropped_pps,
            cores: f64::from(self.cores),
            busy_cores: self.busy_cores,
            watts: self.watts,
        }
    }

    /// A line for those without a terminal.
    pub(super) fn line(&self) -> String {
        format!(
            "{:>8.0} s  received {:>9.0} /s  forwarded {:>9.0} /s  dropped {:>7.0} /s  cores {}  \
             busy {:.2}  {:.1} W {}",
            self.uptime_seconds,
            self.received_pps,
            self.forwarded_pps,
            self.dropped_pps,
            self.cores,
            self.busy_cores,
            self.watts,
            self.energy_basis.name(),
        )
    }
}

fn workers(before: &Status, now: &Status, span: f64) -> Vec<WorkerRates> {
    let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / span;
    let none = ebb_routerd::status::Worker::default();
    let each = |(worker, new): (usize, &ebb_routerd::status::Worker)| {
        let old = before.workers.get(worker).unwrap_or(&none);
        WorkerRates {
            worker,
            cpu: new.cpu,
            state: new.state,
            busy: ((new.busy_seconds - old.busy_seconds) / span).clamp(0.0, 1.0),
            received_pps: rate(old.packets.received, new.packets.received),
            forwarded_pps: rate(old.packets.forwarded, new.packets.forwarded),
            dropped_pps: rate(old.packets.dropped_total(), new.packets.dropped_total()),
            wakeups_per_second: rate(old.wakeups, new.wakeups),
            queue_len: new.queue_len,
        }
    };
    now.workers.iter().enumerate().map(each).collect()
}

/// Ports by name: a reload may have changed their number.
fn ports(before: &Status, now: &Status, span: f64) -> Vec<PortRates> {
    let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / span;
    let none = ebb_routerd::status::Port::default();
    let each = |new: &ebb_routerd::status::Port| {
        let old = before.ports.iter().find(|old| old.name == new.name).unwrap_or(&none);
        let lost = |port: &ebb_routerd::status::Port| {
            port.receive_dropped + port.transmit_invalid + port.transmit_dropped
        };
        PortRates {
            port: new.name.clone(),
            link: match (new.gone, new.up) {
                (true, _) => "gone",
                (false, true) => "up",
                (false, false) => "down",
            },
            received_pps: rate(old.received, new.received),
            transmitted_pps: rate(old.transmitted, new.transmitted),
            received_bps: 8.0 * rate(old.received_bytes, new.received_bytes),
            transmitted_bps: 8.0 * rate(old.transmitted_bytes, new.transmitted_bytes),
            lost_pps: rate(lost(old), lost(new)),
            to_kernel_pps: rate(old.passed_to_kernel, new.passed_to_kernel),
            latency_p99_us: (new.latency.count > 0).then_some(new.latency.p99_us),
        }
    };
    now.ports.iter().map(each).collect()
}

fn reasons(old: &Packets, new: &Packets, span: f64) -> BTreeMap<String, f64> {
    let rate = |(reason, count): (&String, &u64)| {
        let before = old.dropped.get(reason).copied().unwrap_or(0);
        (reason.clone(), count.saturating_sub(before) as f64 / span)
    };
    new.dropped.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_routerd::status::{Port, Worker};

    fn status(uptime_seconds: f64, received: u64, busy_seconds: f64) -> Status {
        let dropped = [("no_route".to_owned(), received / 10)].into();
        let forwarded = received - received / 10;
        let packets = Packets { received, forwarded, dropped, ..Packets::default() };
        let port = Port { name: "eth1".into(), received_bytes: 100 * received, ..Port::default() };
        Status {
            uptime_seconds,
            workers: vec![Worker { packets, busy_seconds, ..Worker::default() }],
            ports: vec![port],
            ..Status::default()
        }
    }

    #[test]
    fn rates_are_differences_over_the_routers_own_time() {
        let interval = Interval::between(&status(10.0, 1000, 1.0), &status(12.0, 41_000, 2.0));
        assert_eq!((interval.received_pps, interval.busy_cores), (20_000.0, 0.5));
        assert_eq!(interval.dropped_for["no_route"], 2000.0);
        assert_eq!(interval.dropped_since_start["no_route"], 4100);
        assert_eq!(interval.ports[0].received_bps, 16e6);
        assert_eq!(interval.joules_per_packet, Some(0.0));
        assert!(interval.line().contains("received     20000 /s"), "{}", interval.line());
    }

    /// A router that was started anew, or has other ports after a reload, gives no wrong rates.
    #[test]
    fn counters_that_begin_again_count_nothing() {
        let mut now = status(1.0, 10, 0.1);
        now.ports.insert(0, Port { name: "eth9".into(), received: 7, ..Port::default() });
        let interval = Interval::between(&status(100.0, 5000, 9.0), &now);
        assert_eq!((interval.received_pps, interval.busy_cores), (0.0, 0.0));
        assert_eq!(interval.joules_per_packet, None);
        assert_eq!(interval.ports[1].port, "eth1");
    }

    #[test]
    fn a_line_of_json_has_units_in_its_names() {
        let interval = Interval::between(&status(0.0, 0, 0.0), &status(1.0, 100, 1.0));
        let json = serde_json::to_value(&interval).expect("JSON");
        assert_eq!(json["workers"][0]["busy"], 1.0);
        assert_eq!(json["ports"][0]["received_bps"], 80_000.0);
        assert_eq!(json["dropped_for"]["no_route"], 10.0);
        assert_eq!(json["energy_basis"], "modelled");
        assert!(!serde_json::to_string(&interval).expect("JSON").contains('\n'));
    }
}

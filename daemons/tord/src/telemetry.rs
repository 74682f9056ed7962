//! Metrics of the top-of-rack switch, the optical switch and the controller, as views of their states.

use ebb_telemetry::{Metric, Point, Points, Source, Unit, Value, alone, each, metrics};

use crate::optical::SwitchStatus;
use crate::plan;
use crate::status::{ControlStatus, EDGES_NS, OcsStatus, RackStatus, Times, TorStatus};

/// What the three of them say alike.
macro_rules! source {
    ($status:ident, $daemon:literal, [$($groups:ident),*], |$s:ident| $facts:expr) => {
        impl Source for $status {
            const DAEMON: &'static str = $daemon;
            const PREFIX: &'static str = "ebb_circuit";

            fn metrics() -> Vec<&'static [Metric<$status>]> {
                vec![$($groups),*]
            }

            fn uptime_seconds(&self) -> f64 {
                self.uptime_seconds
            }

            fn facts(&self) -> Vec<(&'static str, String)> {
                let $s = self;
                $facts
            }

            fn notes(&self) -> Vec<String> {
                let warning = "sync frames are not sealed (token_file is not set): for \
                    laboratories only";
                if self.sealed { Vec::new() } else { vec![warning.to_owned()] }
            }
        }
    };
}

source!(TorStatus, "tor", [TOR, TOR_SYNC, ENERGY, RACKS, WAITING], |s| {
    let mut facts = source(s.source);
    facts.push(("energy_basis", s.energy.basis.name().to_owned()));
    facts
});
source!(OcsStatus, "ocs", [OCS, OCS_SYNC], |s| source(s.source));
source!(ControlStatus, "control", [CONTROL, SWITCH], |_s| Vec::new());

/// Whose days a program keeps.
fn source(source: Option<plan::Source>) -> Vec<(&'static str, String)> {
    let name = match source {
        Some(plan::Source::Controller) => "controller",
        Some(plan::Source::Rotation) => "rotation",
        Some(plan::Source::Packets) => "packets",
        None => "none",
    };
    vec![("source", name.to_owned())]
}

/// What became of sync frames at a program that follows them.
macro_rules! sync {
    ($group:ident, $status:ident) => {
        metrics! {
            static $group: $status {
                gauge uptime Seconds "Time since the start" |s| s.uptime_seconds;
                counter cpu Seconds "Processor time of its thread" |s| s.cpu_seconds;
                counter reloads "Configurations reloaded" |s| s.reloads;
                gauge sealed "Whether sync frames are sealed" |s| s.sealed;
                counter sync_accepted "Valid sync frames received" |s| s.sync.accepted;
                counter sync_days "Days received in sync frames" |s| s.sync.days;
                counter sync_doubled "Sync frames without new days" |s| s.sync.doubled;
                counter sync_late "Sync frames whose days had passed" |s| s.sync.late;
                counter sync_missed "Days not announced in time" |s| s.sync.missed;
                counter sync_contradicting "Sync frames that contradict earlier ones" |s| s.sync.contradicting;
                counter sync_stepped "Sync frames from another controller or clock" |s| s.sync.stepped;
                counter sync_malformed "Malformed sync frames" |s| s.sync.malformed;
                counter sync_forged "Sync frames not sealed with a known key" |s| s.sync.forged;
                counter sync_replayed "Repeated sealed sync frames" |s| s.sync.replayed;
            }
        }
    };
}

sync!(TOR_SYNC, TorStatus);
sync!(OCS_SYNC, OcsStatus);

metrics! {
    static TOR: TorStatus {
        counter rounds "Iterations of its loop" |s| s.rounds;
        counter waited Seconds "Time that its thread waited for the CPU" |s| s.waited_seconds;
        counter stood_still "Gaps of 20 us or longer between two readings of the clock" |s| s.looks.from(20_000);
        histogram look Seconds "Time between two readings of the clock, without sleep" |s| classes(&s.looks);
        histogram woken_late Seconds "Delay after the requested end of sleep" |s| classes(&s.woken_late);
    }
    static ENERGY: TorStatus by ["basis"] of on_its_basis {
        counter energy Joules "Energy that the switch drew" |s| s.energy.joules;
        gauge power Watts "Mean power over the last interval" |s| s.energy.watts;
        gauge energy_per_packet Joules "Energy per frame handed on" |s| s.energy.joules_per_packet;
    }
    static RACKS: TorStatus by ["rack"] of racks {
        counter rack_from_hosts "Frames from its hosts" |r| r.from_hosts;
        counter rack_to_hosts "Frames to its hosts" |r| r.to_hosts;
        counter rack_sent "Frames sent to circuits" |r| r.sent;
        counter rack_sent Bytes "Bytes of these frames on the link" |r| r.sent_bytes;
        counter rack_sent_by_packets "Frames sent to the packet path" |r| r.sent_by_packets;
        counter rack_received "Frames from the optical switch" |r| r.received;
        counter rack_requeued "Frames that went back to their queue" |r| r.requeued;
        counter rack_to_kernel "Frames handed to the switch's own kernel" |r| r.to_kernel;
        counter rack_icmp_sent "ICMP errors sent" |r| r.icmp_sent;
        counter rack_marked "Packets marked for their senders to slow down because their queue was long" |r| r.marked;
        counter rack_dropped_full "Frames dropped because a queue was full" |r| r.dropped_full;
        counter rack_dropped_unroutable "Frames dropped because they were malformed or to an unknown destination" |r| r.dropped_unroutable;
        counter rack_dropped_receive "Received frames lost by the kernel" |r| r.dropped_receive;
        counter rack_dropped_transmit "Frames that an interface did not send" |r| r.dropped_transmit;
        counter rack_days "Days with a circuit to another rack" |r| r.days;
        counter rack_days_wanted "Days that began with frames waiting" |r| r.days_wanted;
        counter rack_days_left "Days that ended with frames waiting" |r| r.days_left;
        histogram rack_first_after Seconds "Time from a day's begin to its first frame" |r| classes(&r.first_after);
    }
    static OCS: OcsStatus {
        counter frames "Frames that arrived for a circuit" |s| s.frames;
        counter passed "Frames that passed" |s| s.passed;
        counter passed Bytes "Bytes of these frames on the link" |s| s.passed_bytes;
        counter at_night "Frames dropped because they were sent at night" |s| s.at_night;
        counter wrong_circuit "Frames dropped because the circuit led to another rack" |s| s.wrong_circuit;
        counter unknown "Frames dropped because no circuit was known" |s| s.unknown;
        counter by_packets "Frames that passed on the packet path" |s| s.by_packets;
        counter packets_full "Frames dropped on the packet path" |s| s.packets_full;
        counter dropped_transmit "Frames that an output did not send" |s| s.dropped_transmit;
        counter dropped_receive "Received frames lost by the kernel" |s| s.dropped_receive;
        histogram outside Seconds "Time by which frames were outside their day" |s| classes(&s.outside);
    }
    static CONTROL: ControlStatus {
        gauge uptime Seconds "Time since the start" |s| s.uptime_seconds;
        counter sync_sent "Sync frames sent" |s| s.sent;
        counter days_announced "Days announced" |s| s.days;
        counter reports "Reports of queues received" |s| s.reports;
        counter malformed "Malformed frames" |s| s.malformed;
        gauge sealed "Whether sync frames are sealed" |s| s.sealed;
        counter forged "Reports not sealed with a known key" |s| s.forged;
        counter replayed "Repeated or old sealed reports" |s| s.replayed;
        counter reloads "Configurations reloaded" |s| s.reloads;
        gauge schedule Seconds "Time to compute the last schedule" |s| s.schedule_us / 1e6;
    }
    /// Of the real optical switch that it sets, where there is one.
    static SWITCH: ControlStatus by [] of switch {
        counter switch_up "Days whose circuits stood when they began" |s| s.up;
        counter switch_late "Days whose circuits stood only after they began" |s| s.late;
        counter switch_failed "Days that the optical switch did not make" |s| s.failed;
        gauge switch_settle Seconds "Time from a night's begin until the last circuits stood" |s| s.settle_us / 1e6;
    }
}

static WAITING: &[Metric<TorStatus>] =
    &[Metric::<TorStatus>::gauge("rack_waiting", "Bytes that wait, by destination rack", |s| {
        let waiting = s.racks.iter().flat_map(|rack| {
            let waiting = rack.waiting_bytes.iter().enumerate();
            waiting.map(|(to, bytes)| (rack.rack, to, *bytes))
        });
        let label = |(from, to, bytes): (u8, usize, u64)| {
            Point(vec![from.to_string(), to.to_string()], Value::Count(bytes))
        };
        waiting.map(label).collect()
    })
    .in_unit(Unit::Bytes)
    .by(&["rack", "destination"])];

fn on_its_basis(status: &TorStatus, read: fn(&TorStatus) -> Option<Value>) -> Points {
    let basis = || vec![status.energy.basis.name().to_owned()];
    read(status).into_iter().map(|value| Point(basis(), value)).collect()
}

fn switch(status: &ControlStatus, read: fn(&SwitchStatus) -> Option<Value>) -> Points {
    status.switch.as_ref().map_or_else(Vec::new, |switch| alone(switch, read))
}

fn racks(status: &TorStatus, read: fn(&RackStatus) -> Option<Value>) -> Points {
    each(&status.racks, |rack| vec![rack.rack.to_string()], read)
}

fn classes(times: &Times) -> Value {
    let edges = EDGES_NS.iter().map(|ns| *ns as f64 / 1e9).collect();
    Value::Classes { edges, counts: times.counts.clone(), sum: times.sum_ns as f64 / 1e9 }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::Snapshot;

    use super::*;
    use crate::status::Energy;

    #[test]
    fn counters_are_counters_and_times_histograms() {
        let mut first_after = Times::default();
        [400, 2_500, 2_600, 900_000].into_iter().for_each(|ns| first_after.add(ns));
        let waiting_bytes = vec![0, 1500];
        let rack =
            RackStatus { rack: 3, sent: 7, waiting_bytes, first_after, ..RackStatus::default() };
        let energy = Energy { joules: 2.5, ..Energy::default() };
        let status = TorStatus { racks: vec![rack], energy, ..TorStatus::default() };
        let text = Snapshot::of(&status).openmetrics();
        for line in [
            "# TYPE ebb_circuit_rack_sent counter",
            "ebb_circuit_rack_sent_total{rack=\"3\"} 7",
            "ebb_circuit_rack_waiting_bytes{destination=\"1\",rack=\"3\"} 1500",
            "ebb_circuit_rack_first_after_seconds_bucket{le=\"0.000003\",rack=\"3\"} 3",
            "ebb_circuit_rack_first_after_seconds_count{rack=\"3\"} 4",
            "ebb_circuit_sync_missed_total 0",
            "ebb_circuit_sealed 0",
            "ebb_circuit_energy_joules_total{basis=\"modelled\"} 2.5",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in {text}");
        }
    }
}

//! Metrics of the top-of-rack switch, the optical switch and the controller, as views of their states.

use ebb_telemetry::{Metric, Point, Points, Source, Unit, Value, one};

use crate::plan::{self, SyncCounters};
use crate::status::{ControlStatus, EDGES_NS, OcsStatus, RackStatus, Times, TorStatus};

const PREFIX: &str = "ebb_circuit";

type Tor = Metric<TorStatus>;
type Ocs = Metric<OcsStatus>;
type Control = Metric<ControlStatus>;

/// What the programs that follow sync frames share.
trait Follower: 'static {
    fn sync(&self) -> &SyncCounters;
    fn is_sealed(&self) -> bool;
    fn uptime(&self) -> f64;
    fn cpu(&self) -> f64;
    fn reloads(&self) -> u64;
}

macro_rules! follower {
    ($status:ty) => {
        impl Follower for $status {
            fn sync(&self) -> &SyncCounters {
                &self.sync
            }
            fn is_sealed(&self) -> bool {
                self.sealed
            }
            fn uptime(&self) -> f64 {
                self.uptime_seconds
            }
            fn cpu(&self) -> f64 {
                self.cpu_seconds
            }
            fn reloads(&self) -> u64 {
                self.reloads
            }
        }
    };
}

follower!(TorStatus);
follower!(OcsStatus);

/// Metrics of a program that follows sync frames.
struct Following<S>(std::marker::PhantomData<S>);

impl<S: Follower> Following<S> {
    const METRICS: &'static [Metric<S>] = &[
        Metric::gauge("uptime", "Time since the start", |s: &S| one(s.uptime()))
            .in_unit(Unit::Seconds),
        Metric::counter("cpu", "Processor time of its thread", |s: &S| one(s.cpu()))
            .in_unit(Unit::Seconds),
        Metric::counter("reloads", "Configurations taken over", |s: &S| one(s.reloads())),
        Metric::gauge("sealed", "Whether sync frames are sealed", |s: &S| one(s.is_sealed())),
        Metric::counter(
            "sync_accepted",
            "Sync frames that said something new or known",
            |s: &S| one(s.sync().accepted),
        ),
        Metric::counter("sync_days", "Days taken over from sync frames", |s: &S| {
            one(s.sync().days)
        }),
        Metric::counter("sync_doubled", "Sync frames without a new day", |s: &S| {
            one(s.sync().doubled)
        }),
        Metric::counter("sync_late", "Sync frames whose days were over", |s: &S| {
            one(s.sync().late)
        }),
        Metric::counter(
            "sync_missed",
            "Days that no frame announced before they began",
            |s: &S| one(s.sync().missed),
        ),
        Metric::counter("sync_contradicting", "Sync frames that contradict others", |s: &S| {
            one(s.sync().contradicting)
        }),
        Metric::counter("sync_stepped", "Sync frames from another controller or clock", |s: &S| {
            one(s.sync().stepped)
        }),
        Metric::counter("sync_malformed", "Sync frames that are malformed", |s: &S| {
            one(s.sync().malformed)
        }),
        Metric::counter("sync_forged", "Sync frames without a seal of a known key", |s: &S| {
            one(s.sync().forged)
        }),
        Metric::counter("sync_replayed", "Sealed sync frames heard before", |s: &S| {
            one(s.sync().replayed)
        }),
    ];
}

/// Whose days a program keeps.
fn source(source: Option<plan::Source>) -> (&'static str, String) {
    let name = match source {
        Some(plan::Source::Controller) => "controller",
        Some(plan::Source::Rotation) => "rotation",
        Some(plan::Source::Packets) => "packets",
        None => "none",
    };
    ("source", name.to_owned())
}

fn unsealed(sealed: bool) -> Vec<String> {
    let warning = "sync frames are not sealed (token_file is not set): for laboratories";
    if sealed { Vec::new() } else { vec![warning.to_owned()] }
}

impl Source for TorStatus {
    const DAEMON: &'static str = "tor";
    const PREFIX: &'static str = PREFIX;

    fn metrics() -> Vec<&'static [Metric<TorStatus>]> {
        vec![Following::<TorStatus>::METRICS, TOR, RACKS]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![source(self.source)]
    }

    fn notes(&self) -> Vec<String> {
        unsealed(self.sealed)
    }
}

static TOR: &[Tor] = &[
    Tor::counter("rounds", "Rounds of its loop", |s| one(s.rounds)),
    Tor::counter("waited", "Time in which its thread could have run and others did", |s| {
        one(s.waited_seconds)
    })
    .in_unit(Unit::Seconds),
    Tor::counter("stood_still", "Times of 20 us or longer between two looks at the clock", |s| {
        one(s.looks.from(20_000))
    }),
    Tor::histogram("look", "Time between two looks at the clock, sleep left out", |s| {
        vec![Point(Vec::new(), times(&s.looks))]
    })
    .in_unit(Unit::Seconds),
    Tor::histogram("woken_late", "How much later than asked for sleep ended", |s| {
        vec![Point(Vec::new(), times(&s.woken_late))]
    })
    .in_unit(Unit::Seconds),
];

/// A metric with a value for each rack.
const fn rack(metric: Metric<TorStatus>) -> Metric<TorStatus> {
    metric.by(&["rack"])
}

static RACKS: &[Tor] = &[
    rack(Tor::counter("rack_from_hosts", "Frames from its hosts", |s| {
        racks(s, |rack| rack.from_hosts.into())
    })),
    rack(Tor::counter("rack_to_hosts", "Frames to its hosts", |s| {
        racks(s, |rack| rack.to_hosts.into())
    })),
    rack(Tor::counter("rack_sent", "Frames handed to circuits", |s| {
        racks(s, |rack| rack.sent.into())
    })),
    rack(Tor::counter("rack_sent", "Bytes on the link of frames handed to circuits", |s| {
        racks(s, |rack| rack.sent_bytes.into())
    }))
    .in_unit(Unit::Bytes),
    rack(Tor::counter("rack_sent_by_packets", "Frames handed to the packet path", |s| {
        racks(s, |rack| rack.sent_by_packets.into())
    })),
    rack(Tor::counter("rack_received", "Frames from the optical switch", |s| {
        racks(s, |rack| rack.received.into())
    })),
    rack(Tor::counter("rack_requeued", "Frames that went back to their queue", |s| {
        racks(s, |rack| rack.requeued.into())
    })),
    rack(Tor::counter("rack_dropped_full", "Frames that no queue had room for", |s| {
        racks(s, |rack| rack.dropped_full.into())
    })),
    rack(Tor::counter("rack_dropped_unroutable", "Frames to nobody known, or malformed", |s| {
        racks(s, |rack| rack.dropped_unroutable.into())
    })),
    rack(Tor::counter(
        "rack_dropped_receive",
        "Frames that the kernel lost on their way in",
        |s| racks(s, |rack| rack.dropped_receive.into()),
    )),
    rack(Tor::counter("rack_dropped_transmit", "Frames that an interface did not take", |s| {
        racks(s, |rack| rack.dropped_transmit.into())
    })),
    Tor::gauge("rack_waiting", "Bytes that wait, by the rack they go to", |s| {
        let each = |rack: &RackStatus| {
            let from = rack.rack.to_string();
            let waiting = rack.waiting_bytes.clone().into_iter().enumerate();
            let point = move |(to, bytes): (usize, u64)| {
                Point(vec![from.clone(), to.to_string()], bytes.into())
            };
            waiting.map(point).collect::<Vec<_>>()
        };
        s.racks.iter().flat_map(each).collect()
    })
    .in_unit(Unit::Bytes)
    .by(&["rack", "destination"]),
    rack(Tor::counter("rack_days", "Days with a circuit to another rack", |s| {
        racks(s, |rack| rack.days.into())
    })),
    rack(Tor::counter("rack_days_wanted", "Days on which something waited when they began", |s| {
        racks(s, |rack| rack.days_wanted.into())
    })),
    rack(Tor::counter("rack_days_left", "Days that left something waiting", |s| {
        racks(s, |rack| rack.days_left.into())
    })),
    rack(Tor::histogram(
        "rack_first_after",
        "How long after a day's begin its first frame was handed over",
        |s| racks(s, |rack| times(&rack.first_after)),
    ))
    .in_unit(Unit::Seconds),
];

fn racks(status: &TorStatus, value: fn(&RackStatus) -> Value) -> Points {
    status.racks.iter().map(|rack| Point(vec![rack.rack.to_string()], value(rack))).collect()
}

fn times(times: &Times) -> Value {
    let edges = EDGES_NS.iter().map(|ns| *ns as f64 / 1e9).collect();
    Value::Classes { edges, counts: times.counts.clone(), sum: times.sum_ns as f64 / 1e9 }
}

impl Source for OcsStatus {
    const DAEMON: &'static str = "ocs";
    const PREFIX: &'static str = PREFIX;

    fn metrics() -> Vec<&'static [Metric<OcsStatus>]> {
        vec![Following::<OcsStatus>::METRICS, OCS]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![source(self.source)]
    }

    fn notes(&self) -> Vec<String> {
        unsealed(self.sealed)
    }
}

static OCS: &[Ocs] = &[
    Ocs::counter("frames", "Frames that arrived for a circuit", |s| one(s.frames)),
    Ocs::counter("passed", "Frames that passed", |s| one(s.passed)),
    Ocs::counter("passed", "Bytes on the link of frames that passed", |s| one(s.passed_bytes))
        .in_unit(Unit::Bytes),
    Ocs::counter("at_night", "Frames dropped because their light was on at night", |s| {
        one(s.at_night)
    }),
    Ocs::counter("wrong_circuit", "Frames dropped because the circuit went elsewhere", |s| {
        one(s.wrong_circuit)
    }),
    Ocs::counter("unknown", "Frames dropped because no circuit was known", |s| one(s.unknown)),
    Ocs::counter("by_packets", "Frames that passed on the packet path", |s| one(s.by_packets)),
    Ocs::counter("packets_full", "Frames dropped on the packet path", |s| one(s.packets_full)),
    Ocs::counter("dropped_transmit", "Frames that no output took", |s| one(s.dropped_transmit)),
    Ocs::counter("dropped_receive", "Frames that the kernel lost on their way in", |s| {
        one(s.dropped_receive)
    }),
    Ocs::histogram("outside", "How far outside their day frames were", |s| {
        vec![Point(Vec::new(), times(&s.outside))]
    })
    .in_unit(Unit::Seconds),
];

impl Source for ControlStatus {
    const DAEMON: &'static str = "control";
    const PREFIX: &'static str = PREFIX;

    fn metrics() -> Vec<&'static [Metric<ControlStatus>]> {
        vec![CONTROL]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        unsealed(self.sealed)
    }
}

static CONTROL: &[Control] = &[
    Control::gauge("uptime", "Time since the start", |s| one(s.uptime_seconds))
        .in_unit(Unit::Seconds),
    Control::counter("sync_sent", "Sync frames sent", |s| one(s.sent)),
    Control::counter("days_announced", "Days announced", |s| one(s.days)),
    Control::counter("reports", "Reports of queues received", |s| one(s.reports)),
    Control::counter("malformed", "Frames that made no sense", |s| one(s.malformed)),
    Control::gauge("sealed", "Whether sync frames are sealed", |s| one(s.sealed)),
    Control::counter("forged", "Reports without a seal of a known key", |s| one(s.forged)),
    Control::counter(
        "replayed",
        "Sealed reports heard before, or of long ago",
        |s| one(s.replayed),
    ),
    Control::counter("reloads", "Configurations taken over", |s| one(s.reloads)),
    Control::gauge("schedule", "Time that the last schedule took", |s| one(s.schedule_us / 1e6))
        .in_unit(Unit::Seconds),
];

#[cfg(test)]
mod tests {
    use ebb_telemetry::Snapshot;

    use super::*;

    #[test]
    fn counters_are_counters_and_times_histograms() {
        let mut first_after = Times::default();
        [400, 2_500, 2_600, 900_000].into_iter().for_each(|ns| first_after.add(ns));
        let waiting_bytes = vec![0, 1500];
        let rack =
            RackStatus { rack: 3, sent: 7, waiting_bytes, first_after, ..RackStatus::default() };
        let status = TorStatus { racks: vec![rack], ..TorStatus::default() };
        let text = Snapshot::of(&status).openmetrics();
        for line in [
            "# TYPE ebb_circuit_rack_sent counter",
            "ebb_circuit_rack_sent_total{rack=\"3\"} 7",
            "ebb_circuit_rack_waiting_bytes{destination=\"1\",rack=\"3\"} 1500",
            "ebb_circuit_rack_first_after_seconds_bucket{le=\"3e-6\",rack=\"3\"} 3",
            "ebb_circuit_rack_first_after_seconds_count{rack=\"3\"} 4",
            "ebb_circuit_sync_missed_total 0",
            "ebb_circuit_sealed 0",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in {text}");
        }
    }
}

//! The router's metrics, as views of its [`Status`].

use ebb_telemetry::{Metric, Point, Points, Source, Unit, Value, one};

use crate::status::{Interface, Latency, Port, Status, Worker, WorkerState};

type M = Metric<Status>;

impl Source for Status {
    const DAEMON: &'static str = "router";
    const PREFIX: &'static str = "ebb";

    fn metrics() -> Vec<&'static [Metric<Status>]> {
        vec![ROUTER, WORKERS, PORTS, INTERFACES, DELAYS]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("mode", self.mode.clone()),
            ("idle", self.point.depth.clone()),
            ("energy_basis", self.energy.basis.name().to_owned()),
        ]
    }

    fn notes(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// The router as a whole.
static ROUTER: &[M] = &[
    M::gauge("router", "Version and policy of the router", |s| {
        vec![Point(vec![s.version.clone(), s.mode.clone()], 1u64.into())]
    })
    .by(&["version", "mode"]),
    M::gauge("uptime", "Time since the start", |s| one(s.uptime_seconds)).in_unit(Unit::Seconds),
    M::gauge("active_cores", "Cores that receive packets", |s| count(s.point.cores)),
    M::gauge("cores", "Cores the router may use", |s| count(s.point.cores_max)),
    M::gauge("frequency_index", "Operating frequency, 0 is the lowest", |s| {
        count(s.point.frequency)
    }),
    M::gauge("frequency", "Operating frequency", |s| {
        s.point.frequency_hz.map_or_else(Vec::new, |hertz| one(hertz as f64))
    })
    .in_unit(Unit::Hertz),
    M::gauge("routes", "Prefixes in the tables", |s| one(s.tables.routes)),
    M::gauge("neighbours", "Neighbours known", |s| one(s.tables.neighbours)),
    M::counter("table_changes", "Changes from the kernel", |s| one(s.tables.changes)),
    M::counter("resyncs", "Complete comparisons with the kernel", |s| one(s.tables.resyncs)),
    M::counter("unread_lists", "Lists of the kernel that changed while they were read", |s| {
        one(s.tables.unread)
    }),
    M::counter("table_failures", "Errors in asking the kernel", |s| one(s.tables.failures)),
    M::counter("refused_routes", "Routes without a place", |s| one(s.tables.refused)),
    M::gauge("frames", "Packet memory", |s| one(s.frames.total)),
    M::gauge("frames_free", "Unused packet memory", |s| one(s.frames.free)),
    M::counter("operating_point_changes", "Changes of the operating point", |s| {
        one(s.governor.changes)
    }),
    M::counter("redirect_moves", "Redirect entries moved", |s| one(s.governor.entries_moved)),
    M::counter("late_handovers", "Hand-overs in which a worker answered too late", |s| {
        one(s.governor.late)
    }),
    M::counter("knob_refusals", "Knobs that refused", |s| one(s.governor.refusals)),
    M::counter("energy", "Energy drawn", |s| energy(s, Some(s.energy.joules)))
        .in_unit(Unit::Joules)
        .by(&["basis"]),
    M::gauge("power", "Mean power over the last interval", |s| energy(s, Some(s.energy.watts)))
        .in_unit(Unit::Watts)
        .by(&["basis"]),
    M::gauge("energy_per_packet", "Energy per packet forwarded", |s| {
        energy(s, s.energy.joules_per_packet)
    })
    .in_unit(Unit::Joules)
    .by(&["basis"]),
];

/// A metric with a value for each worker.
const fn worker(metric: M) -> M {
    metric.by(&["worker"])
}

static WORKERS: &[M] = &[
    worker(M::counter("received_packets", "Packets received", |s| {
        workers(s, |w| w.packets.received.into())
    })),
    worker(M::counter("forwarded_packets", "Packets sent on", |s| {
        workers(s, |w| w.packets.forwarded.into())
    })),
    worker(M::counter("kernel_packets", "Packets handed to the kernel", |s| {
        workers(s, |w| w.packets.to_kernel.into())
    })),
    worker(M::counter("originated_packets", "ICMP messages sent", |s| {
        workers(s, |w| w.packets.originated.into())
    })),
    worker(M::counter("originated_dropped_packets", "ICMP messages that could not be sent", |s| {
        workers(s, |w| w.packets.originated_dropped.into())
    })),
    worker(M::counter("suppressed_icmp", "ICMP messages not sent for their rate", |s| {
        workers(s, |w| w.packets.icmp_suppressed.into())
    })),
    worker(M::counter("finished_checksums", "Checksums that senders left unfinished", |s| {
        workers(s, |w| w.packets.checksums_finished.into())
    })),
    M::counter("dropped_packets", "Packets dropped, by reason", |s| {
        let each = |(index, worker): (usize, &Worker)| {
            let dropped = worker.packets.dropped.clone().into_iter();
            let point = move |(reason, count): (String, u64)| {
                Point(vec![index.to_string(), reason], count.into())
            };
            dropped.map(point).collect::<Vec<_>>()
        };
        s.workers.iter().enumerate().flat_map(each).collect()
    })
    .by(&["worker", "reason"]),
    worker(M::gauge("held_packets", "Packets that wait for a neighbour", |s| {
        workers(s, |w| w.packets.held.into())
    })),
    worker(M::gauge("worker_active", "Whether the worker receives packets", |s| {
        workers(s, |w| (w.state == WorkerState::Active).into())
    })),
    worker(M::gauge("worker_cpu", "The CPU on which the worker runs, where it is pinned", |s| {
        let cpu = |(index, worker): (usize, &Worker)| {
            Some(Point(vec![index.to_string()], u64::from(worker.cpu?).into()))
        };
        s.workers.iter().enumerate().filter_map(cpu).collect()
    })),
    worker(M::counter("worker_busy", "Time awake", |s| workers(s, |w| w.busy_seconds.into())))
        .in_unit(Unit::Seconds),
    worker(M::gauge("queue_length", "Packets that waited at the last look", |s| {
        workers(s, |w| u64::from(w.queue_len).into())
    })),
    worker(M::counter("wakeups", "Times the worker woke", |s| workers(s, |w| w.wakeups.into()))),
    worker(M::counter("batches", "Receptions that brought packets", |s| {
        workers(s, |w| w.batches.into())
    })),
];

/// A metric with a value for each port.
const fn port(metric: M) -> M {
    metric.by(&["port"])
}

static PORTS: &[M] = &[
    port(M::gauge("port_up", "Whether the port can send", |s| ports(s, |p| p.up.into()))),
    port(M::gauge("port_gone", "Whether the interface disappeared", |s| {
        ports(s, |p| p.gone.into())
    })),
    port(M::counter("port_received_packets", "Packets received", |s| {
        ports(s, |p| p.received.into())
    })),
    port(M::counter("port_transmitted_packets", "Packets sent", |s| {
        ports(s, |p| p.transmitted.into())
    })),
    port(M::counter("port_receive_dropped_packets", "Packets lost before a worker", |s| {
        ports(s, |p| p.receive_dropped.into())
    })),
    port(M::counter("port_received", "Bytes of frames received", |s| {
        ports(s, |p| p.received_bytes.into())
    }))
    .in_unit(Unit::Bytes),
    port(M::counter("port_transmitted", "Bytes of frames sent", |s| {
        ports(s, |p| p.transmitted_bytes.into())
    }))
    .in_unit(Unit::Bytes),
    port(M::counter("port_transmit_invalid_packets", "Packets the port refused", |s| {
        ports(s, |p| p.transmit_invalid.into())
    })),
    port(M::counter(
        "port_transmit_dropped_packets",
        "Packets that waited when the link was set down",
        |s| ports(s, |p| p.transmit_dropped.into()),
    )),
    port(M::counter("port_kernel_packets", "Packets passed before a worker", |s| {
        ports(s, |p| p.passed_to_kernel.into())
    })),
    M::counter("port_policy_packets", "Packets passed for the sake of the kernel's policy", |s| {
        let each = |port: &Port| {
            let (name, passed) = (port.name.clone(), port.passed_for.clone().into_iter());
            let point = move |(mechanism, count): (String, u64)| {
                Point(vec![name.clone(), mechanism], count.into())
            };
            passed.map(point).collect::<Vec<_>>()
        };
        s.ports.iter().flat_map(each).collect()
    })
    .by(&["port", "mechanism"]),
    port(M::counter("port_kernel_path_packets", "Packets forwarded on the kernel path", |s| {
        ports(s, |p| p.kernel_path.into())
    })),
    port(M::counter("port_kernel_path", "Bytes of frames forwarded on the kernel path", |s| {
        ports(s, |p| p.kernel_path_bytes.into())
    }))
    .in_unit(Unit::Bytes),
    port(M::counter(
        "port_long_packets",
        "Packets passed because they are longer than a frame",
        |s| ports(s, |p| p.passed_long.into()),
    )),
    port(M::counter(
        "port_tag_beside_packets",
        "Packets passed because their VLAN tag travels beside them",
        |s| ports(s, |p| p.passed_beside.into()),
    )),
];

/// A metric with a value for each layer-3 interface.
const fn interface(metric: M) -> M {
    metric.by(&["interface", "port", "vlan"])
}

static INTERFACES: &[M] = &[
    interface(M::counter("interface_received_packets", "Packets received to be routed", |s| {
        interfaces(s, |i| i.received)
    })),
    interface(M::counter("interface_received", "Bytes of frames received to be routed", |s| {
        interfaces(s, |i| i.received_bytes)
    }))
    .in_unit(Unit::Bytes),
    interface(M::counter("interface_forwarded_packets", "Packets routed out", |s| {
        interfaces(s, |i| i.forwarded)
    })),
    interface(M::counter("interface_forwarded", "Bytes of frames routed out", |s| {
        interfaces(s, |i| i.forwarded_bytes)
    }))
    .in_unit(Unit::Bytes),
];

static DELAYS: &[M] = &[
    M::gauge("latency", "Delay of sampled packets, by the port that received them", |s| {
        let sampled = s.ports.iter();
        sampled.flat_map(|port| quantiles(&[&port.name], &port.latency)).collect()
    })
    .in_unit(Unit::Seconds)
    .by(&["port", "quantile"]),
    port(M::gauge("latency_mean", "Mean delay of sampled packets", |s| {
        sampled(s, |latency| (latency.mean_us / 1e6).into())
    }))
    .in_unit(Unit::Seconds),
    port(M::counter("latency_samples", "Packets sampled", |s| {
        sampled(s, |latency| latency.count.into())
    })),
    M::gauge("latency_of_all", "Delay of sampled packets of all ports", |s| {
        quantiles(&[], &s.latency)
    })
    .in_unit(Unit::Seconds)
    .by(&["quantile"]),
    M::gauge(
        "handover_interruption",
        "Time in which a worker that was given flows received nothing",
        |s| quantiles(&[], &s.interruption),
    )
    .in_unit(Unit::Seconds)
    .by(&["quantile"]),
    M::counter("handovers", "Times a worker was given flows", |s| {
        let count = s.interruption.count;
        if count > 0 { one(count) } else { Vec::new() }
    }),
];

fn count(value: u16) -> Points {
    one(u64::from(value))
}

fn energy(status: &Status, value: Option<f64>) -> Points {
    let basis = status.energy.basis.name();
    value.into_iter().map(|value| Point(vec![basis.to_owned()], value.into())).collect()
}

fn workers(status: &Status, value: fn(&Worker) -> Value) -> Points {
    let each = |(index, worker): (usize, &Worker)| Point(vec![index.to_string()], value(worker));
    status.workers.iter().enumerate().map(each).collect()
}

fn ports(status: &Status, value: fn(&Port) -> Value) -> Points {
    status.ports.iter().map(|port| Point(vec![port.name.clone()], value(port))).collect()
}

fn sampled(status: &Status, value: fn(&Latency) -> Value) -> Points {
    let sampled = status.ports.iter().filter(|port| port.latency.count > 0);
    sampled.map(|port| Point(vec![port.name.clone()], value(&port.latency))).collect()
}

fn interfaces(status: &Status, value: fn(&Interface) -> u64) -> Points {
    let each = |interface: &Interface| {
        let labels =
            vec![interface.name.clone(), interface.port.clone(), interface.vlan.to_string()];
        Point(labels, value(interface).into())
    };
    status.interfaces.iter().map(each).collect()
}

/// Quantiles where there are samples; the last label is the quantile.
fn quantiles(labels: &[&str], of: &Latency) -> Points {
    if of.count == 0 {
        return Vec::new();
    }
    let micros = [("0", of.min_us), ("0.5", of.p50_us), ("0.99", of.p99_us), ("1", of.max_us)];
    let point = |(quantile, us): (&str, f64)| {
        let labels = labels.iter().copied().chain([quantile]).map(str::to_owned).collect();
        Point(labels, (us / 1e6).into())
    };
    micros.into_iter().map(point).collect()
}

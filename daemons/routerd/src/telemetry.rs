//! The router's metrics, as views of its [`Status`].

use ebb_telemetry::{Metric, Point, Points, Source, Unit, Value, each, metrics};

use ebb_power::Basis;

use crate::status::{
    Application, ApplicationNode, Interface, Latency, Port, Status, Worker, WorkerState,
};

impl Source for Status {
    const DAEMON: &'static str = "router";
    const PREFIX: &'static str = "ebb";

    fn metrics() -> Vec<&'static [Metric<Status>]> {
        vec![ROUTER, ENERGY, WORKERS, PORTS, DELAYS, INTERFACES, APPLICATIONS, MODELLED, SEVERAL]
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

metrics! {
    static ROUTER: Status {
        gauge uptime Seconds "Time since the start" |s| s.uptime_seconds;
        gauge active_cores "Cores that receive packets" |s| s.point.cores;
        gauge cores "Cores the router may use" |s| s.point.cores_max;
        gauge frequency_index "Operating frequency as an index, 0 is the lowest" |s| s.point.frequency;
        gauge frequency Hertz "Operating frequency" |s| s.point.frequency_hz.map(|hz| hz as f64);
        gauge routes "Prefixes in the tables" |s| s.tables.routes;
        gauge neighbours "Neighbours with a known MAC address" |s| s.tables.neighbours;
        counter table_changes "Changes of the kernel's tables" |s| s.tables.changes;
        counter resyncs "Full comparisons with the kernel's tables" |s| s.tables.resyncs;
        counter unread_lists "Kernel tables that changed while they were read" |s| s.tables.unread;
        counter table_failures "Failed requests to the kernel" |s| s.tables.failures;
        counter refused_routes "Routes that did not fit into the tables" |s| s.tables.refused;
        gauge frames "Packet memory" |s| s.frames.total;
        gauge frames_free "Unused packet memory" |s| s.frames.free;
        counter operating_point_changes "Changes of the operating point" |s| s.governor.changes;
        counter redirect_moves "Redirect entries moved" |s| s.governor.entries_moved;
        counter late_handovers "Hand-overs that a worker confirmed too late" |s| s.governor.late;
        counter knob_refusals "Failed writes to power settings" |s| s.governor.refusals;
        counter stalls "Times that it stalled and its packets were left to the kernel" |s| s.stalls;
        counter handovers "Times that a worker was given flows" |s| s.interruption.sampled(|l| l.count);
    }
    static ENERGY: Status by ["basis"] of on_its_basis {
        counter energy Joules "Energy drawn" |s| s.energy.joules;
        gauge power Watts "Mean power over the last interval" |s| s.energy.watts;
        gauge energy_per_packet Joules "Energy per packet forwarded" |s| s.energy.joules_per_packet;
    }
    static WORKERS: Status by ["worker"] of workers {
        counter received_packets "Packets received" |w| w.packets.received;
        counter forwarded_packets "Packets forwarded" |w| w.packets.forwarded;
        counter kernel_packets "Packets given to the kernel" |w| w.packets.to_kernel;
        counter originated_packets "ICMP messages sent" |w| w.packets.originated;
        counter originated_dropped_packets "ICMP messages that could not be sent" |w| w.packets.originated_dropped;
        counter suppressed_icmp "ICMP messages not sent because of the rate limit" |w| w.packets.icmp_suppressed;
        counter finished_checksums "Unfinished checksums of local senders that were completed" |w| w.packets.checksums_finished;
        gauge held_packets "Packets that wait for a neighbour's MAC address" |w| w.packets.held;
        gauge worker_active "Whether the worker receives packets" |w| w.state == WorkerState::Active;
        gauge worker_cpu "CPU to which the worker is bound" |w| w.cpu;
        counter worker_busy Seconds "Time awake" |w| w.busy_seconds;
        gauge queue_length "Packets in its queues when last checked" |w| w.queue_len;
        counter wakeups "Times that the worker woke up" |w| w.wakeups;
        counter batches "Receive calls that returned packets" |w| w.batches;
    }
    static PORTS: Status by ["port"] of ports {
        gauge port_up "Whether the port can send" |p| p.up;
        gauge port_gone "Whether the interface disappeared" |p| p.gone;
        counter port_received_packets "Packets received" |p| p.received;
        counter port_transmitted_packets "Packets sent" |p| p.transmitted;
        counter port_receive_dropped_packets "Packets lost before a worker or another CPU could take them" |p| p.receive_dropped;
        counter port_received Bytes "Bytes of frames received" |p| p.received_bytes;
        counter port_transmitted Bytes "Bytes of frames sent" |p| p.transmitted_bytes;
        counter port_transmit_invalid_packets "Packets that the port could not send" |p| p.transmit_invalid;
        counter port_transmit_dropped_packets "Packets dropped because the link was set down" |p| p.transmit_dropped;
        counter port_kernel_packets "Packets passed to the kernel before they reached a worker" |p| p.passed_to_kernel;
        counter port_kernel_path_packets "Packets forwarded on the kernel path" |p| p.kernel_path;
        counter port_kernel_path Bytes "Bytes of frames forwarded on the kernel path" |p| p.kernel_path_bytes;
        counter port_long_packets "Packets passed to the kernel because they are longer than a frame" |p| p.passed_long;
        counter port_tag_beside_packets "Packets passed to the kernel because their VLAN tag is in metadata" |p| p.passed_beside;
    }
    static DELAYS: Status by ["port"] of ports {
        gauge latency_mean Seconds "Mean delay of sampled packets" |p| p.latency.sampled(|l| l.mean_us / 1e6);
        counter latency_samples "Packets whose delay was sampled" |p| p.latency.sampled(|l| l.count);
    }
    static INTERFACES: Status by ["interface", "port", "vlan"] of interfaces {
        counter interface_received_packets "Packets received for routing" |i| i.received;
        counter interface_received Bytes "Bytes of frames received for routing" |i| i.received_bytes;
        counter interface_forwarded_packets "Packets routed out" |i| i.forwarded;
        counter interface_forwarded Bytes "Bytes of frames routed out" |i| i.forwarded_bytes;
    }
}

metrics! {
    static APPLICATIONS: Status by ["application", "place"] of nodes {
        counter application_packets "Packets that came to an application's node" |n| n.packets;
        counter application_frames Bytes "Bytes of their frames" |n| n.bytes;
        counter application_dropped_packets "Packets that an application dropped" |n| n.dropped;
        counter application_busy Seconds "Processor time of an application's node, estimated from one batch of 17" |n| n.cpu_seconds;
    }
    static MODELLED: Status by ["application", "place", "basis"] of modelled {
        counter application_energy Joules "Energy that this time has added, by a model" |n| n.joules_modelled;
    }
}

/// Metrics whose labels are not those of one row.
static SEVERAL: &[Metric<Status>] = &[
    Metric::<Status>::gauge("router", "Version and policy of the router", |s| {
        vec![Point(vec![s.version.clone(), s.mode.clone()], Value::Count(1))]
    })
    .by(&["version", "mode"]),
    Metric::<Status>::counter(
        "application",
        "What an application counted, by its name for it",
        |s| {
            s.applications.iter().flat_map(|app| by_name(app.name.clone(), &app.counters)).collect()
        },
    )
    .by(&["application", "counter"]),
    Metric::<Status>::counter("dropped_packets", "Packets dropped, by reason", |s| {
        let workers = s.workers.iter().enumerate();
        let rows = workers.map(|(index, worker)| (worker.label(index), &worker.packets.dropped));
        rows.flat_map(|(worker, dropped)| by_name(worker, dropped)).collect()
    })
    .by(&["worker", "reason"]),
    Metric::<Status>::counter(
        "port_policy_packets",
        "Packets passed to the kernel because of its policy",
        |s| s.ports.iter().flat_map(|p| by_name(p.name.clone(), &p.passed_for)).collect(),
    )
    .by(&["port", "mechanism"]),
    Metric::<Status>::gauge(
        "latency",
        "Delay of sampled packets, by the port that received them",
        |s| s.ports.iter().flat_map(|port| quantiles(&[&port.name], &port.latency)).collect(),
    )
    .in_unit(Unit::Seconds)
    .by(&["port", "quantile"]),
    Metric::<Status>::gauge("latency_of_all", "Delay of sampled packets of all ports", |s| {
        quantiles(&[], &s.latency)
    })
    .in_unit(Unit::Seconds)
    .by(&["quantile"]),
    Metric::<Status>::gauge(
        "handover_interruption",
        "Time from giving flows to a worker until its first packet",
        |s| quantiles(&[], &s.interruption),
    )
    .in_unit(Unit::Seconds)
    .by(&["quantile"]),
];

fn on_its_basis(status: &Status, read: fn(&Status) -> Option<Value>) -> Points {
    let basis = |status: &Status| vec![status.energy.basis.name().to_owned()];
    read(status).into_iter().map(|value| Point(basis(status), value)).collect()
}

fn workers(status: &Status, read: fn(&Worker) -> Option<Value>) -> Points {
    let workers = status.workers.iter().enumerate();
    workers.filter_map(|(index, w)| Some(Point(vec![w.label(index)], read(w)?))).collect()
}

fn ports(status: &Status, read: fn(&Port) -> Option<Value>) -> Points {
    each(&status.ports, |port| vec![port.name.clone()], read)
}

fn interfaces(status: &Status, read: fn(&Interface) -> Option<Value>) -> Points {
    let labels = |i: &Interface| vec![i.name.clone(), i.port.clone(), i.vlan.to_string()];
    each(&status.interfaces, labels, read)
}

fn nodes(status: &Status, read: fn(&ApplicationNode) -> Option<Value>) -> Points {
    let of = |application: &Application| {
        let name = application.name.clone();
        each(&application.nodes, |node| vec![name.clone(), node.place.clone()], read)
    };
    status.applications.iter().flat_map(of).collect()
}

/// The same, marked for what it is.
fn modelled(status: &Status, read: fn(&ApplicationNode) -> Option<Value>) -> Points {
    let mut points = nodes(status, read);
    points.iter_mut().for_each(|point| point.0.push(Basis::Modelled.name().to_owned()));
    points
}

/// Counts by name, with what else they are of.
fn by_name(of: String, counts: &std::collections::BTreeMap<String, u64>) -> Points {
    let point = |(name, count): (&String, &u64)| {
        Point(vec![of.clone(), name.clone()], Value::Count(*count))
    };
    counts.iter().map(point).collect()
}

impl Worker {
    /// Its number, or which CPU it is that forwards on the kernel path.
    pub fn label(&self, index: usize) -> String {
        match self.state {
            WorkerState::Kernel => format!("kernel{}", self.cpu.unwrap_or_default()),
            _ => index.to_string(),
        }
    }
}

impl Latency {
    /// A part of it, where there are samples.
    fn sampled<T>(&self, part: fn(&Latency) -> T) -> Option<T> {
        (self.count > 0).then(|| part(self))
    }
}

/// Quantiles where there are samples; the last label is the quantile.
fn quantiles(labels: &[&str], of: &Latency) -> Points {
    let micros = [("0", of.min_us), ("0.5", of.p50_us), ("0.99", of.p99_us), ("1", of.max_us)];
    let point = |(quantile, us): (&str, f64)| {
        let labels = labels.iter().copied().chain([quantile]).map(str::to_owned).collect();
        Point(labels, Value::Real(us / 1e6))
    };
    micros.into_iter().filter(|_| of.count > 0).map(point).collect()
}

//! A status as Prometheus metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::status::{Interface, Latency, Packets, Port, Status, Worker, WorkerState};

/// The status in the OpenMetrics text format, which Prometheus reads.
pub fn metrics_text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("ebb");
    registry.register_collector(Box::new(Snapshot(status.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string");
    text
}

#[derive(Debug)]
struct Snapshot(Status);

type Labels = Vec<(&'static str, String)>;

/// One metric after the other, each with all its label sets.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counter<V>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result
    where
        ConstCounter<V>: EncodeMetric,
    {
        self.write(name, help, unit, values.into_iter().map(|(l, v)| (l, ConstCounter::new(v))))
    }

    fn gauge<V>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result
    where
        ConstGauge<V>: EncodeMetric,
    {
        self.write(name, help, unit, values.into_iter().map(|(l, v)| (l, ConstGauge::new(v))))
    }

    fn write<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        metrics: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut metrics = metrics.peekable();
        let Some((_, first)) = metrics.peek() else { return Ok(()) };
        let mut encoder =
            self.0.encode_descriptor(name, &format!("{help}."), unit, first.metric_type())?;
        for (labels, metric) in metrics {
            if labels.is_empty() {
                return metric.encode(encoder);
            }
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        let status = &self.0;
        overall(status, &mut out)?;
        energy(status, &mut out)?;
        workers(&status.workers, &mut out)?;
        ports(&status.ports, &mut out)?;
        interfaces(&status.interfaces, &mut out)?;
        latency(status, &mut out)
    }
}

fn one<V>(value: V) -> [(Labels, V); 1] {
    [(Vec::new(), value)]
}

fn overall(status: &Status, out: &mut Writer<'_>) -> fmt::Result {
    let info = vec![("version", status.version.clone()), ("mode", status.mode.clone())];
    out.gauge("router", "Version and policy of the router", None, [(info, 1i64)])?;
    let up = one(status.uptime_seconds);
    out.gauge("uptime", "Time since the start", Some(&Unit::Seconds), up)?;
    out.gauge(
        "active_cores",
        "Cores that receive packets",
        None,
        one(i64::from(status.point.cores)),
    )?;
    let cores = one(i64::from(status.point.cores_max));
    out.gauge("cores", "Cores the router may use", None, cores)?;
    let index = one(i64::from(status.point.frequency));
    out.gauge("frequency_index", "Operating frequency, 0 is the lowest", None, index)?;
    let hertz = status.point.frequency_hz.map(|hz| (Vec::new(), hz as f64));
    out.gauge("frequency", "Operating frequency", Some(&Unit::Other("hertz".into())), hertz)?;
    let tables = &status.tables;
    out.gauge("routes", "Prefixes in the tables", None, one(tables.routes as i64))?;
    out.gauge("neighbours", "Neighbours known", None, one(tables.neighbours as i64))?;
    out.counter("table_changes", "Changes from the kernel", None, one(tables.changes))?;
    out.counter("resyncs", "Complete comparisons with the kernel", None, one(tables.resyncs))?;
    let help = "Lists of the kernel that changed while they were read";
    out.counter("unread_lists", help, None, one(tables.unread))?;
    out.counter("table_failures", "Errors in asking the kernel", None, one(tables.failures))?;
    out.counter("refused_routes", "Routes without a place", None, one(tables.refused))?;
    out.gauge("frames", "Packet memory", None, one(status.frames.total as i64))?;
    out.gauge("frames_free", "Unused packet memory", None, one(status.frames.free as i64))?;
    let governor = &status.governor;
    let changes = one(governor.changes);
    out.counter("operating_point_changes", "Changes of the operating point", None, changes)?;
    out.counter("redirect_moves", "Redirect entries moved", None, one(governor.entries_moved))?;
    out.counter("knob_refusals", "Knobs that refused", None, one(governor.refusals))
}

fn energy(status: &Status, out: &mut Writer<'_>) -> fmt::Result {
    let energy = &status.energy;
    let basis = || vec![("basis", energy.basis.name().to_owned())];
    let joules = [(basis(), energy.joules)];
    out.counter("energy", "Energy drawn", Some(&Unit::Joules), joules)?;
    let watts = [(basis(), energy.watts)];
    out.gauge(
        "power",
        "Mean power over the last interval",
        Some(&Unit::Other("watts".into())),
        watts,
    )?;
    let each = energy.joules_per_packet.map(|joules| (basis(), joules));
    out.gauge("energy_per_packet", "Energy per packet forwarded", Some(&Unit::Joules), each)
}

fn workers(workers: &[Worker], out: &mut Writer<'_>) -> fmt::Result {
    let label = |index: usize| vec![("worker", index.to_string())];
    let each = |value: fn(&Worker) -> u64| {
        workers.iter().enumerate().map(move |(i, w)| (label(i), value(w))).collect::<Vec<_>>()
    };
    let packets = |value: fn(&Packets) -> u64| {
        let of = workers.iter().enumerate();
        of.map(move |(i, w)| (label(i), value(&w.packets))).collect::<Vec<_>>()
    };
    out.counter("received_packets", "Packets received", None, packets(|p| p.received))?;
    out.counter("forwarded_packets", "Packets sent on", None, packets(|p| p.forwarded))?;
    out.counter("kernel_packets", "Packets handed to the kernel", None, packets(|p| p.to_kernel))?;
    out.counter("originated_packets", "ICMP messages sent", None, packets(|p| p.originated))?;
    let suppressed = packets(|p| p.icmp_suppressed);
    out.counter("suppressed_icmp", "ICMP messages not sent for their rate", None, suppressed)?;
    let finished = packets(|p| p.checksums_finished);
    out.counter("finished_checksums", "Checksums that senders left unfinished", None, finished)?;
    let dropped = workers.iter().enumerate().flat_map(|(index, worker)| {
        worker.packets.dropped.iter().map(move |(reason, count)| {
            (vec![("worker", index.to_string()), ("reason", reason.clone())], *count)
        })
    });
    out.counter("dropped_packets", "Packets dropped, by reason", None, dropped)?;
    let held: Vec<_> =
        workers.iter().enumerate().map(|(i, w)| (label(i), w.packets.held as i64)).collect();
    out.gauge("held_packets", "Packets that wait for a neighbour", None, held)?;
    let active = workers.iter().enumerate();
    let active = active.map(|(i, w)| (label(i), i64::from(w.state == WorkerState::Active)));
    out.gauge("worker_active", "Whether the worker receives packets", None, active)?;
    let busy = workers.iter().enumerate().map(|(i, w)| (label(i), w.busy_seconds));
    out.counter("worker_busy", "Time awake", Some(&Unit::Seconds), busy)?;
    let waiting = workers.iter().enumerate().map(|(i, w)| (label(i), i64::from(w.queue_len)));
    out.gauge("queue_length", "Packets that waited at the last look", None, waiting)?;
    out.counter("wakeups", "Times the worker woke", None, each(|w| w.wakeups))?;
    out.counter("batches", "Receptions that brought packets", None, each(|w| w.batches))
}

fn ports(ports: &[Port], out: &mut Writer<'_>) -> fmt::Result {
    let each = |value: fn(&Port) -> u64| {
        let of = ports.iter();
        of.map(move |port| (port_label(port), value(port))).collect::<Vec<_>>()
    };
    let up = ports.iter().map(|port| (port_label(port), i64::from(port.up)));
    out.gauge("port_up", "Whether the port can send", None, up)?;
    out.counter("port_received_packets", "Packets received", None, each(|p| p.received))?;
    out.counter("port_transmitted_packets", "Packets sent", None, each(|p| p.transmitted))?;
    let lost = each(|p| p.receive_dropped);
    out.counter("port_receive_dropped_packets", "Packets lost before a worker", None, lost)?;
    let bytes = each(|p| p.received_bytes);
    out.counter("port_received", "Bytes of frames received", Some(&Unit::Bytes), bytes)?;
    let bytes = each(|p| p.transmitted_bytes);
    out.counter("port_transmitted", "Bytes of frames sent", Some(&Unit::Bytes), bytes)?;
    let invalid = each(|p| p.transmit_invalid);
    out.counter("port_transmit_invalid_packets", "Packets the port refused", None, invalid)?;
    let stale = each(|p| p.transmit_dropped);
    let help = "Packets that waited when the link was set down";
    out.counter("port_transmit_dropped_packets", help, None, stale)?;
    let passed = each(|p| p.passed_to_kernel);
    out.counter("port_kernel_packets", "Packets passed before a worker", None, passed)?;
    let by_policy = ports.iter().flat_map(|port| {
        port.passed_for.iter().map(|(mechanism, count)| {
            let labels = [port_label(port), vec![("mechanism", mechanism.clone())]];
            (labels.concat(), *count)
        })
    });
    let help = "Packets passed for the sake of the kernel's policy";
    out.counter("port_policy_packets", help, None, by_policy)?;
    let long = each(|p| p.passed_long);
    out.counter(
        "port_long_packets",
        "Packets passed because they are longer than a frame",
        None,
        long,
    )?;
    let beside = each(|p| p.passed_beside);
    let help = "Packets passed because their VLAN tag travels beside them";
    out.counter("port_tag_beside_packets", help, None, beside)
}

fn interfaces(interfaces: &[Interface], out: &mut Writer<'_>) -> fmt::Result {
    let each = |value: fn(&Interface) -> u64| {
        let of = interfaces.iter().map(move |interface| {
            let labels = vec![
                ("interface", interface.name.clone()),
                ("port", interface.port.clone()),
                ("vlan", interface.vlan.to_string()),
            ];
            (labels, value(interface))
        });
        of.collect::<Vec<_>>()
    };
    let bytes = Some(&Unit::Bytes);
    let packets = each(|i| i.received);
    out.counter("interface_received_packets", "Packets received to be routed", None, packets)?;
    let received = each(|i| i.received_bytes);
    out.counter("interface_received", "Bytes of frames received to be routed", bytes, received)?;
    let packets = each(|i| i.forwarded);
    out.counter("interface_forwarded_packets", "Packets routed out", None, packets)?;
    let forwarded = each(|i| i.forwarded_bytes);
    out.counter("interface_forwarded", "Bytes of frames routed out", bytes, forwarded)
}

fn port_label(port: &Port) -> Labels {
    vec![("port", port.name.clone())]
}

fn latency(status: &Status, out: &mut Writer<'_>) -> fmt::Result {
    let sampled = status.ports.iter().filter(|port| port.latency.count > 0);
    let quantiles = |port: &Port, of: &Latency| {
        let micros = [("0", of.min_us), ("0.5", of.p50_us), ("0.99", of.p99_us), ("1", of.max_us)];
        let name = port.name.clone();
        micros.map(move |(q, us)| {
            (vec![("port", name.clone()), ("quantile", q.to_owned())], us / 1e6)
        })
    };
    let values = sampled.clone().flat_map(|port| quantiles(port, &port.latency));
    let unit = Some(&Unit::Seconds);
    out.gauge("latency", "Delay of sampled packets", unit, values)?;
    let means = sampled.clone().map(|port| (port_label(port), port.latency.mean_us / 1e6));
    out.gauge("latency_mean", "Mean delay of sampled packets", unit, means)?;
    let counts = sampled.map(|port| (port_label(port), port.latency.count));
    out.counter("latency_samples", "Packets sampled", None, counts)?;
    interruption(&status.interruption, out)
}

fn interruption(of: &Latency, out: &mut Writer<'_>) -> fmt::Result {
    if of.count == 0 {
        return Ok(());
    }
    let micros = [("0", of.min_us), ("0.5", of.p50_us), ("0.99", of.p99_us), ("1", of.max_us)];
    let values = micros.map(|(q, us)| (vec![("quantile", q.to_owned())], us / 1e6));
    let help = "Time in which a worker that was given flows received nothing";
    out.gauge("handover_interruption", help, Some(&Unit::Seconds), values)?;
    out.counter("handovers", "Times a worker was given flows", None, one(of.count))
}

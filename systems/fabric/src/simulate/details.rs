//! Tables of single links, flows and packets. Their columns are described in
//! `docs/fabric-simulator.md`.

use ebb_report::{Cell, Column, Report, Table};

use super::run::{LinkBytes, Outcome, Run};

/// Adds what was asked for.
pub(super) fn add(mut report: Report, run: &Run<'_>, outcome: &Outcome) -> Report {
    if run.details.links {
        report = report.attach(links(outcome));
    }
    if run.details.flows {
        report = report.attach(flows(run, outcome));
    }
    if run.details.packets > 0 {
        report = report.attach(packets(run, outcome));
    }
    report
}

fn links(outcome: &Outcome) -> Table {
    let columns = [
        Column::text("from"),
        Column::text("to"),
        Column::count("bytes"),
        Column::number("utilisation", "%", 4),
    ];
    let mut table = Table::new("links", columns);
    for LinkBytes { from, to, bytes, bytes_max } in &outcome.links {
        let busy = *bytes as f64 / bytes_max.max(1.0);
        table.row([
            from.as_str().into(),
            to.as_str().into(),
            (*bytes).into(),
            (100.0 * busy).into(),
        ]);
    }
    table
}

fn host(run: &Run<'_>, host: u32) -> Cell {
    run.topology.hosts()[host as usize].name.as_str().into()
}

fn flows(run: &Run<'_>, outcome: &Outcome) -> Table {
    let columns = [
        Column::count("source"),
        Column::text("source name"),
        Column::count("target"),
        Column::text("target name"),
        Column::count("packets"),
        Column::count("bytes"),
        Column::number("latency mean", "ns", 1),
        Column::number("latency max", "ns", 0),
    ];
    let mut table = Table::new("flows", columns);
    for ((source, target), flow) in outcome.notes.iter().flat_map(|notes| &notes.flows) {
        table.row([
            u64::from(*source).into(),
            host(run, *source),
            u64::from(*target).into(),
            host(run, *target),
            flow.packets.into(),
            flow.bytes.into(),
            (flow.latency_ns as f64 / flow.packets.max(1) as f64).into(),
            flow.latency_ns_max.into(),
        ]);
    }
    table
}

fn packets(run: &Run<'_>, outcome: &Outcome) -> Table {
    let columns = [
        Column::count("source"),
        Column::text("source name"),
        Column::count("target"),
        Column::text("target name"),
        Column::count("sequence"),
        Column::count("bytes"),
        Column::count("hops"),
        Column::number("made", "ns", 0),
        Column::number("entered", "ns", 0),
        Column::number("arrived", "ns", 0),
    ];
    let mut table = Table::new("packets", columns);
    for packet in outcome.notes.iter().flat_map(|notes| &notes.packets) {
        table.row([
            u64::from(packet.source).into(),
            host(run, packet.source),
            u64::from(packet.target).into(),
            host(run, packet.target),
            u64::from(packet.sequence).into(),
            u64::from(packet.bytes).into(),
            u64::from(packet.hops).into(),
            packet.born_ns.into(),
            packet.entered_ns.into(),
            packet.arrived_ns.into(),
        ]);
    }
    table
}

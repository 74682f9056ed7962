//! Tables of single links, flows and packets. Their columns are described in
//! `docs/noc-simulator.md`.

use ebb_report::{Cell, Column, Details, Report, Table};

use super::prepare::Prepared;
use crate::flit::{NOWHERE, Outcome};

/// Adds what was asked for.
pub(super) fn add(
    mut report: Report,
    wanted: Details,
    prepared: &Prepared,
    outcomes: &[Vec<Outcome>],
) -> Report {
    if wanted.links {
        report = report.attach(links(prepared, outcomes));
    }
    if wanted.flows {
        report = report.attach(flows(outcomes));
    }
    if wanted.packets > 0 {
        report = report.attach(packets(outcomes));
    }
    report
}

fn links(prepared: &Prepared, outcomes: &[Vec<Outcome>]) -> Table {
    let columns = [
        Column::count("plane"),
        Column::count("from tile"),
        Column::count("to tile"),
        Column::text("port"),
        Column::count("flits"),
        Column::number("utilisation", "flits/cycle", 6),
    ];
    let mut table = Table::new("links", columns);
    for (plane, runs) in outcomes.iter().enumerate() {
        let cycles = runs.iter().map(|run| run.window_noc_cycles).sum::<u64>().max(1);
        for tile in 0..prepared.grid.tiles() as u32 {
            for port in prepared.grid.link_ports() {
                let to = prepared.grid.neighbour(tile, port);
                if to == NOWHERE {
                    continue;
                }
                let link = prepared.grid.link(tile, port);
                let flits: u64 = runs.iter().map(|run| run.link_flits[link]).sum();
                table.row([
                    (plane as u64 + 1).into(),
                    u64::from(tile).into(),
                    u64::from(to).into(),
                    prepared.grid.port_name(tile, port).into(),
                    flits.into(),
                    (flits as f64 / cycles as f64).into(),
                ]);
            }
        }
    }
    table
}

/// Runs with their numbers.
fn runs(outcomes: &[Vec<Outcome>]) -> impl Iterator<Item = ([Cell; 2], &Outcome)> {
    outcomes.iter().enumerate().flat_map(|(plane, runs)| {
        let numbered = runs.iter().enumerate();
        numbered.map(move |(run, outcome)| {
            ([(plane as u64 + 1).into(), (run as u64 + 1).into()], outcome)
        })
    })
}

fn flows(outcomes: &[Vec<Outcome>]) -> Table {
    let columns = [
        Column::count("plane"),
        Column::count("run"),
        Column::count("source tile"),
        Column::count("target tile"),
        Column::count("packets"),
        Column::count("flits"),
        Column::number("latency mean", "cycles", 3),
        Column::number("latency max", "cycles", 0),
    ];
    let mut table = Table::new("flows", columns);
    for (head, outcome) in runs(outcomes) {
        let flows = outcome.notes.iter().flat_map(|notes| &notes.flows);
        for ((source, target), flow) in flows {
            let tail = [
                u64::from(*source).into(),
                u64::from(*target).into(),
                flow.packets.into(),
                flow.flits.into(),
                (flow.latency as f64 / flow.packets.max(1) as f64).into(),
                flow.latency_max.into(),
            ];
            table.row(head.iter().cloned().chain(tail));
        }
    }
    table
}

fn packets(outcomes: &[Vec<Outcome>]) -> Table {
    let columns = [
        Column::count("plane"),
        Column::count("run"),
        Column::count("source tile"),
        Column::count("target tile"),
        Column::count("flits"),
        Column::count("routers"),
        Column::number("made", "cycle", 0),
        Column::number("entered", "cycle", 0),
        Column::number("arrived", "cycle", 0),
    ];
    let mut table = Table::new("packets", columns);
    for (head, outcome) in runs(outcomes) {
        for packet in outcome.notes.iter().flat_map(|notes| &notes.packets) {
            let tail = [
                u64::from(packet.source).into(),
                u64::from(packet.target).into(),
                u64::from(packet.flits).into(),
                u64::from(packet.routers).into(),
                packet.made.into(),
                packet.entered.into(),
                packet.arrived.into(),
            ];
            table.row(head.iter().cloned().chain(tail));
        }
    }
    table
}

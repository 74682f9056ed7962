//! `ebb router top`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_control::policies::NAMES;
use ebb_telemetry::Snapshot;
use serde_json::json;

use super::Target;
use super::show::counted;
use crate::watch::Watch;
use crate::watch::panel::{
    Cell, Column, Curve, Full, Modes, Of, Panel, Row, Table, bits, packets, percent, scaled, whole,
};

/// Watch a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router top                   until q or Ctrl-C
  ebb router top --every 0.5
  ebb router top --count 10 | cat  one line per interval, without a terminal
  ebb router top --json | jq '.metrics.ebb_power_watts.samples[0].value'

Keys: q quits; m changes the policy (arrows, Enter; Esc cancels); p switches between workers, ports and applications;
left and right select the column by which the table is sorted, up and down the order.
With --json each interval is one line, a snapshot of all metrics as in docs/telemetry.md: counters have
their rate over that interval (per_second) beside their value since the start.")]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    target: Target,
}

impl Top {
    /// Looks again and again.
    pub fn run(self) -> Result<ExitCode> {
        self.watch.run(&PANEL, &self.target.socket)
    }
}

pub static PANEL: Panel = Panel { head, curves: CURVES, tables: TABLES, lost, modes: Some(&MODES) };

static MODES: Modes = Modes {
    names: || NAMES.iter().map(|(name, _)| *name).collect(),
    fact: "mode",
    set: |client, mode| Ok(client.request(&json!({ "set": { "mode": mode } })).map(drop)?),
};

const RECEIVED: Of = Of::Rate(&["ebb_received_packets_total"]);
const FORWARDED: Of = Of::Rate(&["ebb_forwarded_packets_total"]);
const DROPPED: Of = Of::Rate(&["ebb_dropped_packets_total"]);
const BUSY: Of = Of::Rate(&["ebb_worker_busy_seconds_total"]);

/// What it is, and how much is powered.
fn head(now: &Snapshot) -> Vec<String> {
    let value = |metric: &str| now.value(metric, &[]);
    let cores = |metric| value(metric).unwrap_or(0.0) as u64;
    let (on, all) = (cores("ebb_active_cores"), cores("ebb_cores"));
    let mut pieces = vec![
        format!("ebb router {}", now.version),
        format!("mode {}", now.fact("mode")),
        format!("{on} of {} on", counted(all, "core")),
    ];
    if let Some(hertz) = value("ebb_frequency_hertz") {
        pieces.push(format!("{:.2} GHz", hertz / 1e9));
    }
    pieces.push(format!("idle {}", now.fact("idle")));
    let watts = value("ebb_power_watts").unwrap_or(0.0);
    pieces.push(format!("{watts:.1} W {}", now.fact("energy_basis")));
    let energy = Of::Share("ebb_energy_joules_total", "ebb_forwarded_packets_total");
    if let Some(joules) = energy.read(now, &[]) {
        pieces.push(format!("{} per packet", scaled(joules, "J")));
    }
    let micros = |quantile| {
        let latency = now.value("ebb_latency_of_all_seconds", &[("quantile", quantile)]);
        latency.map(|seconds| 1e6 * seconds)
    };
    if let (Some(median), Some(most)) = (micros("0.5"), micros("0.99")) {
        pieces.push(format!("p50 {median:.1}, p99 {most:.1} us since start"));
    }
    pieces
}

static CURVES: &[Curve] = &[
    Curve { name: "received", of: RECEIVED, text: packets, full: Full::First },
    Curve { name: "forwarded", of: FORWARDED, text: packets, full: Full::First },
    Curve { name: "dropped", of: DROPPED, text: packets, full: Full::First },
    Curve {
        name: "cores on",
        of: Of::Value("ebb_active_cores"),
        text: whole,
        full: Full::Value("ebb_cores"),
    },
    Curve {
        name: "cores busy",
        of: BUSY,
        text: |cores| format!("{cores:.2}"),
        full: Full::Value("ebb_cores"),
    },
    Curve {
        name: "power",
        of: Of::Value("ebb_power_watts"),
        text: |watts| format!("{watts:.1} W"),
        full: Full::Seen,
    },
];

static TABLES: &[Table] = &[
    Table {
        name: "workers",
        label: "worker",
        metric: "ebb_worker_active",
        columns: &[
            column("worker", 6, 0, Cell::Index),
            column("cpu", 4, 5, Cell::Number(Of::Value("ebb_worker_cpu"), whole)),
            column("state", 6, 6, Cell::Words(state)),
            column("busy", 5, 1, Cell::Number(BUSY, percent)),
            column("received", 9, 2, Cell::Number(RECEIVED, packets)),
            column("forwarded", 9, 3, Cell::Number(FORWARDED, packets)),
            column("dropped", 9, 4, Cell::Number(DROPPED, packets)),
            column("queue", 5, 7, Cell::Number(Of::Value("ebb_queue_length"), whole)),
            column("wake-ups", 9, 8, Cell::Number(Of::Rate(&["ebb_wakeups_total"]), per_second)),
            column("load", 20, 9, Cell::Bar(BUSY)),
        ],
    },
    Table {
        name: "ports",
        label: "port",
        metric: "ebb_port_up",
        columns: &[
            column("port", 15, 0, Cell::Name),
            column("link", 4, 3, Cell::Words(link)),
            column("received", 9, 1, port_rate(&["ebb_port_received_packets_total"], packets)),
            column("sent", 9, 2, port_rate(&["ebb_port_transmitted_packets_total"], packets)),
            column("bits in", 12, 5, port_rate(&["ebb_port_received_bytes_total"], bits)),
            column("bits out", 12, 6, port_rate(&["ebb_port_transmitted_bytes_total"], bits)),
            column("lost", 9, 4, port_rate(LOST, packets)),
            column("to kernel", 9, 7, port_rate(&["ebb_port_kernel_packets_total"], packets)),
            column("p99", 9, 8, Cell::Number(P99, |seconds| format!("{:.1} us", 1e6 * seconds))),
        ],
    },
    Table {
        name: "applications",
        label: "application",
        metric: "ebb_application_packets_total",
        columns: &[
            column("application", 11, 0, Cell::Name),
            column("handled", 9, 1, Cell::Number(HANDLED, packets)),
            column("bits", 12, 4, port_rate(&["ebb_application_frames_bytes_total"], bits)),
            column("dropped", 9, 3, port_rate(&["ebb_application_dropped_packets_total"], packets)),
            column("busy", 5, 2, Cell::Number(APPLICATION_BUSY, percent)),
            column("modelled", 9, 5, Cell::Number(APPLICATION_POWER, watts)),
            column("load", 20, 6, Cell::Bar(APPLICATION_BUSY)),
        ],
    },
];

/// Applications' nodes of all workers; energy by a model.
const HANDLED: Of = Of::Rate(&["ebb_application_packets_total"]);
const APPLICATION_POWER: Of = Of::Rate(&["ebb_application_energy_joules_total"]);
const APPLICATION_BUSY: Of = Of::Rate(&["ebb_application_busy_seconds_total"]);

const P99: Of = Of::Labelled("ebb_latency_seconds", "quantile", "0.99");

/// Lost to full rings and refused by the interface.
const LOST: &[&str] = &[
    "ebb_port_receive_dropped_packets_total",
    "ebb_port_transmit_invalid_packets_total",
    "ebb_port_transmit_dropped_packets_total",
];

const fn column(heading: &'static str, width: u16, rank: u8, cell: Cell) -> Column {
    Column { heading, width, rank, cell }
}

const fn port_rate(counters: &'static [&'static str], text: fn(f64) -> String) -> Cell {
    Cell::Number(Of::Rate(counters), text)
}

fn watts(watts: f64) -> String {
    scaled(watts, "W")
}

fn per_second(rate: f64) -> String {
    format!("{rate:.0} /s")
}

fn state(worker: &Row<'_>) -> &'static str {
    if worker.is("ebb_worker_active") {
        "active"
    } else if worker.name().starts_with("kernel") {
        "kernel"
    } else {
        "parked"
    }
}

fn link(port: &Row<'_>) -> &'static str {
    match (port.is("ebb_port_gone"), port.is("ebb_port_up")) {
        (true, _) => "gone",
        (false, true) => "up",
        (false, false) => "down",
    }
}

/// Drops by reason.
fn lost(now: &Snapshot) -> Vec<(String, f64, f64)> {
    let metric = "ebb_dropped_packets_total";
    let of = |reason: &str| {
        let labels = [("reason", reason)];
        let total = now.value(metric, &labels).unwrap_or(0.0);
        (reason.to_owned(), now.rate(metric, &labels), total)
    };
    now.values_of(metric, "reason").into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use ebb_routerd::status::Status;

    use super::*;

    #[test]
    fn the_panel_asks_for_what_a_router_says() {
        crate::watch::panel::assert_sound::<Status>(&PANEL);
        assert_eq!(TABLES[0].fitting(40), [0, 3, 4, 5]);
        assert_eq!(TABLES[1].fitting(40), [0, 1, 2, 3]);
    }
}

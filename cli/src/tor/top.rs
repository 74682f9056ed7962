//! `ebb tor top`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_telemetry::Snapshot;

use crate::watch::Watch;
use crate::watch::panel::{
    Cell, Column, Curve, Full, Of, Panel, Table, bits, lost, packets, percent, scaled, whole,
};

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    /// The switch's status socket
    #[arg(short, long, value_name = "PATH", default_value = "/run/ebb/tor.sock")]
    socket: PathBuf,
}

impl Top {
    /// Looks again and again.
    pub(super) fn run(self) -> Result<ExitCode> {
        self.watch.run(&PANEL, &self.socket)
    }
}

static PANEL: Panel = Panel { head, curves: CURVES, tables: TABLES, lost: losses, modes: None };

fn head(now: &Snapshot) -> Vec<String> {
    let source = match now.fact("source") {
        "controller" => "the controller's days",
        "rotation" => "fixed rotation: no controller",
        _ => "packet path: no circuits known",
    };
    let sync = |name: &str| {
        now.value(&format!("ebb_circuit_sync_{name}_total"), &[]).unwrap_or(0.0) as u64
    };
    let mut pieces = vec![format!("ebb tor {}", now.version), source.to_owned()];
    let names = [
        "accepted",
        "missed",
        "late",
        "malformed",
        "contradicting",
        "stepped",
        "forged",
        "replayed",
    ];
    let counts = names.map(|name| (name, sync(name))).into_iter();
    let seen = counts.filter(|(name, count)| *name == "accepted" || *count > 0);
    let seen: Vec<String> = seen.map(|(name, count)| format!("{count} {name}")).collect();
    pieces.push(format!("sync frames: {}", seen.join(", ")));
    let value = |metric: &str| now.value(&format!("ebb_circuit_{metric}"), &[]);
    if let Some(watts) = value("power_watts") {
        pieces.push(format!("{watts:.1} W {}", now.fact("energy_basis")));
    }
    if let Some(joules) = value("energy_per_packet_joules") {
        pieces.push(format!("{} per frame", scaled(joules, "J")));
    }
    pieces
}

static CURVES: &[Curve] = &[
    Curve { name: "sent", of: SENT, text: packets, full: Full::First },
    Curve { name: "received", of: RECEIVED, text: packets, full: Full::First },
    Curve {
        name: "thread busy",
        of: Of::Rate(&["ebb_circuit_cpu_seconds_total"]),
        text: percent,
        full: Full::Seen,
    },
    Curve {
        name: "stalled",
        of: Of::Rate(&["ebb_circuit_stood_still_total"]),
        text: |rate| format!("{rate:.0} /s"),
        full: Full::Seen,
    },
];

const SENT: Of = Of::Rate(&["ebb_circuit_rack_sent_total"]);
const SENT_BYTES: Of = Of::Rate(&["ebb_circuit_rack_sent_bytes_total"]);
const BY_PACKETS: Of = Of::Rate(&["ebb_circuit_rack_sent_by_packets_total"]);
const RECEIVED: Of = Of::Rate(&["ebb_circuit_rack_received_total"]);
const WAITING: Of = Of::Value("ebb_circuit_rack_waiting_bytes");
const LEFT: Of = Of::Share("ebb_circuit_rack_days_left_total", "ebb_circuit_rack_days_total");
const REQUEUED: Of = Of::Value("ebb_circuit_rack_requeued_total");

static TABLES: &[Table] = &[Table {
    name: "racks",
    label: "rack",
    metric: "ebb_circuit_rack_sent_total",
    columns: &[
        Column { heading: "rack", width: 4, rank: 0, cell: Cell::Index },
        Column { heading: "sent", width: 9, rank: 1, cell: Cell::Number(SENT, packets) },
        Column { heading: "bits", width: 12, rank: 3, cell: Cell::Number(SENT_BYTES, bits) },
        Column {
            heading: "by packets",
            width: 10,
            rank: 4,
            cell: Cell::Number(BY_PACKETS, packets),
        },
        Column { heading: "received", width: 9, rank: 2, cell: Cell::Number(RECEIVED, packets) },
        Column { heading: "waiting", width: 8, rank: 5, cell: Cell::Number(WAITING, bytes) },
        Column { heading: "days left", width: 9, rank: 6, cell: Cell::Number(LEFT, percent) },
        Column { heading: "requeued", width: 9, rank: 7, cell: Cell::Number(REQUEUED, whole) },
    ],
}];

fn bytes(bytes: f64) -> String {
    scaled(bytes, "B")
}

fn losses(now: &Snapshot) -> Vec<(String, f64, f64)> {
    lost(
        now,
        &[
            ("queue full", "ebb_circuit_rack_dropped_full_total"),
            ("unroutable", "ebb_circuit_rack_dropped_unroutable_total"),
            ("receive", "ebb_circuit_rack_dropped_receive_total"),
            ("transmit", "ebb_circuit_rack_dropped_transmit_total"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use ebb_tord::status::TorStatus;

    use super::*;

    #[test]
    fn the_panel_asks_for_what_a_switch_says() {
        crate::watch::panel::assert_sound::<TorStatus>(&PANEL);
    }

    #[test]
    fn the_head_says_whose_days_are_kept() {
        let now = Snapshot::of(&TorStatus::default());
        assert!(head(&now).contains(&"packet path: no circuits known".to_owned()));
        assert!(now.notes[0].contains("for laboratories"));
        assert!(head(&now).contains(&"0.0 W modelled".to_owned()));
    }
}

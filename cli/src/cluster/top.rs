//! `ebb cluster top`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_telemetry::Snapshot;

use crate::watch::Watch;
use crate::watch::panel::{
    Cell, Column, Curve, Full, Of, Panel, Row, Table, bits, lost, packets, percent, scaled, whole,
};

/// Watch a running cluster
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster top
  ebb cluster top --count 10 | cat  one line per interval, without a terminal
  ebb cluster top --count 1 --json

Keys: q quits; p switches between back-ends and balancers; arrows sort. With --json each interval is
one line, a snapshot of all metrics as in docs/telemetry.md.")]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    target: super::Target,
}

impl Top {
    /// Looks again and again.
    pub(super) fn run(self) -> Result<ExitCode> {
        self.watch.run(&PANEL, &self.target.socket)
    }
}

static PANEL: Panel = Panel { head, curves: CURVES, tables: TABLES, lost: losses, modes: None };

fn head(now: &Snapshot) -> Vec<String> {
    let plan = now.value("ebb_cluster_plan_version", &[]).unwrap_or(0.0);
    let watts = now.value("ebb_cluster_power_watts", &[]).unwrap_or(0.0);
    let mut pieces = vec![
        format!("cluster {} on {}", now.fact("cluster"), now.fact("member")),
        format!("leader {}", now.fact("leader")),
        format!("plan {plan:.0}"),
        format!("speaker {}", now.fact("speaker")),
        format!("policy {}", now.fact("policy")),
        format!("{watts:.0} W {}", now.fact("energy_basis")),
    ];
    if let Some(joules) = now.value("ebb_cluster_energy_per_packet_joules", &[]) {
        pieces.push(format!("{} per packet", scaled(joules, "J")));
    }
    pieces
}

static CURVES: &[Curve] = &[
    Curve {
        name: "in",
        of: Of::Rate(&["ebb_cluster_balanced_total"]),
        text: packets,
        full: Full::First,
    },
    Curve {
        name: "out",
        of: Of::Rate(&["ebb_cluster_returned_total"]),
        text: packets,
        full: Full::First,
    },
    Curve {
        name: "bits in",
        of: Of::Rate(&["ebb_cluster_balanced_bytes_total"]),
        text: bits,
        full: Full::Seen,
    },
    Curve { name: "on", of: Of::Value("ebb_cluster_back_end_on"), text: whole, full: Full::Seen },
    Curve {
        name: "power",
        of: Of::Value("ebb_cluster_power_watts"),
        text: |watts| format!("{watts:.0} W"),
        full: Full::Seen,
    },
];

static TABLES: &[Table] = &[
    Table {
        name: "back-ends",
        label: "back_end",
        metric: "ebb_cluster_back_end_on",
        columns: &[
            Column { heading: "back-end", width: 16, rank: 0, cell: Cell::Name },
            Column { heading: "power", width: 9, rank: 1, cell: Cell::Words(power) },
            Column { heading: "up", width: 4, rank: 2, cell: Cell::Words(up) },
            Column { heading: "share", width: 6, rank: 3, cell: Cell::Number(SHARE, percent) },
            Column { heading: "held", width: 5, rank: 4, cell: Cell::Words(held) },
            Column { heading: "dead to", width: 8, rank: 5, cell: Cell::Number(DEAD_TO, whole) },
        ],
    },
    Table {
        name: "balancers",
        label: "balancer",
        metric: "ebb_cluster_balancer_load_pps",
        columns: &[
            Column { heading: "balancer", width: 16, rank: 0, cell: Cell::Name },
            Column { heading: "acknowledged", width: 12, rank: 2, cell: Cell::Number(BOOK, whole) },
            Column { heading: "load", width: 9, rank: 1, cell: Cell::Number(LOAD, packets) },
        ],
    },
];

const SHARE: Of = Of::Value("ebb_cluster_back_end_share");
const DEAD_TO: Of = Of::Value("ebb_cluster_back_end_dead_to");
const BOOK: Of = Of::Value("ebb_cluster_balancer_acknowledged");
const LOAD: Of = Of::Value("ebb_cluster_balancer_load_pps");

fn power(back_end: &Row<'_>) -> &'static str {
    let states = [
        ("ebb_cluster_back_end_on", "on"),
        ("ebb_cluster_back_end_waking", "waking"),
        ("ebb_cluster_back_end_draining", "draining"),
    ];
    states.into_iter().find(|(metric, _)| back_end.is(metric)).map_or("off", |(_, word)| word)
}

fn up(back_end: &Row<'_>) -> &'static str {
    if back_end.is("ebb_cluster_back_end_up") { "yes" } else { "no" }
}

fn held(back_end: &Row<'_>) -> &'static str {
    if back_end.is("ebb_cluster_back_end_held") { "yes" } else { "no" }
}

fn losses(now: &Snapshot) -> Vec<(String, f64, f64)> {
    lost(
        now,
        &[
            ("without a back-end", "ebb_cluster_homeless_total"),
            ("overrun", "ebb_cluster_overrun_total"),
            ("link down", "ebb_cluster_link_down_total"),
            ("probes refused", "ebb_cluster_probes_refused_total"),
            ("forged", "ebb_cluster_forged_total"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use ebb_clusterd::status::ClusterStatus;

    use super::*;

    #[test]
    fn the_panel_asks_for_what_a_cluster_says() {
        crate::watch::panel::assert_sound::<ClusterStatus>(&PANEL);
    }
}

//! What setups do by frame length, for people and programs.

use ebb_report::{Column, Table};
use serde_json::{Value, json};

use super::cases::{Case, Setup};
use super::stage::{LATENCY_AT, Rated};

/// A setup of a case, and what it does with each frame length.
pub(super) type Row = (&'static Case, &'static Setup, Vec<Rated>);

/// Of frames alone, without preamble and gap.
fn mbps(pps: f64, rated: &Rated) -> f64 {
    pps * rated.sizes.mean() * 8.0 / 1e6
}

/// As a table; none without rows.
pub(super) fn table(rows: &[Row]) -> Option<Table> {
    let mut table = Table::new(
        "Rates without loss",
        [
            Column::text("case"),
            Column::text("setup"),
            Column::text("frames"),
            Column::number("rate", "kpps", 1),
            Column::number("least", "kpps", 1),
            Column::number("most", "kpps", 1),
            Column::number("rate", "Mb/s", 0),
            Column::number("p50 at 50 %", "us", 0),
            Column::number("p99 at 50 %", "us", 0),
            Column::number("p50 at 90 %", "us", 0),
            Column::number("p99 at 90 %", "us", 0),
            Column::number("of 1.5 times that", "kpps", 1),
            Column::number("fairness", "", 3),
        ],
    );
    for (case, setup, all) in rows {
        for rated in all {
            let [least, middle, most] = rated.pps();
            let latency = |at: usize| rated.latency_us.get(at).copied().flatten();
            table.row([
                case.name.into(),
                setup.name.into(),
                rated.sizes.name().into(),
                (middle / 1e3).into(),
                (least / 1e3).into(),
                (most / 1e3).into(),
                mbps(middle, rated).into(),
                latency(0).map(|latency| latency.p50).into(),
                latency(0).map(|latency| latency.p99).into(),
                latency(1).map(|latency| latency.p50).into(),
                latency(1).map(|latency| latency.p99).into(),
                rated.overload.as_ref().map(|overload| overload.pps / 1e3).into(),
                rated.overload.as_ref().map(|overload| overload.fairness).into(),
            ]);
        }
    }
    (!rows.is_empty()).then_some(table)
}

/// The same for programs.
pub(super) fn figures(rows: &[Row]) -> Value {
    let one = |case: &Case, setup: &Setup, rated: &Rated| {
        let [least, middle, most] = rated.pps();
        let at = LATENCY_AT.iter().zip(&rated.latency_us);
        let latency: Vec<Value> =
            at.map(|(part, latency)| json!({ "load": part, "us": latency })).collect();
        json!({
            "case": case.name, "setup": setup.name, "packets": rated.sizes.name(),
            "pps": middle, "least_pps": least, "most_pps": most, "mbps": mbps(middle, rated),
            "limited_by_sender": rated.limited_by_sender(), "latency": latency, "reordered": rated.reordered,
            "overload": rated.overload.as_ref().map(|overload| json!({
                "offered_pps": overload.offered_pps, "pps": overload.pps, "fairness": overload.fairness,
            })),
        })
    };
    let rows = rows
        .iter()
        .flat_map(|(case, setup, all)| all.iter().map(move |rated| one(case, setup, rated)));
    rows.collect()
}

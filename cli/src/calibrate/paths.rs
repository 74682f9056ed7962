//! What either path of the router costs this machine: processors that are busy under the same traffic, beside a cable in the
//! router's place.

use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_host::processors::Processors;
use ebb_power::{PathCost, PathCosts};
use ebb_report::{Column, Report, Table};
use ebb_units::PacketsPerSecond;

use super::bench::LiveBench;
use super::walk::Bench;
use crate::stage::Forwarder;

const KERNEL: Forwarder = Forwarder::Ebb { mode: "powersave", path: "kernel" };
const WORKER: Forwarder = Forwarder::Ebb { mode: "powersave", path: "worker" };
const LOADS: [f64; 8] = [5e3, 2e4, 5e4, 1e5, 2e5, 4e5, 8e5, 1.6e6];
/// Each is measured so often, in turns; the medians count.
const ROUNDS: usize = 3;
/// What a path has to forward of its load to carry it.
const CARRIED: f64 = 0.995;
const SETTLE: Duration = Duration::from_millis(300);

/// Busy processors under each load that was carried.
type Curve = Vec<f64>;

/// Measures; none when interrupted.
pub(super) fn measure(bench: &mut LiveBench, span: Duration) -> Result<Option<PathCosts>> {
    let mut rounds: [Vec<Curve>; 3] = Default::default();
    for round in 1..=ROUNDS {
        for (curves, (forwarder, name)) in rounds.iter_mut().zip([
            (Forwarder::Cable, "a cable"),
            (KERNEL, "the kernel path"),
            (WORKER, "workers"),
        ]) {
            eprintln!("round {round} of {ROUNDS}: {name}");
            bench.arrange_for(forwarder)?;
            curves.push(curve(bench, span)?);
            if bench.stopped() {
                return Ok(None);
            }
        }
    }
    let [cable, kernel, worker] = rounds.map(|curves| median(&curves));
    let above = |curve: &Curve| {
        let pairs = LOADS.iter().zip(curve.iter().zip(&cable));
        pairs
            .map(|(load, (busy, others))| PathCost {
                packets_per_s: *load,
                cores: (busy - others).max(0.0),
            })
            .collect::<Vec<_>>()
    };
    let costs = PathCosts { kernel: above(&kernel), worker: above(&worker) };
    ensure!(
        !costs.kernel.is_empty() && !costs.worker.is_empty(),
        "not even {} packets/s were forwarded: this machine has too much else to do",
        LOADS[0]
    );
    Ok(Some(costs))
}

fn curve(bench: &mut LiveBench, span: Duration) -> Result<Curve> {
    let mut curve = Vec::new();
    for load in LOADS {
        if bench.stopped() {
            break;
        }
        let mut marks = Vec::new();
        let mut mark = || -> Result<()> {
            marks.push(Processors::now()?);
            Ok(())
        };
        let carried = bench.offer(PacketsPerSecond(load), SETTLE, span, &mut mark)?;
        if carried.forwarded.0 < CARRIED * load {
            break;
        }
        let busy = marks[1].busy_since(&marks[0]);
        curve.push(busy.as_secs_f64() / span.as_secs_f64());
    }
    Ok(curve)
}

/// By load, as far as all rounds go.
fn median(curves: &[Curve]) -> Curve {
    let shared = curves.iter().map(Vec::len).min().unwrap_or(0);
    let middle = |load: usize| {
        let mut values: Vec<f64> = curves.iter().map(|curve| curve[load]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (0..shared).map(middle).collect()
}

/// What was found.
pub(super) fn report(costs: &PathCosts, out: &std::path::Path) -> Report {
    let columns = [
        Column::number("load", "packets/s", 0),
        Column::number("kernel", "cores", 3),
        Column::number("workers", "cores", 3),
    ];
    let mut table = Table::new("Busy processors above the same traffic over a cable", columns);
    for load in LOADS {
        let (kernel, worker) = costs.at(PacketsPerSecond(load));
        if kernel.is_some() || worker.is_some() {
            table.row([load.into(), kernel.into(), worker.into()]);
        }
    }
    let points = |curve: &[PathCost]| {
        let point = |cost: &PathCost| serde_json::json!([cost.packets_per_s, cost.cores]);
        curve.iter().map(point).collect::<Vec<_>>()
    };
    Report::new("Both paths")
        .table(table)
        .text(
            "Measured on virtual links of this machine, with its senders and receivers; what a network card's driver costs \
             is not in it. A load without a value was not carried.",
        )
        .text(format!("Written to {}.", out.display()))
        .figure("kernel", points(&costs.kernel))
        .figure("worker", points(&costs.worker))
        .figure("out", out.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loads_that_every_round_has_count() {
        let curves = [vec![0.1, 0.5, 0.7], vec![0.3, 0.2], vec![0.2, 0.4, 0.9]];
        assert_eq!(median(&curves), [0.2, 0.4]);
        assert!(median(&[Vec::new()]).is_empty());
    }
}

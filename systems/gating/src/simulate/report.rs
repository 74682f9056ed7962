//! What came out, for people and for programs.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use serde_json::{Map, Value, json};

use super::Scenario;
use crate::compare::{Compared, Savings};
use crate::memory::ChannelCounts;

/// The report of a run. Figures for programs: `controllers`, by name, with `energy_saved`,
/// `slowdown`, `gated_share`, `wakeups`, and `energy_j` with `active`, `stalled`, `gated`, `waking`.
pub(super) fn report(scenario: &Scenario, compared: &Compared) -> Report {
    let outcome = &compared.outcome;
    let sum =
        |of: fn(&crate::machine::CoreCounts) -> u64| outcome.cores.iter().map(of).sum::<u64>();
    let instructions = sum(|core| core.instructions);
    let reads = sum(|core| core.memory_reads);
    let latency_ns = sum(|core| core.memory_latency) as f64 / reads.max(1) as f64 / 1000.0;
    let stalls = sum(|core| core.stalls);
    let stall_ns = sum(|core| core.stalled) as f64 / stalls.max(1) as f64 / 1000.0;
    let seconds = outcome.cores.iter().map(|core| core.time).max().unwrap_or(0) as f64 * 1e-12;
    let core = scenario.charged_core();
    let island = crate::Island::core(&core);
    let controllers: Map<String, Value> =
        compared.results.iter().map(|(name, result)| (name.clone(), json!(result))).collect();
    let caches = outcome.caches;
    let answered = ["l1", "l2", "l3", "memory"].into_iter().zip(caches.answered);
    let mut counted: Map<String, Value> =
        answered.map(|(name, count)| (name.to_owned(), json!(count))).collect();
    counted.insert("written_back".to_owned(), json!(caches.written_back));
    let mut report = Report::new(format!("Power gating while memory answers: {}", subject(scenario)))
        .text(format!(
            "{} core{} `{}` at {} GHz; energies are modelled: leakage {} W a core, {:.0} % of its power at work. Savings depend on that share: sweep leakage_share.",
            scenario.cores,
            if scenario.cores == 1 { "" } else { "s" },
            core.name,
            core.ghz,
            core.leakage_w,
            scenario.leakage_share * 100.0,
        ))
        .table(table(compared))
        .table(machine(compared))
        .plot(energies(compared))
        .text(safety(scenario, compared));
    report.figures.insert("controllers".to_owned(), Value::Object(controllers));
    report.figures.insert("caches".to_owned(), Value::Object(counted));
    if let Some(gating) = compared.gating() {
        let gap = compared.of("hybrid").map(|ours| gating.energy_saved - ours.energy_saved);
        report.figures.insert("oracle_by_gating".to_owned(), json!(gating));
        report.figures.insert("hybrid_below_oracle".to_owned(), json!(gap));
    }
    report = report
        .figure("instructions", instructions)
        .figure("references", sum(|core| core.references))
        .figure("time_s", seconds)
        .figure("stalled_share", compared.stalled_share())
        .figure("stalls", stalls)
        .figure("stall_ns", stall_ns)
        .figure("memory_reads", reads)
        .figure("memory_latency_ns", latency_ns)
        .figure("row_hits", row_hits(&outcome.channels))
        .figure("energy_j", compared.base.total())
        .figure("leakage_share", scenario.leakage_share)
        .figure("load", scenario.load)
        .figure("break_even_ns", island.break_even_ns())
        .figure("wake_ns", core.wake_ns)
        .figure("cores", scenario.cores);
    for (name, result) in &compared.results {
        report = report.figure_in("", format!("energy_saved.{name}"), result.energy_saved);
    }
    report
}

/// Whether neighbours stood all wake-ups, and what the oracle is.
fn safety(scenario: &Scenario, compared: &Compared) -> String {
    let broken = |(name, result): &(String, Savings)| {
        (result.unsafe_wakeups > 0).then(|| format!("{} of `{name}`", result.unsafe_wakeups))
    };
    let broken: Vec<String> = compared.results.iter().filter_map(broken).collect();
    let safe = if scenario.cores == 1 {
        "One core has no neighbours to disturb.".to_owned()
    } else if broken.is_empty() {
        "Every wake-up was safe for its neighbours by equation 2.1.".to_owned()
    } else {
        format!(
            "By equation 2.1 these wake-ups were not safe for their neighbours: {}. Set `keeping` \
            to separate them.",
            broken.join(", ")
        )
    };
    match compared.of("oracle").and_then(|oracle| oracle.by.as_ref()) {
        Some(by) => format!(
            "{safe} The oracle acts as `{by}`, which saves more than any gating could, and is as \
            slow."
        ),
        None => safe,
    }
}

fn subject(scenario: &Scenario) -> String {
    if scenario.stream.is_some() {
        return "STREAM".to_owned();
    }
    if scenario.profile.is_some() {
        return "a profile".to_owned();
    }
    scenario.trace.names().join(", ")
}

fn table(compared: &Compared) -> Table {
    let columns = [
        Column::text("controller"),
        Column::number("energy saved", "%", 2),
        Column::number("slowdown", "%", 3),
        Column::number("gated", "% of time", 2),
        Column::count("wake-ups"),
        Column::number("active", "J", 6),
        Column::number("stalled", "J", 6),
        Column::number("gated", "J", 6),
        Column::number("waking", "J", 6),
    ];
    let mut table = Table::new("Controllers", columns);
    for (name, result) in &compared.results {
        let Savings { energy_saved, slowdown, gated_share, wakeups, energy_j, .. } = result;
        table.row([
            name.as_str().into(),
            (energy_saved * 100.0).into(),
            (slowdown * 100.0).into(),
            (gated_share * 100.0).into(),
            (*wakeups).into(),
            energy_j.active.into(),
            energy_j.stalled.into(),
            energy_j.gated.into(),
            energy_j.waking.into(),
        ]);
    }
    table
}

fn machine(compared: &Compared) -> Table {
    let columns = [
        Column::count("core"),
        Column::count("instructions"),
        Column::number("time", "ms", 3),
        Column::number("stalled", "%", 2),
        Column::count("stalls"),
        Column::number("stall", "ns", 1),
        Column::count("memory reads"),
        Column::number("latency", "ns", 1),
    ];
    let mut table = Table::new("Cores without gating", columns);
    for (index, core) in compared.outcome.cores.iter().enumerate() {
        let each = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        table.row([
            (index as u64).into(),
            core.instructions.into(),
            (core.time as f64 * 1e-9).into(),
            (each(core.stalled, core.time) * 100.0).into(),
            core.stalls.into(),
            (each(core.stalled, core.stalls) / 1000.0).into(),
            core.memory_reads.into(),
            (each(core.memory_latency, core.memory_reads) / 1000.0).into(),
        ]);
    }
    table
}

/// How many reads of memory found their row open, share.
fn row_hits(channels: &[ChannelCounts]) -> f64 {
    let rows = |index: usize| channels.iter().map(|channel| channel.rows[index]).sum::<u64>();
    rows(0) as f64 / (rows(0) + rows(1) + rows(2)).max(1) as f64
}

fn energies(compared: &Compared) -> Plot {
    let points = |of: fn(&Savings) -> f64| {
        let each = |(index, (_, result)): (usize, &(String, Savings))| (index as f64, of(result));
        compared.results.iter().enumerate().map(each).collect::<Vec<_>>()
    };
    Plot::new("Energy by controller, in the order of the table", Axis::new("controller", ""))
        .panel(Axis::new("energy", "J").from_zero())
        .series(Series::points("active", points(|result| result.energy_j.active)))
        .series(Series::points("stalled", points(|result| result.energy_j.stalled)))
        .series(Series::points("gated", points(|result| result.energy_j.gated)))
        .series(Series::points("waking", points(|result| result.energy_j.waking)))
}

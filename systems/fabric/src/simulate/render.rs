//! What users read.

use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};

use super::run::{Changed, Outcome, Run};
use super::scenario::Scenario;
use crate::sim::{Bin, LANE_CLASSES, Pattern};

/// Names of the lane classes, as in the paper's figures.
const CLASSES: [&str; LANE_CLASSES] = ["control lane", "data lane set 0", "data lane set 1"];

/// How far above its level before a change the mean latency may stay while the transient counts as
/// over.
const CALM: f64 = 1.25;

/// Peak latency from a change's beginning until things are calm again, ns, and when that is.
#[must_use]
pub fn peak(outcome: &Outcome, change: &Changed, until_ns: u64) -> Option<(u64, u64)> {
    let meter = &outcome.meter;
    let ended = change.ended_ns?;
    let first = (change.began_ns / meter.bin_ns) as usize;
    let last = (until_ns / meter.bin_ns) as usize;
    let bins = meter.bins.get(first..last.min(meter.bins.len()))?;
    let before = meter.bins.get(first.saturating_sub(5)..first)?;
    let calm = mean(before)? * CALM;
    let end_bin = (ended / meter.bin_ns) as usize - first;
    let after = bins.iter().skip(end_bin + 1);
    let restless = after.take_while(|bin| bin.mean_ns().is_none_or(|mean| mean > calm)).count();
    let quiet_ns =
        (change.began_ns / meter.bin_ns + (end_bin + 1 + restless) as u64) * meter.bin_ns;
    let span = bins.get(..(end_bin + 1 + restless).min(bins.len()))?;
    let most = span.iter().map(|bin| bin.latency_ns_max).max()?;
    Some((most, if restless == 0 { ended } else { quiet_ns.max(ended) }))
}

fn mean(bins: &[Bin]) -> Option<f64> {
    let (sum, count) =
        bins.iter().fold((0, 0), |(sum, n), bin| (sum + bin.latency_ns, n + bin.delivered));
    (count > 0).then(|| sum as f64 / count as f64)
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The report of a run.
#[must_use]
pub fn report(scenario: &Scenario, run: &Run<'_>, outcome: &Outcome) -> Report {
    let meter = &outcome.meter;
    let title = format!("Fabric {}: links on and off", scenario.topology);
    let mut report = Report::new(title);
    if let Some(ring) = &outcome.deadlock {
        let ring: Vec<String> = ring.iter().map(ToString::to_string).collect();
        report = report.text(format!(
            "DEADLOCK at {:.3} µs. These channels wait for each other: {}.",
            us(outcome.ended_ns),
            ring.join(" -> ")
        ));
    }
    report = report.table(totals(outcome));
    if !outcome.changes.is_empty() {
        report = report.table(changes(outcome));
        for change in outcome.changes.iter().filter(|change| change.scheme.is_none()) {
            let reasons = change.refused.join(" | ");
            report = report.text(format!("Rejected at {:.1} µs: {reasons}", us(change.asked_ns)));
        }
    }
    report = report.plot(plot(run, outcome));
    let mut figures = serde_json::Map::new();
    let status = if outcome.deadlock.is_some() { "deadlocked" } else { "stable" };
    figures.insert("status".into(), status.into());
    figures.insert("packets".into(), meter.delivered.into());
    figures.insert("injected".into(), meter.injected.into());
    figures.insert("dropped".into(), meter.dropped.into());
    figures.insert("lost".into(), meter.lost.into());
    figures.insert("reordered".into(), meter.reordered.into());
    figures.insert("looped".into(), meter.looped.into());
    figures.insert("conserved".into(), outcome.audit.balanced().into());
    figures.insert("deadlock".into(), serde_json::json!(outcome.deadlock));
    let quantile = |share| meter.latency.quantile(share).map(us);
    figures.insert("latency_us.mean".into(), meter.latency.mean().map(|ns| ns / 1e3).into());
    figures.insert("latency_us.p50".into(), quantile(0.5).into());
    figures.insert("latency_us.p99".into(), quantile(0.99).into());
    figures.insert("latency_us.max".into(), meter.latency.max().map(us).into());
    if let Pattern::AllReduce(what) | Pattern::AllToAll(what) = run.traffic.pattern {
        figures.insert("collective_us".into(), outcome.collective_ns.map(us).into());
        let bits = 8.0 * what.bytes as f64 * f64::from(what.rounds);
        let rate = outcome.collective_ns.map(|ns| bits / ns as f64);
        figures.insert("collective_gbit_per_s".into(), rate.into());
    }
    figures.insert("energy_j".into(), outcome.energy.total.0.into());
    figures.insert("energy_links_j".into(), outcome.energy.links.0.into());
    figures.insert("energy_saved_j".into(), outcome.energy.saved.0.into());
    figures.insert("links_off_share".into(), outcome.energy.off_share.into());
    let done = outcome.changes.iter().filter(|change| change.ended_ns.is_some());
    figures.insert("changes".into(), done.clone().count().into());
    figures.insert(
        "refused".into(),
        outcome.changes.iter().filter(|it| it.scheme.is_none()).count().into(),
    );
    let longest = done.clone().filter_map(|change| Some(change.ended_ns? - change.began_ns)).max();
    figures.insert("reconfiguration_us.max".into(), longest.map(us).into());
    let highest = done.filter_map(|it| Some(peak(outcome, it, outcome.ended_ns)?.0)).max();
    figures.insert("peak_latency_us".into(), highest.map(us).into());
    let report = figures.into_iter().fold(report, |report, (key, value)| report.figure(key, value));
    warm_up(report, run, outcome)
}

/// How much of the reported time still differs from the steady state, where the run has one: without
/// changes, and with the same rate all the time.
fn warm_up(report: Report, run: &Run<'_>, outcome: &Outcome) -> Report {
    let profile = &run.traffic.profile;
    let same = profile.iter().all(|(_, factor)| *factor == profile[0].1);
    if !run.changes.is_empty() || run.regulator.is_some() || !same {
        return report;
    }
    let meter = &outcome.meter;
    let whole = (outcome.ended_ns / meter.bin_ns) as usize;
    let first = meter.started_ns.map_or(whole, |start| start.div_ceil(meter.bin_ns) as usize);
    let bins = meter.bins.iter().enumerate().take(whole).skip(first);
    let course: Vec<(usize, f64)> =
        bins.filter_map(|(at, bin)| Some((at, bin.mean_ns()?))).collect();
    let means: Vec<f64> = course.iter().map(|(_, mean)| *mean).collect();
    let cut = ebb_des::mser5(&means).and_then(|cut| course.get(cut));
    let ns = cut.map(|(at, _)| (*at - first) as u64 * meter.bin_ns);
    let report = report.figure("warmup_detected_us", ns.map(us));
    match ns.filter(|ns| *ns > 0) {
        None => report,
        Some(ns) => {
            let until = first as u64 * meter.bin_ns + ns;
            let bins = meter.bins.iter().take((until / meter.bin_ns) as usize);
            let packets: u64 = bins.map(|bin| bin.delivered).sum();
            report.text(format!(
                "The latency in the first {:.1} µs that are reported differs from that of the \
                rest (MSER-5): set transient_packets = {packets} to exclude it.",
                us(ns)
            ))
        }
    }
}

fn totals(outcome: &Outcome) -> Table {
    let meter = &outcome.meter;
    let mut table = Table::new("The whole run", [Column::text("quantity"), Column::text("value")]);
    let mut row = |name: &str, value: String| {
        table.row([name.into(), Cell::Text(value)]);
    };
    row("packets delivered", meter.delivered.to_string());
    row("packets in the network at the end", meter.inside().to_string());
    row("dropped by the scheme", meter.dropped.to_string());
    row("lost", meter.lost.to_string());
    row("out of order", meter.reordered.to_string());
    row("in a loop", meter.looped.to_string());
    row("every packet accounted for", if outcome.audit.balanced() { "yes" } else { "NO" }.into());
    let latency = |share| meter.latency.quantile(share).map_or(f64::NAN, us);
    row("latency, median", format!("{:.2} µs", latency(0.5)));
    row("latency, 99 %", format!("{:.2} µs", latency(0.99)));
    row("latency, most", format!("{:.2} µs", meter.latency.max().map_or(f64::NAN, us)));
    if let Some(ns) = outcome.collective_ns {
        row("collective operation, all hosts done", format!("{:.2} µs", us(ns)));
    }
    row("control packets", meter.control.to_string());
    row("energy", format!("{:.4} J", outcome.energy.total.0));
    row("energy of links between switches", format!("{:.4} J", outcome.energy.links.0));
    row("saved by links that were off", format!("{:.4} J", outcome.energy.saved.0));
    row("links off, mean", format!("{:.1} %", 100.0 * outcome.energy.off_share));
    table
}

fn changes(outcome: &Outcome) -> Table {
    let mut table = Table::new(
        "Changes",
        [
            Column::number("at", "µs", 1),
            Column::text("scheme"),
            Column::count("off"),
            Column::count("on"),
            Column::number("reconfiguration", "µs", 1),
            Column::number("until calm", "µs", 1),
            Column::number("peak latency", "µs", 2),
            Column::text("promised"),
        ],
    );
    for (index, change) in outcome.changes.iter().enumerate() {
        let next = outcome.changes.get(index + 1).map_or(outcome.ended_ns, |next| next.asked_ns);
        let peak = peak(outcome, change, next);
        let number = |value: Option<f64>| value.map_or(Cell::Missing, Cell::Number);
        let promise = match change.promise {
            None => "refused",
            Some(promise) => match (promise.lossless, promise.in_order) {
                (true, true) => "no loss, in order",
                (true, false) => "no loss",
                (false, true) => "in order",
                (false, false) => "nothing",
            },
        };
        table.row([
            Cell::Number(us(change.asked_ns)),
            change.scheme.unwrap_or("none").into(),
            Cell::Count(change.off as u64),
            Cell::Count(change.on as u64),
            number(change.ended_ns.map(|end| us(end - change.began_ns))),
            number(peak.map(|(_, calm)| us(calm - change.began_ns))),
            number(peak.map(|(most, _)| us(most))),
            promise.into(),
        ]);
    }
    table
}

/// Traffic by lane and latency over time (Figs. 3 to 6).
#[must_use]
pub fn plot(run: &Run<'_>, outcome: &Outcome) -> Plot {
    let meter = &outcome.meter;
    let time = |index: usize| us(index as u64 * meter.bin_ns);
    let byte_ps = run.physics.byte_ps();
    let links = 2 * run.topology.links().count() as u64 * meter.bin_ns * 1000 / byte_ps;
    let mut plot = Plot::new("Traffic by lane and packet latency", Axis::new("time", "µs"))
        .panel(Axis::new("load of links between switches", "%").from_zero());
    for (class, name) in CLASSES.iter().enumerate() {
        let share = |bin: &Bin| 100.0 * bin.bytes[class] as f64 / links.max(1) as f64;
        let points = meter.bins.iter().enumerate().map(|(at, bin)| (time(at), share(bin)));
        plot = plot.series(Series::step(*name, points.collect()));
    }
    plot = plot.panel(Axis::new("latency", "µs").from_zero());
    let means = meter.bins.iter().enumerate();
    let means = means.map(|(at, bin)| (time(at), bin.mean_ns().map_or(f64::NAN, |ns| ns / 1e3)));
    let most = meter.bins.iter().enumerate();
    let most = most.map(|(at, bin)| (time(at), us(bin.latency_ns_max)));
    plot.series(Series::step("mean", means.collect())).series(Series::step("most", most.collect()))
}

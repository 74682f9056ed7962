//! A run as a report: figures for programs, tables and plots for people.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};
use ebb_study::StudyError;

use crate::account::STATE_NAMES;
use crate::run::{Outcome, Twin};
use crate::scenario::EngineKind;

/// Runs the scenario and reports what it found.
///
/// ```
/// use ebb_scenario::{Document, MemoryFiles, Silent};
/// let text = "load = 0.2\nduration_s = 0.01\n";
/// let document = Document::parse("run.toml", text).unwrap();
/// let report = ebb_system_router::simulate(&document, &MemoryFiles::new(), 1, &Silent)?;
/// let watts = report.figures["power_w"].as_f64().unwrap();
/// assert!((115.0..269.0).contains(&watts));
/// # Ok::<(), ebb_study::StudyError>(())
/// ```
///
/// # Errors
/// What is wrong with the scenario or a file that it names, or that the run was stopped.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let twin = Twin::new(document, files, seed)?;
    let outcome = twin.run(&mut *twin.policy(), progress)?;
    Ok(report(&twin, &outcome, seed, &twin.scenario().policy.name))
}

/// The report of a run.
pub(crate) fn report(twin: &Twin, outcome: &Outcome, seed: u64, policy: &str) -> Report {
    let scenario = twin.scenario();
    let engine = match scenario.engine {
        EngineKind::Packet => "packet",
        EngineKind::Slot => "slot",
    };
    let text = format!(
        "{} with {} of {} cores for the policy {}; {}; {} simulated seconds, {engine} engine. \
         All power is modelled.",
        twin.machine().name,
        twin.limits().cores,
        twin.machine().cores,
        policy,
        twin.application().name,
        outcome.span_s,
    );
    let file = scenario.traffic.trace.as_ref().map_or("", |trace| &trace.file);
    let noted = twin.notes().iter().map(|note| format!("{file}: {note}."));
    let report = noted.fold(Report::new(scenario.title.clone()).text(text), Report::text);
    let report = report
        .figure("engine", engine)
        .figure("policy", policy)
        .figure("application", twin.application().name.as_str())
        .figure("seed", seed)
        .figure("basis", "modelled");
    let report = match &outcome.timeline {
        Some(timeline) => report.timeline(timeline.clone()),
        None => report,
    };
    warm_up(figures(report, outcome), twin, outcome)
        .table(summary(outcome))
        .table(packets(outcome))
        .table(states(outcome))
        .plot(over_time(outcome))
        .plot(latency_plot(outcome))
}

/// The headline numbers under flat keys.
fn figures(report: Report, outcome: &Outcome) -> Report {
    let counts = &outcome.counts;
    let latency = &outcome.latency;
    let per = |packets: u64, whole: f64| if packets > 0 { whole / packets as f64 } else { 0.0 };
    let status = if counts.lost == 0 { "stable" } else { "losing" };
    let mut report = report
        .figure("status", status)
        .figure("duration_s", outcome.span_s)
        .figure("power_w", outcome.power.0)
        .figure("energy_j", outcome.energy.0)
        .figure("energy_per_packet_j", per(counts.delivered, outcome.energy.0))
        .figure("packets_per_joule", counts.delivered as f64 / outcome.energy.0)
        .figure("offered_mpps", counts.arrived as f64 / outcome.span_s / 1e6)
        .figure("delivered_mpps", counts.delivered as f64 / outcome.span_s / 1e6)
        .figure("queued_before", counts.queued_before)
        .figure("arrived", counts.arrived)
        .figure("delivered", counts.delivered)
        .figure("lost", counts.lost)
        .figure("queued", counts.queued)
        .figure("reordered", counts.reordered)
        .figure("loss_share", per(counts.arrived, counts.lost as f64))
        .figure("occupancy_mean", outcome.occupancy)
        .figure("latency_us.mean", latency.mean_us)
        .figure("latency_us.min", latency.min_us)
        .figure("latency_us.p50", latency.quantile_us(0.5))
        .figure("latency_us.p99", latency.quantile_us(0.99))
        .figure("latency_us.p999", latency.quantile_us(0.999))
        .figure("latency_us.max", latency.max_us)
        .figure("cores_mean", outcome.cores)
        .figure("frequency_ghz_mean", outcome.ghz)
        .figure("changes", outcome.changes)
        .figure("decisions", outcome.decisions)
        .figure("wakeups", outcome.wakeups)
        .figure("entries_moved", outcome.entries_moved);
    for (name, joules) in &outcome.parts {
        report = report.figure(format!("power_w.{name}"), joules.0 / outcome.span_s);
    }
    for (name, share) in STATE_NAMES.iter().zip(&outcome.states) {
        report = report.figure(format!("core_share.{name}"), *share);
    }
    report
}

/// What of the reported time still differs from its steady state, where the load has one.
fn warm_up(report: Report, twin: &Twin, outcome: &Outcome) -> Report {
    let traffic = &twin.scenario().traffic;
    if traffic.profile.is_some() || traffic.trace.is_some() || traffic.pcap.is_some() {
        return report;
    }
    let watts: Vec<f64> = outcome.samples.iter().map(|sample| sample.watts.0).collect();
    let Some(cut) = ebb_des::mser5(&watts) else {
        return report.figure("warmup_detected_s", serde_json::Value::Null);
    };
    let span_s: f64 = outcome.samples[..cut].iter().map(|sample| sample.span_s).sum();
    let report = report.figure("warmup_detected_s", span_s);
    if cut == 0 {
        return report;
    }
    let before = twin.scenario().warmup_s;
    report.text(format!(
        "The power of the first {span_s:.3} s that are reported differs from that of the rest \
        (MSER-5): set warmup_s = {:.3} to exclude it.",
        before + span_s
    ))
}

fn summary(outcome: &Outcome) -> Table {
    let columns = [
        Column::text("component"),
        Column::number("power", "W", 1),
        Column::number("energy", "J", 1),
        Column::number("share", "%", 1),
    ];
    let mut table = Table::new("Power", columns);
    let total = outcome.energy.0;
    let mut row = |name: &str, joules: f64| {
        let watts = joules / outcome.span_s;
        table.row([name.into(), watts.into(), joules.into(), (100.0 * joules / total).into()]);
    };
    outcome.parts.iter().for_each(|(name, joules)| row(name, joules.0));
    row("all", total);
    table
}

fn packets(outcome: &Outcome) -> Table {
    let columns = [Column::text("quantity"), Column::number("value", "", 3), Column::text("unit")];
    let mut table = Table::new("Traffic", columns);
    let (counts, latency) = (&outcome.counts, &outcome.latency);
    let whole: [(&str, u64); 6] = [
        ("queued before", counts.queued_before),
        ("arrived", counts.arrived),
        ("delivered", counts.delivered),
        ("lost", counts.lost),
        ("queued at the end", counts.queued),
        ("reordered", counts.reordered),
    ];
    for (name, count) in whole {
        table.row([name.into(), count.into(), "packets".into()]);
    }
    let rows: [(&str, f64, &str); 8] = [
        ("energy per packet", outcome.energy.0 / counts.delivered.max(1) as f64 * 1e6, "µJ"),
        ("latency, mean", latency.mean_us, "µs"),
        ("latency, median", latency.quantile_us(0.5), "µs"),
        ("latency, 99 %", latency.quantile_us(0.99), "µs"),
        ("latency, 99.9 %", latency.quantile_us(0.999), "µs"),
        ("latency, most", latency.max_us, "µs"),
        ("active cores, mean", outcome.cores, ""),
        ("clock, mean", outcome.ghz, "GHz"),
    ];
    for (name, value, unit) in rows {
        table.row([name.into(), value.into(), unit.into()]);
    }
    for (name, count) in [
        ("changes of the operating point", outcome.changes),
        ("decisions of the policy", outcome.decisions),
    ] {
        table.row([name.into(), count.into(), "".into()]);
    }
    table
}

fn states(outcome: &Outcome) -> Table {
    let columns = [Column::text("state"), Column::number("share of core time", "%", 2)];
    let mut table = Table::new("Cores", columns);
    for (name, share) in STATE_NAMES.iter().zip(&outcome.states) {
        table.row([(*name).into(), (share * 100.0).into()]);
    }
    table
}

fn over_time(outcome: &Outcome) -> Plot {
    let points = |value: fn(&crate::engine::Sample) -> f64| {
        outcome.samples.iter().map(|sample| (sample.at_s - sample.span_s, value(sample))).collect()
    };
    Plot::new("Power, capacity and load over time", Axis::new("time", "s"))
        .panel(Axis::new("power", "W").from_zero())
        .series(Series::step("power", points(|sample| sample.watts.0)))
        .panel(Axis::new("active cores", "").from_zero())
        .series(Series::step("cores", points(|sample| f64::from(sample.cores))))
        .panel(Axis::new("clock", "GHz").from_zero())
        .series(Series::step("clock", points(|sample| sample.frequency.as_ghz())))
        .panel(Axis::new("offered", "Mpps").from_zero())
        .series(Series::area("offered", points(|sample| sample.offered_pps / 1e6)))
}

fn latency_plot(outcome: &Outcome) -> Plot {
    let histogram = &outcome.latency.histogram;
    let all = histogram.count().max(1) as f64;
    let mut below = 0;
    let points = histogram.buckets().map(|(nanos, count)| {
        below += count;
        (nanos as f64 / 1e3, 100.0 * below as f64 / all)
    });
    let points: Vec<(f64, f64)> = points.collect();
    let axis = Axis::new("latency", "µs").fitting(points.iter().map(|point| point.0));
    Plot::new("Latency", if axis.log { axis } else { axis.from_zero() })
        .panel(Axis::new("packets that take no longer", "%").reaching(0.0, 100.0))
        .series(Series::step("packets", points))
}

//! The plan, for people.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};
use ebb_study::StudyError;
use ebb_units::PacketsPerSecond;

use super::{Comparison, Estimate, Problem};

/// The cheapest cores and frequency for every load, what each policy would draw under the load of
/// the problem, what the best schedule would, and what is saved.
///
/// ```
/// use ebb_scenario::{Document, MemoryFiles, Silent};
/// let document = Document::parse("plan.toml", "load = 0.3\nrows = 4\n").unwrap();
/// let report = ebb_system_router::plan::plan(&document, &MemoryFiles::new(), 1, &Silent)?;
/// let saved = report.figures["saved_percent.powersave"].as_f64().unwrap();
/// assert!((20.0..60.0).contains(&saved));
/// # Ok::<(), ebb_study::StudyError>(())
/// ```
///
/// # Errors
/// What is wrong with the problem or a file that it names, or that it was stopped.
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let problem: Problem = document.read_described()?;
    let comparison = Comparison::new(document, files, seed, progress)?;
    let text = format!(
        "{} on {} cores, {}, headroom {:.0} %. The table over load is by formula (Poisson \
        arrivals, cores that sleep in C1 when their queue is empty); the policies ran in the \
        simulated router, {:.0} times as fast as the load; the optimum knows the load in advance, \
        keeps no headroom and pays for waking. All power is modelled.",
        comparison.estimate.server().power.name,
        comparison.estimate.cores(),
        problem.application.name,
        100.0 * problem.headroom,
        comparison.compress,
    );
    let report = Report::new(problem.title.clone()).text(text).figure("seed", seed);
    let report = match problem.unused().as_slice() {
        [] => report,
        unused => report.text(format!(
            "Of the scenario, {} are used only by `ebb sim router`: a plan compares policies over \
            the whole load.",
            unused.join(", ")
        )),
    };
    let file = problem.traffic.trace.as_ref().map_or("", |trace| &trace.file);
    let noted = comparison.notes.iter().map(|note| format!("{file}: {note}."));
    let report = noted.fold(report, Report::text);
    let report = figures(report.figure("basis", "modelled"), &comparison)
        .heading("Under this load")
        .table(policies(&comparison));
    let report =
        if comparison.loads.len() > 1 { report.plot(over_time(&comparison)) } else { report };
    Ok(report
        .heading("For every load")
        .table(points(&problem, &comparison.estimate))
        .plot(over_load(&problem, &comparison.estimate)))
}

/// What saved is measured against: the first policy asked for, which is polling by default.
fn yardstick(comparison: &Comparison) -> f64 {
    let poll = comparison.run("poll").or(comparison.runs.first().map(|(_, outcome)| outcome));
    poll.map_or(f64::NAN, |outcome| outcome.power.0)
}

fn figures(report: Report, comparison: &Comparison) -> Report {
    let whole = yardstick(comparison);
    let optimum = comparison.optimum_watts();
    let mut report = report
        .figure("span_s", comparison.span_s)
        .figure("offered_mpps", comparison.mean.0 / 1e6)
        .figure("power_w.optimum", optimum.0)
        .figure("energy_j.optimum", comparison.energy(optimum).0)
        .figure("saved_percent.optimum", 100.0 * (1.0 - optimum.0 / whole));
    for (name, outcome) in &comparison.runs {
        let watts = outcome.power;
        report = report
            .figure(format!("power_w.{name}"), watts.0)
            .figure(format!("energy_j.{name}"), comparison.energy(watts).0)
            .figure(format!("saved_percent.{name}"), 100.0 * (1.0 - watts.0 / whole))
            .figure(format!("gap_percent.{name}"), comparison.gap_percent(watts))
            .figure(format!("lost.{name}"), outcome.counts.lost)
            .figure(format!("latency_us.p99.{name}"), outcome.latency.quantile_us(0.99));
    }
    report
}

fn policies(comparison: &Comparison) -> Table {
    let columns = [
        Column::text("policy"),
        Column::number("mean power", "W", 1),
        Column::number("energy", "kWh", 3),
        Column::number("saved", "%", 1),
        Column::number("above optimum", "%", 1),
        Column::number("cores, mean", "", 2),
        Column::number("clock, mean", "GHz", 2),
        Column::number("latency, mean", "µs", 1),
        Column::count("lost"),
    ];
    let mut table = Table::new("Policies", columns);
    let whole = yardstick(comparison);
    let kwh = |watts| comparison.energy(watts).0 / 3.6e6;
    for (name, outcome) in &comparison.runs {
        let watts = outcome.power;
        table.row([
            name.as_str().into(),
            watts.0.into(),
            kwh(watts).into(),
            (100.0 * (1.0 - watts.0 / whole)).into(),
            comparison.gap_percent(watts).into(),
            outcome.cores.into(),
            outcome.ghz.into(),
            outcome.latency.mean_us.into(),
            outcome.counts.lost.into(),
        ]);
    }
    let optimum = comparison.optimum_watts();
    let slots = comparison.loads.len().max(1) as f64;
    let cores = comparison.optimum.cores().map(f64::from).sum::<f64>() / slots;
    table.row([
        "optimum".into(),
        optimum.0.into(),
        kwh(optimum).into(),
        (100.0 * (1.0 - optimum.0 / whole)).into(),
        0.0.into(),
        cores.into(),
        ebb_report::Cell::Missing,
        ebb_report::Cell::Missing,
        ebb_report::Cell::Missing,
    ]);
    table
}

fn over_time(comparison: &Comparison) -> Plot {
    let hour = comparison.compress / 3600.0;
    let mut plot =
        Plot::new("Over time", Axis::new("time", "h")).panel(Axis::new("power", "W").from_zero());
    for (name, outcome) in &comparison.runs {
        let points = outcome.samples.iter();
        let points = points.map(|sample| ((sample.at_s - sample.span_s) * hour, sample.watts.0));
        plot = plot.series(Series::step(name.as_str(), points.collect()));
    }
    let slot_h = comparison.slot.as_secs_f64() * hour;
    let estimate = &comparison.estimate;
    let stride = (comparison.loads.len() / 400).max(1);
    let slots = comparison.loads.iter().zip(&comparison.optimum.states).enumerate();
    let slots: Vec<_> = slots.step_by(stride).collect();
    let at = |index: usize| index as f64 * slot_h;
    let optimum = slots.iter().map(|(index, (load, state))| {
        (at(*index), estimate.watts(state.cores, state.frequency, **load).0)
    });
    let loads = slots.iter().map(|(index, (load, _))| (at(*index), load.0 / 1e6));
    plot.series(Series::step("optimum", optimum.collect()))
        .panel(Axis::new("offered", "Mpps").from_zero())
        .series(Series::area("offered", loads.collect()))
}

/// The loads of the table: shares of the largest capacity.
fn shares(problem: &Problem) -> impl Iterator<Item = f64> {
    let rows = f64::from(problem.rows);
    (0..=problem.rows).map(move |row| f64::from(row) / rows)
}

/// By formula: polling, interrupts, PowerSave at rest.
fn by_formula(estimate: &Estimate, load: PacketsPerSecond) -> [f64; 3] {
    let (all, top) = (estimate.cores(), estimate.top());
    let (cores, frequency) = estimate.ladder(load);
    [
        estimate.polling(all, top, load).0,
        estimate.watts(all, top, load).0,
        estimate.watts(cores, frequency, load).0,
    ]
}

fn points(problem: &Problem, estimate: &Estimate) -> Table {
    let columns = [
        Column::number("load", "%", 0),
        Column::number("rate", "Mpps", 2),
        Column::count("cores"),
        Column::number("clock", "GHz", 2),
        Column::number("cheapest", "W", 1),
        Column::number("poll", "W", 1),
        Column::number("napi", "W", 1),
        Column::number("powersave", "W", 1),
    ];
    let mut table = Table::new("Cheapest cores and frequency, with headroom", columns);
    for share in shares(problem) {
        let load = PacketsPerSecond(share * estimate.largest().0);
        let (cores, frequency, watts) = estimate.cheapest(load, problem.headroom);
        let [poll, napi, powersave] = by_formula(estimate, load);
        table.row([
            (100.0 * share).into(),
            (load.0 / 1e6).into(),
            u64::from(cores).into(),
            estimate.frequencies()[usize::from(frequency)].as_ghz().into(),
            watts.0.into(),
            poll.into(),
            napi.into(),
            powersave.into(),
        ]);
    }
    table
}

fn over_load(problem: &Problem, estimate: &Estimate) -> Plot {
    let line = |watts: &dyn Fn(PacketsPerSecond) -> f64| {
        let rate = |step: u32| f64::from(step) / 100.0 * estimate.largest().0;
        (0..=100).map(|step| (rate(step) / 1e6, watts(PacketsPerSecond(rate(step))))).collect()
    };
    Plot::new("Power over load, by formula", Axis::new("load", "Mpps"))
        .panel(Axis::new("power", "W").from_zero())
        .series(Series::line("poll", line(&|load| by_formula(estimate, load)[0])))
        .series(Series::line("napi", line(&|load| by_formula(estimate, load)[1])))
        .series(Series::line("powersave", line(&|load| by_formula(estimate, load)[2])))
        .series(Series::line(
            "cheapest with headroom",
            line(&|load| estimate.cheapest(load, problem.headroom).2.0),
        ))
}

//! Savings on every benchmark (Strong, figs. 2.13 to 2.15).

use ebb_report::{
    Axis, Claim, Column, Context, ExperimentError, Figure, Findings, Note, Plot, Report, Series,
    Table,
};

use super::suite::{Benchmark, SEEDS, absent, benchmarks, comparison, most_and_mean, of, run};
use crate::compare::Compared;
use crate::machine::CoreSettings;

const SOURCE: &str = "Strong 2013, section 2.5.1, Figures 2.13 and 2.14";
const TIME: &str = "Strong 2013, section 2.5.2, Figure 2.15";

/// Bases, core, controller, what: the largest and the mean that were printed, with tolerances.
macro_rules! pair {
    ($basis:ident $of_mean:ident, $id:literal, $source:expr, $what:literal, $most:literal, $mean:literal) => {
        [
            Claim::$basis(
                concat!("strong2013.", $id, ".max"),
                $source,
                concat!($what, ", largest"),
                $most,
                "%",
            )
            .percent(25.0),
            Claim::$of_mean(
                concat!("strong2013.", $id, ".mean"),
                $source,
                concat!($what, ", mean"),
                $mean,
                "%",
            )
            .percent(25.0),
        ]
    };
}

const PAIRS: [[Claim; 2]; 18] = [
    pair!(calibrated calibrated, "ev6.oracle.saved", SOURCE, "EV6, oracle: energy saved", 23.9, 3.6),
    pair!(calibrated calibrated, "ev6.tap.saved", SOURCE, "EV6, TAP: energy saved", 22.4, 3.1),
    pair!(predicted predicted, "ev6.counter.saved", SOURCE, "EV6, counter: energy saved", 12.0, 1.2),
    pair!(predicted predicted, "ev6.counter.slow", SOURCE, "EV6, counter: slowdown", 3.98, 0.56),
    pair!(predicted predicted, "ev6.fupg.saved", SOURCE, "EV6, functional units: energy saved", 17.6, 2.2),
    pair!(predicted calibrated, "ev6.fupg.slow", SOURCE, "EV6, functional units: slowdown", 2.0, 1.5),
    pair!(predicted predicted, "ev6.dvfsoracle.saved", SOURCE, "EV6, DVFS oracle: energy saved", 24.6, 3.3),
    pair!(predicted predicted, "ev6.dvfsoracle.slow", SOURCE, "EV6, DVFS oracle: slowdown", 11.8, 2.4),
    pair!(predicted predicted, "ev6.dvfsmean.saved", SOURCE, "EV6, DVFS mu_mean: energy saved", 5.9, 0.6),
    pair!(predicted predicted, "ev6.dvfsmean.slow", SOURCE, "EV6, DVFS mu_mean: slowdown", 3.9, 1.0),
    pair!(calibrated calibrated, "ev6.tap.gated", TIME, "EV6, TAP: time gated", 48.34, 9.24),
    pair!(predicted predicted, "ev6.counter.gated", TIME, "EV6, counter: time gated", 32.55, 4.82),
    pair!(calibrated predicted, "io.oracle.saved", SOURCE, "in order, oracle: energy saved", 36.8, 8.1),
    pair!(predicted predicted, "io.tap.saved", SOURCE, "in order, TAP: energy saved", 20.3, 4.0),
    pair!(predicted predicted, "io.counter.saved", SOURCE, "in order, counter: energy saved", 19.6, 4.1),
    pair!(predicted predicted, "io.counter.slow", SOURCE, "in order, counter: slowdown", 2.6, 0.4),
    pair!(
        predicted predicted,
        "io.fupg.saved",
        SOURCE,
        "in order, functional units: energy saved",
        13.7,
        2.7
    ),
    pair!(
        predicted predicted,
        "io.dvfsoracle.saved",
        SOURCE,
        "in order, DVFS oracle: energy saved",
        19.6,
        1.5
    ),
];

/// What is printed of one of the two alone.
const ALONE: [Claim; 6] = [
    Claim::implied("strong2013.ev6.tap.slow", SOURCE, "EV6, TAP: slowdown", 0.0, "%").within(0.01),
    Claim::predicted(
        "strong2013.io.fupg.slow.mean",
        SOURCE,
        "in order, functional units: slowdown, mean",
        1.9,
        "%",
    )
    .percent(25.0),
    Claim::calibrated(
        "strong2013.ev6.tap.charging.mean",
        TIME,
        "EV6, TAP: time waking up, mean",
        0.97,
        "%",
    )
    .percent(25.0),
    Claim::predicted(
        "strong2013.ev6.tap.restoring.mean",
        TIME,
        "EV6, TAP: time restoring, mean",
        0.93,
        "%",
    )
    .percent(25.0),
    Claim::predicted(
        "strong2013.ev6.counter.charging.mean",
        TIME,
        "EV6, counter: time waking up, mean",
        0.68,
        "%",
    )
    .percent(25.0),
    Claim::predicted(
        "strong2013.ev6.counter.restoring.mean",
        TIME,
        "EV6, counter: time restoring, mean",
        0.66,
        "%",
    )
    .percent(25.0),
];

pub(super) const CLAIMS: &[Claim] = &{
    let mut all = [ALONE[0]; ALONE.len() + 2 * PAIRS.len()];
    let mut index = 1;
    while index < ALONE.len() {
        all[index] = ALONE[index];
        index += 1;
    }
    index = 0;
    while index < PAIRS.len() {
        all[ALONE.len() + 2 * index] = PAIRS[index][0];
        all[ALONE.len() + 2 * index + 1] = PAIRS[index][1];
        index += 1;
    }
    all
};

const REFILL: &str = "a wake-up takes 2.12 ns to refill the pipeline by Table 2.3, a fifth of what charging takes; in the \
                      print restoring takes as long as charging, so that it counts more";
const BY_DESIGN: &str =
    "TAP wakes a core for the earliest answer there can be, so that nothing else is possible";
pub(super) const CONTROLLERS: [&str; 7] =
    ["oracle", "tap", "counter", "fupg", "dvfs-oracle", "dvfs-mean", "hybrid"];

/// Figures 2.13 to 2.15: energy saved by every controller on every benchmark.
pub(super) static FIGURES_213: Figure = Figure {
    id: "strong2013.spec",
    title: "Energy saved on SPEC 2006, as profiles",
    claims: CLAIMS,
    run: figures_213,
};

type Measure = fn(&Compared, &str) -> f64;

fn measure(name: &str) -> Measure {
    match name {
        "saved" => |compared, name| of(compared, name).map_or(0.0, |result| result.energy_saved),
        "slow" => |compared, name| of(compared, name).map_or(0.0, |result| result.slowdown),
        "charging" => {
            |compared, name| of(compared, name).map_or(0.0, |result| result.time_share.charging)
        }
        "restoring" => {
            |compared, name| of(compared, name).map_or(0.0, |result| result.time_share.restoring)
        }
        _ => |compared, name| of(compared, name).map_or(0.0, |result| result.gated_share),
    }
}

fn figures_213(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let Some(benchmarks) = benchmarks(context)? else {
        return Ok(absent(FIGURES_213.title, CLAIMS));
    };
    let mut report = Report::new(FIGURES_213.title).text(
        "Profiles of the benchmarks behind the last cache. Six numbers are fitted, for all of them together, to seven that were printed of the oracle and of TAP on the out-of-order core, reads that the last cache answers to the mean slowdown by gating of functional units, and a leakage share to the oracle's largest saving in order; none is fitted to one benchmark. The rest is predicted.",
    );
    let mut first = None;
    let numbers = context.over_seeds(SEEDS, |context| {
        let cores = simulated(&benchmarks, context)?;
        let numbers = numbers(&cores);
        first.get_or_insert(cores);
        Ok(numbers)
    })?;
    for (name, all) in first.iter().flatten() {
        report = report.table(table(name, all)).plot(plot(name, all));
    }
    let why = "the profiles know how often and how near references come, not when: phases and dependences of the real programs are not in the data";
    let claims = CLAIMS.iter().zip(numbers);
    Ok(claims.fold(Findings::new(report), |found, (claim, ours)| {
        let met = if claim.id.ends_with("tap.slow") { BY_DESIGN } else { "" };
        let why = if claim.id.contains("restoring") { REFILL } else { why };
        found.found(claim.id, ours, Note::verdict(met, why))
    }))
}

/// Every benchmark on one core, whose name comes first.
type OnCore = (String, Vec<(String, Compared)>);

fn simulated(
    benchmarks: &[Benchmark],
    context: &Context<'_>,
) -> Result<Vec<OnCore>, ExperimentError> {
    let on = |core: CoreSettings| {
        let (name, comparison) = (core.name.clone(), comparison(core, 2, &CONTROLLERS));
        let one = |benchmark: &Benchmark| {
            Ok((benchmark.name.clone(), run(&comparison, benchmark, context)?))
        };
        Ok((name, benchmarks.iter().map(one).collect::<Result<_, _>>()?))
    };
    [CoreSettings::ev6(), CoreSettings::in_order()].into_iter().map(on).collect()
}

/// A number for each claim.
pub(super) fn numbers(cores: &[OnCore]) -> [f64; CLAIMS.len()] {
    core::array::from_fn(|index| {
        let parts: Vec<&str> = CLAIMS[index].id.split('.').collect();
        let all = &cores.iter().find(|(name, _)| name == parts[1]).expect("a core").1;
        let controller = match parts[2] {
            "dvfsoracle" => "dvfs-oracle",
            "dvfsmean" => "dvfs-mean",
            other => other,
        };
        let value = measure(parts[3]);
        let (most, mean) = most_and_mean(all, |compared| 100.0 * value(compared, controller));
        if parts.get(4) == Some(&"mean") { mean } else { most }
    })
}

fn table(core: &str, all: &[(String, Compared)]) -> Table {
    let mut columns = vec![Column::text("benchmark"), Column::number("stalled", "%", 1)];
    columns.extend(CONTROLLERS.map(|name| Column::number(name, "%", 2)));
    let mut table = Table::new(format!("Energy saved, {core}"), columns);
    for (name, compared) in all {
        let mut row = vec![name.as_str().into(), (100.0 * compared.stalled_share()).into()];
        let saved = |name: &&str| (100.0 * measure("saved")(compared, name)).into();
        row.extend(CONTROLLERS.iter().map(saved));
        table.row(row);
    }
    table
}

fn plot(core: &str, all: &[(String, Compared)]) -> Plot {
    let plot = Plot::new(
        format!("Energy saved, {core}, benchmarks in the order of the table"),
        Axis::new("benchmark", ""),
    )
    .panel(Axis::new("energy saved", "%"));
    CONTROLLERS.iter().fold(plot, |plot, name| {
        let point = |(index, (_, compared)): (usize, &(String, Compared))| {
            (index as f64, 100.0 * measure("saved")(compared, name))
        };
        plot.series(Series::points(*name, all.iter().enumerate().map(point).collect()))
    })
}

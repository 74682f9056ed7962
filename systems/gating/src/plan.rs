//! `ebb plan gating`: for a workload and a machine, what pays: savings of every controller against the
//! leakage share, the wake-up time and the number of cores.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};
use serde_json::{Map, Value, json};

use crate::Island;
use crate::compare::Compared;
use crate::simulate::{Scenario, SimulateError, run};

/// Leakage as a part of a core's power at work: what technologies from long-channel to leaky have.
const SHARES: [f64; 12] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6];
/// Times to charge a core, ns: the modes of Table 2.3 and the sweep of Figure 2.16.
const WAKES: [f64; 7] = [2.0, 4.5, 7.0, 10.2, 13.0, 16.9, 25.0];
/// A slowdown that nobody minds.
const SLOWDOWN_MAX: f64 = 0.005;

/// Plans a scenario file of `ebb sim gating`.
///
/// # Errors
/// When the file is wrong, or a trace it names is damaged or missing.
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let scenario: Scenario = document.read()?;
    let base = run(&scenario, files, seed, progress)?;
    let mut report = Report::new("What gating pays").text(recommendation(&scenario, &base));
    report = shares(report, &scenario, files, seed, progress)?;
    report = wakes(report, &scenario, files, seed, progress)?;
    cores(report, &scenario, files, seed, progress)
}

/// The controllers that gate whole cores and can be built, best first.
fn ranked(compared: &Compared) -> Vec<(&str, f64, f64)> {
    let built = compared
        .results
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "none" | "oracle" | "dvfs-oracle"));
    let mut all: Vec<(&str, f64, f64)> =
        built.map(|(name, result)| (name.as_str(), result.energy_saved, result.slowdown)).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all
}

fn recommendation(scenario: &Scenario, compared: &Compared) -> String {
    let (stalled, oracle) = (compared.stalled_share(), compared.of("oracle"));
    let least = oracle.map_or(String::new(), |oracle| {
        format!(
            " Nobody who gates whole cores could save more than {:.2} %.",
            100.0 * oracle.energy_saved
        )
    });
    let best =
        ranked(compared).into_iter().find(|(_, saved, slow)| *saved > 0.0 && *slow <= SLOWDOWN_MAX);
    let choice = best.map_or_else(
        || "No controller pays on this workload.".to_owned(),
        |(name, saved, slow)| {
            format!(
                "`{name}` pays most of those that slow it down by at most 0.5 %: {:.2} % of the energy at {:.3} % more time.",
                100.0 * saved,
                100.0 * slow
            )
        },
    );
    let island = Island::core(&scenario.core);
    format!(
        "Cores wait for {:.1} % of the time. {choice}{least} A core has to be off for {:.2} ns to pay for its wake-up.",
        100.0 * stalled,
        island.break_even_ns(),
    )
}

fn curves(title: &str, x: Axis, points: &[(f64, Compared)]) -> (Table, Plot, Value) {
    let names: Vec<&str> = points.first().map_or_else(Vec::new, |(_, compared)| {
        compared.results.iter().map(|(name, _)| name.as_str()).collect()
    });
    let mut columns = vec![Column::number(x.label.clone(), x.unit.clone(), 2)];
    columns.extend(names.iter().map(|name| Column::number(*name, "%", 2)));
    let mut table = Table::new(title, columns);
    for (at, compared) in points {
        let mut row = vec![(*at).into()];
        row.extend(compared.results.iter().map(|(_, result)| (100.0 * result.energy_saved).into()));
        table.row(row);
    }
    let saved = |name: &str, compared: &Compared| {
        100.0 * compared.of(name).map_or(f64::NAN, |result| result.energy_saved)
    };
    let plot = Plot::new(title, x).panel(Axis::new("energy saved", "%"));
    let plot = names.iter().filter(|name| **name != "none").fold(plot, |plot, name| {
        let line = points.iter().map(|(at, compared)| (*at, saved(name, compared))).collect();
        plot.series(Series::line(*name, line))
    });
    let json = points.iter().map(|(at, compared)| {
        let each = compared.results.iter().map(|(name, result)| (name.clone(), json!(result)));
        json!({ "at": at, "controllers": each.collect::<Map<String, Value>>() })
    });
    (table, plot, json.collect())
}

fn shares(
    report: Report,
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let mut points = Vec::new();
    for share in SHARES {
        let scenario = Scenario { leakage_share: share, ..scenario.clone() };
        points.push((share, run(&scenario, files, seed, progress)?));
    }
    let (table, plot, json) =
        curves("Energy saved against the leakage share", Axis::new("leakage share", ""), &points);
    let pays = |name: &str| {
        points
            .iter()
            .find(|(_, compared)| compared.of(name).is_some_and(|result| result.energy_saved > 0.0))
    };
    let from: Map<String, Value> = scenario
        .controllers()?
        .iter()
        .filter_map(|name| pays(name).map(|(share, _)| (name.clone(), json!(share))))
        .collect();
    let mut report = report.table(table).plot(plot).figure("by_leakage_share", json);
    report.figures.insert("pays_from_leakage_share".to_owned(), Value::Object(from));
    Ok(report)
}

fn wakes(
    report: Report,
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let mut points = Vec::new();
    for wake_ns in WAKES {
        let scenario = Scenario { wake_ns: Some(wake_ns), ..scenario.clone() };
        points.push((wake_ns, run(&scenario, files, seed, progress)?));
    }
    let axis = Axis::new("time to charge a core", "ns");
    let (table, plot, json) = curves("Energy saved against the wake-up mode", axis, &points);
    Ok(report.table(table).plot(plot).figure("by_wake_ns", json))
}

fn cores(
    report: Report,
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    if scenario.split {
        return Ok(report);
    }
    let mut points = Vec::new();
    for cores in [1, 2, 4, 8, 16] {
        let scenario = Scenario { cores, ..scenario.clone() };
        points.push((cores as f64, run(&scenario, files, seed, progress)?));
    }
    let axis = Axis::new("cores", "").logarithmic();
    let (table, plot, json) =
        curves("Energy saved against the cores that share the memory", axis, &points);
    Ok(report.table(table).plot(plot).figure("by_cores", json))
}

//! `ebb plan gating`: for a workload and a machine, which controller and which wake-up mode pay:
//! against the leakage share, the wake-up time, the number of cores, and how wake-ups are kept apart.
//!
//! Figures are after those of the dissertation whose numbers stand beside them.

mod figures;

use ebb_report::{Axis, Report};
use ebb_scenario::{Document, Files, Progress};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use crate::Island;
use crate::circuit::Keeping;
use crate::compare::{Compared, Comparison};
use crate::simulate::{Scenario, SimulateError, run, watch};
use figures::{Curves, contention, controllers, keepings, safe_times};

/// Leakage as a share of a core's power at work: what technologies from long-channel to leaky have.
const SHARES: [f64; 12] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6];
/// Times to charge a core, ns: the modes of Table 2.3 and the sweep of Figure 2.16.
const WAKES: [f64; 9] = [2.0, 4.5, 6.0, 8.0, 10.2, 12.0, 14.0, 16.0, 16.9];
/// Cores that share the memory.
const CORES: [usize; 5] = [1, 2, 4, 8, 16];
/// Where wake-ups are kept apart there have to be neighbours.
const NEIGHBOURS: usize = 4;
/// Ways to keep wake-ups apart that are safe.
const KEEPINGS: [(Keeping, &str); 4] = [
    (Keeping::Worst, "worst"),
    (Keeping::Central, "central"),
    (Keeping::Staggered, "staggered"),
    (Keeping::Slots, "slots"),
];
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
    let scenario: Scenario = document.read_described()?;
    let (comparison, watched) = watch(&scenario, files, seed, progress)?;
    let base = comparison.conclude(&watched);
    let at = |leakage_share: f64| {
        let comparison = Comparison { leakage_share, ..comparison.clone() };
        (leakage_share, comparison.conclude(&watched))
    };
    let shares: Vec<(f64, Compared)> = SHARES.into_iter().map(at).collect();
    let swept = Swept { scenario: &scenario, files, seed, progress };
    let wakes = swept.wakes()?;
    let report = Report::new("What gating pays").text(recommendation(&scenario, &base, &wakes));
    let report = controllers(report, &base);
    let report = by_share(report, &shares);
    let report = Curves {
        title: "Energy saved against the wake-up mode",
        figure: "by_wake_ns",
        x: Axis::new("time to charge a core", "ns"),
        points: &wakes,
    }
    .add_to(report);
    let report = swept.cores(report)?;
    let report = swept.kept_apart(report)?;
    let report = report.figure("base_energy_j", base.base.total());
    Ok(safe_times(report, scenario.cores.max(NEIGHBOURS)))
}

/// Runs of a scenario with one value changed, at the same time.
struct Swept<'a> {
    scenario: &'a Scenario,
    files: &'a dyn Files,
    seed: u64,
    progress: &'a dyn Progress,
}

impl Swept<'_> {
    fn run<X: Copy + Send + Sync>(
        &self,
        values: &[X],
        with: impl Fn(X) -> Scenario + Sync,
    ) -> Result<Vec<(X, Compared)>, SimulateError> {
        let one = |value: &X| {
            let compared = run(&with(*value), self.files, self.seed, self.progress)?;
            Ok((*value, compared))
        };
        values.par_iter().map(one).collect()
    }

    /// The controllers that gate: the others do not care how long a wake-up takes.
    fn that_gate(&self) -> Result<Scenario, SimulateError> {
        let mut names = self.scenario.controllers()?;
        names.retain(|name| !name.starts_with("dvfs"));
        Ok(Scenario { controllers: names.into(), ..self.scenario.clone() })
    }

    fn wakes(&self) -> Result<Vec<(f64, Compared)>, SimulateError> {
        let base = self.that_gate()?;
        self.run(&WAKES, |wake_ns| Scenario { wake_ns: Some(wake_ns), ..base.clone() })
    }

    fn cores(&self, report: Report) -> Result<Report, SimulateError> {
        if self.scenario.split {
            return Ok(report);
        }
        let points = self.run(&CORES, |cores| Scenario { cores, ..self.scenario.clone() })?;
        let points: Vec<_> =
            points.into_iter().map(|(cores, compared)| (cores as f64, compared)).collect();
        let report = Curves {
            title: "Energy saved against the cores that share the memory",
            figure: "by_cores",
            x: Axis::new("cores", "").logarithmic(),
            points: &points,
        }
        .add_to(report);
        Ok(contention(report, &points))
    }

    fn kept_apart(&self, report: Report) -> Result<Report, SimulateError> {
        let base = self.that_gate()?;
        let cores = if base.split { base.cores } else { base.cores.max(NEIGHBOURS) };
        let points = self.run(&KEEPINGS, |(keeping, _)| Scenario {
            keeping,
            cores,
            wake_ns: None,
            ..base.clone()
        })?;
        let points: Vec<(&str, Compared)> =
            points.into_iter().map(|((_, name), compared)| (name, compared)).collect();
        Ok(keepings(report, cores, &points))
    }
}

/// The controllers that can be built, best first, with the energy saved and the slowdown.
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

fn best(compared: &Compared) -> Option<(&str, f64, f64)> {
    ranked(compared).into_iter().find(|(_, saved, slow)| *saved > 0.0 && *slow <= SLOWDOWN_MAX)
}

fn recommendation(scenario: &Scenario, compared: &Compared, wakes: &[(f64, Compared)]) -> String {
    let most = compared.gating().map_or(String::new(), |oracle| {
        let saved = 100.0 * oracle.energy_saved;
        format!(" No gating could save more than {saved:.2} %.")
    });
    let choice = best(compared).map_or_else(
        || "No controller pays off on this workload.".to_owned(),
        |(name, saved, slow)| {
            format!(
                "`{name}` saves most of those with a slowdown of at most 0.5 %: {:.2} % of the \
                energy at {:.3} % more time.",
                100.0 * saved,
                100.0 * slow
            )
        },
    );
    let slowest = wakes.iter().rev().find_map(|(wake_ns, at)| best(at).map(|_| wake_ns));
    let mode = slowest.map_or_else(
        || "None pays off in any wake-up mode.".to_owned(),
        |wake_ns| format!("Gating pays in wake-up modes of up to {wake_ns} ns of those tried."),
    );
    let island = Island::core(&scenario.charged_core());
    format!(
        "Cores wait for {:.1} % of the time. {choice}{most} {mode} A core has to be off for {:.2} ns to pay for its wake-up.",
        100.0 * compared.stalled_share(),
        island.break_even_ns(),
    )
}

/// Against the leakage share, with the share from which each controller pays.
fn by_share(report: Report, points: &[(f64, Compared)]) -> Report {
    let mut report = Curves {
        title: "Energy saved against the leakage share",
        figure: "by_leakage_share",
        x: Axis::new("leakage share", ""),
        points,
    }
    .add_to(report);
    let names = points.first().map_or(&[][..], |(_, compared)| &compared.results);
    let pays = |name: &str| {
        let paid = |(_, compared): &&(f64, Compared)| {
            compared.of(name).is_some_and(|result| result.energy_saved > 0.0)
        };
        points.iter().find(paid).map(|(share, _)| json!(share))
    };
    let from: Map<String, Value> =
        names.iter().filter_map(|(name, _)| Some((name.clone(), pays(name)?))).collect();
    report.figures.insert("pays_from_leakage_share".to_owned(), Value::Object(from));
    report
}

//! What the literature published about networks on chip, computed again (Li 2012, "Energy saving and
//! virtualization technologies in switching", chapters 6 and 7).

mod accurate_power;
mod patterns;
mod planes;
mod table;
mod toy;
mod tried;

use ebb_des::Summary;
use ebb_report::{Context, Experiment, ExperimentError, Ours, Plot, Report, Series};
use ebb_scenario::{FileError, Files, MemoryFiles};

use crate::{Normalise, Plan, Problem};

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![
        &table::TABLE_61,
        &patterns::FIGURES_6,
        &toy::TOY,
        &planes::FIGURES_7,
        &accurate_power::FIGURE_710,
    ]
}

/// The problem of a figure: a 5 x 5 mesh unless said otherwise.
fn problem(traffic: &str, load: f64, normalise: Normalise, planes: usize) -> Problem {
    let mut problem = Problem::new("5x5", traffic);
    (problem.load, problem.normalise, problem.planes) = (load, Some(normalise), planes);
    problem
}

/// The plans of a problem for `runs` seeds after the context's.
fn plans(
    problem: &Problem,
    context: &Context<'_>,
    runs: u64,
) -> Result<Vec<Plan>, ExperimentError> {
    let none = MemoryFiles::new();
    let files: &dyn Files = context.data.unwrap_or(&none);
    let plan = |run| {
        let solved = problem.solve(files, context.seed.wrapping_add(run), context.progress);
        solved.map(|solved| solved.plan).map_err(ExperimentError::from_error)
    };
    (0..runs).map(plan).collect()
}

/// Why a number that takes exact bounds is missing.
const NO_SOLVER: &str =
    "neither short runs nor builds without the feature `solver` have this bound";

/// Whether the data file `name` is at hand.
fn at_hand(context: &Context<'_>, name: &str) -> bool {
    let read = |files: &dyn Files| -> Result<Vec<u8>, FileError> { files.read(name) };
    context.data.is_some_and(|files| read(files).is_ok())
}

/// The mean of what `value` takes from each plan; `None` where one has none.
fn mean(plans: &[Plan], value: impl Fn(&Plan) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = plans.iter().map(value).collect();
    values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
}

/// What `value` takes from each plan, one for each seed; `None` where one has none.
fn ours(plans: &[Plan], value: impl Fn(&Plan) -> Option<f64>) -> Option<Ours> {
    let mut values = Summary::new();
    for plan in plans {
        values.push(value(plan)?);
    }
    (values.count() > 0).then(|| values.into())
}

/// The power of a routing relative to no voltage scaling.
fn routing(plan: &Plan, name: &str) -> Option<f64> {
    plan.routings.get(name)?.power.map(|power| power / plan.power_nodvfs)
}

/// The power of an allocation relative to no voltage scaling.
fn allocation(plan: &Plan, name: &str) -> Option<f64> {
    plan.planes.get(name)?.power.map(|power| power / plan.power_nodvfs)
}

/// The least power relative to no voltage scaling.
fn least(plan: &Plan) -> Option<f64> {
    plan.bound.as_ref().map(|bound| bound.upper / plan.power_nodvfs)
}

/// A curve against the load from the value at load 1, for which everything scales: cubic while the
/// fullest link is above 1/alpha_max.
fn drawn(report: Report, plot: Plot, curves: &[(String, Vec<(f64, f64)>)]) -> Report {
    let plot = curves
        .iter()
        .fold(plot, |plot, (name, points)| plot.series(Series::line(name.clone(), points.clone())));
    report.plot(plot)
}

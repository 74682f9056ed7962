//! One large flow and many small ones (Li 2012, eqs. 7.4 to 7.6).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};
use ebb_scenario::MemoryFiles;

use super::{problem, routing};
use crate::{Mesh, Normalise};

const SOURCE: &str = "Li 2012, section 7.3.1";
/// Links of a 5 x 5 mesh without the one that the full flow has.
const LOW_FLOWS: f64 = 79.0;
/// Load of a low flow in the equations that are evaluated.
const LOW: f64 = 0.2;

const CLAIMS: &[Claim] = &claims! {
    ["li2012.toy", SOURCE]
    implied "one" "one plane (eq. 7.4), k = 79, rho = 0.2", 16.8, "P0", within(1e-6);
    implied "even" "two even planes (eq. 7.5), same", 4.2, "P0", within(1e-6);
    implied "concentrated" "the full flow alone (eq. 7.6), same",
        1.0 + LOW_FLOWS * LOW / 9.0, "P0", within(1e-6);
    implied "threshold" "rho below which concentration needs less than even planes, many flows",
        0.5, "", within(0.01);
};

/// The toy scenario: one flow of full rate, k of a low one, no two on a link.
pub(super) static TOY: Figure = Figure {
    id: "li2012.toy",
    title: "One full flow and many low ones on two planes",
    claims: CLAIMS,
    run: toy,
};

/// Power by eqs. 7.4 to 7.6 in units of P0, computed by the planner.
struct Powers {
    one: f64,
    even: f64,
    concentrated: f64,
}

/// `full` on the first link, `low` on every other, of a square mesh.
fn matrix(mesh: &Mesh, full: f64, low: f64) -> String {
    let mut rates = vec![vec![0.0; mesh.nodes()]; mesh.nodes()];
    for (index, link) in mesh.links().iter().enumerate() {
        rates[link.from][link.to] = if index == 0 { full } else { low };
    }
    let line = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n";
    rates.iter().map(line).collect()
}

/// XY with DVFS on one plane that carries `full` and `low`.
fn plane(context: &Context<'_>, side: usize, full: f64, low: f64) -> Result<f64, ExperimentError> {
    let mut problem = problem("csv:toy.csv", 1.0, Normalise::None, 1);
    problem.mesh = format!("{side}x{side}");
    (problem.routing, problem.bound) = ("xy".to_owned(), false);
    let mesh = Mesh::new(side, side).map_err(ExperimentError::from_error)?;
    let files = MemoryFiles::new().with("toy.csv", matrix(&mesh, full, low));
    let solved = problem.solve(&files, context.seed, context.progress);
    let plan = solved.map_err(ExperimentError::from_error)?.plan;
    Ok(routing(&plan, "xy").unwrap_or(f64::NAN) * plan.power_nodvfs)
}

fn powers(context: &Context<'_>, side: usize, low: f64) -> Result<Powers, ExperimentError> {
    Ok(Powers {
        one: plane(context, side, 1.0, low)?,
        even: 2.0 * plane(context, side, 0.5, low / 2.0)?,
        concentrated: plane(context, side, 1.0, 0.0)? + plane(context, side, 0.0, low)?,
    })
}

fn toy(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::number("rho", "", 2),
        Column::number("one plane", "P0", 3),
        Column::number("two even planes", "P0", 3),
        Column::number("concentrated", "P0", 3),
    ];
    let mut table = Table::new("Power on a 5 x 5 mesh, k = 79", columns);
    for step in 1..=10 {
        let low = f64::from(step) / 10.0;
        let Powers { one, even, concentrated } = powers(context, 5, low)?;
        table.row([low.into(), one.into(), even.into(), concentrated.into()]);
    }
    let Powers { one, even, concentrated } = powers(context, 5, LOW)?;
    let side = if context.quick { 5 } else { 12 };
    let (mut below, mut above) = (0.1, 1.0);
    for _ in 0..if context.quick { 8 } else { 12 } {
        let low = (below + above) / 2.0;
        let powers = powers(context, side, low)?;
        let less = powers.concentrated < powers.even;
        *(if less { &mut below } else { &mut above }) = low;
    }
    let planner = "by the planner, on as many adjacent tiles";
    let links = 4 * side * (side - 1);
    let note = format!("by bisection on the {side} x {side} mesh, k = {}", links - 1);
    Ok(Findings::new(Report::new(TOY.title).table(table))
        .found("li2012.toy.one", one, planner)
        .found("li2012.toy.even", even, planner)
        .found("li2012.toy.concentrated", concentrated, planner)
        .found("li2012.toy.threshold", below, note))
}

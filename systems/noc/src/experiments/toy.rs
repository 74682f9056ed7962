//! One large flow and many small ones (Li 2012, eqs. 7.4 to 7.6).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};
use ebb_scenario::MemoryFiles;

use super::{problem, routing};
use crate::{Mesh, Normalise};

const SOURCE: &str = "Li 2012, section 7.3.1";

const CLAIMS: &[Claim] = &claims! {
    ["li2012.toy", SOURCE]
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
    let side = if context.quick { 5 } else { 12 };
    let (mut below, mut above) = (0.1, 1.0);
    for _ in 0..if context.quick { 8 } else { 12 } {
        let low = (below + above) / 2.0;
        let powers = powers(context, side, low)?;
        let less = powers.concentrated < powers.even;
        *(if less { &mut below } else { &mut above }) = low;
    }
    let links = 4 * side * (side - 1);
    let note = format!("by bisection on the {side} x {side} mesh, k = {}", links - 1);
    Ok(Findings::new(Report::new(TOY.title).table(table)).found(
        "li2012.toy.threshold",
        below,
        note,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::Silent;

    /// The planner has what equations 7.4 to 7.6 say of 79 low flows on a 5 x 5 mesh.
    #[test]
    fn the_planner_agrees_with_the_equations() {
        let context = Context { seed: 1, jobs: 1, quick: true, data: None, progress: &Silent };
        let (k, low) = (79.0, 0.2);
        let Powers { one, even, concentrated } = powers(&context, 5, low).expect("planned");
        assert!((one - (1.0 + k * low)).abs() < 1e-6, "{one}");
        assert!((even - (1.0 + k * low) / 4.0).abs() < 1e-6, "{even}");
        assert!((concentrated - (1.0 + k * low / 9.0)).abs() < 1e-6, "{concentrated}");
    }
}

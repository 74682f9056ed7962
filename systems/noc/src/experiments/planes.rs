//! Allocations over two planes (Li 2012, figs. 7.4 to 7.6).

use ebb_des::Seed;
use ebb_report::{
    Axis, Claim, Column, Context, ExperimentError, Figure, Findings, Note, Ours, Plot, Report,
    Series, Table, claims,
};

use ebb_scenario::MemoryFiles;
use rand::Rng as _;

use super::tried::Range;
use super::{allocation, at_hand, drawn, least, mean, ours, plans, problem, routing};
use crate::{Mesh, Normalise, Plan, Problem};

const SOURCE: &str = "Li 2012, section 7.4";

const CLAIMS: &[Claim] = &claims! {
    ["li2012.fig7", SOURCE]
    predicted "4.4phase" "normal: no DVFS over 2P-4PHASE", 4.2, "", within(0.1);
    predicted "5.4phase" "hot-spot: no DVFS over 2P-4PHASE", 4.7, "", within(0.1);
    predicted "5.mini" "hot-spot: no DVFS over 2P-MINI", 4.4, "", within(0.1);
    predicted "6.4phase" "MPEG4: no DVFS over 2P-4PHASE", 4.2, "", within(0.1);
    predicted "4.bound" "normal: no DVFS over the bound", 0.0, "", between(6.0, 9.0);
    predicted "5.bound" "hot-spot: no DVFS over the bound", 0.0, "", between(6.0, 9.0);
    predicted "6.bound" "MPEG4: no DVFS over the bound", 0.0, "", between(6.0, 9.0);
    ["li2012.s7.4", SOURCE]
    predicted "uniform" "uniform: no DVFS over the bound", 4.0, "", at_most();
    predicted "tornado" "tornado: no DVFS over the bound", 4.0, "", at_most();
    predicted "four-best" "patterns, of 3, where 2P-4PHASE saves more than both others", 3.0, "";
    predicted "concentration" "patterns, of 3, where 2P-MINI saves more than 2P-BALANCE", 3.0, "";
};

/// Figs. 7.4, 7.5, 7.6 and the factors of section 7.4: allocations over two planes.
pub(super) static FIGURES_7: Figure = Figure {
    id: "li2012.fig7",
    title: "Power of two planes under the patterns of chapter 7",
    claims: CLAIMS,
    run: figures_7,
};

const ALLOCATIONS: [&str; 4] = ["2p-balance", "2p-mini", "2p-4phase", "local"];
const MPEG4: &str = "noc/mpeg4.csv";

fn figures_7(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let runs = if context.quick { 1 } else { 10 };
    let mut columns = vec![Column::text("traffic"), Column::number("XY DVFS", "", 3)];
    columns.extend(ALLOCATIONS.map(|name| Column::number(name, "", 3)));
    columns.push(Column::number("bound", "", 3));
    let mut table = Table::new("No DVFS over each, at load 1", columns);
    let mut report = Report::new(FIGURES_7.title).text(format!(
        "Load 1 is where XY fills its fullest link on one plane (eq. 7.13). Means of {runs} runs. \
         Flows stay whole; the bound splits them."
    ));
    let mut found = Vec::new();
    for name in ["normal", "hotspot", "mpeg4", "uniform", "tornado"] {
        let Some(mut problem) = study(name, 1.0, context) else { continue };
        let random = ["normal", "hotspot"].contains(&name);
        problem.bound = !(random && context.quick);
        let plans = solved(name, &problem, context, if random { runs } else { 1 })?;
        let factor = |value: Option<f64>| value.map_or(f64::NAN, |part| 1.0 / part);
        let mut row = vec![name.into(), factor(mean(&plans, |plan| routing(plan, "xy"))).into()];
        for allocated in ALLOCATIONS {
            row.push(factor(mean(&plans, |plan| allocation(plan, allocated))).into());
        }
        row.push(factor(mean(&plans, least)).into());
        table.row(row);
        if ["normal", "hotspot", "mpeg4"].contains(&name) {
            report = drawn(report, printed(plot(name), name), &curves(name, context)?);
        }
        found.push((name, plans));
    }
    report = report.table(table);
    let tried = match study("mpeg4", 1.0, context) {
        Some(problem) => Some(super::tried::mappings(&problem, context)?),
        None => None,
    };
    Ok(findings(Findings::new(report), &found, tried))
}

/// The plans of a study: "we change the seeds for the traffic patterns generation each time before running the
/// simulation" (section 7.4).
fn solved(
    name: &str,
    problem: &Problem,
    context: &Context<'_>,
    runs: u64,
) -> Result<Vec<Plan>, ExperimentError> {
    if name != "hotspot" {
        return plans(problem, context, runs);
    }
    let mesh = problem.topology().map_err(ExperimentError::from_error)?;
    let problem = Problem { traffic: "csv:hotspot.csv".to_owned(), ..problem.clone() };
    let plan = |run| {
        let seed = context.seed.wrapping_add(run);
        let files = MemoryFiles::new().with("hotspot.csv", hotspot(&mesh, seed));
        let solved = problem.solve(&files, seed, context.progress);
        solved.map(|solved| solved.plan).map_err(ExperimentError::from_error)
    };
    (0..runs).map(plan).collect()
}

/// The hot-spot pattern as a matrix that is drawn: "each node sends with probability 0.6 traffic to an hot-spot node
/// located in the center of the topology, and with probability 0.4 uniformly to any other node". Every tile draws as
/// often as there are tiles, as it has as many units in the normal pattern; which number it is hardly matters.
fn hotspot(mesh: &Mesh, seed: u64) -> String {
    let nodes = mesh.nodes();
    let middle = mesh.node(mesh.rows() / 2, mesh.columns() / 2);
    let mut random = Seed(seed).stream("hot spot");
    let mut units = vec![vec![0_u32; nodes]; nodes];
    for (source, row) in units.iter_mut().enumerate() {
        for _ in 0..nodes {
            let other = random.random_range(0..nodes - 1);
            let other = other + usize::from(other >= source);
            let to = if random.random_bool(0.6) { middle } else { other };
            row[to] += u32::from(to != source);
        }
    }
    let line = |row: &Vec<u32>| row.iter().map(u32::to_string).collect::<Vec<_>>().join(",") + "\n";
    units.iter().map(line).collect()
}

fn study(name: &str, load: f64, context: &Context<'_>) -> Option<Problem> {
    let mut problem = problem(name, load, Normalise::Xy, 2);
    problem.routing = "xy".to_owned();
    if name == "mpeg4" {
        (problem.mesh, problem.traffic) = ("4x4".to_owned(), format!("task:{MPEG4}"));
        return at_hand(context, MPEG4).then_some(problem);
    }
    Some(problem)
}

fn plot(name: &str) -> Plot {
    Plot::new(format!("Two planes under {name} traffic"), Axis::new("load", ""))
        .panel(Axis::new("power, relative to no DVFS at load 1", "").from_zero())
}

/// What section 7.4 prints at load 1: factors by which powers are below no DVFS.
fn printed(plot: Plot, traffic: &str) -> Plot {
    let factors: &[(&str, f64)] = match traffic {
        "hotspot" => &[("2p-4phase", 4.7), ("2p-mini", 4.4)],
        _ => &[("2p-4phase", 4.2)],
    };
    let plot = factors.iter().fold(plot, |plot, (name, factor)| {
        let point = vec![(1.0, 1.0 / factor)];
        plot.series(Series::points(format!("published: {name}"), point).published())
    });
    // 6 to 9 times.
    let (low, high) = (1.0 / 9.0, 1.0 / 6.0);
    let bound = Series::points("published: bound", vec![(1.0, (low + high) / 2.0)]);
    plot.series(bound.within(vec![(high - low) / 2.0]).published())
}

/// What is taken from a plan.
type Take<'a> = &'a dyn Fn(&Plan) -> Option<f64>;

/// Whether an allocation is better than others, by the power of each.
type Better<'a> = &'a dyn Fn(&dyn Fn(&str) -> f64) -> bool;

type Curves = Vec<(String, Vec<(f64, f64)>)>;

fn curves(name: &str, context: &Context<'_>) -> Result<Curves, ExperimentError> {
    let mut curves: Curves =
        ["no DVFS", "XY DVFS"].map(|name| (name.to_owned(), Vec::new())).into();
    curves.extend(ALLOCATIONS.map(|name| (name.to_owned(), Vec::new())));
    let steps = if context.quick { 2 } else { 10 };
    for step in 1..=steps {
        let load = f64::from(step) / f64::from(steps);
        let Some(mut problem) = study(name, load, context) else { break };
        problem.bound = false;
        let plan = solved(name, &problem, context, 1)?.swap_remove(0);
        let mut parts = vec![Some(1.0), routing(&plan, "xy")];
        parts.extend(ALLOCATIONS.map(|name| allocation(&plan, name)));
        for (curve, part) in curves.iter_mut().zip(parts) {
            curve.1.push((load, part.map_or(f64::NAN, |part| load * part)));
        }
    }
    Ok(curves)
}

fn findings(mut findings: Findings, found: &[(&str, Vec<Plan>)], tried: Option<Range>) -> Findings {
    let plans =
        |traffic: &str| found.iter().find(|(name, _)| *name == traffic).map(|(_, plans)| plans);
    // Only "normal" and "hotspot" draw anything; the others have one plan.
    let factor = |traffic: &str, value: Take<'_>| match plans(traffic)?.as_slice() {
        [plan] if !["normal", "hotspot"].contains(&traffic) => {
            value(plan).map(|part| Ours::from(1.0 / part))
        }
        plans => ours(plans, |plan| value(plan).map(|part| 1.0 / part)),
    };
    let four = |plan: &Plan| allocation(plan, "2p-4phase");
    let mapped = tried.map_or_else(String::new, |Range { least, most, tried }| {
        format!("{MAPPED}. {tried} mappings that were drawn give {least:.2} to {most:.2}")
    });
    let claims: [(&str, &str, Take<'_>, &str); 9] = [
        ("li2012.fig7.4.4phase", "normal", &four, FOUR),
        ("li2012.fig7.5.4phase", "hotspot", &four, FOUR),
        ("li2012.fig7.5.mini", "hotspot", &|plan| allocation(plan, "2p-mini"), MINI),
        ("li2012.fig7.6.4phase", "mpeg4", &four, &mapped),
        ("li2012.fig7.4.bound", "normal", &least, SPLIT),
        ("li2012.fig7.5.bound", "hotspot", &least, SPLIT),
        ("li2012.fig7.6.bound", "mpeg4", &least, SPLIT),
        ("li2012.s7.4.uniform", "uniform", &least, MORE),
        ("li2012.s7.4.tornado", "tornado", &least, MORE),
    ];
    for (claim, traffic, value, note) in claims {
        let met = if note == SPLIT { SPLIT } else { "" };
        findings = match factor(traffic, value) {
            Some(ours) => findings.found(claim, ours, Note::verdict(met, note)),
            None if plans(traffic).is_some() => findings.not_run(claim, super::NO_SOLVER),
            None => findings.not_run(claim, NO_GRAPH),
        };
    }
    if plans("mpeg4").is_none() {
        let both = ["li2012.s7.4.four-best", "li2012.s7.4.concentration"];
        return both.iter().fold(findings, |findings, claim| findings.not_run(claim, NO_GRAPH));
    }
    // In how many of the three it holds of the means of the draws, which are what the figures show.
    let count = |better: Better<'_>| -> (Ours, String) {
        let mut met = 0.0;
        let mut words = Vec::new();
        for traffic in ["normal", "hotspot", "mpeg4"] {
            let all = plans(traffic).into_iter().flatten().collect::<Vec<_>>();
            let part = |plan: &Plan, name: &str| allocation(plan, name).unwrap_or(f64::NAN);
            let of_all = |name: &str| all.iter().map(|plan| part(plan, name)).sum::<f64>();
            let holds = better(&of_all);
            let alone = all.iter().filter(|plan| better(&|name| part(plan, name))).count();
            met += f64::from(u8::from(holds));
            let whether = if holds { "holds" } else { "does not hold" };
            words.push(format!(
                "{traffic}: it {whether} of the mean, and in {alone} of {} draws",
                all.len()
            ));
        }
        (met.into(), format!("{}; {FOUR}; {mapped}", words.join("; ")))
    };
    let (phase, mini, even) = ("2p-4phase", "2p-mini", "2p-balance");
    let (best, ties) = count(&|power| power(phase) < power(mini) && power(phase) < power(even));
    let (concentrated, reverse) = count(&|power| power(mini) < power(even));
    findings.found("li2012.s7.4.four-best", best, Note::from(ties)).found(
        "li2012.s7.4.concentration",
        concentrated,
        Note::verdict("", reverse),
    )
}

const NO_GRAPH: &str = "needs noc/mpeg4.csv in the directory that --data names";
const FOUR: &str = "Algorithm 3 as printed but for its misprints; flows of equal rate in order of source; tried again \
                    after every move, it saves 0.1 % more or less under normal and hot-spot traffic";
const MAPPED: &str = "the mapping of the published figure is a picture; ours is one of least rate x \
                      hops, in which a single flow (up-sampler to SDRAM, 910) is nearly all of the \
                      fullest link: whole, it keeps its plane at almost full voltage whatever the \
                      allocation, so only splitting helps";
const MINI: &str = "Algorithm 2 as printed; flows of equal rate in order of source";
const MORE: &str = "the bound's voltages and paths exist, so that less than a quarter is possible: planes of \
                    different voltages, short flows on the lower one";
const SPLIT: &str = "proven least power with splitting over routes and planes";

#[cfg(test)]
mod tests {
    use ebb_report::Context;
    use ebb_scenario::Silent;

    use super::*;

    #[test]
    fn means_of_the_hot_spot_are_too_even_for_single_flows_and_draws_are_not() {
        let context = Context { seed: 1, jobs: 1, quick: false, data: None, progress: &Silent };
        let mut problem = study("hotspot", 1.0, &context).unwrap();
        problem.bound = false;
        let gains = |plans: &[Plan]| {
            let part = |name: &str| mean(plans, |plan| allocation(plan, name)).unwrap();
            part("2p-mini") / part("2p-4phase")
        };
        let even = plans(&problem, &context, 1).unwrap();
        assert!((gains(&even) - 1.0).abs() < 1e-12);
        let drawn = solved("hotspot", &problem, &context, 10).unwrap();
        assert!(gains(&drawn) > 1.02, "{}", gains(&drawn));
    }
}

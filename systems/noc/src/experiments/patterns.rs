//! Routings on one plane (Li 2012, figs. 6.4 to 6.6).

use ebb_report::{
    Axis, Claim, Column, Context, ExperimentError, Figure, Findings, Note, Ours, Plot, Report,
    Series, Table, claims,
};

use super::tried::Range;
use super::{drawn, least, mean, ours, plans, problem, routing};
use crate::{Normalise, Pattern, Plan};

const SOURCE: &str = "Li 2012, section 6.5";

const CLAIMS: &[Claim] = &claims! {
    ["li2012.fig6", SOURCE]
    predicted "4.bound" "normal: bound below XY, \"almost\"", 40.0, "%", within(4.0);
    predicted "4.2p-es" "normal: 2P-ES below XY, \"more than\"", 20.0, "%", at_least();
    predicted "4.adaptive" "normal: Adaptive below 2P-ES",
        0.0, "%", within(5.0), reading("behave similarly");
    predicted "5.2p-es" "transpose: 2P-ES below XY, \"up to\"", 78.0, "%", within(1.0);
    // "Even when 4P-ES outperforms 2P-ES as in the transpose traffic pattern case, the gain is limited to 5%".
    predicted "5.4p-es" "transpose: 4P-ES below 2P-ES, a gain \"limited to\"", 0.0, "%", between(0.0, 5.0);
    predicted "5.adaptive" "transpose: Adaptive below 2P-ES",
        0.0, "%", within(1.0), reading("no improvement");
    predicted "6.2p-es" "hot-spot: 2P-ES below XY", 60.0, "%", within(1.0);
    predicted "6.adaptive" "hot-spot: Adaptive below 2P-ES", 6.0, "%", within(1.0);
    ["li2012.s6.5", SOURCE]
    predicted "2p-rs" "2P-RS from 2P-ES, farthest of three patterns, \"<\"", 10.0, "%", at_most();
    predicted "uniform" "uniform: bound below XY (\"obtains the minimum\")", 0.0, "%", within(0.1);
    predicted "uniform-even" "uniform: bound below 2P-ES (\"minimum power\")",
        0.0, "%", within(0.1);
    predicted "uniform-adaptive" "uniform: bound below Adaptive (\"minimum power\")",
        0.0, "%", within(0.1);
    predicted "uniform-random" "uniform: bound below 2P-RS and 4P-ES, the nearer",
        1.0, "%", at_least(), reading("exhibit performance limitations");
    predicted "tornado" "tornado: bound below no DVFS (\"exactly as NoDVFS\")",
        0.0, "%", within(0.1);
    ["li2012.s7.4", "Li 2012, section 7.4"]
    predicted "q100"
        "farthest that 100 sampled values are from the best expansion factor",
        1.0, "%", at_most(), reading("guarantees a precision around 1%");
};

/// Figs. 6.4, 6.5, 6.6 and the percentages of section 6.5: routings and the bound on one plane.
pub(super) static FIGURES_6: Figure = Figure {
    id: "li2012.fig6",
    title: "Power of a 5 x 5 mesh under five patterns, one plane",
    claims: CLAIMS,
    run: figures_6,
};

const ROUTINGS: [&str; 6] = ["xy", "yx", "2p-es", "2p-rs", "4p-es", "adaptive"];

fn figures_6(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let runs = if context.quick { 2 } else { 10 };
    let mut report = Report::new(FIGURES_6.title).text(format!(
        "Load 1 is where the fullest link over all routings is full (eq. 6.7). Means of {runs} \
         runs. Powers are relative to no DVFS at the same load."
    ));
    let mut columns = vec![Column::text("pattern")];
    columns.extend(ROUTINGS.map(|name| Column::number(name, "", 3)));
    columns.push(Column::number("bound", "", 3));
    let mut table = Table::new("Power at load 1", columns);
    let mut at_full = Vec::new();
    for pattern in Pattern::OF_LI {
        let mut problem = problem(pattern.name(), 1.0, Normalise::Max, 1);
        problem.samples = if context.quick { 10 } else { 100 };
        let plans = plans(&problem, context, runs)?;
        let mut row = vec![pattern.name().into()];
        for name in ROUTINGS {
            row.push(mean(&plans, |plan| routing(plan, name)).unwrap_or(f64::NAN).into());
        }
        row.push(mean(&plans, least).unwrap_or(f64::NAN).into());
        table.row(row);
        at_full.push((pattern, plans));
    }
    report = report.table(table);
    for pattern in [Pattern::Normal, Pattern::Transpose, Pattern::Hotspot] {
        let curves = curves(pattern, context, runs.min(3))?;
        report = drawn(report, printed(plot(pattern), pattern, &curves), &curves);
    }
    let orders = [Pattern::Normal, Pattern::Transpose, Pattern::Hotspot, Pattern::Uniform];
    let mut tried = Vec::new();
    for pattern in orders {
        tried.push((pattern, super::tried::orders(pattern, context)?));
    }
    Ok(found(Findings::new(report), &at_full, &tried))
}

fn plot(pattern: Pattern) -> Plot {
    Plot::new(format!("Power under {} traffic", pattern.name()), Axis::new("load", ""))
        .panel(Axis::new("power, relative to no DVFS at load 1", "").from_zero())
}

/// What section 6.5 prints of a pattern at load 1, each put below our curve of what it is compared
/// with.
fn printed(plot: Plot, pattern: Pattern, curves: &Curves) -> Plot {
    // Whose, how many percent below whose.
    let below: &[(&str, f64, &str)] = match pattern {
        Pattern::Normal => &[("bound, almost", 40.0, "xy"), ("2p-es, at most", 20.0, "xy")],
        Pattern::Transpose => &[("2p-es", 78.0, "xy"), ("4p-es, at least", 5.0, "2p-es")],
        Pattern::Hotspot => &[("2p-es", 60.0, "xy"), ("adaptive", 6.0, "2p-es")],
        _ => &[],
    };
    below.iter().fold(plot, |plot, (whose, percent, than)| {
        let curve = curves.iter().find(|(name, _)| name == than);
        let Some((at, of)) = curve.and_then(|(_, points)| points.last().copied()) else {
            return plot;
        };
        let point = vec![(at, of * (1.0 - percent / 100.0))];
        plot.series(Series::points(format!("published: {whose}, of our {than}"), point).published())
    })
}

type Curves = Vec<(String, Vec<(f64, f64)>)>;

fn curves(pattern: Pattern, context: &Context<'_>, runs: u64) -> Result<Curves, ExperimentError> {
    let mut curves: Curves = vec![("no DVFS".to_owned(), Vec::new())];
    curves.extend(ROUTINGS.map(|name| (name.to_owned(), Vec::new())));
    curves.push(("bound".to_owned(), Vec::new()));
    let steps = if context.quick { 2 } else { 10 };
    for step in 1..=steps {
        let load = f64::from(step) / f64::from(steps);
        let plans = plans(&problem(pattern.name(), load, Normalise::Max, 1), context, runs)?;
        curves[0].1.push((load, load));
        for (at, name) in ROUTINGS.iter().enumerate() {
            let part = mean(&plans, |plan| routing(plan, name)).unwrap_or(f64::NAN);
            curves[at + 1].1.push((load, load * part));
        }
        let part = mean(&plans, least).unwrap_or(f64::NAN);
        curves[ROUTINGS.len() + 1].1.push((load, load * part));
    }
    Ok(curves)
}

fn found(
    mut findings: Findings,
    at_full: &[(Pattern, Vec<Plan>)],
    orders: &[(Pattern, Range)],
) -> Findings {
    use Pattern::{Hotspot, Normal, Tornado, Transpose, Uniform};
    let of = |pattern: Pattern| -> &[Plan] {
        let found = at_full.iter().find(|(have, _)| *have == pattern);
        found.map(|(_, plans)| plans.as_slice()).unwrap_or_default()
    };
    // Within a seed, so that what was drawn falls out of the difference.
    let below = |pattern: Pattern, own: Take<'_>, than: Take<'_>| {
        ours(of(pattern), |plan| Some(100.0 * (1.0 - own(plan)? / than(plan)?)))
    };
    let part = |name: &'static str| move |plan: &Plan| routing(plan, name);
    let (xy, even, adaptive) = (part("xy"), part("2p-es"), part("adaptive"));
    let four = below(Transpose, &part("4p-es"), &even);
    let draws = |pattern: Pattern, own: Take<'_>, than: Take<'_>| {
        let part = |plan: &Plan| Some(100.0 * (1.0 - own(plan)? / than(plan)?));
        let all: Vec<f64> = of(pattern).iter().filter_map(part).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("from {least:.1} to {most:.1} over {} draws", all.len())
    };
    let normal = |own: Take<'_>, than: Take<'_>| {
        format!(
            "sums of 25 random permutations, {}; the thesis's ten draws are not printed",
            draws(Normal, own, than)
        )
    };
    let random = format!(
        "the tile between is drawn for each flow: {}",
        draws(Transpose, &part("4p-es"), &even)
    );
    let bound_normal = normal(&least, &xy);
    let even_normal = normal(&even, &xy);
    let order = |pattern: Pattern| {
        let tried = orders.iter().find(|(name, _)| *name == pattern).map(|(_, range)| *range);
        tried.map_or_else(String::new, |Range { least, most, tried }| {
            format!(
                "{ORDER}: of {tried} orders and ties that were drawn, all are {least:.1} to {most:.1} % \
                 below 2P-ES"
            )
        })
    };
    let adaptive_normal = format!("{}; {}", normal(&adaptive, &even), order(Normal));
    let [transpose_order, hotspot_order, uniform_order] = [Transpose, Hotspot, Uniform].map(order);
    let mut say = |claim: &str, ours: Option<Ours>, met: &str, missed: &str| {
        let findings_now = std::mem::replace(&mut findings, Findings::new(Report::new("")));
        findings = match ours {
            Some(ours) => findings_now.found(claim, ours, Note::verdict(met, missed)),
            None => findings_now.not_run(claim, super::NO_SOLVER),
        };
    };
    say("li2012.fig6.4.bound", below(Normal, &least, &xy), &bound_normal, &bound_normal);
    say("li2012.fig6.4.2p-es", below(Normal, &even, &xy), &even_normal, &even_normal);
    let behaves = below(Normal, &adaptive, &even);
    say("li2012.fig6.4.adaptive", behaves, &adaptive_normal, &adaptive_normal);
    say("li2012.fig6.5.2p-es", below(Transpose, &even, &xy), HALVES, HALVES);
    say("li2012.fig6.5.4p-es", four, &random, &random);
    say("li2012.fig6.5.adaptive", below(Transpose, &adaptive, &even), "", &transpose_order);
    say("li2012.fig6.6.2p-es", below(Hotspot, &even, &xy), "nothing is drawn", HOTSPOT);
    say("li2012.fig6.6.adaptive", below(Hotspot, &adaptive, &even), "", &hotspot_order);
    let split = |pattern| {
        ours(of(pattern), |plan| {
            Some((100.0 * (1.0 - routing(plan, "2p-rs")? / even(plan)?)).abs())
        })
    };
    let farthest = [Normal, Transpose, Hotspot].into_iter().filter_map(split);
    let farthest = farthest.max_by(|a, b| a.mean.total_cmp(&b.mean));
    say("li2012.s6.5.2p-rs", farthest, SPLIT, SPLIT);
    say("li2012.s6.5.uniform", below(Uniform, &least, &xy), "proven", LEAST);
    say("li2012.s6.5.uniform-even", below(Uniform, &least, &even), "proven", LEAST);
    say(
        "li2012.s6.5.uniform-adaptive",
        below(Uniform, &least, &adaptive),
        "proven",
        &uniform_order,
    );
    let nearer = ["2p-rs", "4p-es"].map(|name| below(Uniform, &least, &part(name)));
    let nearer = nearer.into_iter().flatten().min_by(|a, b| a.mean.total_cmp(&b.mean));
    say("li2012.s6.5.uniform-random", nearer, "drawn splits and tiles between", SPLIT);
    let tornado = ours(of(Tornado), |plan| Some(100.0 * (1.0 - least(plan)?)));
    say("li2012.s6.5.tornado", tornado, "proven", LEAST);
    let off = |plan: &Plan| {
        let (sampled, exact) = (plan.sampled.as_ref()?, plan.bound.as_ref()?);
        Some(100.0 * (sampled.alpha / exact.alpha - 1.0).abs())
    };
    let farthest = Pattern::OF_LI.into_iter().filter_map(|pattern| ours(of(pattern), off));
    let farthest = farthest.max_by(|a, b| a.mean.total_cmp(&b.mean));
    say("li2012.s7.4.q100", farthest, Q, Q);
    findings
}

/// What is taken from a plan.
type Take<'a> = &'a dyn Fn(&Plan) -> Option<f64>;

const HALVES: &str = "2P-ES halves XY's fullest link exactly (4 to 2 flows), so its power is a quarter: 75 %. A \
                      published 78 % needs the fullest link below half.";
const ORDER: &str = "single paths over the less loaded links, flows of equal rate in order of source, ties \
                     to X. The thesis does not say how equal flows are ordered";
const HOTSPOT: &str = "nothing is drawn: the two paths' loads at the hot spot decide it";
const SPLIT: &str = "shares drawn evenly from 0 to 1 per flow; the published split's distribution is not \
                     given, and a flow of the transpose is a whole link's load";
const LEAST: &str = "the bound is proven, so another routing exists that draws less";
const Q: &str = "one plane at load 1, the worst of five patterns, against the exact expansion factor; the \
                 samples are 2/99 apart, so that half a step is 1 % at 1 and 0.3 % at 3";

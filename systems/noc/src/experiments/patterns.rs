use ebb_report::{
    Axis, Claim, Column, Context, Experiment, ExperimentError, Findings, Plot, Report, Table,
};

use super::{drawn, least, mean, plans, problem, routing};
use crate::{Normalise, Pattern, Plan};

const SOURCE: &str = "Li 2012, section 6.5";

const CLAIMS: &[Claim] = &[
    Claim::predicted(
        "zhang2011.fig6.4.bound",
        SOURCE,
        "normal: bound below XY ('almost 40 %')",
        0.0,
        "%",
    )
    .between(36.0, 40.0),
    Claim::predicted(
        "zhang2011.fig6.4.2p-es",
        SOURCE,
        "normal: 2P-ES below XY ('more than 20 %')",
        0.0,
        "%",
    )
    .between(20.0, 30.0),
    Claim::predicted(
        "zhang2011.fig6.5.2p-es",
        SOURCE,
        "transpose: 2P-ES below XY ('up to 78 %')",
        78.0,
        "%",
    )
    .within(1.0),
    Claim::predicted(
        "zhang2011.fig6.5.4p-es",
        SOURCE,
        "transpose: 4P-ES below 2P-ES (at most)",
        0.0,
        "%",
    )
    .between(0.0, 5.0),
    Claim::predicted(
        "zhang2011.fig6.5.adaptive",
        SOURCE,
        "transpose: Adaptive below 2P-ES ('no improvement')",
        0.0,
        "%",
    )
    .within(1.0),
    Claim::predicted("zhang2011.fig6.6.2p-es", SOURCE, "hot-spot: 2P-ES below XY", 60.0, "%")
        .within(1.0),
    Claim::predicted(
        "zhang2011.fig6.6.adaptive",
        SOURCE,
        "hot-spot: Adaptive below 2P-ES",
        6.0,
        "%",
    )
    .within(1.0),
    Claim::predicted(
        "zhang2011.s6.5.2p-rs",
        SOURCE,
        "2P-RS against 2P-ES, farthest of three patterns ('<10 %')",
        0.0,
        "%",
    )
    .between(0.0, 10.0),
    Claim::predicted(
        "zhang2011.s6.5.uniform",
        SOURCE,
        "uniform: bound below XY ('XY obtains the minimum')",
        0.0,
        "%",
    )
    .within(0.1),
    Claim::predicted(
        "zhang2011.s6.5.tornado",
        SOURCE,
        "tornado: bound below no DVFS ('behaves exactly as NoDVFS')",
        0.0,
        "%",
    )
    .within(0.1),
];

/// Figs. 6.4, 6.5, 6.6 and the percentages of section 6.5: routings and the bound on one plane.
pub(super) struct Figures6;

const ROUTINGS: [&str; 6] = ["xy", "yx", "2p-es", "2p-rs", "4p-es", "adaptive"];

impl Experiment for Figures6 {
    fn id(&self) -> &'static str {
        "zhang2011.fig6"
    }

    fn title(&self) -> &'static str {
        "Power of a 5 x 5 mesh under five patterns, one plane"
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        let runs = if context.quick { 2 } else { 10 };
        let mut report = Report::new(self.title()).text(format!(
            "Load 1 is where the fullest link over all routings is full (eq. 6.7). Means of {runs} \
             runs. Powers are relative to no DVFS at the same load."
        ));
        let mut columns = vec![Column::text("pattern")];
        columns.extend(ROUTINGS.map(|name| Column::number(name, "", 3)));
        columns.push(Column::number("bound", "", 3));
        let mut table = Table::new("Power at load 1", columns);
        let mut at_full = Vec::new();
        for pattern in Pattern::ALL {
            let plans = plans(&problem(pattern.name(), 1.0, Normalise::Max, 1), context, runs)?;
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
            report = drawn(report, plot(pattern), &curves(pattern, context, runs.min(3))?);
        }
        Ok(found(Findings::new(report), &at_full))
    }
}

fn plot(pattern: Pattern) -> Plot {
    Plot::new(format!("Power under {} traffic", pattern.name()), Axis::new("load", ""))
        .panel(Axis::new("power, relative to no DVFS at load 1", "").from_zero())
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

fn found(mut findings: Findings, at_full: &[(Pattern, Vec<Plan>)]) -> Findings {
    let of = |pattern: Pattern| -> &[Plan] {
        let found = at_full.iter().find(|(have, _)| *have == pattern);
        found.map(|(_, plans)| plans.as_slice()).unwrap_or_default()
    };
    let part = |pattern, name: &str| mean(of(pattern), |plan| routing(plan, name));
    let bound = |pattern| mean(of(pattern), least);
    let below = |ours: Option<f64>, than: Option<f64>| match (ours, than) {
        (Some(ours), Some(than)) => 100.0 * (1.0 - ours / than),
        _ => f64::NAN,
    };
    let mut say = |claim: &str, ours: f64, note: &str| {
        findings = if ours.is_finite() {
            findings.clone().found(claim, ours, note)
        } else {
            findings.clone().absent(claim, super::NO_SOLVER)
        };
    };
    use Pattern::{Hotspot, Normal, Tornado, Transpose, Uniform};
    let normal = "the sum of 25 random permutations; mean of the runs";
    say("zhang2011.fig6.4.bound", below(bound(Normal), part(Normal, "xy")), normal);
    say("zhang2011.fig6.4.2p-es", below(part(Normal, "2p-es"), part(Normal, "xy")), normal);
    let transpose = "2P-ES halves XY's fullest link exactly (4 to 2 flows), so its power is a quarter: \
                     75 %. A published 78 % needs the fullest link below half.";
    say(
        "zhang2011.fig6.5.2p-es",
        below(part(Transpose, "2p-es"), part(Transpose, "xy")),
        transpose,
    );
    let two = part(Transpose, "2p-es");
    let random = "the tile between is drawn for each flow, so the result depends on the draw";
    say("zhang2011.fig6.5.4p-es", below(part(Transpose, "4p-es"), two), random);
    let adaptive =
        "flows of equal rate in order of source; single paths over the less loaded links";
    say("zhang2011.fig6.5.adaptive", below(part(Transpose, "adaptive"), two), adaptive);
    say("zhang2011.fig6.6.2p-es", below(part(Hotspot, "2p-es"), part(Hotspot, "xy")), "");
    let two = part(Hotspot, "2p-es");
    say("zhang2011.fig6.6.adaptive", below(part(Hotspot, "adaptive"), two), adaptive);
    let farthest = [Normal, Transpose, Hotspot]
        .map(|pattern| below(part(pattern, "2p-rs"), part(pattern, "2p-es")).abs())
        .into_iter()
        .fold(0.0, f64::max);
    let split = "shares drawn evenly from 0 to 1 per flow; the published split's distribution is not \
                 given, and a flow of the transpose is a whole link's load";
    say("zhang2011.s6.5.2p-rs", farthest, split);
    say("zhang2011.s6.5.uniform", below(bound(Uniform), part(Uniform, "xy")), "");
    say("zhang2011.s6.5.tornado", 100.0 * (1.0 - bound(Tornado).unwrap_or(f64::NAN)), "");
    findings
}

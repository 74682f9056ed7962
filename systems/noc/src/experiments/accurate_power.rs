//! Planes whose routers draw power without load (Li 2012, fig. 7.10).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};

use super::{drawn, plans, problem};
use crate::{Normalise, Plan};

const CLAIMS: &[Claim] = &claims! {
    ["li2012.fig7.10", "Li 2012, section 7.5"]
    predicted "crossing" "load above which two planes of 48-core routers need less than one",
        0.65, "", within(0.05);
};

/// Fig. 7.10: one plane against two with routers that draw power without load.
pub(super) static FIGURE_710: Figure = Figure {
    id: "li2012.fig7.10",
    title: "Two planes of 48-core routers under hot-spot traffic",
    claims: CLAIMS,
    run: figure_710,
};

const NAMES: [&str; 4] = ["2p-balance", "2p-mini", "2p-4phase", "sleeping"];

fn figure_710(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let mut curves = vec![("XY DVFS, one plane".to_owned(), Vec::new())];
    curves.extend(NAMES.map(|name| (name.to_owned(), Vec::new())));
    let mut crossing = None;
    let steps = if context.quick { 5 } else { 50 };
    for step in 1..=steps {
        let load = f64::from(step) / f64::from(steps);
        let mut problem = problem("hotspot", load, Normalise::Xy, 2);
        (problem.routing, problem.bound) = ("xy".to_owned(), false);
        problem.router = Some("scc48".to_owned());
        let plan = plans(&problem, context, 1)?.swap_remove(0);
        let one = plan.routings["xy"].router_w.map_or(f64::NAN, |watts| watts.0);
        curves[0].1.push((load, one));
        for (at, name) in NAMES.iter().enumerate() {
            curves[at + 1].1.push((load, watts(&plan, name)));
        }
        let best = NAMES[..3].iter().map(|name| watts(&plan, name)).fold(f64::NAN, f64::min);
        match crossing {
            None if best < one => crossing = Some(load),
            Some(_) if best >= one => crossing = None,
            _ => {}
        }
    }
    let plot = Plot::new(FIGURE_710.title, Axis::new("load", ""))
        .panel(Axis::new("power of all routers", "W").from_zero());
    let most = curves[0].1.iter().map(|point| point.1).fold(0.0, f64::max);
    let place = "published: two planes need less from here on";
    let plot = plot.series(Series::published_place(place, 0.65, (0.0, most)));
    let report = Report::new(FIGURE_710.title).text(
        "A plane that may sleep follows the lower of one plane and two. The published tables of \
         P0 and P1 are curves in a picture; ours are interpolated between published points of \
         the same chip, with the share drawn without load taken from its 80-core predecessor.",
    );
    let note = "depends on one ratio only, power without load at the least frequency over that at \
                the load's frequency; the thesis's Orion tables are not printed, ours say it \
                crosses here";
    let findings = Findings::new(drawn(report, plot, &curves));
    Ok(findings.found(CLAIMS[0].id, crossing.unwrap_or(f64::NAN), note))
}

fn watts(plan: &Plan, name: &str) -> f64 {
    plan.planes.get(name).and_then(|planes| planes.router_w).map_or(f64::NAN, |watts| watts.0)
}

//! Servers' idle power over the years.

use ebb_report::{Axis, Context, ExperimentError, Figure, Findings, Plot, Report, Series};

use super::bench::{mpps, router};

/// Servers' idle power over the years: a survey of others, of which the paper prints no number.
pub(super) static FIG02: Figure = Figure {
    id: "niccolini2012.fig02",
    title: "What falling idle power means for the savings",
    claims: &[],
    run,
};

fn run(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let load = mpps(0.35 * 29.0);
    let polling = router.polling(12, router.top(), load).0;
    let (_, _, cheapest) = router.cheapest(load, 0.0);
    let saved = |base: f64| {
        let less = 115.0 - base;
        (base, 100.0 * (1.0 - (cheapest.0 - less) / (polling - less)))
    };
    let points = (6..=23).map(|step| saved(5.0 * f64::from(step))).collect();
    let plot = Plot::new("Saved against polling at 35 % load", Axis::new("idle power", "W"))
        .panel(Axis::new("saved", "%").from_zero())
        .series(Series::line("cheapest operating point", points))
        .nothing_published();
    let report = Report::new(FIG02.title)
        .text(
            "Figure 2 of the paper shows the idle power that SPECpower published for servers since \
             2007: it falls. The paper prints none of its numbers, and no model of a router could \
             predict them, so there is no claim. What the trend means for a router follows from \
             the model: the less an idle server draws, the larger the share that adapting capacity \
             saves.",
        )
        .plot(plot);
    Ok(Findings::new(report))
}

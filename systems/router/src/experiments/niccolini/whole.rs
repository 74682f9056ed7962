use ebb_report::{Axis, Claim, Context, ExperimentError, Findings, Plot, Report, Series};

use super::bench::twin;
use crate::experiments::Figure;

const CONCLUSION: &str = "Niccolini et al. 2012, section 8";
const ABSTRACT: &str = "Niccolini et al. 2012, abstract";

/// The paper's summary of itself.
pub(super) static WHOLE: Figure = Figure {
    id: "niccolini2012.text",
    title: "PowerSave from no load to overload",
    claims: &[
        Claim::predicted(
            "niccolini2012.text.least",
            CONCLUSION,
            "lowest share of the original power, at low load",
            50.0,
            "%",
        )
        .within(7.5),
        Claim::predicted(
            "niccolini2012.text.most",
            CONCLUSION,
            "highest share of the original power, at full load",
            100.0,
            "%",
        )
        .within(2.0),
        Claim::predicted(
            "niccolini2012.text.peak",
            ABSTRACT,
            "\"matches the peak performance\": highest rate under PowerSave",
            29.0,
            "Mpps",
        )
        .within(0.5),
    ],
    run,
};

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let duration = if context.quick { 0.002 } else { 0.1 };
    let run = |policy: &str, load: f64| {
        let text = format!(
            "load = {load}\nengine = \"slot\"\nduration_s = {duration}\nwarmup_s = 0.3\n\
             policy.name = \"{policy}\"\n"
        );
        twin(context, &text)
    };
    let mut shares = Vec::new();
    for step in 0..=10 {
        let load = if step == 0 { 0.01 } else { 0.1 * f64::from(step) };
        let (ours, original) = (run("powersave", load)?, run("poll", load)?);
        shares.push((100.0 * load, 100.0 * ours.power.0 / original.power.0));
    }
    let (least, most) = (shares[0].1, shares[shares.len() - 1].1);
    let seconds = if context.quick { 0.002 } else { 0.02 };
    let flood = format!(
        "duration_s = {seconds}\nwarmup_s = 0.02\npolicy.name = \"powersave\"\ntraffic.rate_mpps = 31.0\n"
    );
    let flooded = twin(context, &flood)?;
    let rate = flooded.counts.delivered as f64 / flooded.span_s / 1e6;
    let plot = Plot::new(WHOLE.title, Axis::new("load", "%"))
        .panel(Axis::new("power of the original's", "%").from_zero())
        .series(Series::line("powersave", shares));
    Ok(Findings::new(Report::new(WHOLE.title).plot(plot))
        .found(
            "niccolini2012.text.least",
            least,
            "at 1 % load; one core and the idle server are less than half of 262 W",
        )
        .found("niccolini2012.text.most", most, "at 100 % load")
        .found("niccolini2012.text.peak", rate, "offered 31 Mpps, packet by packet"))
}

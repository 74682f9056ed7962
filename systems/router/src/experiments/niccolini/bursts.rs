use ebb_report::{Axis, Claim, Context, ExperimentError, Findings, Plot, Report, Series};

use super::bench::{AS_PUBLISHED, twin};
use crate::experiments::Figure;

const SECTION: &str = "Niccolini et al. 2012, section 7, figure 17";

/// Power against the length of bursts.
pub(super) static FIG17: Figure = Figure {
    id: "niccolini2012.fig17",
    title: "Power against the length of bursts, 2.5 Gb/s a port",
    claims: &[
        Claim::predicted(
            "niccolini2012.fig17.powersave-spread",
            SECTION,
            "spread of PowerSave's power over all lengths, \"varies very little\"",
            0.0,
            "%",
        )
        .within(7.5),
        Claim::predicted(
            "niccolini2012.fig17.polling-spread",
            SECTION,
            "spread of polling's power, \"flat\"",
            0.0,
            "%",
        )
        .within(0.5),
        Claim::predicted(
            "niccolini2012.fig17.napi-benefits",
            SECTION,
            "NAPI draws less with the longest bursts than with none (1: yes)",
            1.0,
            "",
        ),
        Claim::predicted(
            "niccolini2012.fig17.powersave-best",
            SECTION,
            "lengths, of 7, at which PowerSave draws least",
            7.0,
            "",
        ),
        Claim::predicted(
            "niccolini2012.fig17.lost",
            SECTION,
            "packets that PowerSave loses",
            0.0,
            "",
        ),
    ],
    run,
};

const LENGTHS: [u32; 7] = [1, 4, 16, 32, 64, 128, 256];

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let duration = if context.quick { 0.002 } else { 0.2 };
    let run = |policy: &str, burst: u32| {
        let text = format!(
            "duration_s = {duration}\nwarmup_s = 0.05\npolicy.name = \"{policy}\"\n\
             policy.settings = {AS_PUBLISHED}\n\
             [traffic]\nrate_gbps = 10.0\nsizes = \"imix\"\narrivals = \"onoff\"\n\
             burst_packets = {burst}\n"
        );
        twin(context, &text)
    };
    let mut lines: [Vec<(f64, f64)>; 3] = Default::default();
    let mut lost = 0;
    for (index, burst) in LENGTHS.into_iter().enumerate() {
        context.progress.at(index as f64 / LENGTHS.len() as f64, "bursts");
        for (line, policy) in lines.iter_mut().zip(["poll", "napi", "powersave"]) {
            let outcome = run(policy, burst)?;
            line.push((f64::from(burst), outcome.power.0));
            lost += if policy == "powersave" { outcome.counts.lost } else { 0 };
        }
    }
    let [poll, napi, powersave] = &lines;
    let spread = |line: &[(f64, f64)]| {
        let powers = || line.iter().map(|(_, watts)| *watts);
        let (low, high) = (powers().fold(f64::INFINITY, f64::min), powers().fold(0.0, f64::max));
        100.0 * (high / low - 1.0)
    };
    let least = powersave.iter().zip(napi).zip(poll);
    let least = least.filter(|((own, napi), poll)| own.1 < napi.1 && own.1 < poll.1).count();
    let benefits = f64::from(u8::from(napi[napi.len() - 1].1 < napi[0].1));
    let (spreads, gain) = ([spread(powersave), spread(poll)], napi[0].1 - napi[napi.len() - 1].1);
    let mut plot = Plot::new(FIG17.title, Axis::new("burst", "packets"))
        .panel(Axis::new("power", "W").from_zero());
    for (line, name) in lines.iter().zip(["polling", "napi", "powersave"]) {
        plot = plot.series(Series::line(name, line.clone()));
    }
    let text = "Bursts at each port's line rate, frames of 64, 594 and 1518 bytes (7:4:1): the \
                paper does not say which.";
    Ok(Findings::new(Report::new(FIG17.title).text(text).plot(plot))
        .found(
            "niccolini2012.fig17.powersave-spread",
            spreads[0],
            "our reading of \"very little\": 7.5 %",
        )
        .found("niccolini2012.fig17.polling-spread", spreads[1], "")
        .found(
            "niccolini2012.fig17.napi-benefits",
            benefits,
            format!("{gain:.1} W less: interrupts are spaced out"),
        )
        .found("niccolini2012.fig17.powersave-best", least as f64, "")
        .found("niccolini2012.fig17.lost", lost as f64, "queues of 2,048 packets"))
}

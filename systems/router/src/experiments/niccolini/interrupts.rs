//! Interrupts instead of polling.

use ebb_report::{Axis, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims};

use super::bench::{mpps, router, twin};

const SECTION: &str = "Niccolini et al. 2012, section 3";

/// Interrupts instead of polling.
pub(super) static FIG03: Figure = Figure {
    id: "niccolini2012.fig03",
    title: "Interrupts (NAPI) against polling",
    claims: &claims! {
        ["niccolini2012.fig03", SECTION]
        implied "saved-idle" "NAPI saves without traffic", 50.0, "%", within(2.0);
        calibrated "saved-40g" "NAPI saves at 40 Gb/s of 1024-byte packets", 22.0, "%", within(2.0);
        implied "rate" "highest rate with NAPI, 64-byte packets", 29.0, "Mpps", within(0.5);
        calibrated "latency-polling" "latency, polling, low load", 7.0, "µs", within(0.5);
        calibrated "latency-napi" "latency, NAPI, low load", 12.0, "µs", within(0.5);
        predicted "converge" "latency of NAPI over polling at 95 % load",
            1.25, "", at_most(), reading("tend to converge");
    },
    run,
};

/// A run of `policy`; `rest` says what arrives.
fn scenario(policy: &str, quick: bool, rest: &str) -> String {
    let duration = if quick { 0.001 } else { 0.02 };
    format!("duration_s = {duration}\nwarmup_s = 0.002\n{rest}\n[policy]\nname = \"{policy}\"\n")
}

/// Independent runs of what is simulated.
const SEEDS: u64 = 5;

fn gigabits(gbps: f64) -> String {
    format!("traffic = {{ rate_gbps = {gbps}, sizes = 1024 }}")
}

/// Saved at 40 Gb/s, the highest rate, the latency of both at low load and their ratio at high load.
fn simulated(context: &Context<'_>) -> Result<[f64; 5], ExperimentError> {
    let run = |policy: &str, rest: &str| twin(context, &scenario(policy, context.quick, rest));
    let (peak, most) = (run("napi", &gigabits(40.0))?.power, run("poll", &gigabits(40.0))?.power);
    let flooded = run("napi", "traffic = { rate_mpps = 32.0 }")?;
    let rate = flooded.counts.delivered as f64 / flooded.span_s / 1e6;
    let mean_us = |policy: &str, load: &str| run(policy, load).map(|run| run.latency.mean_us);
    let (low, high) = ("load = 0.01", "load = 0.95");
    let ratio = mean_us("napi", high)? / mean_us("poll", high)?;
    let saved = 100.0 * (1.0 - peak.0 / most.0);
    Ok([saved, rate, mean_us("poll", low)?, mean_us("napi", low)?, ratio])
}

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let run = |policy: &str, rest: &str| twin(context, &scenario(policy, context.quick, rest));
    let (mut polling, mut napi) = (Vec::new(), Vec::new());
    for gbps in [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0] {
        polling.push((gbps, run("poll", &gigabits(gbps))?.power.0));
        napi.push((gbps, run("napi", &gigabits(gbps))?.power.0));
    }
    let router = router();
    let idle = router.watts(12, router.top(), mpps(0.0)).0;
    let spinning = router.polling(12, router.top(), mpps(0.0)).0;
    // Printed as shares of polling's power, 50 and 22 % less.
    let most = polling.last().map_or(f64::NAN, |(_, watts)| *watts);
    let printed = vec![(0.0, 0.50 * spinning), (40.0, 0.78 * most)];
    polling.insert(0, (0.0, spinning));
    napi.insert(0, (0.0, idle));
    let [saved, rate, low_poll, low_napi, ratio] = context.over_seeds(SEEDS, simulated)?;
    let plot = Plot::new("Power against rate, 1024-byte packets", Axis::new("rate", "Gb/s"))
        .panel(Axis::new("power", "W").from_zero())
        .series(Series::line("polling", polling))
        .series(Series::line("napi", napi))
        .series(Series::points("published: napi, of our polling", printed).published());
    Ok(Findings::new(Report::new(FIG03.title).plot(plot))
        .found(
            "niccolini2012.fig03.saved-idle",
            100.0 * (1.0 - idle / spinning),
            "133 W of table 1, all cores in C1, against 262 W: both were fitted",
        )
        .found(
            "niccolini2012.fig03.saved-40g",
            saved,
            "the interrupt's cost was fitted to this by formula; here it is simulated",
        )
        .found(
            "niccolini2012.fig03.rate",
            rate,
            "the fitted 29 Mpps, from which interrupts take nothing: offered 32 Mpps, the queues never \
             empty",
        )
        .found("niccolini2012.fig03.latency-polling", low_poll, "at 1 % load")
        .found("niccolini2012.fig03.latency-napi", low_napi, "at 1 % load")
        .found(
            "niccolini2012.fig03.converge",
            ratio,
            "a core that finds work whenever it looks takes no interrupt",
        ))
}

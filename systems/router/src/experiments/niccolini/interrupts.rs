use ebb_report::{Axis, Claim, Context, ExperimentError, Findings, Plot, Report, Series};

use super::bench::{mpps, router, twin};
use crate::experiments::Figure;

const SECTION: &str = "Niccolini et al. 2012, section 3";

/// Interrupts instead of polling.
pub(super) static FIG03: Figure = Figure {
    id: "niccolini2012.fig03",
    title: "Interrupts (NAPI) against polling",
    claims: &[
        Claim::predicted(
            "niccolini2012.fig03.saved-idle",
            SECTION,
            "NAPI saves without traffic",
            50.0,
            "%",
        )
        .within(2.0),
        Claim::calibrated(
            "niccolini2012.fig03.saved-40g",
            SECTION,
            "NAPI saves at 40 Gb/s of 1024-byte packets",
            22.0,
            "%",
        )
        .within(2.0),
        Claim::predicted(
            "niccolini2012.fig03.rate",
            SECTION,
            "highest rate with NAPI, 64-byte packets",
            29.0,
            "Mpps",
        )
        .within(0.5),
        Claim::calibrated(
            "niccolini2012.fig03.latency-polling",
            SECTION,
            "latency, polling, low load",
            7.0,
            "µs",
        )
        .within(0.5),
        Claim::calibrated(
            "niccolini2012.fig03.latency-napi",
            SECTION,
            "latency, NAPI, low load",
            12.0,
            "µs",
        )
        .within(0.5),
        Claim::predicted(
            "niccolini2012.fig03.converge",
            SECTION,
            "latency of NAPI over polling at 95 % load, \"tend to converge\"",
            1.0,
            "",
        )
        .within(0.25),
    ],
    run,
};

/// A run of `policy`; `rest` says what arrives.
fn scenario(policy: &str, quick: bool, rest: &str) -> String {
    let duration = if quick { 0.001 } else { 0.02 };
    format!("duration_s = {duration}\nwarmup_s = 0.002\n{rest}\n[policy]\nname = \"{policy}\"\n")
}

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let run = |policy: &str, rest: &str| twin(context, &scenario(policy, context.quick, rest));
    let (mut polling, mut napi) = (Vec::new(), Vec::new());
    for gbps in [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0] {
        let rest = format!("traffic = {{ rate_gbps = {gbps}, sizes = 1024 }}");
        polling.push((gbps, run("poll", &rest)?.power.0));
        napi.push((gbps, run("napi", &rest)?.power.0));
    }
    let router = router();
    let idle = router.watts(12, router.top(), mpps(0.0)).0;
    let spinning = router.polling(12, router.top(), mpps(0.0)).0;
    polling.insert(0, (0.0, spinning));
    napi.insert(0, (0.0, idle));
    let (peak, most) = (napi[napi.len() - 1].1, polling[polling.len() - 1].1);
    let flooded = run("napi", "traffic = { rate_mpps = 32.0 }")?;
    let rate = flooded.counts.delivered as f64 / flooded.span_s / 1e6;
    let low = "load = 0.01";
    let (low_poll, low_napi) = (run("poll", low)?, run("napi", low)?);
    let high = "load = 0.95";
    let ratio = run("napi", high)?.latency.mean_us / run("poll", high)?.latency.mean_us;
    let plot = Plot::new("Power against rate, 1024-byte packets", Axis::new("rate", "Gb/s"))
        .panel(Axis::new("power", "W").from_zero())
        .series(Series::line("polling", polling))
        .series(Series::line("napi", napi));
    Ok(Findings::new(Report::new(FIG03.title).plot(plot))
        .found(
            "niccolini2012.fig03.saved-idle",
            100.0 * (1.0 - idle / spinning),
            "C1 for all cores, 133 W of table 1, against 262 W",
        )
        .found(
            "niccolini2012.fig03.saved-40g",
            100.0 * (1.0 - peak / most),
            "the interrupt's cost was fitted to this by formula; here it is simulated",
        )
        .found(
            "niccolini2012.fig03.rate",
            rate,
            "offered 32 Mpps: the queues never empty and no interrupt is taken",
        )
        .found("niccolini2012.fig03.latency-polling", low_poll.latency.mean_us, "at 1 % load")
        .found("niccolini2012.fig03.latency-napi", low_napi.latency.mean_us, "at 1 % load")
        .found(
            "niccolini2012.fig03.converge",
            ratio,
            "a core that finds work whenever it looks takes no interrupt",
        ))
}

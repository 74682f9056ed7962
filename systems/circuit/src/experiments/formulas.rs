//! What days and sharers cost (Strong, figs. 4.3 and 4.4).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};

use crate::latency::Sharing;

const SOURCE: &str = "Strong 2013, section 4.3.2";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.fig4", SOURCE]
    implied "3.rtt_half" "round trip at 50 % duty, 22 sharers", 440.0, "us";
    implied "3.rtt_long" "round trip with days of 1,000 us, 22 sharers",
        22_200.0, "us", percent(0.5);
    implied "3.bandwidth_long" "bandwidth of 100 ports with days of 1,000 us",
        9901.0, "Gb/s", within(0.5);
    implied "3.bandwidth_half" "bandwidth of 100 ports at 50 % duty", 5000.0, "Gb/s";
    implied "4.rtt_99" "round trip with days of 1,000 us, 99 sharers", 99_990.0, "us";
    implied "4.rtt_1" "round trip with days of 1,000 us, one sharer", 1010.0, "us";
    implied "4.rtt_1_half" "round trip at 50 % duty, one sharer", 20.0, "us";
};

/// Figs. 4.3 and 4.4: what days and sharers cost.
pub(super) static FORMULAS: Figure = Figure {
    id: "strong2013.fig4.3",
    title: "Bandwidth and round trips of a shared circuit",
    claims: CLAIMS,
    run: formulas,
};

/// 100 ports of 100 Gb/s, nights of 10 us.
fn sharing(day_us: f64, sharers: f64) -> Sharing {
    Sharing { ports: 100.0, rate_gbps: 100.0, night_us: 10.0, day_us, sharers }
}

/// Without the message and the fibre, which the figures leave out.
fn wait_us(day_us: f64, sharers: f64) -> f64 {
    sharing(day_us, sharers).round_trip_us(0.0, 0.0)
}

fn formulas(_context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let days = || (1..=100).map(|step| f64::from(step) * 10.0);
    let plot = Plot::new(FORMULAS.title, Axis::new("day", "us"))
        .panel(Axis::new("bandwidth", "Gb/s").from_zero())
        .series(Series::line(
            "100 ports",
            days().map(|day| (day, sharing(day, 22.0).bandwidth_gbps())).collect(),
        ))
        .panel(Axis::new("round trip", "us").from_zero());
    let plot = [1.0, 22.0, 99.0].into_iter().fold(plot, |plot, sharers| {
        let points = days().map(|day| (day, wait_us(day, sharers))).collect();
        plot.series(Series::line(format!("{sharers} sharers"), points))
    });
    let report = Report::new(FORMULAS.title).plot(plot);
    let note = "equations 4.1 to 4.3; message and propagation left out, as in the figures";
    let rounded = "the equation gives 22,220; the text rounds";
    Ok(Findings::new(report)
        .found(CLAIMS[0].id, wait_us(10.0, 22.0), note)
        .found(CLAIMS[1].id, wait_us(1000.0, 22.0), rounded)
        .found(CLAIMS[2].id, sharing(1000.0, 22.0).bandwidth_gbps(), note)
        .found(CLAIMS[3].id, sharing(10.0, 22.0).bandwidth_gbps(), note)
        .found(CLAIMS[4].id, wait_us(1000.0, 99.0), note)
        .found(CLAIMS[5].id, wait_us(1000.0, 1.0), note)
        .found(CLAIMS[6].id, wait_us(10.0, 1.0), note))
}

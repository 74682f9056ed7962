//! What an optical core saves (Strong, fig. 4.2).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};

use crate::energy::DataCentre;

const SOURCE: &str = "Strong 2013, section 4.2.2";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.fig4.2", SOURCE]
    predicted "mean_10g" "power saved at 10 Gb/s, mean", 7.27, "%", within(0.1);
    // Ports per server and the power of channels were chosen because they lead here.
    calibrated "mean_100g" "power saved at 100 Gb/s, mean", 23.68, "%", within(0.1);
    predicted "typical_10g" "power saved at 10 Gb/s, servers 30 % utilised", 8.01, "%", within(0.1);
    // Ports per server and the power of channels were chosen because they lead here.
    calibrated "typical_100g" "power saved at 100 Gb/s, servers 30 % utilised",
        24.65, "%", within(0.1);
};

/// Fig. 4.2: what an optical core saves of a data centre's power.
pub(super) static FIGURE_42: Figure = Figure {
    id: "strong2013.fig4.2",
    title: "Power that an optical core saves of a data centre",
    claims: CLAIMS,
    run: figure_42,
};

fn figure_42(_context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let centre = DataCentre::published();
    let plot = Plot::new(FIGURE_42.title, Axis::new("utilisation of the servers", "%"))
        .panel(Axis::new("power saved", "%").from_zero());
    let plot = centre.rate.iter().fold(plot, |plot, rate| {
        let share = |tenths: i32| 100.0 * centre.saved(rate, f64::from(tenths) / 10.0);
        let points = (0..=10).map(|tenths| (f64::from(tenths * 10), share(tenths))).collect();
        plot.series(Series::line(format!("{} Gb/s", rate.gbps), points))
    });
    let at = |gbps: f64| {
        centre.at(gbps).ok_or_else(|| ExperimentError(format!("no prices at {gbps} Gb/s")))
    };
    let (slow, fast) = (at(10.0)?, at(100.0)?);
    let note = "the chapter prints neither how many packet ports a server needs nor how many \
                transceivers an optical uplink has; ours: two ports in the pod and one at the \
                core, 1 W for each 10 Gb/s channel; the other inputs are printed";
    let report = Report::new(FIGURE_42.title).plot(plot).text(note);
    Ok(Findings::new(report)
        .found(CLAIMS[0].id, 100.0 * centre.saved_mean(slow), note)
        .found(CLAIMS[1].id, 100.0 * centre.saved_mean(fast), note)
        .found(CLAIMS[2].id, 100.0 * centre.saved(slow, 0.3), note)
        .found(CLAIMS[3].id, 100.0 * centre.saved(fast, 0.3), note))
}

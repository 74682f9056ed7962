//! Where the power goes.

use ebb_power::{CoreState, Depth};
use ebb_report::{Column, Context, ExperimentError, Figure, Findings, Report, Table, claims};
use ebb_units::BitsPerSecond;

use super::bench::router;

const SOURCE: &str = "Niccolini et al. 2012, section 3, figure 1";

/// Where the power goes in three states of the server.
pub(super) static FIG01: Figure = Figure {
    id: "niccolini2012.fig01",
    title: "Power by component: idle, polling without traffic, 40 Gb/s",
    claims: &claims! {
        ["niccolini2012.fig01", SOURCE]
        calibrated "idle" "server, all cores idle", 115.0, "W", within(1.0);
        calibrated "polling" "server, polling without traffic", 262.0, "W", within(1.0);
        calibrated "peak" "server, forwarding 40 Gb/s", 269.0, "W", within(1.0);
        implied "ratio" "peak over idle", 2.3, "", within(0.05);
        implied "below-peak" "polling without traffic below peak, \"less than\"",
            3.0, "%", at_most();
        calibrated "cpu-idle" "one CPU package, idle", 25.0, "W", within(1.0);
        calibrated "cpu-peak" "one CPU package at peak", 92.0, "W", within(1.0);
        implied "cpu-share" "CPUs' share of idle power",
            50.0, "%", within(10.0), reading("almost half");
        implied "cpu-range" "a CPU's power at peak over idle, \"about\"", 4.0, "", within(0.5);
        calibrated "motherboard" "motherboard", 24.0, "W", within(1.0);
        calibrated "memory" "memory at peak", 20.0, "W", within(1.0);
        calibrated "nics" "network interfaces at peak", 15.0, "W", within(1.0);
    },
    run,
};

fn run(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let server = router().server().clone();
    let top = server.frequency_max();
    let state = |busy, depth| vec![CoreState { frequency: top, busy, depth }; 12];
    let idle = server.power(&state(0.0, Depth::C6), BitsPerSecond(0.0));
    let polling = server.power(&state(1.0, Depth::C1), BitsPerSecond(0.0));
    let peak = server.power(&state(1.0, Depth::C1), BitsPerSecond(40e9));
    let columns = [
        Column::text("component"),
        Column::number("idle", "W", 1),
        Column::number("polling, no traffic", "W", 1),
        Column::number("40 Gb/s", "W", 1),
    ];
    let mut table = Table::new("Power by component", columns);
    for ((name, idle), ((_, polling), (_, peak))) in
        idle.parts().into_iter().zip(polling.parts().into_iter().zip(peak.parts()))
    {
        table.row([name.into(), idle.0.into(), polling.0.into(), peak.0.into()]);
    }
    let totals = [idle.total().0, polling.total().0, peak.total().0];
    table.row(["all".into(), totals[0].into(), totals[1].into(), totals[2].into()]);
    let report = Report::new(FIG01.title)
        .text(
            "The parameters are fitted to these anchors; how idle memory and NICs divide 15 W, and \
             their growth of 20 W, is assumed, since the figure prints no numbers.",
        )
        .table(table);
    let fitted = "fitted";
    Ok(Findings::new(report)
        .found("niccolini2012.fig01.idle", totals[0], fitted)
        .found("niccolini2012.fig01.polling", totals[1], fitted)
        .found("niccolini2012.fig01.peak", totals[2], fitted)
        .found("niccolini2012.fig01.ratio", totals[2] / totals[0], "follows from the fitted totals")
        .found(
            "niccolini2012.fig01.below-peak",
            100.0 * (1.0 - totals[1] / totals[2]),
            "follows from the fitted totals",
        )
        .found("niccolini2012.fig01.cpu-idle", idle.cpu.0 / 2.0, fitted)
        .found("niccolini2012.fig01.cpu-peak", peak.cpu.0 / 2.0, fitted)
        .found(
            "niccolini2012.fig01.cpu-share",
            100.0 * idle.cpu.0 / totals[0],
            "50 W of 115 W, both printed",
        )
        .found(
            "niccolini2012.fig01.cpu-range",
            peak.cpu.0 / idle.cpu.0,
            "92 W over 25 W, both printed",
        )
        .found("niccolini2012.fig01.motherboard", peak.motherboard.0, fitted)
        .found("niccolini2012.fig01.memory", peak.memory.0, fitted)
        .found("niccolini2012.fig01.nics", peak.nics.0, fitted))
}

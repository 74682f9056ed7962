use ebb_power::{CoreState, Depth};
use ebb_report::{Claim, Column, Context, ExperimentError, Findings, Report, Table};
use ebb_units::BitsPerSecond;

use super::bench::{router, twin};
use crate::experiments::Figure;

const SOURCE: &str = "Niccolini et al. 2012, section 5.2, table 1";

/// Idle states: power and exit latency.
pub(super) static TABLE1: Figure = Figure {
    id: "niccolini2012.table1",
    title: "Power and exit latency of the idle states",
    claims: &[
        Claim::calibrated("niccolini2012.table1.c1-power", SOURCE, "all cores in C1", 133.0, "W")
            .within(0.5),
        Claim::calibrated("niccolini2012.table1.c3-power", SOURCE, "all cores in C3", 120.0, "W")
            .within(0.5),
        Claim::calibrated("niccolini2012.table1.c6-power", SOURCE, "all cores in C6", 115.0, "W")
            .within(0.5),
        Claim::calibrated(
            "niccolini2012.table1.c1-exit",
            SOURCE,
            "leaving C1, \"< 1 µs\"",
            0.5,
            "µs",
        )
        .between(0.0, 1.0),
        Claim::calibrated("niccolini2012.table1.c3-exit", SOURCE, "leaving C3", 60.0, "µs")
            .within(0.5),
        Claim::calibrated("niccolini2012.table1.c6-exit", SOURCE, "leaving C6", 87.0, "µs")
            .within(0.5),
    ],
    run: table1,
};

fn table1(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let server = router().server().clone();
    let power = |depth| {
        let state = CoreState { frequency: server.frequency_max(), busy: 0.0, depth };
        server.power(&[state; 12], BitsPerSecond(0.0)).total().0
    };
    let exit = |depth| server.exit_latency(depth).as_nanos() as f64 / 1e3;
    let columns = [
        Column::text("state"),
        Column::number("power", "W", 1),
        Column::number("exit latency", "µs", 1),
    ];
    let mut table = Table::new("All cores asleep", columns);
    for (name, depth) in [("C1", Depth::C1), ("C3", Depth::C3), ("C6", Depth::C6)] {
        table.row([name.into(), power(depth).into(), exit(depth).into()]);
    }
    let fitted = "fitted";
    Ok(Findings::new(Report::new(TABLE1.title).table(table))
        .found("niccolini2012.table1.c1-power", power(Depth::C1), fitted)
        .found("niccolini2012.table1.c3-power", power(Depth::C3), fitted)
        .found("niccolini2012.table1.c6-power", power(Depth::C6), fitted)
        .found("niccolini2012.table1.c1-exit", exit(Depth::C1), "half of the published bound")
        .found("niccolini2012.table1.c3-exit", exit(Depth::C3), fitted)
        .found("niccolini2012.table1.c6-exit", exit(Depth::C6), fitted))
}

/// Which idle state an under-used core enters.
pub(super) static FIG10: Figure = Figure {
    id: "niccolini2012.fig10",
    title: "Idle states of under-used cores at 1.6 GHz",
    claims: &[Claim::predicted(
        "niccolini2012.fig10.little-difference",
        "Niccolini et al. 2012, section 5.2",
        "largest difference that deeper states make from 1 Mpps on, \"very little impact\"",
        2.5,
        "W",
    )
    .between(0.0, 5.0)],
    run: fig10,
};

fn fig10(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let duration = if context.quick { 0.001 } else { 0.02 };
    let run = |cores: u16, rate: f64, deepest: &str| {
        let text = format!(
            "duration_s = {duration}\nwarmup_s = 0.002\ntraffic.rate_mpps = {rate}\n\
             limits = {{ cores = {cores}, frequencies_ghz = [1.6] }}\n\
             server.deep = \"{deepest}\"\npolicy.name = \"napi\"\n"
        );
        twin(context, &text).map(|outcome| outcome.power.0)
    };
    let columns = [
        Column::count("cores"),
        Column::number("rate", "Mpps", 1),
        Column::number("C1", "W", 1),
        Column::number("as deep as pays", "W", 1),
        Column::number("always C6", "W", 1),
    ];
    let mut table = Table::new("Power", columns);
    let mut most = 0.0f64;
    let mut forced = 0.0f64;
    for (cores, rates) in [(2, [1.0, 2.0, 3.0]), (4, [1.0, 3.0, 6.0]), (12, [1.0, 8.0, 16.0])] {
        for rate in rates {
            let (light, deep) = (run(cores, rate, "c1")?, run(cores, rate, "menu")?);
            let always = run(cores, rate, "c6")?;
            most = most.max((light - deep).abs());
            forced = forced.max((light - always).abs());
            let cells = [light.into(), deep.into(), always.into()];
            table.row([u64::from(cores).into(), rate.into()].into_iter().chain(cells));
        }
    }
    let note = format!(
        "a core enters a deeper state when its idle times pay for the exit; forced into C6 at \
         every pause it would differ by up to {forced:.0} W"
    );
    Ok(Findings::new(Report::new(FIG10.title).table(table)).found(
        "niccolini2012.fig10.little-difference",
        most,
        note,
    ))
}

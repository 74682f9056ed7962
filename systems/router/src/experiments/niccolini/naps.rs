//! Idle states.

use ebb_power::{CoreState, Depth};
use ebb_report::{Column, Context, ExperimentError, Figure, Findings, Report, Table, claims};
use ebb_units::BitsPerSecond;

use super::bench::{router, twin};

const SOURCE: &str = "Niccolini et al. 2012, section 5.2, table 1";

/// Idle states: power and exit latency.
pub(super) static TABLE1: Figure = Figure {
    id: "niccolini2012.table1",
    title: "Power and exit latency of the idle states",
    claims: &claims! {
        ["niccolini2012.table1", SOURCE]
        calibrated "c1-power" "all cores in C1", 133.0, "W", within(0.5);
        calibrated "c3-power" "all cores in C3", 120.0, "W", within(0.5);
        calibrated "c6-power" "all cores in C6", 115.0, "W", within(0.5);
        calibrated "c1-exit" "leaving C1, \"<\"", 1.0, "µs", at_most();
        calibrated "c3-exit" "leaving C3", 60.0, "µs", within(0.5);
        calibrated "c6-exit" "leaving C6", 87.0, "µs", within(0.5);
    },
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
    claims: &claims! {
        ["niccolini2012.fig10", "Niccolini et al. 2012, section 5.2"]
        predicted "little-difference"
            "largest difference that C3 or C6 at every pause makes to C1, from 1 Mpps on",
            5.0, "W", at_most(), reading("very little impact");
    },
    run: fig10,
};

/// Numbers of cores and rates, Mpps.
const UNDER_USED: [(u16, [f64; 3]); 3] =
    [(2, [1.0, 2.0, 3.0]), (4, [1.0, 3.0, 6.0]), (12, [1.0, 8.0, 16.0])];

/// Power with C1, C3 and C6 at every pause, and with what a core chooses by its last sleeps.
fn depths(context: &Context<'_>, cores: u16, rate: f64) -> Result<[f64; 4], ExperimentError> {
    let duration = if context.quick { 0.001 } else { 0.02 };
    let mut watts = [0.0; 4];
    for (watts, deepest) in watts.iter_mut().zip(["c1", "c3", "c6", "menu"]) {
        let text = format!(
            "duration_s = {duration}\nwarmup_s = 0.002\ntraffic.rate_mpps = {rate}\n\
             limits = {{ cores = {cores}, frequencies_ghz = [1.6] }}\n\
             server.deep = \"{deepest}\"\npolicy.name = \"napi\"\n"
        );
        *watts = twin(context, &text)?.power.0;
    }
    Ok(watts)
}

fn fig10(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::count("cores"),
        Column::number("rate", "Mpps", 1),
        Column::number("always C1", "W", 1),
        Column::number("always C3", "W", 1),
        Column::number("always C6", "W", 1),
        Column::number("as deep as pays", "W", 1),
    ];
    let points = || UNDER_USED.into_iter().flat_map(|(n, rates)| rates.map(|rate| (n, rate)));
    let mut table = Table::new("Power", columns);
    for (cores, rate) in points() {
        let cells = depths(context, cores, rate)?.map(Into::into);
        table.row([u64::from(cores).into(), rate.into()].into_iter().chain(cells));
    }
    let [forced, chosen] = context.over_seeds(5, |context| {
        let (mut forced, mut chosen) = (0.0f64, 0.0f64);
        for (cores, rate) in points() {
            let [c1, c3, c6, menu] = depths(context, cores, rate)?;
            forced = forced.max((c1 - c3).abs()).max((c1 - c6).abs());
            chosen = chosen.max((c1 - menu).abs());
        }
        Ok([forced, chosen])
    })?;
    let why = format!(
        "a core that enters C6 whenever its queue is empty gathers packets for 87 µs and draws C6's \
         power meanwhile; the paper says that at 1 Mpps gaps of 1 µs leave no opportunity, which holds \
         where the processor refuses: Westmere demotes requests for C3 and C6 by itself when interrupts \
         are frequent. With cores that choose by their last sleeps the difference is {:.1} W",
        chosen.mean
    );
    let claim = "niccolini2012.fig10.little-difference";
    Ok(Findings::new(Report::new(FIG10.title).table(table)).found(claim, forced, why))
}

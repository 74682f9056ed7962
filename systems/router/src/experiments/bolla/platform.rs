use ebb_power::{Application, Server};
use ebb_report::{Axis, Claim, Context, ExperimentError, Findings, Plot, Report, Series};

use crate::experiments::Figure;

const SECTION: &str = "Bolla et al., section IV.A";

/// Largest throughput against the power it takes.
pub(super) static FIG01: Figure = Figure {
    id: "bolla.fig01",
    title: "Highest throughput against active power, over frequencies and cores",
    claims: &[
        Claim::predicted(
            "bolla.fig01.linear-frequency",
            SECTION,
            "correlation over frequencies, one core (\"linearly scale\")",
            1.0,
            "",
        )
        .within(0.02),
        Claim::predicted(
            "bolla.fig01.linear-cores",
            SECTION,
            "correlation over numbers of cores (\"linear behavior is maintained\")",
            1.0,
            "",
        )
        .within(0.02),
    ],
    run: fig01,
};

/// Watts and packets per second at full throughput of our server.
fn full(server: &Server, cores: u16, state: usize) -> (f64, f64) {
    let clock = server.p_states[state];
    let rate = server.rate(&Application::ipv4_routing(), 64, cores, clock).0;
    let watts = cores_watts(server, cores, state);
    (watts, rate)
}

fn cores_watts(server: &Server, cores: u16, state: usize) -> f64 {
    use ebb_power::{CoreState, Depth};
    let busy = CoreState { frequency: server.p_states[state], busy: 1.0, depth: Depth::C1 };
    server.power.power(&vec![busy; cores.into()]).0
}

fn fig01(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let server = Server::niccolini2012();
    let top = server.p_states.len() - 1;
    let clocks: Vec<_> = (0..=top).map(|state| full(&server, 1, state)).collect();
    let cores: Vec<_> = (1..=server.cores()).map(|cores| full(&server, cores, top)).collect();
    let in_mpps = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|(watts, rate)| (*watts, rate / 1e6)).collect()
    };
    let plot = Plot::new(FIG01.title, Axis::new("power", "W"))
        .panel(Axis::new("throughput", "Mpps").from_zero())
        .series(Series::points("one core, 14 frequencies", in_mpps(&clocks)))
        .series(Series::points("1 to 12 cores at 3.3 GHz", in_mpps(&cores)));
    let note = "by the server model of Niccolini et al. 2012, a machine of a later generation than \
                the seven measured here, whose watts and rates the text does not list";
    Ok(Findings::new(Report::new(FIG01.title).plot(plot))
        .found("bolla.fig01.linear-frequency", correlation(&clocks), note)
        .found("bolla.fig01.linear-cores", correlation(&cores), note))
}

/// Pearson's coefficient.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sums = points.iter().fold((0.0, 0.0, 0.0), |(xy, xx, yy), point| {
        let (dx, dy) = (point.0 - x, point.1 - y);
        (xy + dx * dy, xx + dx * dx, yy + dy * dy)
    });
    sums.0 / (sums.1 * sums.2).sqrt()
}

/// Throughput and latency of one core over offered load.
pub(super) static FIG03: Figure = Figure {
    id: "bolla.fig03",
    title: "Throughput of one core over offered load, by frequency",
    claims: &[Claim::predicted(
        "bolla.fig03.gain-falls",
        "Bolla et al., section IV.B",
        "gain of a frequency step at the highest over that at the lowest (\"slightly decreases\")",
        0.75,
        "",
    )
    .within(0.25)],
    run: fig03,
};

fn fig03(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let server = Server::niccolini2012();
    let rates: Vec<f64> =
        (0..server.p_states.len()).map(|state| full(&server, 1, state).1).collect();
    let mut plot = Plot::new(FIG03.title, Axis::new("offered load", "Mpps"))
        .panel(Axis::new("throughput", "Mpps").from_zero());
    for (clock, rate) in server.p_states.iter().zip(&rates).step_by(4) {
        let line = (0..=40).map(|step| {
            let offered = f64::from(step) * 0.1;
            (offered, offered.min(rate / 1e6))
        });
        plot = plot.series(Series::line(clock.to_string(), line.collect()));
    }
    let per_hertz = |low: usize, high: usize| {
        (rates[high] - rates[low]) / (server.p_states[high].0 - server.p_states[low].0) as f64
    };
    let (last, first) = (per_hertz(11, 12), per_hertz(0, 1));
    let note = "the text says only that the gain \"slightly decreases\": anything above a half and \
                not above one is held to agree; on the later server of Niccolini et al. 2012";
    Ok(Findings::new(Report::new(FIG03.title).plot(plot)).found(
        "bolla.fig03.gain-falls",
        last / first,
        note,
    ))
}

//! Throughput, power and latency of the platform.

use ebb_power::{PacketCost, Server};
use ebb_report::{Axis, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims};

const SECTION: &str = "Bolla et al., section IV.A";

/// Largest throughput against the power it takes.
pub(super) static FIG01: Figure = Figure {
    id: "bolla.fig01",
    title: "Highest throughput against active power, over frequencies and cores",
    claims: &claims! {
        ["bolla.fig01", SECTION]
        predicted "server-power" "power of the high-end servers (X, O), \"more than\"",
            150.0, "W", at_least();
        predicted "athlon-rate" "highest throughput of the Athlon 64 X2 (A), \"about\"",
            1.5, "Mpps", within(0.05);
        predicted "core2-power" "power of the Core 2 (C2)", 0.0, "W", between(30.0, 50.0);
    },
    run: fig01,
};

/// Watts and packets per second at full throughput of our server.
fn full(server: &Server, cores: u16, state: usize) -> (f64, f64) {
    let clock = server.p_states[state];
    let rate = server.rate(&PacketCost::ipv4_routing(), 64, cores, clock).0;
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
        .series(Series::points("1 to 12 cores at 3.3 GHz", in_mpps(&cores)))
        .series(Series::published_place("published: servers, more than", 150.0, (0.0, 3.0)))
        .series(Series::published_level("published: Athlon, about", (30.0, 150.0), 1.5))
        .series(Series::published_level("published: Core 2, between", (30.0, 50.0), 0.0));
    let text = format!(
        "The seven machines' watts and rates are in a picture only. For comparison, the server model of \
         Niccolini et al. 2012, a later machine: power and rate correlate by {:.4} over frequencies and \
         {:.4} over numbers of cores, where the paper says that they \"linearly scale\".",
        correlation(&clocks),
        correlation(&cores)
    );
    let unknown = "nothing could be computed: of this machine the text prints this number and no other \
                   from which a model could predict it (its unit is \"Wh\" where power is meant)";
    let findings = Findings::new(Report::new(FIG01.title).text(text).plot(plot));
    Ok(FIG01.claims.iter().fold(findings, |findings, claim| findings.absent(claim.id, unknown)))
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
    claims: &[],
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
    plot = plot.nothing_published();
    let per_hertz = |low: usize, high: usize| {
        (rates[high] - rates[low]) / (server.p_states[high].0 - server.p_states[low].0) as f64
    };
    let (last, first) = (per_hertz(11, 12), per_hertz(0, 1));
    let text = format!(
        "Figures 3 and 4 are of one Xeon core, and the text prints no number of them but that the gain \
         \"slightly decreases as the core frequency raises\". For comparison, on the later server of \
         Niccolini et al. 2012, which the plot shows, the highest step gains {:.2} of what the lowest \
         does; the longest wait in a full buffer falls by the same factor, since it is the buffer over \
         the rate.",
        last / first
    );
    Ok(Findings::new(Report::new(FIG03.title).text(text).plot(plot)))
}

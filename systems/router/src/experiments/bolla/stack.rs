//! Power over throughput through the network stack.

use ebb_power::Depth;
use ebb_power::{Chi, Interrupt, Server};
use ebb_report::{Axis, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims};
use ebb_units::{Hertz, PacketsPerSecond};

const SECTION: &str = "Bolla et al., section IV.B";
/// The Xeon's largest throughput with one core at 3 GHz.
const MOST_KPPS: f64 = 1040.0;
const CLOCK: Hertz = Hertz(3_000_000_000);
/// A whole axis of shares, %.
const WHOLE: (f64, f64) = (0.0, 100.0);
/// What "near to zero" is taken to be.
const NEAR_ZERO: f64 = 0.05;

/// Power over throughput.
pub(super) static FIG05: Figure = Figure {
    id: "bolla.fig05",
    title: "Power over throughput: where it stops to rise",
    claims: &claims! {
        ["bolla.fig05", SECTION]
        implied "knee" "throughput of the gradient change, Xeon at 3 GHz, \"about\"",
            700.0, "kpps", within(70.0);
        implied "saturated" "share of the power range above it",
            0.9, "", at_least(), reading("more or less its maximum");
    },
    run: fig05,
};

fn fig05(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let chi = Chi::published();
    let share = |step: i32| f64::from(step) / 1000.0;
    let line = |scale: f64| {
        (0..=100)
            .map(|step| share(step * 10))
            .map(move |t| (t * MOST_KPPS, scale * chi.at(t)))
            .collect()
    };
    let knee = (0..=1000).map(share).find(|t| chi.at(*t) >= 0.95).unwrap_or(1.0);
    let plot = Plot::new(FIG05.title, Axis::new("throughput", "kpps"))
        .panel(Axis::new("share of the power range", "%").from_zero())
        .series(Series::line("published chi, Xeon at 3 GHz", line(100.0)))
        .series(Series::published_place("published: change of the gradient, about", 700.0, WHOLE));
    let found = chi.at(700.0 / MOST_KPPS);
    let why = "chi is fitted to all seven platforms: it reaches 95 % of the range at 0.78 of the \
               throughput, while this Xeon, by the text, has done so at 700 of 1040 kpps, 0.67 of it";
    Ok(Findings::new(Report::new(FIG05.title).plot(plot))
        .found("bolla.fig05.knee", knee * MOST_KPPS, why)
        .found("bolla.fig05.saturated", found, why))
}

/// Idle time and interrupts over throughput.
pub(super) static FIG06: Figure = Figure {
    id: "bolla.fig06",
    title: "Idle time and interrupts of one core over throughput",
    claims: &claims! {
        ["bolla.fig06", SECTION]
        calibrated "idle" "idle time at 700 kpps", 6.0, "%", at_most(), reading("near to zero");
        implied "interrupts" "interrupts per packet at 700 kpps",
            0.1, "", at_most(), reading("near to zero");
    },
    run: fig06,
};

/// A core that wakes by interrupts, its service time from the largest throughput, the interrupt's
/// work such that hardly any idle time is left at 700 kpps.
fn xeon() -> (Server, f64) {
    let service_ns = 1e6 / MOST_KPPS;
    let mut server = Server::niccolini2012();
    server.interrupt = Interrupt { delivery_ns: 0.0, cycles: 0.0 };
    for state in &mut server.c_states {
        state.exit_ns = 0;
    }
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        server.interrupt.cycles = (low + high) / 2.0;
        if idle(&server, service_ns, 700.0) > NEAR_ZERO {
            low = server.interrupt.cycles;
        } else {
            high = server.interrupt.cycles;
        }
    }
    (server, service_ns)
}

fn idle(server: &Server, service_ns: f64, kpps: f64) -> f64 {
    let load = PacketsPerSecond(kpps * 1e3);
    1.0 - server.busy_with_interrupts(load, service_ns, CLOCK, Depth::C1)
}

fn fig06(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let (server, service_ns) = xeon();
    // Each sleep ends with one interrupt, and lasts until the next packet.
    let interrupts = |kpps: f64| idle(&server, service_ns, kpps);
    let curve = |value: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        (1..=104)
            .map(|step| f64::from(step) * 10.0)
            .map(|kpps| (kpps, 100.0 * value(kpps)))
            .collect()
    };
    let chi = Chi::published();
    let plot = Plot::new(FIG06.title, Axis::new("throughput", "kpps"))
        .panel(Axis::new("share of time or of packets", "%").from_zero())
        .series(Series::line("idle time", curve(&|kpps| idle(&server, service_ns, kpps))))
        .series(Series::line(
            "idle time by chi (eq. 8)",
            curve(&|kpps| 1.0 - chi.at(kpps / MOST_KPPS)),
        ))
        .series(Series::points("published: \"near to zero\"", vec![(700.0, 0.0)]).published())
        .series(Series::published_place("published: largest throughput", MOST_KPPS, WHOLE));
    let work = server.interrupt_ns(CLOCK) / 1e3;
    let fitted = format!("fitted: {work:.1} us of work per interrupt leave 5 % idle at 700 kpps");
    let note = "a sleeping core is woken by the next packet, so that as many packets per hundred \
                raise an interrupt as percent of the time are idle";
    Ok(Findings::new(Report::new(FIG06.title).plot(plot))
        .found("bolla.fig06.idle", 100.0 * idle(&server, service_ns, 700.0), fitted)
        .found("bolla.fig06.interrupts", interrupts(700.0), note))
}

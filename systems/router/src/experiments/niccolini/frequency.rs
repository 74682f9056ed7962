//! Power and rate against frequency.

use ebb_report::{
    Axis, Column, Context, ExperimentError, Figure, Findings, Plot, Report, Series, Table, claims,
};

use super::bench::{full, over_frequency, per_joule, router};

const SECTION: &str = "Niccolini et al. 2012, section 5.1";

/// Active power against frequency.
pub(super) static FIG04: Figure = Figure {
    id: "niccolini2012.fig04",
    title: "Power against frequency at the highest sustained rate",
    claims: &claims! {
        ["niccolini2012.fig04", SECTION]
        calibrated "halved-1-core" "halving the frequency saves, 1 core", 5.0, "%", within(1.5);
        calibrated "halved-12-cores" "halving the frequency saves, 12 cores",
            25.0, "%", within(2.5);
    },
    run: fig04,
};

fn fig04(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let (slow, fast) = (router.nearest(1.6), router.nearest(3.2));
    let saved = |cores| 100.0 * (1.0 - full(&router, cores, slow) / full(&router, cores, fast));
    let mut plot = Plot::new(FIG04.title, Axis::new("frequency", "GHz"))
        .panel(Axis::new("power", "W").reaching(100.0, 270.0));
    for series in over_frequency(&router, |cores, index| full(&router, cores, index)) {
        plot = plot.series(series);
    }
    let halved = |cores, saved: f64| (1.6, (1.0 - saved / 100.0) * full(&router, cores, fast));
    let printed = vec![halved(1, 5.0), halved(12, 25.0)];
    plot = plot
        .series(Series::points("published: 1 and 12 cores, of our 3.2 GHz", printed).published());
    let note = "active power was fitted at 3.3 GHz and in C1, and the line between them taken because it \
                meets these two";
    Ok(Findings::new(Report::new(FIG04.title).plot(plot))
        .found("niccolini2012.fig04.halved-1-core", saved(1), note)
        .found("niccolini2012.fig04.halved-12-cores", saved(12), note))
}

/// Forwarding rate against frequency.
pub(super) static FIG05: Figure = Figure {
    id: "niccolini2012.fig05",
    title: "Highest sustained rate against frequency",
    claims: &claims! {
        ["niccolini2012.fig05", "Niccolini et al. 2012, section 3"]
        calibrated "rate-12-cores" "12 cores at 3.3 GHz, 64-byte packets",
            29.0, "Mpps", within(0.3);
        ["niccolini2012.fig05", "Niccolini et al. 2012, section 5.2"]
        calibrated "rate-12-slow" "12 cores at 1.6 GHz, \"approx.\"", 19.0, "Mpps", within(0.5);
        ["niccolini2012.fig05", SECTION]
        calibrated "doubled-1-core" "1.6 to 3.2 GHz raises the rate, 1 core",
            70.0, "%", within(3.0);
        calibrated "doubled-12-cores" "1.6 to 3.2 GHz raises the rate, 12 cores",
            45.0, "%", within(3.0);
        ["niccolini2012.fig05", "Niccolini et al. 2012, section 6.1"]
        implied "core" "one core, \"assuming a core can forward at 3 Mpps\"",
            3.0, "Mpps", within(0.6);
    },
    run: fig05,
};

fn fig05(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let rate = |cores, frequency| router.capacity(cores, frequency).0 / 1e6;
    let (slow, fast) = (router.nearest(1.6), router.nearest(3.2));
    let doubled = |cores| 100.0 * (rate(cores, fast) / rate(cores, slow) - 1.0);
    let mut plot = Plot::new(FIG05.title, Axis::new("frequency", "GHz"))
        .panel(Axis::new("rate", "Mpps").from_zero());
    for series in over_frequency(&router, rate) {
        plot = plot.series(series);
    }
    let faster = |cores, percent: f64| (3.2, (1.0 + percent / 100.0) * rate(cores, slow));
    let rises = vec![faster(1, 70.0), faster(12, 45.0)];
    let printed = vec![(3.3, 29.0), (1.6, 19.0), (3.3, 3.0)];
    plot = plot
        .series(Series::points("published: 12 cores and 1", printed).published())
        .series(Series::points("published: 1 and 12 cores, of our 1.6 GHz", rises).published());
    let shared = "19 Mpps and 45 % cannot both hold beside 29 Mpps with a service time of cycles \
                  plus waiting: 19.36 Mpps and 47.6 % share the difference";
    Ok(Findings::new(Report::new(FIG05.title).plot(plot))
        .found("niccolini2012.fig05.rate-12-cores", rate(12, router.top()), "fitted")
        .found("niccolini2012.fig05.rate-12-slow", rate(12, slow), shared)
        .found("niccolini2012.fig05.doubled-1-core", doubled(1), "fitted")
        .found("niccolini2012.fig05.doubled-12-cores", doubled(12), shared)
        .found(
            "niccolini2012.fig05.core",
            rate(1, router.top()),
            "the 3 Mpps are the paper's round figure for its queueing target, not a measurement; \
             one core alone also waits less for memory than one of twelve",
        ))
}

/// Packets per joule.
pub(super) static FIG06: Figure = Figure {
    id: "niccolini2012.fig06",
    title: "Packets per joule against frequency and cores",
    claims: &claims! {
        ["niccolini2012.fig06", SECTION]
        implied "fastest-best"
            "numbers of cores, of 12, at which the highest frequency forwards more packets a joule than the lowest",
            12.0, "";
        implied "margin" "most that the highest frequency forwards more a joule than the lowest",
            15.0, "%", at_most(), reading("marginally more energy efficient in all configurations");
    },
    run: fig06,
};

fn fig06(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let gain = |cores| per_joule(&router, cores, router.top()) / per_joule(&router, cores, 0);
    let better = (1..=12).filter(|cores| gain(*cores) > 1.0).count() as f64;
    let mut plot = Plot::new(FIG06.title, Axis::new("frequency", "GHz"))
        .panel(Axis::new("efficiency", "packets/J").from_zero());
    for series in over_frequency(&router, |cores, index| per_joule(&router, cores, index)) {
        plot = plot.series(series);
    }
    // Of rate and power: 70 % more and 5 % less with one core, 45 and 25 % with twelve.
    let slow = router.nearest(1.6);
    let printed = [(1, 1.70 * 0.95), (12, 1.45 * 0.75)]
        .map(|(cores, gain)| (3.2, gain * per_joule(&router, cores, slow)));
    let name = "published rates over powers: 1 and 12 cores, of our 1.6 GHz";
    plot = plot.series(Series::points(name, printed.into()).published());
    let percent = |cores| 100.0 * (gain(cores) - 1.0);
    let note = "rates and powers at both ends were fitted";
    let most = (1..=12).map(percent).fold(f64::NEG_INFINITY, f64::max);
    let margin = format!(
        "with one core, {:.0} % with twelve; the printed numbers themselves (70 % more packets and 5 % \
         less power with one core, 45 % and 25 % with twelve) make 62 % and 9 %",
        percent(12)
    );
    Ok(Findings::new(Report::new(FIG06.title).plot(plot))
        .found("niccolini2012.fig06.fastest-best", better, note)
        .found("niccolini2012.fig06.margin", most, margin))
}

/// The tortoise and two hares.
pub(super) static FIG07: Figure = Figure {
    id: "niccolini2012.fig07",
    title: "Hare and tortoise: power at a constant rate, by frequency",
    claims: &claims! {
        ["niccolini2012.fig07", SECTION]
        implied "slowest-best"
            "numbers of cores, of 1, 6 and 12, at which the lowest frequency draws least",
            3.0, "";
    },
    run: fig07,
};

fn fig07(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let speeds = [1.6, 2.4, 3.3].map(|ghz| router.nearest(ghz));
    let columns = [
        Column::count("cores"),
        Column::number("rate", "Mpps", 2),
        Column::number("1.6 GHz", "W", 1),
        Column::number("2.4 GHz", "W", 1),
        Column::number("3.3 GHz", "W", 1),
    ];
    let mut table = Table::new("The rate is what 1.6 GHz sustains at most", columns);
    let mut best = 0.0;
    for cores in [1, 6, 12] {
        let load = router.capacity(cores, speeds[0]);
        let [slow, middle, fast] = speeds.map(|index| router.watts(cores, index, load).0);
        best += f64::from(u8::from(slow < middle && middle < fast));
        let rate = load.0 / 1e6;
        table.row([u64::from(cores).into(), rate.into(), slow.into(), middle.into(), fast.into()]);
    }
    let note = "idle cores in C1, Poisson arrivals: a faster core wakes for single packets and \
                pays an interrupt each time; powers, rates and the interrupt's cost were fitted at both ends, \
                and they decide";
    Ok(Findings::new(Report::new(FIG07.title).table(table)).found(
        "niccolini2012.fig07.slowest-best",
        best,
        note,
    ))
}

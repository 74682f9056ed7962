//! More cores at a lower frequency.

use ebb_power::{CoreState, Depth};
use ebb_report::{
    Axis, Column, Context, ExperimentError, Figure, Findings, Note, Plot, Report, Series, Table,
    claims,
};

use super::bench::{full, mpps, per_joule, router};
use crate::plan::Estimate;

const SECTION: &str = "Niccolini et al. 2012, section 5.2";

/// Strength in numbers at twice the cores and half the frequency.
pub(super) static FIG08: Figure = Figure {
    id: "niccolini2012.fig08",
    title: "Packets per joule of k cores at 3.2 GHz and of 2k cores at 1.6 GHz",
    claims: &claims! {
        ["niccolini2012.fig08", SECTION]
        implied "numbers-win"
            "values of k, of 1 to 6, at which 2k slow cores forward more packets a joule",
            6.0, "";
    },
    run: fig08,
};

fn fig08(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let (slow, fast) = (router.nearest(1.6), router.nearest(3.2));
    let columns = [
        Column::count("k"),
        Column::number("k cores, 3.2 GHz", "packets/J", 0),
        Column::number("2k cores, 1.6 GHz", "packets/J", 0),
    ];
    let mut table = Table::new("At the highest sustained rate", columns);
    let mut won = 0.0;
    for cores in 1..=6 {
        let (few, many) = (per_joule(&router, cores, fast), per_joule(&router, 2 * cores, slow));
        won += f64::from(u8::from(many > few));
        table.row([u64::from(cores).into(), few.into(), many.into()]);
    }
    Ok(Findings::new(Report::new(FIG08.title).table(table)).found(
        "niccolini2012.fig08.numbers-win",
        won,
        "twice the cores at half the clock carry more, because waiting for memory does not slow \
         with the clock",
    ))
}

/// Every cores-frequency pair at its highest rate.
pub(super) static FIG09: Figure = Figure {
    id: "niccolini2012.fig09",
    title: "Power against highest rate of every number of cores and frequency",
    claims: &claims! {
        ["niccolini2012.fig09", SECTION]
        implied "more-is-better" "points at which more cores, slowed to the same rate, draw less",
            100.0, "%", reading("always better");
    },
    run: fig09,
};

fn fig09(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let mut plot = Plot::new(FIG09.title, Axis::new("rate", "Mpps"))
        .panel(Axis::new("power", "W").reaching(100.0, 270.0));
    for cores in [1, 2, 3, 4, 6, 8, 10, 12] {
        let points = (0..=router.top())
            .map(|f| (router.capacity(cores, f).0 / 1e6, full(&router, cores, f)))
            .collect();
        plot = plot.series(Series::points(format!("{cores} cores"), points));
    }
    // Section 3, figure 1 and section 5.2: 29 Mpps at 262 W, 19 Mpps at 25 % less.
    let printed = vec![(29.0, 262.0), (19.0, 0.75 * 262.0)];
    plot =
        plot.series(Series::points("published: 12 cores at 3.3 and 1.6 GHz", printed).published());
    let columns = [
        Column::number("voltage at 1.6 GHz of that at 3.3", "", 2),
        Column::count("pairs"),
        Column::number("more cores draw less", "%", 1),
        Column::number("worst of the others", "W", 2),
    ];
    let mut table = Table::new("Tried: voltage that falls with the clock", columns);
    let flat = compared(&router, &|cores, frequency| full(&router, cores, frequency));
    let mut best = 0.0f64;
    for volts in [1.0, 0.9, 0.8, 0.7, 0.6] {
        let tried = compared(&router, &|cores, frequency| bent(&router, cores, frequency, volts));
        best = best.max(tried.share());
        table.row([volts.into(), tried.all.into(), tried.share().into(), tried.worst.into()]);
    }
    let Compared { all, beaten, worst } = flat;
    let note = format!(
        "{beaten} of {all} pairs of a point and a larger number of cores that reaches its rate \
         without idle time; in the others the two differ by {worst:.1} W at most. Voltage that falls \
         with the clock, tried between the fitted ends, makes it {best:.0} % at best",
    );
    let report = Report::new(FIG09.title).plot(plot).table(table);
    Ok(Findings::new(report).found("niccolini2012.fig09.more-is-better", flat.share(), note))
}

/// Pairs of a point and a larger number of cores slowed to its rate.
struct Compared {
    all: u64,
    /// Those in which more cores draw less.
    beaten: u64,
    /// Most that more cores draw more, W.
    worst: f64,
}

impl Compared {
    fn share(&self) -> f64 {
        100.0 * self.beaten as f64 / self.all as f64
    }
}

/// Watts of a number of cores at a frequency.
type Power<'a> = &'a dyn Fn(u16, u16) -> f64;

fn compared(router: &Estimate, power: Power<'_>) -> Compared {
    let mut compared = Compared { all: 0, beaten: 0, worst: 0.0 };
    for (cores, frequency) in router.states() {
        let (rate, own) = (router.capacity(cores, frequency).0, power(cores, frequency));
        for more in cores + 1..=12 {
            let Some(other) = at_rate(router, more, rate, power) else { continue };
            compared.all += 1;
            compared.beaten += u64::from(other < own);
            compared.worst = compared.worst.max(other - own);
        }
    }
    compared
}

/// Power at the highest rate if active power went with f V² and V with f, from `volts` of the highest
/// voltage at the lowest clock; what was fitted, at both ends, stays.
fn bent(router: &Estimate, cores: u16, frequency: u16, volts: f64) -> f64 {
    let clocks = router.frequencies();
    let ghz = |index: u16| clocks[usize::from(index)].as_ghz();
    let (low, high) = (ghz(0), ghz(router.top()));
    let active = |index: u16| {
        let state =
            CoreState { frequency: clocks[usize::from(index)], busy: 1.0, depth: Depth::C1 };
        router.server().power.core(&state).0
    };
    let share = (ghz(frequency) - low) / (high - low);
    let dynamic = |share: f64| {
        let voltage = volts + (1.0 - volts) * share;
        (low + (high - low) * share) * voltage * voltage
    };
    let bend = (dynamic(share) - dynamic(0.0)) / (dynamic(1.0) - dynamic(0.0)) - share;
    full(router, cores, frequency) + f64::from(cores) * (active(router.top()) - active(0)) * bend
}

/// Power of `cores` at the frequency, between two of the table, whose highest rate is `rate`.
fn at_rate(router: &Estimate, cores: u16, rate: f64, power: Power<'_>) -> Option<f64> {
    let point = |frequency| (router.capacity(cores, frequency).0, power(cores, frequency));
    let steps = (0..router.top()).map(|frequency| (point(frequency), point(frequency + 1)));
    let within = |((low, _), (high, _)): &((f64, f64), (f64, f64))| (*low..=*high).contains(&rate);
    let ((low, from), (high, to)) = steps.into_iter().find(within)?;
    Some(from + (to - from) * (rate - low) / (high - low))
}

/// Cores that have less to do than they could.
pub(super) static FIG11: Figure = Figure {
    id: "niccolini2012.fig11",
    title: "Power against rate with under-used cores in C1, 1.6 GHz",
    claims: &claims! {
        ["niccolini2012.fig11", SECTION]
        predicted "three-save" "3 cores save against 12 at 5 Mpps, \"in excess of\"",
            30.0, "W", at_least();
        implied "fullest-best"
            "rates, of 0.5 to 19 Mpps, at which the fewest cores that carry them draw least",
            100.0, "%", reading("for any packet rate");
    },
    run: fig11,
};

fn fig11(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let power = |cores: u16, rate: f64| router.watts(cores, 0, mpps(rate)).0;
    let capacity = |cores: u16| router.capacity(cores, 0).0 / 1e6;
    let mut plot = Plot::new(FIG11.title, Axis::new("rate", "Mpps"))
        .panel(Axis::new("power", "W").reaching(110.0, 200.0));
    for cores in [1, 2, 3, 6, 12] {
        let steps = (0..=50).map(|step| capacity(cores) * f64::from(step) / 50.0);
        let points = steps.map(|rate| (rate, power(cores, rate))).collect();
        plot = plot.series(Series::line(format!("{cores} cores"), points));
    }
    let most = vec![(5.0, power(12, 5.0) - 30.0)];
    plot = plot.series(Series::points("published: most of 3 cores", most).published());
    let rates: Vec<f64> = (1..=38).map(|step| 0.5 * f64::from(step)).collect();
    let fullest = |rate: &&f64| {
        let able: Vec<u16> = (1..=12).filter(|cores| capacity(*cores) >= **rate).collect();
        let least = able.iter().min_by(|a, b| power(**a, **rate).total_cmp(&power(**b, **rate)));
        least == able.first()
    };
    let share = 100.0 * rates.iter().filter(fullest).count() as f64 / rates.len() as f64;
    let saved = power(12, 5.0) - power(3, 5.0);
    Ok(Findings::new(Report::new(FIG11.title).plot(plot))
        .found(
            "niccolini2012.fig11.three-save",
            saved,
            "twelve drowsy cores wake for almost every packet and pay an interrupt each time",
        )
        .found(
            "niccolini2012.fig11.fullest-best",
            share,
            Note::verdict(
                "of the numbers of cores at 1.6 GHz; each further core adds its fitted power in C1 and its \
                 own fitted interrupts, so that the fits decide",
                "at the other rates a core more sleeps less lightly than it costs",
            ),
        ))
}

/// PowerSave against the lower envelope.
pub(super) static FIG12: Figure = Figure {
    id: "niccolini2012.fig12",
    title: "PowerSave against the cheapest operating point of every rate",
    claims: &claims! {
        ["niccolini2012.fig12", "Niccolini et al. 2012, section 6"]
        implied "two-cores" "most above the optimum at very low rate, with two cores, \"below\"",
            5.0, "W", at_most();
        implied "above-envelope" "most above the optimum at any rate",
            5.0, "W", at_most(), reading("closely tracks");
    },
    run: fig12,
};

/// Power at `rate` of the optimum and of PowerSave, by the powers of figure 9: each point draws
/// what it draws at its highest rate.
fn envelope(router: &Estimate, rate: f64) -> (f64, f64) {
    let load = mpps(rate);
    let able = router.states().filter(|(n, f)| router.capacity(*n, *f).0 >= load.0);
    let least = able.map(|(n, f)| full(router, n, f)).fold(f64::INFINITY, f64::min);
    let (cores, frequency) = router.ladder(load);
    (least, full(router, cores, frequency))
}

fn fig12(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let router = router();
    let (mut optimal, mut powersave) = (Vec::new(), Vec::new());
    let (mut worst, mut at) = (0.0, 0.0);
    let (mut two, mut drowsy) = (0.0f64, 0.0f64);
    for step in 0..=579 {
        let rate = 0.05 * f64::from(step);
        let (least, ours) = envelope(&router, rate);
        optimal.push((rate, least));
        powersave.push((rate, ours));
        if ours - least > worst {
            (worst, at) = (ours - least, rate);
        }
        let (cores, frequency) = router.ladder(mpps(rate));
        if cores == 2 {
            two = two.max(ours - least);
        }
        let rested = router.watts(cores, frequency, mpps(rate)).0;
        drowsy = drowsy.max(rested - router.cheapest(mpps(rate), 0.0).2.0);
    }
    let columns = [
        Column::number("rate", "Mpps", 1),
        Column::count("cores"),
        Column::number("frequency", "GHz", 2),
    ];
    let mut table = Table::new("PowerSave's points", columns);
    for rate in [0.5, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 28.0] {
        let (cores, frequency) = router.ladder(mpps(rate));
        let ghz = router.frequencies()[usize::from(frequency)].as_ghz();
        table.row([rate.into(), u64::from(cores).into(), ghz.into()]);
    }
    let bound = optimal.iter().map(|(rate, least)| (*rate, least + 5.0)).collect();
    let plot = Plot::new(FIG12.title, Axis::new("rate", "Mpps"))
        .panel(Axis::new("power", "W").reaching(110.0, 270.0))
        .series(Series::line("optimal", optimal))
        .series(Series::line("powersave", powersave))
        .series(Series::line("published: 5 W above the optimum", bound).published());
    let note = format!(
        "worst at {at:.2} Mpps, emulated on the powers of figure 9 as the paper does; with the \
         idle time and the interrupts of half-used cores it would be {drowsy:.1} W"
    );
    let each = "each core adds 6.7 W at 1.6 GHz, of which the 25 % that halving the clock of twelve \
                saves demand 6.5 W; \"below 5 W\" would need about 5 W for the second core, which a \
                model linear in the cores cannot give";
    Ok(Findings::new(Report::new(FIG12.title).plot(plot).table(table))
        .found("niccolini2012.fig12.two-cores", two, each)
        .found("niccolini2012.fig12.above-envelope", worst, note))
}

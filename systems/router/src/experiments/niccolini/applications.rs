//! Four applications over a day.

use ebb_des::Summary;
use ebb_report::{
    Axis, Column, Context, ExperimentError, Figure, Findings, Note, Ours, Plot, Report, Series,
    Table, claims,
};

use super::bench::{AS_PUBLISHED, twin};
use crate::Outcome;

const SECTION: &str = "Niccolini et al. 2012, section 7, figure 15";

/// Four applications over a day at 35 % mean utilization.
pub(super) static FIG15: Figure = Figure {
    id: "niccolini2012.fig15",
    title: "Power of four applications over a day at 35 % mean utilization",
    claims: &claims! {
        ["niccolini2012.fig15", SECTION]
        // The fitted powers of cores and the mean load decide it; the range is that of four applications.
        implied "routing-polling" "PowerSave saves against polling, IPv4 routing",
            0.0, "%", between(27.0, 50.0);
        // The costs of the three other applications are assumed.
        calibrated "least-polling" "PowerSave saves against polling, the least of four applications",
            27.0, "%", within(3.0);
        calibrated "most-polling" "PowerSave saves against polling, the most", 50.0, "%", within(3.0);
        implied "routing-napi" "PowerSave saves against NAPI, IPv4 routing",
            0.0, "%", between(12.0, 25.0);
        calibrated "least-napi" "PowerSave saves against NAPI, the least of four applications",
            12.0, "%", within(3.0);
        calibrated "most-napi" "PowerSave saves against NAPI, the most", 25.0, "%", within(3.0);
        implied "polling" "unmodified Click, \"hovering around\", mean of all applications",
            270.0, "W", within(8.0);
        implied "best" "applications, of 4, for which PowerSave draws least", 4.0, "";
        predicted "advantage"
            "load at which PowerSave saves most against NAPI, \"more prominent when the load is fairly low\"",
            0.0, "%", between(10.0, 20.0);
        predicted "lost" "packets that PowerSave loses, IPv4 routing", 0.0, "";
    },
    run,
};

/// Names in scenarios and in claims.
const APPLICATIONS: [(&str, &str); 4] = [
    ("ipv4-routing", "routing"),
    ("netflow", "netflow"),
    ("ipsec", "ipsec"),
    ("redundancy-elimination", "redundancy"),
];
const POLICIES: [&str; 3] = ["poll", "napi", "powersave"];
/// Independent days.
const SEEDS: u64 = 4;
/// Independent runs at constant loads.
const RUNS: u64 = 12;

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::text("application"),
        Column::number("polling", "W", 1),
        Column::number("napi", "W", 1),
        Column::number("powersave", "W", 1),
        Column::number("saved against polling", "%", 1),
        Column::number("saved against napi", "%", 1),
        Column::number("ours, saved against polling", "%", 1),
        Column::number("ours, saved against napi", "%", 1),
    ];
    let mut table = Table::new("Mean over the day", columns);
    let mut report = Report::new(FIG15.title).text(
        "The day is a weekday of the UK backbone, since figure 14 prints no numbers, compressed and \
         simulated packet by packet, with frames of 256 bytes, which four 10 Gb/s ports bring at the \
         peak of the cheapest application. The costs of all applications but routing are assumed: the \
         paper prints none. What counts here is utilization, which is 35 % for all of them. PowerSave \
         is the paper's; ours, with holding times, has a slower day in the slotted engine, whose power \
         is within 7 % of the packets'.",
    );
    let (mut found, mut saved) = (Vec::new(), Vec::new());
    let (mut polled, mut best, mut lost) = (NONE, NONE, NONE);
    for (index, (application, short)) in APPLICATIONS.into_iter().enumerate() {
        context.progress.at(index as f64 / 4.0, application);
        let [from_poll, from_napi, poll, napi, powersave, least, drops] =
            context.over_seeds(SEEDS, |context| numbers(context, application))?;
        if index == 0 {
            found.push((format!("niccolini2012.fig15.{short}-polling"), from_poll));
            found.push((format!("niccolini2012.fig15.{short}-napi"), from_napi));
            lost = drops;
        }
        saved.push([from_poll, from_napi]);
        (polled, best) = (sum(polled, poll), sum(best, least));
        let ours = holding(context, application)?.power.0;
        let against = |other: f64| 100.0 * (1.0 - ours / other);
        table.row([
            application.into(),
            poll.mean.into(),
            napi.mean.into(),
            powersave.mean.into(),
            from_poll.mean.into(),
            from_napi.mean.into(),
            against(poll.mean).into(),
            against(napi.mean).into(),
        ]);
        let runs = collect(POLICIES.map(|policy| day(context, application, policy)))?;
        report = report.plot(over_the_day(application, &runs));
    }
    for (at, than) in ["polling", "napi"].into_iter().enumerate() {
        let by = |one: &&Ours, other: &&Ours| one.mean.total_cmp(&other.mean);
        let all = || saved.iter().map(|each| &each[at]);
        let ends = [("least", all().min_by(by)), ("most", all().max_by(by))];
        for (end, saved) in ends {
            found.extend(saved.map(|ours| (format!("niccolini2012.fig15.{end}-{than}"), *ours)));
        }
    }
    let (advantage, best_at) = advantage(context)?;
    let mut all = Findings::new(report.table(table).plot(advantage));
    for (id, saved) in found {
        all = all.found(&id, saved, note(&id));
    }
    let quarter = |half: f64| half / 4.0;
    let polled = Ours {
        mean: polled.mean / 4.0,
        half_width_95: polled.half_width_95.map(quarter),
        ..polled
    };
    let costs = "mean over the day; polling and NAPI keep all cores out of C6, whose fitted powers decide, and the \
                 costs of the applications beside routing are assumed";
    Ok(all
        .found("niccolini2012.fig15.polling", polled, "the fitted 262 W and what the traffic adds")
        .found("niccolini2012.fig15.best", best, costs)
        .found("niccolini2012.fig15.advantage", best_at, ADVANTAGE)
        .found("niccolini2012.fig15.lost", lost, LOST))
}

/// Before anything is added.
const NONE: Ours = Ours { mean: 0.0, half_width_95: Some(0.0), seeds: 1 };

/// The sum of two numbers whose chance is independent.
fn sum(one: Ours, other: Ours) -> Ours {
    let both = one.half_width_95.zip(other.half_width_95);
    Ours {
        mean: one.mean + other.mean,
        half_width_95: both.map(|(one, other)| one.hypot(other)),
        seeds: one.seeds.max(other.seeds),
    }
}

const LOST: &str = "the costs of the other applications are assumed; mean of the days; a day of 24 hours passes in less than a \
                    second, so that the load rises a hundred thousand times as fast as the paper's";
const ADVANTAGE: &str = "W saved at constant loads of 2 to 90 %, IPv4 routing, frames of 256 bytes: where the mean curve is \
                         highest, and how far loads are from there that chance may put above it";

/// Of one day: what PowerSave saves against both, the three powers, 1 where PowerSave's is the least and
/// polling's the most, packets it lost.
fn numbers(context: &Context<'_>, application: &str) -> Result<[f64; 7], ExperimentError> {
    let runs = collect(POLICIES.map(|policy| day(context, application, policy)))?;
    let [poll, napi, powersave] = [0, 1, 2].map(|index| runs[index].power.0);
    let against = |other: f64| 100.0 * (1.0 - powersave / other);
    let least = f64::from(u8::from(powersave < napi && napi < poll));
    let lost = runs[2].counts.lost as f64;
    Ok([against(poll), against(napi), poll, napi, powersave, least, lost])
}

fn note(id: &str) -> Note {
    if id.contains("least-") || id.contains("most-") {
        return Note::verdict(
            "the costs of the applications beside routing are assumed",
            "the costs of the applications beside routing are assumed; where cycles dominate, rate and, in this \
             model, active power both grow in proportion to the clock, so that slow cores save little over fast \
             ones that sleep",
        );
    }
    let met = "the fitted powers of cores at the mean load decide it; the paper does not say which application saved how \
               much, so that the printed range is that of all four";
    Note::verdict(met, met)
}

fn collect<const N: usize>(
    runs: [Result<Outcome, ExperimentError>; N],
) -> Result<Vec<Outcome>, ExperimentError> {
    runs.into_iter().collect()
}

/// A day, s.
fn seconds(context: &Context<'_>) -> f64 {
    if context.quick { 0.004 } else { 0.6 }
}

/// A compressed day, packet by packet, under the published policies.
fn day(context: &Context<'_>, application: &str, policy: &str) -> Result<Outcome, ExperimentError> {
    let seconds = seconds(context);
    let compress = 86_400.0 / seconds;
    let text = format!(
        "load = 0.35\nwarmup_s = 0.02\nduration_s = {seconds}\npolicy.name = \"{policy}\"\n\
         policy.settings = {AS_PUBLISHED}\nserver.ordering = \"none\"\n\
         application.name = \"{application}\"\n\
         traffic = {{ profile = \"uk\", compress = {compress}, sizes = 256 }}\n"
    );
    twin(context, &text)
}

/// A day of 400 s under the live router's PowerSave, in slots.
fn holding(context: &Context<'_>, application: &str) -> Result<Outcome, ExperimentError> {
    let seconds = if context.quick { 0.05 } else { 400.0 };
    let compress = 86_400.0 / seconds;
    let text = format!(
        "load = 0.35\nengine = \"slot\"\nwarmup_s = 0.2\nduration_s = {seconds}\n\
         policy.name = \"powersave\"\napplication.name = \"{application}\"\n\
         traffic = {{ profile = \"uk\", compress = {compress}, sizes = 256 }}\n"
    );
    twin(context, &text)
}

/// What PowerSave saves against NAPI at constant loads, and the load where it is most.
fn advantage(context: &Context<'_>) -> Result<(Plot, Ours), ExperimentError> {
    const LOADS: [f64; 14] =
        [2.0, 5.0, 10.0, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0, 40.0, 50.0, 70.0, 90.0];
    let seconds = if context.quick { 0.002 } else { 0.05 };
    let saved = |context: &Context<'_>, load: f64| {
        let run = |policy: &str| {
            let text = format!(
                "load = {}\nwarmup_s = 0.05\nduration_s = {seconds}\npolicy.name = \"{policy}\"\n\
                 policy.settings = {AS_PUBLISHED}\nserver.ordering = \"none\"\n\
                 traffic.sizes = 256\n",
                load / 100.0
            );
            twin(context, &text).map(|run| run.power.0)
        };
        Ok::<f64, ExperimentError>(run("napi")? - run("powersave")?)
    };
    let mut runs: Vec<[f64; LOADS.len()]> = Vec::new();
    for seed in context.seeds(RUNS) {
        let context = Context { seed, ..*context };
        let mut watts = [0.0; LOADS.len()];
        for (watts, load) in watts.iter_mut().zip(LOADS) {
            *watts = saved(&context, load)?;
        }
        runs.push(watts);
    }
    let mean = |of: &dyn Fn(&[f64; LOADS.len()]) -> f64| -> Ours {
        let mut values = Summary::new();
        runs.iter().for_each(|run| values.push(of(run)));
        values.into()
    };
    let curve: Vec<(f64, f64)> =
        (0..LOADS.len()).map(|at| (LOADS[at], mean(&|run| run[at]).mean)).collect();
    let top = (0..LOADS.len()).max_by(|a, b| curve[*a].1.total_cmp(&curve[*b].1)).unwrap_or(0);
    let most = curve[top].1;
    // Loads at which the same arrivals save so nearly as much that chance may decide.
    let near = (0..LOADS.len()).filter(|&at| {
        let less = mean(&|run| run[top] - run[at]);
        less.mean <= less.half_width_95.unwrap_or(f64::INFINITY)
    });
    let off = near.map(|at| (LOADS[at] - LOADS[top]).abs()).fold(0.0, f64::max);
    let best = Ours { mean: LOADS[top], half_width_95: Some(off), seeds: runs.len() as u32 };
    let plot = Plot::new("What PowerSave saves against NAPI", Axis::new("load", "%"))
        .panel(Axis::new("power saved", "W").from_zero())
        .series(Series::line("IPv4 routing", curve))
        .series(Series::published_level("published: most is saved here", (10.0, 20.0), most));
    Ok((plot, best))
}

fn over_the_day(application: &str, runs: &[Outcome]) -> Plot {
    let hours = 24.0 / runs[0].span_s;
    let mut plot = Plot::new(application, Axis::new("time", "h"))
        .panel(Axis::new("power", "W").reaching(100.0, 280.0));
    for (policy, run) in POLICIES.into_iter().zip(runs) {
        let points = run.samples.iter();
        let points = points.map(|sample| ((sample.at_s - sample.span_s) * hours, sample.watts.0));
        plot = plot.series(Series::step(policy, points.collect()));
    }
    // Polling's power as printed, and PowerSave's mean: 27 to 50 % below it.
    let polling = runs[0].power.0;
    let mean = Series::points(
        "published: mean of powersave, of our polling",
        vec![(12.0, 0.615 * polling)],
    );
    plot = plot
        .series(Series::published_level("published: polling", (0.0, 24.0), 270.0))
        .series(mean.within(vec![0.115 * polling]).published());
    let offered = runs[2].samples.iter();
    let offered = offered.map(|s| ((s.at_s - s.span_s) * hours, s.offered_pps / 1e6)).collect();
    plot.panel(Axis::new("offered", "Mpps").from_zero()).series(Series::area("offered", offered))
}

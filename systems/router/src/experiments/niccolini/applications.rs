use ebb_report::{
    Axis, Claim, Column, Context, ExperimentError, Findings, Plot, Report, Series, Table,
};

use super::bench::twin;
use crate::Outcome;
use crate::experiments::Figure;

const SECTION: &str = "Niccolini et al. 2012, section 7, figure 15";

const fn against_polling(id: &'static str, quantity: &'static str) -> Claim {
    Claim::predicted(id, SECTION, quantity, 0.0, "%").between(27.0, 50.0)
}

const fn against_napi(id: &'static str, quantity: &'static str) -> Claim {
    Claim::predicted(id, SECTION, quantity, 0.0, "%").between(12.0, 25.0)
}

/// Four applications over a day at 35 % mean utilization.
pub(super) static FIG15: Figure = Figure {
    id: "niccolini2012.fig15",
    title: "Power of four applications over a day at 35 % mean utilization",
    claims: &[
        against_polling(
            "niccolini2012.fig15.routing-polling",
            "PowerSave saves against polling, IPv4 routing",
        ),
        against_polling(
            "niccolini2012.fig15.netflow-polling",
            "PowerSave saves against polling, NetFlow",
        ),
        against_polling(
            "niccolini2012.fig15.ipsec-polling",
            "PowerSave saves against polling, IPsec",
        ),
        against_polling(
            "niccolini2012.fig15.redundancy-polling",
            "PowerSave saves against polling, redundancy elimination",
        ),
        against_napi(
            "niccolini2012.fig15.routing-napi",
            "PowerSave saves against NAPI, IPv4 routing",
        ),
        against_napi("niccolini2012.fig15.netflow-napi", "PowerSave saves against NAPI, NetFlow"),
        against_napi("niccolini2012.fig15.ipsec-napi", "PowerSave saves against NAPI, IPsec"),
        against_napi(
            "niccolini2012.fig15.redundancy-napi",
            "PowerSave saves against NAPI, redundancy elimination",
        ),
        Claim::predicted(
            "niccolini2012.fig15.polling",
            SECTION,
            "unmodified Click, \"hovering around\", mean of all applications",
            270.0,
            "W",
        )
        .within(8.0),
        Claim::predicted(
            "niccolini2012.fig15.best",
            SECTION,
            "applications, of 4, for which PowerSave draws least",
            4.0,
            "",
        ),
        Claim::predicted(
            "niccolini2012.fig15.lost",
            SECTION,
            "packets that PowerSave loses",
            0.0,
            "",
        ),
    ],
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

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = if context.quick { 0.05 } else { 400.0 };
    let columns = [
        Column::text("application"),
        Column::number("polling", "W", 1),
        Column::number("napi", "W", 1),
        Column::number("powersave", "W", 1),
        Column::number("saved against polling", "%", 1),
        Column::number("saved against napi", "%", 1),
        Column::count("lost by powersave"),
    ];
    let mut table = Table::new("Mean over the day", columns);
    let mut report = Report::new(FIG15.title).text(
        "The day is a weekday of the UK backbone, since figure 14 prints no numbers, with frames of \
         256 bytes, which four 10 Gb/s ports bring at the peak of the cheapest application. The costs of all applications but routing are assumed: \
         the paper prints none. What counts here is utilization, which is 35 % for all of them.",
    );
    let mut findings = Vec::new();
    let (mut polled, mut best, mut lost) = (0.0, 0.0, 0u64);
    for (index, (application, short)) in APPLICATIONS.into_iter().enumerate() {
        context.progress.at(index as f64 / 4.0, application);
        let runs = POLICIES.map(|policy| day(context, application, policy, seconds));
        let [poll, napi, powersave] = collect(runs)?;
        let against = |other: &Outcome| 100.0 * (1.0 - powersave.energy.0 / other.energy.0);
        let (from_poll, from_napi) = (against(&poll), against(&napi));
        findings.push((format!("niccolini2012.fig15.{short}-polling"), from_poll));
        findings.push((format!("niccolini2012.fig15.{short}-napi"), from_napi));
        polled += poll.power.0 / 4.0;
        best +=
            f64::from(u8::from(powersave.power.0 < napi.power.0 && napi.power.0 < poll.power.0));
        lost += powersave.counts.lost;
        table.row([
            application.into(),
            poll.power.0.into(),
            napi.power.0.into(),
            powersave.power.0.into(),
            from_poll.into(),
            from_napi.into(),
            powersave.counts.lost.into(),
        ]);
        report = report.plot(over_the_day(application, seconds, [&poll, &napi, &powersave]));
    }
    let mut all = Findings::new(report.table(table));
    for (id, saved) in &findings {
        all = all.found(id, *saved, note(id));
    }
    Ok(all
        .found("niccolini2012.fig15.polling", polled, "262 W and what the traffic adds")
        .found("niccolini2012.fig15.best", best, "mean over the day")
        .found("niccolini2012.fig15.lost", lost as f64, "of all four applications"))
}

fn note(id: &str) -> &'static str {
    if id.ends_with("napi") && (id.contains("ipsec") || id.contains("redundancy")) {
        "where cycles dominate, rate and, in this model, active power both grow in proportion to \
         the clock, so that slow cores save little over fast ones that sleep; the linear power was \
         fitted to routing, and lower voltage at lower clock would add to the saving. The \
         application's costs are assumed"
    } else if id.contains("routing") {
        "no parameter was fitted to it"
    } else {
        "no parameter was fitted to it; the application's costs are assumed"
    }
}

fn collect<const N: usize>(
    runs: [Result<Outcome, ExperimentError>; N],
) -> Result<[Outcome; N], ExperimentError> {
    let runs: Vec<Outcome> = runs.into_iter().collect::<Result<_, _>>()?;
    Ok(runs.try_into().expect("as many as there were"))
}

/// A day compressed into `seconds` in the slotted engine.
fn day(
    context: &Context<'_>,
    application: &str,
    policy: &str,
    seconds: f64,
) -> Result<Outcome, ExperimentError> {
    let compress = 86_400.0 / seconds;
    let text = format!(
        "load = 0.35\nengine = \"slot\"\nwarmup_s = 0.2\nduration_s = {seconds}\n\
         policy.name = \"{policy}\"\napplication.name = \"{application}\"\n\
         traffic = {{ profile = \"uk\", compress = {compress}, sizes = 256 }}\n"
    );
    twin(context, &text)
}

fn over_the_day(application: &str, seconds: f64, runs: [&Outcome; 3]) -> Plot {
    let hours = 24.0 / seconds;
    let mut plot = Plot::new(application, Axis::new("time", "h"))
        .panel(Axis::new("power", "W").reaching(100.0, 280.0));
    for (policy, run) in POLICIES.into_iter().zip(runs) {
        let points = run.samples.iter();
        let points = points.map(|sample| ((sample.at_s - sample.span_s) * hours, sample.watts));
        plot = plot.series(Series::step(policy, points.collect()));
    }
    let offered = runs[2].samples.iter();
    let offered = offered.map(|s| ((s.at_s - s.span_s) * hours, s.offered_pps / 1e6)).collect();
    plot.panel(Axis::new("offered", "Mpps").from_zero()).series(Series::area("offered", offered))
}

//! The paper's summary of itself.

use ebb_report::{
    Axis, Column, Context, ExperimentError, Figure, Findings, Note, Plot, Report, Series, Table,
    claims,
};

use super::bench::{AS_PUBLISHED, twin};

const CONCLUSION: &str = "Niccolini et al. 2012, section 8";
const ABSTRACT: &str = "Niccolini et al. 2012, abstract";

/// The paper's summary of itself.
pub(super) static WHOLE: Figure = Figure {
    id: "niccolini2012.text",
    title: "PowerSave from no load to overload",
    claims: &claims! {
        ["niccolini2012.text", CONCLUSION]
        implied "least" "lowest share of the original power, at low load", 50.0, "%", within(2.0);
        predicted "most" "highest share of the original power, at full load",
            100.0, "%", within(2.0);
        ["niccolini2012.text", ABSTRACT]
        implied "peak" "highest rate under PowerSave, which \"matches the peak performance\"",
            29.0, "Mpps", within(0.5);
    },
    run,
};

/// Independent runs.
const SEEDS: u64 = 4;

/// Power at a load, as a share of polling's in percent: the published PowerSave packet by packet,
/// ours with its holding times in slots.
fn share(context: &Context<'_>, load: f64, published: bool) -> Result<f64, ExperimentError> {
    let duration = if context.quick { 0.002 } else { 0.05 };
    let rest = if published {
        format!("policy.settings = {AS_PUBLISHED}\nserver.ordering = \"none\"\nwarmup_s = 0.05\n")
    } else {
        "engine = \"slot\"\nwarmup_s = 0.3\n".to_owned()
    };
    let run = |policy: &str| {
        let text =
            format!("load = {load}\nduration_s = {duration}\npolicy.name = \"{policy}\"\n{rest}");
        twin(context, &text).map(|run| run.power.0)
    };
    Ok(100.0 * run("powersave")? / run("poll")?)
}

/// Mpps delivered of 31 offered.
fn flooded(context: &Context<'_>) -> Result<f64, ExperimentError> {
    let seconds = if context.quick { 0.002 } else { 0.02 };
    let flood = format!(
        "duration_s = {seconds}\nwarmup_s = 0.02\npolicy.name = \"powersave\"\n\
         policy.settings = {AS_PUBLISHED}\ntraffic.rate_mpps = 31.0\n"
    );
    let flooded = twin(context, &flood)?;
    Ok(flooded.counts.delivered as f64 / flooded.span_s / 1e6)
}

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let (mut published, mut ours) = (Vec::new(), Vec::new());
    for step in 0..=10 {
        let load = if step == 0 { 0.01 } else { 0.1 * f64::from(step) };
        published.push((100.0 * load, share(context, load, true)?));
        ours.push((100.0 * load, share(context, load, false)?));
    }
    let [least, most, rate] = context.over_seeds(SEEDS, |context| {
        Ok([share(context, 0.01, true)?, share(context, 1.0, true)?, flooded(context)?])
    })?;
    let [own_least, own_most] = [ours[0].1, ours[ours.len() - 1].1];
    let columns = [
        Column::text("powersave"),
        Column::number("least", "%", 1),
        Column::number("most", "%", 1),
    ];
    let mut table = Table::new("Share of the original's power", columns);
    table.row(["as published".into(), least.mean.into(), most.mean.into()]);
    table.row(["with holding times".into(), own_least.into(), own_most.into()]);
    let plot = Plot::new(WHOLE.title, Axis::new("load", "%"))
        .panel(Axis::new("power of the original's", "%").from_zero())
        .series(Series::line("as published", published))
        .series(Series::line("with holding times", ours))
        .series(Series::points("published", vec![(1.0, 50.0), (100.0, 100.0)]).published());
    let one = "at 1 % load: the fitted idle server and one core, of the fitted 262 W; \"between 50% and 100%\" is \
               a round number, which table 1 itself is below (115 W of 262 W)";
    let full = Note::verdict(
        "at 100 % load",
        "at 100 % load queues still run low for moments, and the published algorithm steps down at once",
    );
    let peak = "the fitted 29 Mpps; offered 31 Mpps, packet by packet";
    Ok(Findings::new(Report::new(WHOLE.title).table(table).plot(plot))
        .found("niccolini2012.text.least", least, one)
        .found("niccolini2012.text.most", most, full)
        .found("niccolini2012.text.peak", rate, peak))
}

//! XY routing flit by flit (Li 2012, table 6.1).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Note, Ours, Report, Table, claims,
};
use ebb_scenario::{Document, MemoryFiles};

use super::{plans, problem, routing};
use crate::Normalise;

const SOURCE: &str = "Li 2012, Table 6.1";

/// Published with a precision below 5 % at 95 % confidence, five runs of a flit-level simulator.
///
/// Where everything offered arrives, power without DVFS is the load and power with it the load over
/// alpha squared, so all follow from the normalisation: implied. The simulation shows that at
/// `alpha = 1 / rho`, where the fullest link has no time left, nearly everything does arrive.
const CLAIMS: &[Claim] = &claims! {
    ["li2012.table6.1", SOURCE]
    implied "nodvfs.0.8" "power without DVFS, load 0.8", 0.806, "", percent(5.0);
    implied "nodvfs.0.6" "power without DVFS, load 0.6", 0.602, "", percent(5.0);
    implied "nodvfs.0.4" "power without DVFS, load 0.4", 0.412, "", percent(5.0);
    implied "nodvfs.0.2" "power without DVFS, load 0.2", 0.201, "", percent(5.0);
    implied "dvfs.0.8" "power with DVFS, load 0.8", 0.513, "", percent(5.0);
    implied "dvfs.0.6" "power with DVFS, load 0.6", 0.215, "", percent(5.0);
    implied "dvfs.0.4" "power with DVFS, load 0.4", 0.0643, "", percent(5.0);
    implied "dvfs.0.2" "power with DVFS, load 0.2", 0.0223, "", percent(5.0);
    implied "actual.0.8" "actual ratio, load 0.8", 1.57, "", percent(5.0);
    implied "actual.0.6" "actual ratio, load 0.6", 2.86, "", percent(5.0);
    implied "actual.0.4" "actual ratio, load 0.4", 6.40, "", percent(5.0);
    implied "actual.0.2" "actual ratio, load 0.2", 9.02, "", percent(5.0);
    implied "ratio.0.8" "theoretical ratio, load 0.8", 1.56, "", within(0.005);
    implied "ratio.0.6" "theoretical ratio, load 0.6", 2.78, "", within(0.005);
    implied "ratio.0.4" "theoretical ratio, load 0.4", 6.25, "", within(0.005);
    implied "ratio.0.2" "theoretical ratio, load 0.2", 9.0, "", within(0.005);
    ["li2012.s6.6", "Li 2012, section 6.6"]
    predicted "load_max" "sustainable load per node", 5.2, "Mflit/s", within(0.05);
};

/// Table 6.1: XY with and without DVFS under hot-spot traffic, flit by flit.
pub(super) static TABLE_61: Figure = Figure {
    id: "li2012.table6.1",
    title: "XY routing with and without DVFS under hot-spot traffic",
    claims: CLAIMS,
    run: table_61,
};

/// Below load 1, from the top of the table.
const LOADS: [&str; 4] = ["0.8", "0.6", "0.4", "0.2"];
/// Independent runs, as published.
const SEEDS: u64 = 5;
/// Mflit/s that a link of 1 Gbit/s carries, of 32 bits each.
const LINK: f64 = 31.25;

/// What a run of the flit simulator comes to.
struct Run {
    power: f64,
    power_nodvfs: f64,
    stable: bool,
}

/// Section 6.6's network: VOQ of 50 flits, packets of 5 to 10, elements at 1 GHz.
fn flits(context: &Context<'_>, load: f64, alpha: f64) -> Result<Run, ExperimentError> {
    let (warmup, sample) = if context.quick { (1_000, 4_000) } else { (50_000, 200_000) };
    let text = format!(
        "mesh = \"5x5\"\ntraffic = \"hotspot\"\nnormalise = \"xy\"\nload = {load}\nalpha = {alpha}\n\
         alpha_max = 3\npe_mhz = 1000\nruns = 1\n[router]\nkind = \"voq\"\ndepth = 50\n\
         [packets]\nmin = 5\nmax = 10\n\
         [run]\nwarmup = {warmup}\nsample = {sample}\nsamples_min = 1\nsamples_max = 1\n"
    );
    let document = Document::parse("table.toml", &text).map_err(ExperimentError::from_error)?;
    let none = MemoryFiles::new();
    let report = crate::simulate::simulate(&document, &none, context.seed, context.progress)
        .map_err(ExperimentError::from_error)?;
    let number = |key: &str| report.figures.get(key).and_then(serde_json::Value::as_f64);
    let stable = report.figures.get("status").is_some_and(|status| status == "stable");
    let (power, power_nodvfs) = (number("power"), number("power_nodvfs"));
    let missing = || ExperimentError("the simulator reports no power".to_owned());
    let (power, power_nodvfs) = (power.ok_or_else(missing)?, power_nodvfs.ok_or_else(missing)?);
    Ok(Run { power, power_nodvfs, stable })
}

/// The expansion factor that section 6.6 sets.
fn alpha(load: f64) -> f64 {
    (1.0 / load).min(3.0)
}

/// Power without and with DVFS relative to load 1, their ratio, and whether the slowed network still
/// kept up.
fn at(context: &Context<'_>, load: f64) -> Result<[f64; 4], ExperimentError> {
    let full = flits(context, 1.0, 1.0)?;
    let (fast, slow) = (flits(context, load, 1.0)?, flits(context, load, alpha(load))?);
    let (plain, scaled) = (fast.power_nodvfs / full.power_nodvfs, slow.power / full.power);
    Ok([plain, scaled, plain / scaled, f64::from(u8::from(slow.stable))])
}

/// The largest load that the network sustains without DVFS, in units of what fills XY's fullest link.
fn sustained(context: &Context<'_>) -> Result<f64, ExperimentError> {
    let (mut low, mut high) = (0.5, 1.2);
    for _ in 0..if context.quick { 2 } else { 7 } {
        let load = (low + high) / 2.0;
        *(if flits(context, load, 1.0)?.stable { &mut low } else { &mut high }) = load;
    }
    Ok(low)
}

fn table_61(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [
        Column::number("load", "", 1),
        Column::number("no DVFS", "", 4),
        Column::number("DVFS", "", 4),
        Column::number("actual ratio", "", 3),
        Column::number("alpha squared", "", 3),
        Column::number("runs whose queues settled", "", 1),
    ];
    let mut table = Table::new("Power of XY, relative to load 1, flit by flit", columns);
    let mut found: Vec<(String, Ours)> = Vec::new();
    let mut scale = 0.0;
    for (index, name) in LOADS.into_iter().enumerate() {
        context.progress.at(index as f64 / LOADS.len() as f64, "flit by flit");
        let load: f64 = name.parse().expect("a number");
        let [plain, scaled, actual, settled] =
            context.over_seeds(SEEDS, |context| at(context, load))?;
        let mut problem = problem("hotspot", load, Normalise::Xy, 1);
        (problem.routing, problem.bound) = ("xy".to_owned(), false);
        let plan = plans(&problem, context, 1)?.swap_remove(0);
        let ratio = 1.0 / routing(&plan, "xy").unwrap_or(f64::NAN);
        scale = plan.scale / load;
        let numbers = [load, plain.mean, scaled.mean, actual.mean, ratio];
        let settled = settled.mean * f64::from(settled.seeds);
        table.row(numbers.into_iter().chain([settled]).map(Into::into));
        found.push((format!("li2012.table6.1.nodvfs.{name}"), plain));
        found.push((format!("li2012.table6.1.dvfs.{name}"), scaled));
        found.push((format!("li2012.table6.1.actual.{name}"), actual));
        found.push((format!("li2012.table6.1.ratio.{name}"), ratio.into()));
    }
    let report = Report::new(TABLE_61.title).text(SETTLES).table(table);
    let mut findings = Findings::new(report);
    for (claim, ours) in found {
        let note = if claim.contains("ratio") { "alpha squared" } else { FLITS };
        findings = findings.found(&claim, ours, Note::verdict(note, CRITICAL));
    }
    let [most] = context
        .over_seeds(SEEDS, |context| sustained(context).map(|share| [share * scale * LINK]))?;
    let note = format!(
        "largest load whose queues settle, by bisection. XY's fullest link is full at {:.2}, 31.25 \
         Mflit/s over 6.5, the tiles' worth of traffic on it: 10 tiles x 0.6 to the centre, their 0.4/24 \
         to it, and what passes it. The published value is 31.25/6.0, which counts the hot-spot share \
         alone.",
        LINK * scale
    );
    Ok(findings.found("li2012.s6.6.load_max", most, note))
}

const FLITS: &str = "flit by flit, VOQ of 50 flits, packets of 5 to 10, alpha = 1/load, at most 3";
const CRITICAL: &str = "at alpha = 1/load the fullest link has no slot to spare, and what wormhole \
                        switching and greedy matching leave empty there is not delivered";
const SETTLES: &str = "At alpha = 1/load the fullest link is offered exactly what it carries. Its queue is \
                       then a random walk without drift: it never settles, and the mean latency is that of \
                       the length of the run. Power does not depend on the queue but on what is delivered, \
                       which falls short of what is offered by the growth of the queues alone: that is why \
                       the table can be computed at alpha = 1/load although no latency can.";

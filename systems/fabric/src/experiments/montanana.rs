//! Montañana, Koibuchi, Matsutani and Amano 2010, Figs. 3 to 7: what each scheme costs when links of
//! an 8 x 8 torus go off with the traffic and come on again.
//!
//! The paper does not say which links, which routing function, at which rates, or when exactly. Here:
//! up*/down* on one lane per set; one link of every row; rates from a fifth to four fifths of what
//! up*/down* carries; off when the rate has fallen to half, on when it has risen to a quarter, since
//! capacity must be there before the load is.

use ebb_des::Seed;
use ebb_report::{
    Cell, Claim, Column, Context, Details, ExperimentError, Figure, Findings, Note, Ours, Plot,
    Report, Series, Table, claims,
};

use crate::regulator::power::PortPower;
use crate::routing::{self, Options};
use crate::schemes;
use crate::sim::{Pattern, Physics, Traffic};
use crate::simulate::{Change, Outcome, Run, latency_peak, time_plot};
use crate::topology::{HostId, Link, Topology, grid};

/// The experiment.
pub static FIGURES: Figure = Figure {
    id: "montanana2010.fig3-7",
    title: "Reconfiguration schemes when links of an 8 x 8 torus go off and on",
    claims: &CLAIMS,
    run: figures,
};

const SOURCE: &str = "Montañana et al. 2010, section 4.2, Figs. 3-7";

const CLAIMS: [Claim; 9] = claims! {
    ["montanana2010.fig7b", "Montañana et al. 2010, abstract and Fig. 7b"]
    // Whether control packets go first was chosen after this figure was seen.
    calibrated "ds"
        "most that the Double Scheme takes off the peak latency of static reconfiguration",
        95.0, "%", within(5.0);
    ["montanana2010.fig3", "Montañana et al. 2010, section 4.2, Fig. 3"]
    predicted "st"
        "peak latency of static reconfiguration at the low rate over the mean latency without one",
        10.0, "", at_least(),
        reading("heavy packet latency during the on/off link operations even under low traffic");
    ["montanana2010.fig6", SOURCE]
    predicted "overhead" "mean latency while the Double Scheme runs, above that without a change",
        10.0, "%", at_most(), reading("almost no overhead");
    ["montanana2010.s4", SOURCE]
    predicted "reactivation"
        "peak latency of reactivating over deactivating, mean of the rates, the worst scheme",
        1.0, "", at_most(), reading("smaller than that when the link is deactivated in all the reconfiguration schemes");
    // "Slightly": by a quarter at most; half would be halved. One sentence says it of both, of two quantities.
    ["montanana2010.fig4", "Montañana et al. 2010, abstract and Fig. 4"]
    predicted "srla" "peak latency of SR-LA over static reconfiguration, mean",
        0.0, "", between(0.75, 1.0), reading("slightly reduce the peak packet latency");
    ["montanana2010.fig5", "Montañana et al. 2010, abstract and Fig. 5"]
    predicted "srpda" "peak latency of SR-PDA over static reconfiguration, mean",
        0.0, "", between(0.75, 1.0), reading("slightly reduce the peak packet latency");
    ["montanana2010.fig7a", "Montañana et al. 2010, abstract and Fig. 7a"]
    predicted "sr" "reconfiguration time of SR-PDA over static, mean",
        0.0, "", between(0.75, 1.0), reading("slightly reduce");
    predicted "srla" "reconfiguration time of SR-LA over static, mean",
        0.0, "", between(0.75, 1.0), reading("slightly reduce");
    ["montanana2010.fig1", "Montañana et al. 2010, section 2.2, Fig. 1"]
    predicted "westfirst"
        "links of an 8 x 8 mesh of which none can be off under the west-first turn model",
        50.0, "%", within(0.5);
};

const SCHEMES: [&str; 4] = ["st", "sr-la", "sr-pda", "ds"];

/// Offered load of each host and what the paper calls it.
const RATES: [(&str, f64); 3] = [("low", 0.03), ("medium", 0.07), ("high", 0.12)];

/// One scheme at one rate.
struct Cost {
    rate: &'static str,
    scheme: &'static str,
    /// Deactivation, then reactivation.
    operations: [Operation; 2],
    outcome: Outcome,
}

struct Operation {
    reconfiguration_us: f64,
    calm_us: f64,
    peak_us: f64,
    /// Mean latency in the same time of a run without changes, µs.
    quiet_us: f64,
    /// Mean latency during the change over that.
    rise: f64,
}

fn figures(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let topology = grid::torus(&[8, 8], 1).map_err(ExperimentError::from_error)?;
    let mut first = None;
    let mut done = 0.0;
    let numbers = context.over_seeds(SEEDS, |context| {
        context.progress.at(done / SEEDS as f64, "simulating");
        done += 1.0;
        let costs = simulated(&topology, context)?;
        let numbers = numbers(&costs);
        first.get_or_insert(costs);
        Ok(numbers)
    })?;
    Ok(findings(&topology, &first.unwrap_or_default(), numbers, context))
}

/// Independent runs; the schemes have the same traffic in each.
const SEEDS: u64 = 5;

/// Every scheme at every rate.
fn simulated(topology: &Topology, context: &Context<'_>) -> Result<Vec<Cost>, ExperimentError> {
    let rates = if context.quick { &RATES[1..2] } else { &RATES[..] };
    let mut costs = Vec::new();
    let cases: Vec<_> =
        rates.iter().flat_map(|rate| SCHEMES.map(|scheme| (*rate, scheme))).collect();
    for group in cases.chunks(context.jobs.max(1)) {
        let done: Vec<Result<Cost, ExperimentError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = group
                .iter()
                .map(|(rate, scheme)| scope.spawn(|| cost(topology, *rate, scheme, context)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|done| done.unwrap_or_else(|_| Err(ExperimentError("panicked".into()))))
                .collect()
        });
        for cost in done {
            costs.push(cost?);
        }
    }
    Ok(costs)
}

/// One link of every row.
fn links(topology: &Topology) -> Vec<Link> {
    let of_row = |row: u32| {
        topology.links().find(|link| link.a.0.0 == 8 * row + 3 && link.b.0.0 == 8 * row + 4)
    };
    (0..8).filter_map(of_row).collect()
}

/// Beginning of the fall of the rate, and the length of the run, ns.
fn times(quick: bool) -> (u64, u64) {
    if quick { (1_500_000, 7_000_000) } else { (11_000_000, 25_000_000) }
}

fn setup<'a>(topology: &'a Topology, load: f64, context: &Context<'_>) -> Option<Run<'a>> {
    const MS: u64 = 1_000_000;
    let (fall, end_ns) = times(context.quick);
    let profile =
        vec![(0, 1.0), (fall, 1.0), (fall + MS, 0.1), (fall + 2 * MS, 0.1), (fall + 3 * MS, 1.0)];
    Some(Run {
        details: Details::default(),
        topology,
        physics: Physics::default(),
        traffic: Traffic { profile, ..Traffic::constant(load, Pattern::Uniform {}) },
        routing: routing::by_name("up-down").ok()?,
        keep: false,
        options: Options::default(),
        tables: None,
        manager: HostId(0),
        compute_ns: 0,
        changes: Vec::new(),
        regulator: None,
        power: PortPower { wake_us: 0.0, ..PortPower::default() },
        end_ns,
        transient: if context.quick { 1_000 } else { 40_000 },
        bin_ns: 50_000,
        seed: Seed(context.seed),
    })
}

fn cost(
    topology: &Topology,
    (rate, load): (&'static str, f64),
    scheme: &'static str,
    context: &Context<'_>,
) -> Result<Cost, ExperimentError> {
    let lost = || ExperimentError(format!("{scheme} at the {rate} rate did not finish"));
    let mut run = setup(topology, load, context).ok_or_else(lost)?;
    let (fall, _) = times(context.quick);
    let schemes = vec![schemes::by_name(scheme).ok_or_else(lost)?];
    let all = links(topology);
    let change = |at_ns, off: &[Link], on: &[Link]| Change {
        at_ns,
        off: off.to_vec(),
        on: on.to_vec(),
        to: None,
        schemes: schemes.clone(),
        without_proof: false,
    };
    // The rate is at half 5/9 of a millisecond after it begins to fall, at a quarter 1/6 of one
    // after it begins to rise.
    let (off_at, on_at) = (fall + 555_556, fall + 2_166_667);
    run.changes = vec![change(off_at, &all, &[]), change(on_at, &[], &all)];
    let outcome = run.carry_out(context.progress).map_err(ExperimentError::from_error)?;
    run.changes.clear();
    let quiet = run.carry_out(context.progress).map_err(ExperimentError::from_error)?;
    let operation = |index: usize, until: u64| -> Option<Operation> {
        let change = outcome.changes.get(index)?;
        let (peak, calm) = latency_peak(&outcome, change, until)?;
        let us = |from: u64, to: u64| (to - from) as f64 / 1e3;
        let first = (change.began_ns / outcome.meter.bin_ns) as usize;
        let last = (change.ended_ns? / outcome.meter.bin_ns) as usize;
        let mean = |outcome: &Outcome| {
            let bins = outcome.meter.bins.get(first..=last)?.iter();
            let (sum, count) =
                bins.fold((0, 0), |(sum, n), bin| (sum + bin.latency_ns, n + bin.delivered));
            Some(sum as f64 / count as f64)
        };
        let quiet_ns = mean(&quiet)?;
        Some(Operation {
            quiet_us: quiet_ns / 1e3,
            reconfiguration_us: us(change.began_ns, change.ended_ns?),
            calm_us: us(change.began_ns, calm),
            peak_us: peak as f64 / 1e3,
            rise: mean(&outcome)? / quiet_ns - 1.0,
        })
    };
    let off = operation(0, on_at).ok_or_else(lost)?;
    let on = operation(1, outcome.ended_ns).ok_or_else(lost)?;
    Ok(Cost { rate, scheme, operations: [off, on], outcome })
}

/// Ours for the claims of the simulation in the order in which [`findings`] takes them, and behind
/// them each scheme's peak of reactivating over deactivating.
fn numbers(costs: &[Cost]) -> [f64; 12] {
    let of = |rate: &str, scheme: &str, operation: usize| {
        let found = costs.iter().find(|cost| cost.rate == rate && cost.scheme == scheme);
        found.map(|cost| &cost.operations[operation])
    };
    let cases: Vec<(&str, usize)> =
        RATES.iter().flat_map(|rate| [(rate.0, 0), (rate.0, 1)]).collect();
    let peaks = |scheme: &str| {
        let pair = |&(rate, operation): &(&str, usize)| {
            Some((of(rate, scheme, operation)?.peak_us, of(rate, "st", operation)?.peak_us))
        };
        cases.iter().filter_map(pair).collect::<Vec<_>>()
    };
    let reduction =
        peaks("ds").iter().map(|(ds, st)| 100.0 * (1.0 - ds / st)).fold(f64::MIN, f64::max);
    let rise =
        cases.iter().filter_map(|(rate, operation)| Some(100.0 * of(rate, "ds", *operation)?.rise));
    let rise = rise.fold(f64::MIN, f64::max);
    let ratios = SCHEMES.map(|scheme| {
        let own: Vec<&Cost> = costs.iter().filter(|cost| cost.scheme == scheme).collect();
        let ratio = |cost: &&Cost| cost.operations[1].peak_us / cost.operations[0].peak_us;
        own.iter().map(ratio).sum::<f64>() / own.len() as f64
    });
    let worst = ratios.iter().copied().fold(f64::MIN, f64::max);
    let peak = |scheme: &str| {
        let all = peaks(scheme);
        all.iter().map(|(own, st)| own / st).sum::<f64>() / all.len() as f64
    };
    let time = |scheme: &str| {
        let pair = |&(rate, operation): &(&str, usize)| {
            let (own, st) = (of(rate, scheme, operation)?, of(rate, "st", operation)?);
            Some(own.reconfiguration_us / st.reconfiguration_us)
        };
        let all: Vec<f64> = cases.iter().filter_map(pair).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let low = costs.iter().find(|cost| cost.scheme == "st" && cost.rate == "low").or(costs.first());
    let heavy = low.map_or(f64::NAN, |cost| {
        let most = cost.operations.iter().map(|it| it.peak_us / it.quiet_us);
        most.fold(f64::MIN, f64::max)
    });
    let (srla, srpda) = (peak("sr-la"), peak("sr-pda"));
    let (time_la, time_pda) = (time("sr-la"), time("sr-pda"));
    let [st, la, pda, ds] = ratios;
    [heavy, time_la, reduction, rise, worst, srla, srpda, time_pda, st, la, pda, ds]
}

fn findings(
    topology: &Topology,
    costs: &[Cost],
    numbers: [Ours; 12],
    context: &Context<'_>,
) -> Findings {
    let [heavy, time_la, reduction, rise, worst, srla, srpda, time_pda, ratios @ ..] = numbers;
    let mut report = Report::new("Links off and on, four schemes").table(table(costs));
    for cost in costs {
        if let Some(run) = setup(topology, 0.0, context) {
            let name = format!("{} at the {} rate", cost.scheme, cost.rate);
            let plot = printed(time_plot(&run, &cost.outcome), cost, costs);
            report = report.heading(name).plot(plot);
        }
    }
    let each: Vec<String> = SCHEMES
        .iter()
        .zip(ratios)
        .map(|(name, ratio)| format!("{name} {:.2}", ratio.mean))
        .collect();
    let each = each.join(", ");
    let why = format!(
        "{each}; the few µs of ds and sr-la are control packets on shared links, as many when links \
         come on as when they go off, and the rate rises in the one case and falls in the other"
    );
    let ds = "worst rate and operation: one lane set carries all, control packets share the links";
    let la = "tables are distributed before the tokens, so that nothing waits for them, and our switches hold both, so \
              that with SR-LA a packet waits for a token at most, and tokens pass at the speed of packets; the \
              paper does not say what its switches do meanwhile";
    let pda = "packets behind a token wait for their switch's tables";
    let west = west_first_share();
    let time_note = "distributing tables takes most of both; static adds three rounds of commands";
    let most = "the most of all rates and both operations; rests on lanes taking turns: with the control \
                lane first (control_first) the manager's own host waits out the distribution in every \
                scheme, and nothing is taken off at the medium rate";
    Findings::new(report)
        .found("montanana2010.fig3.st", heavy, "hosts stop until the network is empty")
        .found("montanana2010.fig7a.srla", time_la, "tables first, then tokens: two rounds")
        .found(
            "montanana2010.fig1.westfirst",
            west,
            "each link off by itself, tables refused or not: all 56 horizontal ones, which are the printed half, and the \
             seven vertical ones of the westernmost column, between whose switches every other way turns west",
        )
        .found("montanana2010.fig7b.ds", reduction, most)
        .found("montanana2010.fig6.overhead", rise, ds)
        .found("montanana2010.s4.reactivation", worst, Note::verdict(each, why))
        .found("montanana2010.fig4.srla", srla, la)
        .found("montanana2010.fig5.srpda", srpda, pda)
        .found("montanana2010.fig7a.sr", time_pda, time_note)
}

/// What is printed of a scheme's peak: the Double Scheme's is up to 95 % below the static one's. Of
/// the others there are words.
fn printed(plot: Plot, cost: &Cost, costs: &[Cost]) -> Plot {
    let fixed = costs.iter().find(|other| other.scheme == "st" && other.rate == cost.rate);
    let (Some(fixed), "ds") = (fixed, cost.scheme) else { return plot.nothing_published() };
    let peaks = fixed.operations.iter().map(|operation| operation.peak_us);
    let least = 0.05 * peaks.fold(f64::MIN, f64::max);
    let end = cost.outcome.ended_ns as f64 / 1e3;
    let name = "published: 95 % below our static peak";
    plot.series(Series::published_level(name, (0.0, end), least))
}

/// The share of the links of an 8 x 8 mesh that west-first routing cannot spare, one at a time, %.
fn west_first_share() -> f64 {
    let (Ok(mesh), Ok(function)) = (grid::mesh(&[8, 8], 1), routing::by_name("west-first")) else {
        return f64::NAN;
    };
    let options = Options::default();
    let needed = |link: &Link| routing::route(function, &mesh.without(&[*link]), &options).is_err();
    let all = mesh.links().count();
    100.0 * mesh.links().filter(needed).count() as f64 / all as f64
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(
        "Cost of each change (Fig. 7), first run",
        [
            Column::text("rate"),
            Column::text("scheme"),
            Column::text("links go"),
            Column::number("reconfiguration", "µs", 1),
            Column::number("until calm", "µs", 1),
            Column::number("peak latency", "µs", 2),
            Column::number("mean latency rises", "%", 1),
        ],
    );
    for cost in costs {
        for (name, operation) in ["off", "on"].into_iter().zip(&cost.operations) {
            table.row([
                cost.rate.into(),
                cost.scheme.into(),
                name.into(),
                Cell::Number(operation.reconfiguration_us),
                Cell::Number(operation.calm_us),
                Cell::Number(operation.peak_us),
                Cell::Number(100.0 * operation.rise),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::Silent;

    #[test]
    fn the_quick_form_finds_a_number_for_every_claim() {
        let context = Context { seed: 1, jobs: 2, quick: true, data: None, progress: &Silent };
        let mut reproduction = ebb_report::Reproduction::new();
        let found = (FIGURES.run)(&context).expect("run");
        assert_eq!(found.plots_of_ours_alone(), Vec::<&str>::new());
        reproduction.add(&FIGURES, Ok(found));
        assert!(reproduction.failed().is_empty(), "{:?}", reproduction.failed());
        println!("{}", reproduction.report(false).to_terminal(&ebb_report::Terminal::plain()));
        assert_eq!(reproduction.rows().count(), CLAIMS.len());
    }
}

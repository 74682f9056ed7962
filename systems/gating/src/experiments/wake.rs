//! Savings against the wake-up time (Strong, fig. 2.16).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};

use super::suite::{Benchmark, SEEDS, absent, benchmarks, comparison, most_and_mean, run};
use crate::machine::CoreSettings;

const SOURCE: &str = "Strong 2013, section 2.5.3, Figure 2.16";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.wake", SOURCE]
    predicted "tap16" "TAP, mean energy saved, 16 ns to wake up", 2.33, "%", percent(25.0);
    predicted "tap2" "TAP, mean, 2 ns", 3.33, "%", percent(25.0);
    predicted "counter16" "counter, mean, 16 ns", 0.70, "%", percent(25.0);
    predicted "counter2" "counter, mean, 2 ns", 2.15, "%", percent(25.0);
    predicted "tapmost16" "TAP, mcf, 16 ns", 20.0, "%", percent(25.0);
    predicted "tapmost2" "TAP, mcf, 2 ns", 25.88, "%", percent(25.0);
    predicted "countermost16" "counter, mcf, 16 ns", 8.22, "%", percent(25.0);
    predicted "countermost2" "counter, mcf, 2 ns", 17.21, "%", percent(25.0);
    predicted "grows" "TAP, mean at 2 ns over mean at 16 ns", 1.43, "", percent(25.0);
    predicted "countergrows" "counter, mean at 2 ns over mean at 16 ns", 3.05, "", percent(25.0);
};

/// Figure 2.16: savings against the wake-up time.
pub(super) static FIGURE_216: Figure = Figure {
    id: "strong2013.wake",
    title: "Energy saved against the time to wake up, EV6",
    claims: CLAIMS,
    run: figure_216,
};

fn figure_216(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let Some(benchmarks) = benchmarks(context)? else {
        return Ok(absent(FIGURE_216.title, CLAIMS));
    };
    let mut first = None;
    let numbers = context.over_seeds(SEEDS, |context| {
        let found @ [tap, counter] = &curves(&benchmarks, context)?;
        let ends = |curve: &Curve| [curve.mean[LAST].1, curve.mean[0].1];
        let most = |curve: &Curve| [curve.most[LAST], curve.most[0]];
        let ([tap16, tap2], [counter16, counter2]) = (ends(tap), ends(counter));
        let ([tapmost16, tapmost2], [most16, most2]) = (most(tap), most(counter));
        let (grows, more) = (tap2 / tap16, counter2 / counter16);
        first.get_or_insert_with(|| found.each_ref().map(|curve| curve.mean.clone()));
        Ok([tap16, tap2, counter16, counter2, tapmost16, tapmost2, most16, most2, grows, more])
    })?;
    let [tap, counter] = first.unwrap_or_default();
    let plot = Plot::new("Mean energy saved", Axis::new("time to wake up", "ns"))
        .panel(Axis::new("energy saved", "%").from_zero())
        .series(Series::line("tap", tap))
        .series(Series::line("counter", counter));
    let note = "over all benchmarks of the data; the paper leaves out eight whose savings change by less than 0.2 %";
    let claims = CLAIMS.iter().zip(numbers);
    let found = Findings::new(Report::new(FIGURE_216.title).plot(plot));
    Ok(claims.fold(found, |found, (claim, ours)| found.found(claim.id, ours, note)))
}

/// Times to wake up, ns.
const WAKES_NS: [f64; 8] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0];
const LAST: usize = WAKES_NS.len() - 1;

/// Energy saved against the time to wake up, %.
#[derive(Default)]
struct Curve {
    mean: Vec<(f64, f64)>,
    most: Vec<f64>,
}

/// Of TAP and of the counter.
fn curves(benchmarks: &[Benchmark], context: &Context<'_>) -> Result<[Curve; 2], ExperimentError> {
    let mut comparison = comparison(CoreSettings::ev6(), 2, &["tap", "counter"]);
    let mut curves = <[Curve; 2]>::default();
    for wake_ns in WAKES_NS {
        comparison.wake_ns = Some(wake_ns);
        let mut all = Vec::new();
        for benchmark in benchmarks {
            all.push((benchmark.name.clone(), run(&comparison, benchmark, context)?));
        }
        for (curve, name) in curves.iter_mut().zip(["tap", "counter"]) {
            let (most, mean) = most_and_mean(&all, |compared| {
                100.0 * compared.of(name).map_or(0.0, |result| result.energy_saved)
            });
            curve.mean.push((wake_ns, mean));
            curve.most.push(most);
        }
    }
    Ok(curves)
}

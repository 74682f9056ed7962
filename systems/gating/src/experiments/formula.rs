//! Savings by formula (Strong, equations 2.2 to 2.5).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};

use super::suite::{Benchmark, FITTED, SEEDS, absent, benchmarks, comparison, run};
use crate::analytic::{Misses, saved};
use crate::machine::CoreSettings;
use crate::power::{Island, Power};

const SOURCE: &str = "Strong 2013, section 2.3.5, equation 2.5";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.formula", SOURCE]
    predicted "mean" "mean difference of the formula from the simulator, TAP, in order",
        0.82, "%", at_most();
    predicted "max" "largest difference", 9.75, "%", at_most();
};

/// Equations 2.2 to 2.5 beside the simulator.
pub(super) static FORMULA: Figure = Figure {
    id: "strong2013.formula",
    title: "TAP's savings by formula and by simulation, in-order core",
    claims: CLAIMS,
    run: formula,
};

fn formula(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let Some(benchmarks) = benchmarks(context)? else {
        return Ok(absent(FORMULA.title, CLAIMS));
    };
    let columns = [
        Column::text("benchmark"),
        Column::number("simulated", "%", 2),
        Column::number("formula", "%", 2),
    ];
    let mut table = Table::new("Energy saved by TAP", columns);
    let mut first = None;
    let [mean, most] = context.over_seeds(SEEDS, |context| {
        let rows = compared(&benchmarks, context)?;
        let differences = rows.iter().map(|(_, simulated, formula)| (formula - simulated).abs());
        let most = differences.clone().fold(0.0, f64::max);
        let mean = differences.sum::<f64>() / rows.len().max(1) as f64;
        first.get_or_insert(rows);
        Ok([mean, most])
    })?;
    for (name, simulated, formula) in first.unwrap_or_default() {
        table.row([name.into(), simulated.into(), formula.into()]);
    }
    let note = "differences of the savings in points of a percentage; the formula takes every read for a row miss, as the paper does";
    Ok(Findings::new(Report::new(FORMULA.title).table(table))
        .found("strong2013.formula.mean", mean, note)
        .found("strong2013.formula.max", most, note))
}

/// What TAP saves of each benchmark by simulation and by formula, both %.
fn compared<'a>(
    benchmarks: &'a [Benchmark],
    context: &Context<'_>,
) -> Result<Vec<(&'a str, f64, f64)>, ExperimentError> {
    let core = CoreSettings::in_order();
    let (power, island) = (Power::of(&core, FITTED.leakage_io, 0.0), Island::core(&core));
    let comparison = comparison(core, 1, &["tap"]);
    let one = |benchmark: &'a Benchmark| {
        let compared = run(&comparison, benchmark, context)?;
        let counts = compared.outcome.cores[0];
        // As in the paper: every read is a row miss.
        let memory = &comparison.machine.memory;
        let latency_ns =
            comparison.machine.path_ns() + memory.row_conflict_ns() + memory.return_ns + 0.5;
        let per_second = counts.memory_stalls as f64 / (counts.time as f64 * 1e-12);
        let path = (per_second * comparison.machine.path_ns() * 1e-9).min(1.0);
        let misses = Misses { per_second, latency_ns };
        let formula = saved(&comparison.machine, &power, &island, &misses, path);
        let simulated = compared.of("tap").map_or(0.0, |result| result.energy_saved);
        Ok((benchmark.name.as_str(), 100.0 * simulated, 100.0 * formula))
    };
    benchmarks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use ebb_scenario::Silent;

    use super::*;
    use crate::profile::Profile;

    /// Equation 2.5 takes every read for a stall of its own. With reads of a cluster anywhere in 128 instructions, as
    /// they were counted, an in-order core has it so; side by side it overlaps them.
    #[test]
    fn the_formula_holds_where_reads_do_not_follow_each_other_at_once() {
        let context = Context { seed: 1, jobs: 1, quick: true, data: None, progress: &Silent };
        let off = |within: u32| {
            let profile = Profile {
                read_mpki: 5.0,
                cached_mpki: 0.0,
                write_mpki: 1.0,
                sequential: 0.3,
                chained: 0.15,
                cluster: 1.5,
                within,
                footprint_mib: 256,
                instructions: 300_000,
            };
            let benchmark = [Benchmark { name: String::new(), profile }];
            let (_, simulated, formula) = compared(&benchmark, &context).expect("runs")[0];
            (formula - simulated).abs()
        };
        let [at_once, apart] = [0, 128].map(off);
        assert!(apart < 0.8 * at_once, "{at_once} {apart}");
    }
}

//! Wake-ups kept apart (Strong, figs. 2.18 to 2.20).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};

use super::suite::{Benchmark, SEEDS, absent, benchmarks, comparison, run};
use crate::circuit::Keeping;
use crate::machine::CoreSettings;

const SOURCE: &str = "Strong 2013, section 2.5.5, Figures 2.19 and 2.20";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.stagger", SOURCE]
    predicted "mcf0" "TAP, 16 cores, mcf, no stagger", 18.92, "%", percent(25.0);
    predicted "mcf9" "the same, 0.9 ns of stagger", 22.06, "%", percent(25.0);
    predicted "mean0" "TAP, 16 cores, mean, no stagger", 3.52, "%", percent(25.0);
    predicted "mean9" "the same, 0.9 ns of stagger", 4.34, "%", percent(25.0);
    predicted "never" "least that stagger adds to the savings of any benchmark",
        0.0, "%", at_least();
    ["strong2013.slots", SOURCE]
    predicted "max" "time gated that slots lose against a controller in the middle, largest",
        2.68, "%", percent(25.0);
    predicted "mean" "the same, mean", 0.93, "%", percent(25.0);
};

/// Programs on each of 16 cores.
const CORES: usize = 16;
/// Figures 2.18 to 2.20: wake-ups kept apart.
pub(super) static FIGURES_218: Figure = Figure {
    id: "strong2013.stagger",
    title: "Wake-ups of 16 cores kept apart: all at once, staggered, in slots",
    claims: CLAIMS,
    run: figures_218,
};

fn figures_218(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let Some(mut benchmarks) = benchmarks(context)? else {
        return Ok(absent(FIGURES_218.title, CLAIMS));
    };
    for benchmark in &mut benchmarks {
        benchmark.profile.instructions /= 10;
    }
    let columns = [
        Column::text("benchmark"),
        Column::number("saved, all at once", "%", 2),
        Column::number("saved, staggered", "%", 2),
        Column::number("gated, staggered", "%", 2),
        Column::number("gated, slots", "%", 2),
    ];
    let mut table = Table::new("TAP on 16 cores", columns);
    let mut first = None;
    let [mcf0, mcf9, mean0, mean9, least, most, lost] = context.over_seeds(SEEDS, |context| {
        let rows = rows(&benchmarks, context)?;
        let numbers = numbers(&rows);
        first.get_or_insert(rows);
        Ok(numbers)
    })?;
    for Row { name, worst, apart, gated, slots } in first.unwrap_or_default() {
        table.row([name.into(), worst.into(), apart.into(), gated.into(), slots.into()]);
    }
    let note = "eight channels of memory under 16 copies, as under STREAM. Without stagger every wake-up takes the worst case of all at once";
    Ok(Findings::new(Report::new(FIGURES_218.title).table(table))
        .found("strong2013.stagger.mcf0", mcf0, note)
        .found("strong2013.stagger.mcf9", mcf9, note)
        .found("strong2013.stagger.mean0", mean0, note)
        .found("strong2013.stagger.mean9", mean9, note)
        .found("strong2013.stagger.never", least, note)
        .found("strong2013.slots.max", most, note)
        .found("strong2013.slots.mean", lost, note))
}

/// A benchmark: energy saved with all wake-ups at once and kept apart, time gated kept apart and in
/// slots, all %.
struct Row<'a> {
    name: &'a str,
    worst: f64,
    apart: f64,
    gated: f64,
    slots: f64,
}

fn rows<'a>(
    benchmarks: &'a [Benchmark],
    context: &Context<'_>,
) -> Result<Vec<Row<'a>>, ExperimentError> {
    let row = |benchmark: &'a Benchmark| {
        let at = |keeping| tap(benchmark, keeping, context);
        let [(worst, _), (apart, gated), (_, slots)] =
            [at(Keeping::Worst)?, at(Keeping::Staggered)?, at(Keeping::Slots)?];
        Ok(Row { name: benchmark.name.as_str(), worst, apart, gated, slots })
    };
    benchmarks.iter().map(row).collect()
}

/// In the order of the claims.
fn numbers(rows: &[Row<'_>]) -> [f64; CLAIMS.len()] {
    let mcf = rows.iter().find(|row| row.name == "mcf");
    let [mcf0, mcf9] = mcf.map_or([f64::NAN; 2], |row| [row.worst, row.apart]);
    let each = |of: fn(&Row<'_>) -> f64| rows.iter().map(of);
    let mean = |of| each(of).sum::<f64>() / rows.len().max(1) as f64;
    let least = each(|row| row.apart - row.worst).fold(f64::INFINITY, f64::min);
    let most = each(|row| row.gated - row.slots).fold(f64::NEG_INFINITY, f64::max);
    let lost = mean(|row| row.gated - row.slots);
    [mcf0, mcf9, mean(|row| row.worst), mean(|row| row.apart), least, most, lost]
}

/// Energy saved and time gated, both %.
fn tap(
    benchmark: &Benchmark,
    keeping: Keeping,
    context: &Context<'_>,
) -> Result<(f64, f64), ExperimentError> {
    let mut comparison = comparison(CoreSettings::ev6(), CORES, &["tap"]);
    comparison.keeping = keeping;
    comparison.machine.memory.channels = super::streams::CHANNELS;
    let compared = run(&comparison, benchmark, context)?;
    let tap = compared.of("tap").expect("asked for");
    Ok((100.0 * tap.energy_saved, 100.0 * tap.gated_share))
}

use ebb_report::{Claim, Column, Context, Experiment, ExperimentError, Findings, Report, Table};

use super::suite::{Benchmark, absent, benchmarks, comparison, run};
use crate::circuit::Keeping;
use crate::machine::CoreSettings;

const SOURCE: &str = "Strong 2013, section 2.5.5, Figures 2.19 and 2.20";

const CLAIMS: &[Claim] = &[
    Claim::predicted(
        "strong2013.stagger.mcf0",
        SOURCE,
        "TAP, 16 cores, mcf, no stagger",
        18.92,
        "%",
    )
    .percent(25.0),
    Claim::predicted("strong2013.stagger.mcf9", SOURCE, "the same, 0.9 ns of stagger", 22.06, "%")
        .percent(25.0),
    Claim::predicted(
        "strong2013.stagger.mean0",
        SOURCE,
        "TAP, 16 cores, mean, no stagger",
        3.52,
        "%",
    )
    .percent(25.0),
    Claim::predicted("strong2013.stagger.mean9", SOURCE, "the same, 0.9 ns of stagger", 4.34, "%")
        .percent(25.0),
    Claim::predicted(
        "strong2013.stagger.never",
        SOURCE,
        "least that stagger adds to the savings of any benchmark",
        0.0,
        "%",
    )
    .at_least(),
    Claim::predicted(
        "strong2013.slots.max",
        SOURCE,
        "time gated that slots lose against a controller in the middle, largest",
        2.68,
        "%",
    )
    .at_most(),
    Claim::predicted("strong2013.slots.mean", SOURCE, "the same, mean", 0.93, "%").percent(50.0),
];

/// Programs on each of 16 cores.
const CORES: usize = 16;
/// Figures 2.18 to 2.20: wake-ups kept apart.
pub(super) struct Figures218;

impl Experiment for Figures218 {
    fn id(&self) -> &'static str {
        "strong2013.stagger"
    }

    fn title(&self) -> &'static str {
        "Wake-ups of 16 cores kept apart: all at once, staggered, in slots"
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        let Some(mut benchmarks) = benchmarks(context)? else {
            return Ok(absent(self.title(), CLAIMS));
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
        let mut rows = Vec::new();
        for benchmark in &benchmarks {
            let at = |keeping| tap(benchmark, keeping, context);
            let [(worst, _), (apart, gated), (_, slots)] =
                [at(Keeping::Worst)?, at(Keeping::Staggered)?, at(Keeping::Slots)?];
            table.row([
                benchmark.name.as_str().into(),
                worst.into(),
                apart.into(),
                gated.into(),
                slots.into(),
            ]);
            rows.push((benchmark.name.as_str(), worst, apart, gated - slots));
        }
        let mcf = rows
            .iter()
            .find(|row| row.0 == "mcf")
            .map_or((f64::NAN, f64::NAN), |row| (row.1, row.2));
        let count = rows.len().max(1) as f64;
        let mean = |of: fn(&(&str, f64, f64, f64)) -> f64| rows.iter().map(of).sum::<f64>() / count;
        let least = rows.iter().map(|row| row.2 - row.1).fold(f64::INFINITY, f64::min);
        let most = rows.iter().map(|row| row.3).fold(f64::NEG_INFINITY, f64::max);
        let note = "four channels of memory under 16 copies, as under STREAM. Without stagger every wake-up takes the worst case of all at once";
        Ok(Findings::new(Report::new(self.title()).table(table))
            .found("strong2013.stagger.mcf0", mcf.0, note)
            .found("strong2013.stagger.mcf9", mcf.1, note)
            .found("strong2013.stagger.mean0", mean(|row| row.1), note)
            .found("strong2013.stagger.mean9", mean(|row| row.2), note)
            .found("strong2013.stagger.never", least, note)
            .found("strong2013.slots.max", most, note)
            .found("strong2013.slots.mean", mean(|row| row.3), note))
    }
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

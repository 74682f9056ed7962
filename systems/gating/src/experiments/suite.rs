//! The benchmarks of SPEC 2006 as profiles. The programs cannot be had; their use of memory was
//! published by others (`gating/spec2006.csv`, whose first lines name the sources).
//!
//! What a profile has, and from where: reads of memory in a thousand instructions (column
//! tr_read_mpki_F of a filtered trace, else rbmpki_C of an 8 MB cache over the part of reads that miss
//! the row, else the same of rbmpki_A over [`SMALLER`], as that cache is a quarter as large), the part
//! of reads in the same row (tr_rowhit_reads_F, else 0.5), reads that come together
//! (tr_cluster128_F, else 2). Three numbers are fitted, for all benchmarks together: [`SCALE`] and the two
//! leakage shares, to the largest saving of the oracle on each core (23.9 and 36.8 %). [`CHAINED`] and
//! [`SMALLER`] are assumptions.

use ebb_des::Seed;
use ebb_report::{Context, ExperimentError};

use crate::compare::{Compared, Comparison};
use crate::machine::{CoreSettings, Feed, MachineSettings};
use crate::profile::{Profile, ProfileFeed};

/// Assumed: the part of reads whose address another read tells.
pub(super) const CHAINED: f64 = 0.3;
/// Assumed: how many more misses the smaller caches of the other studies have.
const SMALLER: f64 = 3.0;
/// Fitted: reads of memory in the paper's runs over those of the other studies, for all benchmarks.
const SCALE: f64 = 0.15;
/// Fitted: leakage share of the out-of-order core.
pub(super) const LEAKAGE_EV6: f64 = 0.165;
/// Fitted: leakage share of the in-order core.
pub(super) const LEAKAGE_IO: f64 = 0.67;

/// A benchmark.
pub(super) struct Benchmark {
    pub(super) name: String,
    pub(super) profile: Profile,
}

/// The benchmarks of the data file, if it is at hand.
pub(super) fn benchmarks(context: &Context<'_>) -> Result<Option<Vec<Benchmark>>, ExperimentError> {
    let Some(files) = context.data else { return Ok(None) };
    let Ok(bytes) = files.read("gating/spec2006.csv") else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut all = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |name: &str| -> Option<f64> {
            let column = header.iter().position(|cell| *cell == name)?;
            cells.get(column)?.parse().ok()
        };
        let sequential = number("tr_rowhit_reads_F").unwrap_or(0.5);
        let misses = 1.0 - sequential;
        let read_mpki = number("tr_read_mpki_F")
            .or_else(|| number("rbmpki_C").map(|rate| rate / misses))
            .or_else(|| number("rbmpki_A").map(|rate| rate / misses / SMALLER));
        let Some(read_mpki) = read_mpki else { continue };
        let writes = number("tr_wb_pki_F").unwrap_or(read_mpki * 0.3);
        let profile = Profile {
            read_mpki: (SCALE * read_mpki).clamp(0.01, 200.0),
            write_mpki: SCALE * writes.min(read_mpki).min(100.0),
            sequential,
            chained: CHAINED,
            cluster: number("tr_cluster128_F").unwrap_or(2.0).max(1.0),
            footprint_mib: 256,
            instructions: if context.quick { 300_000 } else { 3_000_000 },
        };
        all.push(Benchmark { name: cells[0].to_owned(), profile });
    }
    Ok(Some(all))
}

/// A comparison for a core, with its fitted leakage share.
pub(super) fn comparison(core: CoreSettings, cores: usize, controllers: &[&str]) -> Comparison {
    let share = if core.name == "io" { LEAKAGE_IO } else { LEAKAGE_EV6 };
    let machine = MachineSettings { core, cores, filtered: true, ..MachineSettings::default() };
    Comparison {
        controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
        leakage_share: share,
        ..Comparison::new(machine)
    }
}

/// A benchmark on every core.
pub(super) fn run(
    comparison: &Comparison,
    benchmark: &Benchmark,
    context: &Context<'_>,
) -> Result<Compared, ExperimentError> {
    let seed = Seed(context.seed);
    let feeds = |core: usize| {
        Ok(Box::new(ProfileFeed::new(&benchmark.profile, seed, core)) as Box<dyn Feed>)
    };
    let compared = comparison.run(&feeds, &|_| !context.progress.stopped());
    compared.map_err(ExperimentError::from_error)
}

/// The largest and the mean of what `of` takes from each.
pub(super) fn most_and_mean(
    all: &[(String, Compared)],
    of: impl Fn(&Compared) -> f64,
) -> (f64, f64) {
    let values: Vec<f64> = all.iter().map(|(_, compared)| of(compared)).collect();
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most, values.iter().sum::<f64>() / values.len().max(1) as f64)
}

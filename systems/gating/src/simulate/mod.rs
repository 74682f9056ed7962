//! `ebb sim gating`: a workload, a machine, and what every controller makes of it.

mod report;
mod scenario;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ebb_des::Seed;
use ebb_memtrace::{Reader, TraceError};
use ebb_report::Report;
use ebb_scenario::{Document, FileError, Files, Invalid, Progress, ScenarioError};

use crate::compare::{Compared, Comparison, Watched};
use crate::feed::{Share, TraceFeed};
use crate::machine::{Feed, MachineError};
use crate::profile::ProfileFeed;
use crate::stream::Stream;
pub use scenario::Scenario;

/// Why a scenario was not simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The text.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A value, where there is no file to point at.
    #[error(transparent)]
    Value(#[from] Invalid),
    /// A file it names cannot be opened.
    #[error(transparent)]
    File(#[from] FileError),
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It was told to end.
    #[error("interrupted")]
    Stopped,
}

impl From<MachineError> for SimulateError {
    fn from(error: MachineError) -> SimulateError {
        match error {
            MachineError::Trace(error) => error.into(),
            MachineError::Stopped => SimulateError::Stopped,
        }
    }
}

/// Simulates a scenario file.
///
/// # Errors
/// When the file is wrong, or a trace it names is damaged or missing; the error names it.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    simulate_scenario(&document.read_described()?, files, seed, progress)
}

/// Simulates a scenario.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_scenario(
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let compared = run(scenario, files, seed, progress)?;
    let report = report::report(scenario, &compared);
    let without = without_instructions(scenario, files)?;
    Ok(without.into_iter().fold(report, |report, name| {
        report.text(format!(
            "{name} does not tell every instruction: a reference, or a fetch, counts as one. Programs \
            have more between two references, so the share of time stalled is too large."
        ))
    }))
}

/// References that tell whether a trace tells every instruction.
const LOOKED_AT: usize = 4096;

/// The traces that do not tell every instruction.
fn without_instructions(
    scenario: &Scenario,
    files: &dyn Files,
) -> Result<Vec<String>, SimulateError> {
    if scenario.stream.is_some() || scenario.profile.is_some() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for name in scenario.trace.names() {
        let mut reader = open(scenario, files, &name, &Arc::default())?;
        for _ in 0..LOOKED_AT {
            if reader.access()?.is_none() {
                break;
            }
        }
        let assumes = reader.assumes_instructions();
        drop(reader);
        if assumes && !found.contains(&name) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Runs a scenario under its controllers.
pub(crate) fn run(
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Compared, SimulateError> {
    let (comparison, watched) = watch(scenario, files, seed, progress)?;
    Ok(comparison.conclude(&watched))
}

/// Runs a scenario and leaves open what it means.
pub(crate) fn watch(
    scenario: &Scenario,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<(Comparison, Watched), SimulateError> {
    let comparison = scenario.comparison()?;
    let read = Arc::default();
    let feeds = |core: usize| feed(scenario, files, Seed(seed), (core, &read));
    let watch = |done: u64| {
        let whole = scenario.references.saturating_mul(scenario.cores as u64).max(1);
        let share =
            if scenario.references == 0 { read.share() } else { done as f64 / whole as f64 };
        progress.at(share.min(1.0), &format!("{} million references", done / 1_000_000));
        !progress.stopped()
    };
    let watched = comparison.watch(&feeds, &watch)?;
    Ok((comparison, watched))
}

/// The references of one core.
fn feed<'a>(
    scenario: &Scenario,
    files: &'a dyn Files,
    seed: Seed,
    (core, read): (usize, &Arc<Read>),
) -> Result<Box<dyn Feed + 'a>, MachineError> {
    if let Some(stream) = scenario.stream {
        return Ok(Box::new(Stream::new(stream, core, scenario.cores)));
    }
    if let Some(profile) = &scenario.profile {
        return Ok(Box::new(ProfileFeed::new(profile, seed, core)));
    }
    let names = scenario.trace.names();
    let name = &names[core % names.len()];
    let reader = open(scenario, files, name, read)?;
    let share = if scenario.split { Share::Threads { of: scenario.cores } } else { Share::Copy };
    let most = if scenario.references == 0 { u64::MAX } else { scenario.references };
    let most = most.saturating_add(scenario.warmup);
    Ok(Box::new(TraceFeed::new(reader, core, share, most)))
}

/// Opens a trace that the scenario names.
fn open<'a>(
    scenario: &Scenario,
    files: &'a dyn Files,
    name: &str,
    read: &Arc<Read>,
) -> Result<Reader<'a>, TraceError> {
    let mut stream = files.stream(name).map_err(|error| {
        let FileError { name: file, message } = error;
        TraceError { file, offset: 0, line: None, message }
    })?;
    read.all.fetch_add(stream.size().unwrap_or(0), Relaxed);
    let read = read.clone();
    let fill = move |buffer: &mut [u8]| {
        let count = stream.fill(buffer)?;
        read.bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    };
    Reader::of_chunks(name, fill, scenario.format()?)
}

/// How much of the traces was read, in bytes as they are stored.
#[derive(Default)]
struct Read {
    bytes: AtomicU64,
    all: AtomicU64,
}

impl Read {
    /// 0 where nobody knows how long they are.
    fn share(&self) -> f64 {
        let all = self.all.load(Relaxed);
        if all == 0 { 0.0 } else { self.bytes.load(Relaxed) as f64 / all as f64 }
    }
}

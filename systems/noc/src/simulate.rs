//! `ebb sim noc`: a scenario's planes run flit by flit, several times, and what came out.
//!
//! Planes are independent networks (Li 2012, section 7.2: every element is connected to one
//! router of each plane). Runs and planes are computed in parallel; the order of results is that of
//! the runs, so the report depends on scenario and seed alone.

mod control;
mod details;
mod network;
mod planned;
mod prepare;
mod report;
mod scenario;
mod sharing;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ebb_des::Seed;
use ebb_report::Report;
use ebb_scenario::{Document, Files, Progress};
use rayon::prelude::*;

use crate::NocError;
use crate::flit::{Notes, Outcome, Simulation};
use prepare::{Prepared, prepare};
pub use scenario::{Alpha, Energy, Packets, RouterKind, Scenario};

/// Simulates a scenario file.
///
/// # Errors
/// When the file is wrong, its routes can deadlock, or a tile offers more than one flit per cycle;
/// the error names it. A network that saturates or deadlocks is no error: the report says so.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, NocError> {
    let scenario: Scenario = document.read_described()?;
    let seed = Seed(seed);
    let prepared = prepare(&scenario, files, seed).map_err(|error| match error {
        NocError::Field(invalid) => document.fault(invalid).into(),
        other => other,
    })?;
    let outcomes = run_all(&scenario, &prepared, seed, progress);
    let report = report::report(&scenario, &prepared, &outcomes)?;
    Ok(details::add(report, scenario.output, &prepared, &outcomes))
}

/// Runs of this process that are being computed.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// A smaller network has too little to do in a cycle to share it.
const TILES_FOR_TWO: usize = 64;

/// Every plane's outcomes, in the order of the runs.
fn run_all(
    scenario: &Scenario,
    prepared: &Prepared,
    seed: Seed,
    progress: &dyn Progress,
) -> Vec<Vec<Outcome>> {
    let router = scenario.router.model();
    let jobs: Vec<(usize, u64)> = (0..prepared.planes.len())
        .flat_map(|plane| (0..scenario.runs).map(move |run| (plane, run)))
        .collect();
    let finished = AtomicU64::new(0);
    // A large network that nothing else is computed beside has two threads.
    let begun = RUNNING.fetch_add(jobs.len(), Ordering::Relaxed);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let alone = begun + jobs.len() == 1 && processors > 1 && prepared.grid.tiles() >= TILES_FOR_TWO;
    let run = |&(index, run): &(usize, u64)| {
        let plane = &prepared.planes[index];
        let simulation = Simulation {
            grid: &prepared.grid,
            demand: &plane.demand,
            arrivals: &prepared.arrivals,
            router,
            clock: plane.clock,
            control: prepared.control.as_ref(),
            phases: scenario.run,
        };
        let all = jobs.len() as f64;
        let note = format!("run {} of plane {}", run + 1, index + 1);
        let notes = scenario.output.of_packets();
        let notes = notes.then(|| Notes::new(scenario.output.packets as usize));
        let mut tell = |part: f64| {
            let done = finished.load(Ordering::Relaxed) as f64 + part;
            progress.at((done / all).min(1.0), &note);
            !progress.stopped()
        };
        let seed = seed.nth(run).nth(index as u64);
        let outcome = match notes {
            None if alone => simulation.run_in_two(seed, &mut tell),
            notes => simulation.run_noting(notes, seed, &mut tell),
        };
        finished.fetch_add(1, Ordering::Relaxed);
        outcome
    };
    let mut outcomes = jobs.par_iter().map(run).collect::<Vec<Outcome>>().into_iter();
    RUNNING.fetch_sub(jobs.len(), Ordering::Relaxed);
    prepared
        .planes
        .iter()
        .map(|_| outcomes.by_ref().take(scenario.runs as usize).collect())
        .collect()
}

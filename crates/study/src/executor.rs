//! Who computes points: threads of this process, and in time other processes and machines.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ebb_scenario::Setting;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::StudyError;
use crate::key::Used;

/// One run of a job: what differs from its other runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Settings on top of the scenario.
    pub settings: Vec<Setting>,
    /// Decides all that is drawn.
    pub seed: u64,
}

impl Point {
    /// Its settings in the words of the command line.
    pub fn name(&self) -> String {
        name(&self.settings)
    }
}

pub(crate) fn name(settings: &[Setting]) -> String {
    settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// One finished run, as it is kept: a line of `points.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// What it is the result of: scenario, files, seed and program.
    pub key: String,
    /// The point in the words of the command line.
    pub point: String,
    /// The seed.
    pub seed: u64,
    /// The settings, for programs that read the file.
    pub set: Map<String, Value>,
    /// The files that were read, and what of them.
    pub(crate) files: Vec<Used>,
    /// Their digests in the same order.
    #[serde(default)]
    pub(crate) digests: Vec<String>,
    /// The figures' names in the order of a single report, with their units.
    pub columns: Vec<(String, String)>,
    /// The figures.
    pub figures: Map<String, Value>,
}

/// What comes of a point.
pub type Outcome = Result<Finished, StudyError>;

/// Takes the outcome of a point, by its index; says whether to go on.
pub type Take<'a> = dyn FnMut(usize, Outcome) -> ControlFlow<()> + Send + 'a;

/// Computes points. Which way and in which order is its own affair; results do not depend on it.
pub trait Executor: Sync {
    /// Computes `points`, each by `each` or by a program elsewhere that does the same, and hands every
    /// outcome to `take` as soon as it is there. Ends early when `take` says so.
    fn run(&self, points: &[Point], each: &(dyn Fn(&Point) -> Outcome + Sync), take: &mut Take<'_>);
}

/// Threads of this process.
#[derive(Clone, Copy, Debug)]
pub struct Threads(usize);

impl Threads {
    /// So many, or one per processor.
    pub fn new(jobs: Option<u16>) -> Threads {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Threads(jobs.map_or_else(processors, usize::from))
    }

    /// Computes `count` things, each by its index, and hands over each result.
    pub(crate) fn spread<T: Send>(
        self,
        count: usize,
        each: &(dyn Fn(usize) -> T + Sync),
        take: &mut (dyn FnMut(usize, T) -> ControlFlow<()> + Send),
    ) {
        let (next, ended, take) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(take));
        let work = || {
            while !ended.load(Relaxed) {
                let index = next.fetch_add(1, Relaxed);
                if index >= count {
                    return;
                }
                let outcome = each(index);
                let mut take = take.lock().expect("no thread panicked");
                if ended.load(Relaxed) || take(index, outcome).is_break() {
                    ended.store(true, Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..self.0.min(count)).for_each(|_| drop(scope.spawn(work)));
        });
    }
}

impl Executor for Threads {
    fn run(
        &self,
        points: &[Point],
        each: &(dyn Fn(&Point) -> Outcome + Sync),
        take: &mut Take<'_>,
    ) {
        self.spread(points.len(), &|index| each(&points[index]), take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_computed_once_and_an_end_is_an_end() {
        for jobs in [1, 3, 16] {
            let mut seen = vec![0; 10];
            Threads::new(Some(jobs)).spread(10, &|index| index * 2, &mut |index, twice| {
                assert_eq!(twice, 2 * index);
                seen[index] += 1;
                ControlFlow::Continue(())
            });
            assert_eq!(seen, [1; 10]);
            let mut taken = 0;
            Threads::new(Some(jobs)).spread(1000, &|_| (), &mut |_, ()| {
                taken += 1;
                if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(taken, 3);
        }
    }
}

//! Many points: what is missing is computed, further seeds where intervals are too wide.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ebb_report::{Replications, Report};
use ebb_scenario::{Progress, Setting};
use serde_json::{Map, Value};

use crate::executor::{Finished, Outcome, Point, name};
use crate::job::{Event, Job};
use crate::key::{Origin, Present, Recorded, Used};
use crate::points::{Columns, Swept, settings};
use crate::repeat::Repeat;
use crate::store::{Held, Store};
use crate::sweep_report::{Row, report};
use crate::{JobError, StudyError};

/// Computes all points, those that an earlier run finished excepted.
///
/// Every point uses the same seeds, so that points differ by their settings and not by luck.
pub(crate) fn run(job: &Job<'_>) -> Result<Report, JobError> {
    Ok(tell(job, &compute(job)?))
}

/// Computes the runs of the job's shard; how many are finished.
pub(crate) fn part(job: &Job<'_>) -> Result<usize, JobError> {
    let runs = finish(job)?.0.done.len();
    if job.watcher.stopped() { Err(StudyError::Stopped.into()) } else { Ok(runs) }
}

/// What a sweep found, for readers.
fn tell(job: &Job<'_>, swept: &Swept) -> Report {
    let merged: Vec<&Map<String, Value>> = swept.rows.iter().map(|(_, all)| &all.figures).collect();
    let columns = match job.repeat {
        Some(_) => Replications::columns(&swept.columns, &merged),
        None => swept.columns.clone(),
    };
    let rows = swept.rows.iter().map(|(point, all)| Row { point, figures: &all.figures });
    let rows: Vec<Row<'_>> = rows.collect();
    report(job, swept, &rows, &columns)
}

/// Computes what is missing, and further seeds where intervals are too wide.
pub(crate) fn compute(job: &Job<'_>) -> Result<Swept, JobError> {
    let (runs, all, counts) = finish(job)?;
    runs.conclude(all, &counts)
}

/// The runs, the points, and how many of each point are wanted.
type Finish<'a> = (Runs<'a>, Vec<Vec<Setting>>, Vec<usize>);

fn finish<'a>(job: &'a Job<'a>) -> Result<Finish<'a>, JobError> {
    let all: Vec<Vec<Setting>> = job.sweep.points().collect();
    let mut runs = Runs::open(job, &all)?;
    let first = job.repeat.map_or(1, Repeat::first);
    let mut counts = vec![first; all.len()];
    runs.tell_reused(&all, first);
    loop {
        runs.work_off(&all, &counts)?;
        if job.watcher.stopped() || !runs.add(&all, &mut counts)? {
            break;
        }
    }
    Ok((runs, all, counts))
}

/// The runs of a job, finished or not.
pub(crate) struct Runs<'a> {
    job: &'a Job<'a>,
    /// The program by its identity; empty where nothing is kept.
    program: String,
    store: Option<Store>,
    /// By point and seed.
    done: BTreeMap<(String, u64), Finished>,
}

impl<'a> Runs<'a> {
    /// With those that are kept, where the job has a directory.
    fn open(job: &'a Job<'a>, all: &[Vec<Setting>]) -> Result<Runs<'a>, JobError> {
        let mut runs = Runs { job, program: String::new(), store: None, done: BTreeMap::new() };
        let Some(place) = job.place else { return Ok(runs) };
        runs.program = job.program.identity()?;
        let points: BTreeMap<String, &Vec<Setting>> =
            all.iter().map(|point| (name(point), point)).collect();
        let mut present = Present::new(job.files);
        let (store, known) = Store::open(place, job.fresh, |run| {
            let Some(settings) = points.get(&run.point) else { return Held::Foreign };
            let digests = present.digests(&run.files);
            let key = key(job, &runs.program, (settings, run.seed), (&run.files, &digests));
            if key.is_ok_and(|key| key == run.key) { Held::Valid } else { Held::Stale }
        })?;
        runs.store = Some(store);
        runs.done.extend(known.into_iter().map(|run| ((run.point.clone(), run.seed), run)));
        Ok(runs)
    }

    /// Those that others computed.
    pub(crate) fn of_finished(
        job: &'a Job<'a>,
        done: BTreeMap<(String, u64), Finished>,
    ) -> Runs<'a> {
        Runs { job, program: String::new(), store: None, done }
    }

    /// How many runs of each point are there or wanted next.
    fn wanted(&self, all: &[Vec<Setting>]) -> Result<Vec<usize>, JobError> {
        let mut counts = vec![self.job.repeat.map_or(1, Repeat::first); all.len()];
        loop {
            let before = counts.clone();
            let more = self.add(all, &mut counts)?;
            let there =
                |(point, count): (&Vec<Setting>, &usize)| self.of(point, *count).len() >= *count;
            if !more || !all.iter().zip(&before).all(there) {
                return Ok(if more { before } else { counts });
            }
        }
    }

    /// Runs that are wanted and not there.
    pub(crate) fn missing(&self) -> Result<Vec<Point>, JobError> {
        let all: Vec<Vec<Setting>> = self.job.sweep.points().collect();
        let counts = self.wanted(&all)?;
        Ok(self.todo(&all, &counts))
    }

    /// What all runs come to.
    pub(crate) fn report(&self) -> Result<Report, JobError> {
        let all: Vec<Vec<Setting>> = self.job.sweep.points().collect();
        let counts = self.wanted(&all)?;
        Ok(tell(self.job, &self.conclude(all, &counts)?))
    }

    /// The runs of a point with its first `count` seeds, as far as all before them are there.
    fn of(&self, point: &[Setting], count: usize) -> Vec<(u64, &Map<String, Value>)> {
        let name = name(point);
        let seeds = (0..count as u64).map(|index| self.job.seed.wrapping_add(index));
        let run = |seed| Some((seed, &self.done.get(&(name.clone(), seed))?.figures));
        seeds.map_while(run).collect()
    }

    fn tell_reused(&self, all: &[Vec<Setting>], first: usize) {
        let complete = |point: &&Vec<Setting>| self.of(point, first).len() == first;
        let finished = all.iter().filter(complete).count();
        let runs: usize = all.iter().map(|point| self.of(point, usize::MAX).len()).sum();
        if self.job.repeat.is_some() && runs > 0 {
            self.job.watcher.event(&Event::RunsReused(runs));
        } else if finished > 0 {
            self.job.watcher.event(&Event::PointsReused { finished, all: all.len() });
        }
    }

    /// Whether the job's shard has the run of this number among all, of the point of this index.
    fn mine(&self, run: usize, point: usize) -> bool {
        // How often a point is repeated may depend on its runs: they stay together then.
        let whole = self.job.repeat.is_some_and(|repeat| repeat.until().is_some());
        self.job.shard.is_none_or(|shard| shard.holds(if whole { point } else { run }))
    }

    /// The runs that are missing.
    fn todo(&self, all: &[Vec<Setting>], counts: &[usize]) -> Vec<Point> {
        let every = all.iter().zip(counts).enumerate().flat_map(|(index, (settings, count))| {
            let seeds = (0..*count as u64).map(|offset| self.job.seed.wrapping_add(offset));
            seeds.map(move |seed| (index, Point { settings: settings.clone(), seed }))
        });
        let mine = every.enumerate().filter(|(run, (index, _))| self.mine(*run, *index));
        let missing = |point: &Point| !self.done.contains_key(&(point.name(), point.seed));
        mine.map(|(_, (_, point))| point).filter(missing).collect()
    }

    /// Computes the runs that are missing; what is finished is kept at once.
    fn work_off(&mut self, all: &[Vec<Setting>], counts: &[usize]) -> Result<(), JobError> {
        let todo = self.todo(all, counts);
        let Runs { job, program, store, done } = self;
        let (before, whole) = (done.len(), done.len() + todo.len());
        let mut failed = None;
        job.executor.run(&todo, &|point| one(job, program, point), &mut |index, outcome| {
            if job.watcher.stopped() {
                return ControlFlow::Break(());
            }
            let kept = outcome.and_then(|run| {
                store.as_mut().map_or(Ok(()), |store| store.keep(&run))?;
                done.insert((run.point.clone(), run.seed), run);
                Ok(())
            });
            if let Err(error) = kept {
                failed = Some(JobError { point: todo[index].name(), error: error.into() });
                return ControlFlow::Break(());
            }
            let finished = done.len();
            let share = finished.max(before) as f64 / whole as f64;
            let thing = if job.repeat.is_some() { "run" } else { "point" };
            job.watcher.at(share, &format!("{thing} {finished} of {whole}"));
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(()), Err)
    }

    /// Asks for further runs where there are too few; false where all are there.
    fn add(&self, all: &[Vec<Setting>], counts: &mut [usize]) -> Result<bool, JobError> {
        let Some(repeat) = self.job.repeat else { return Ok(false) };
        let mut any = false;
        for (index, (point, count)) in all.iter().zip(counts).enumerate() {
            let whole = repeat.until().is_some();
            if whole && !self.mine(index, index) {
                continue;
            }
            let enough = repeat.enough(&self.of(point, *count), self.job.study.headlines)?;
            if let (None, Some(more)) = (enough, repeat.more(*count)) {
                (*count, any) = (more, true);
            }
        }
        Ok(any)
    }

    fn conclude(&self, all: Vec<Vec<Setting>>, counts: &[usize]) -> Result<Swept, JobError> {
        let columns = self.columns(&all);
        let mut swept = Swept { rows: Vec::new(), columns, all: all.len(), wide: 0 };
        for (point, count) in all.into_iter().zip(counts) {
            let runs = self.of(&point, *count);
            let enough = match self.job.repeat {
                Some(repeat) => repeat.enough(&runs, self.job.study.headlines)?,
                None => (!runs.is_empty()).then_some(1),
            };
            // A point whose runs were interrupted would differ from what it is to be.
            if runs.len() < *count {
                continue;
            }
            swept.wide += usize::from(enough.is_none());
            let used = enough.unwrap_or(runs.len());
            let all = match self.job.repeat {
                Some(_) => Replications::new(runs[..used].iter().copied()),
                None => Replications { figures: runs[0].1.clone(), ..Replications::default() },
            };
            swept.rows.push((point, all));
        }
        Ok(swept)
    }

    /// The columns of all points, in an order that does not depend on which was finished first: a
    /// saturated network has no latency, others have.
    fn columns(&self, all: &[Vec<Setting>]) -> Columns {
        let mut columns = Columns::new();
        let runs = all.iter().map(|point| name(point)).flat_map(|name| {
            self.done.range((name.clone(), 0)..=(name, u64::MAX)).map(|(_, run)| run)
        });
        for column in runs.flat_map(|run| &run.columns) {
            if !columns.iter().any(|(key, _)| *key == column.0) {
                columns.push(column.clone());
            }
        }
        columns
    }
}

impl Job<'_> {
    /// One of its runs alone, for an executor elsewhere that was told the point.
    ///
    /// # Errors
    /// As of the study; when the running program cannot read itself.
    pub fn point(&self, point: &Point) -> Outcome {
        one(self, &self.program.identity()?, point)
    }
}

/// One run.
pub(crate) fn one(job: &Job<'_>, program: &str, point: &Point) -> Outcome {
    /// The whole job has the line; a point only tells whether it is to end.
    struct Inner<'a>(&'a Job<'a>);
    impl Progress for Inner<'_> {
        fn at(&self, _done: f64, _note: &str) {}
        fn stopped(&self) -> bool {
            self.0.watcher.stopped()
        }
    }
    let document = job.document.with(&point.settings)?;
    let recorded = Recorded::new(job.files);
    let report =
        job.study.run_under(job.policies, &document, &recorded, point.seed, &Inner(job))?;
    let (files, digests) = recorded.used();
    Ok(Finished {
        key: key(job, program, (&point.settings, point.seed), (&files, &digests))?,
        point: point.name(),
        seed: point.seed,
        set: settings(&point.settings),
        files,
        digests,
        columns: report.columns,
        figures: report.figures,
    })
}

/// The key of a run that used these files, which had these digests.
pub(crate) fn key(
    job: &Job<'_>,
    program: &str,
    (settings, seed): (&[Setting], u64),
    (files, digests): (&[Used], &[String]),
) -> Result<String, StudyError> {
    let document = &job.document.with(settings)?;
    let study = [job.study.kind().name(), job.study.system];
    let policy = job.policies.map(|policies| policies.identity());
    Ok(Origin { study, document, seed, program, policy }.key(files, digests))
}

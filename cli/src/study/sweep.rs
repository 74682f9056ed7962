use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Context, Result};
use ebb_report::{Replications, Report};
use ebb_scenario::{Progress, Setting};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Watched;
use super::args::StudyArgs;
use super::points::{Points, Swept, settings};
use super::repeat::Repeat;
use super::sweep_report::{Row, report};

/// A point in the words of the command line, and the seed of one of its runs.
type Key = (String, u64);

/// One finished run of a point, a line of the sweep's file.
#[derive(Clone, Serialize, Deserialize)]
struct Finished {
    point: String,
    /// Absent in what older programs left: the seed of all.
    seed: Option<u64>,
    /// The settings and the figures, for programs that read the file.
    #[serde(default)]
    set: Map<String, Value>,
    figures: Map<String, Value>,
}

/// Names of figures in the order of a single report, with their units.
type Columns = Vec<(String, String)>;

/// What is finished so far.
#[derive(Default)]
struct Done {
    runs: BTreeMap<Key, Finished>,
    /// Each list of columns that some point has: a saturated network has no latency.
    shapes: Vec<Columns>,
}

impl Done {
    /// The runs of a point with its first `count` seeds, as far as all before them are there.
    fn of(
        &self,
        points: &Points<'_>,
        point: &[Setting],
        count: usize,
    ) -> Vec<(u64, &Map<String, Value>)> {
        let name = name(point);
        let seeds = (0..count as u64).map(|index| points.origin.seed.wrapping_add(index));
        let run = |seed| Some((seed, &self.runs.get(&(name.clone(), seed))?.figures));
        seeds.map_while(run).collect()
    }

    /// The columns of all points, in an order that does not depend on which was finished first.
    fn columns(&self, all: &[Vec<Setting>]) -> Columns {
        let mut columns = Columns::new();
        let seeds = |point: &Vec<Setting>| {
            let name = name(point);
            self.runs.range((name.clone(), 0)..=(name, u64::MAX)).map(|(_, run)| run)
        };
        for finished in all.iter().flat_map(seeds) {
            let has = |(key, _): &(String, String)| finished.figures.contains_key(key);
            let mut shapes = self.shapes.iter();
            let own = shapes.find(|own| own.len() == finished.figures.len() && own.iter().all(has));
            for column in own.into_iter().flatten() {
                if !columns.iter().any(|(key, _)| *key == column.0) {
                    columns.push(column.clone());
                }
            }
        }
        columns
    }
}

/// Computes all points, those that an earlier run finished excepted.
///
/// Every point uses the same seeds, so that points differ by their settings and not by luck.
pub(super) fn run(points: &Points<'_>, place: Option<&Path>, args: &StudyArgs) -> Result<Report> {
    let swept = compute(points, place, args)?;
    let merged: Vec<&Map<String, Value>> = swept.rows.iter().map(|(_, all)| &all.figures).collect();
    let columns = match points.repeated() {
        true => Replications::columns(&swept.columns, &merged),
        false => swept.columns.clone(),
    };
    let rows = swept.rows.iter().map(|(point, all)| Row { point, figures: &all.figures });
    let rows: Vec<Row<'_>> = rows.collect();
    Ok(report(points, &swept, &rows, &columns))
}

/// Computes what is missing, and further seeds where intervals are too wide.
pub(super) fn compute(
    points: &Points<'_>,
    place: Option<&Path>,
    args: &StudyArgs,
) -> Result<Swept> {
    let mut kept = place.map(|place| Kept::open(place, points, args.fresh)).transpose()?;
    let mut done = kept.as_mut().map(|kept| std::mem::take(&mut kept.known)).unwrap_or_default();
    let all: Vec<Vec<Setting>> = points.sweep.points().collect();
    let first = points.repeat.as_ref().map_or(1, Repeat::first);
    let mut counts = vec![first; all.len()];
    say_reused(points, &all, &done, first);
    let jobs = args.jobs.map_or_else(processors, usize::from);
    loop {
        let todo = missing(points, &all, &counts, &done);
        (done, kept) = work_off(points, &todo, done, kept, jobs)?;
        if points.watched.stopped() || !add(points, &all, &mut counts, &done)? {
            break;
        }
    }
    let columns = done.columns(&all);
    let mut swept = Swept { rows: Vec::new(), columns, all: all.len(), wide: 0 };
    for (point, count) in all.into_iter().zip(counts) {
        let runs = done.of(points, &point, count);
        let enough = match &points.repeat {
            Some(repeat) => repeat.enough(&runs)?,
            None => (!runs.is_empty()).then_some(1),
        };
        // A point whose runs were interrupted would differ from what it is to be.
        if runs.len() < count {
            continue;
        }
        swept.wide += usize::from(enough.is_none());
        let used = enough.unwrap_or(runs.len());
        let all = match points.repeat {
            Some(_) => Replications::new(runs[..used].iter().copied()),
            None => Replications { figures: runs[0].1.clone(), ..Replications::default() },
        };
        swept.rows.push((point, all));
    }
    Ok(swept)
}

fn say_reused(points: &Points<'_>, all: &[Vec<Setting>], done: &Done, first: usize) {
    let complete = |point: &&Vec<Setting>| done.of(points, point, first).len() == first;
    let reused = all.iter().filter(complete).count();
    let runs: usize = all.iter().map(|point| done.of(points, point, usize::MAX).len()).sum();
    if points.repeated() && runs > 0 {
        eprintln!("ebb: {runs} runs are finished already (--fresh computes them again)");
    } else if reused > 0 {
        eprintln!(
            "ebb: {reused} of {} points are finished already (--fresh computes them again)",
            all.len()
        );
    }
}

/// A run that is to be computed.
struct Unit<'a> {
    point: &'a [Setting],
    seed: u64,
}

fn missing<'a>(
    points: &Points<'_>,
    all: &'a [Vec<Setting>],
    counts: &[usize],
    done: &Done,
) -> Vec<Unit<'a>> {
    let runs = all.iter().zip(counts).flat_map(|(point, count)| {
        (0..*count as u64)
            .map(move |index| Unit { point, seed: points.origin.seed.wrapping_add(index) })
    });
    runs.filter(|unit| !done.runs.contains_key(&(name(unit.point), unit.seed))).collect()
}

/// Asks for further runs where there are too few; false where all are there.
fn add(
    points: &Points<'_>,
    all: &[Vec<Setting>],
    counts: &mut [usize],
    done: &Done,
) -> Result<bool> {
    let Some(repeat) = &points.repeat else { return Ok(false) };
    let mut any = false;
    for (point, count) in all.iter().zip(counts) {
        let enough = repeat.enough(&done.of(points, point, *count))?;
        if let (None, Some(more)) = (enough, repeat.more(*count)) {
            (*count, any) = (more, true);
        }
    }
    Ok(any)
}

pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs in any order by `jobs` threads; what is finished is written at once.
fn work_off(
    points: &Points<'_>,
    todo: &[Unit<'_>],
    known: Done,
    kept: Option<Kept>,
    jobs: usize,
) -> Result<(Done, Option<Kept>)> {
    let before = known.runs.len();
    let all = before + todo.len();
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((known, kept, None::<anyhow::Error>));
    let work = || {
        while let Some(unit) = todo.get(next.fetch_add(1, Relaxed)) {
            let outcome = one(points, unit.point, unit.seed);
            let mut shared = shared.lock().expect("no thread panicked");
            let (done, kept, failed) = &mut *shared;
            if points.watched.stopped() || failed.is_some() {
                return;
            }
            if let Err(error) = outcome.and_then(|found| keep(done, kept.as_mut(), unit, found)) {
                let at = name(unit.point);
                *failed =
                    Some(if at.is_empty() { error } else { error.context(format!("at {at}")) });
                return;
            }
            let finished = done.runs.len();
            let share = finished.max(before) as f64 / all as f64;
            let thing = if points.repeated() { "run" } else { "point" };
            points.watched.at(share, &format!("{thing} {finished} of {all}"));
        }
    };
    std::thread::scope(|scope| {
        (0..jobs.min(todo.len())).for_each(|_| drop(scope.spawn(work)));
    });
    let (done, kept, failed) = shared.into_inner().expect("no thread panicked");
    match failed {
        Some(error) => Err(error),
        None => Ok((done, kept)),
    }
}

/// Writes a finished run before it counts as one.
fn keep(done: &mut Done, kept: Option<&mut Kept>, unit: &Unit<'_>, found: Report) -> Result<()> {
    let known = done.shapes.contains(&found.columns);
    if !known {
        done.shapes.push(found.columns);
    }
    let line = Finished {
        point: name(unit.point),
        seed: Some(unit.seed),
        set: settings(unit.point),
        figures: found.figures,
    };
    if let Some(kept) = kept {
        if !known {
            kept.write_origin(&done.shapes)?;
        }
        let text = serde_json::to_string(&line)? + "\n";
        kept.file.write_all(text.as_bytes()).context("cannot keep a finished point")?;
    }
    done.runs.insert((line.point.clone(), unit.seed), line);
    Ok(())
}

/// One run.
pub(super) fn one(points: &Points<'_>, point: &[Setting], seed: u64) -> Result<Report> {
    /// The whole sweep has the line; a point only tells whether it is to end.
    struct Inner<'a>(&'a Watched);
    impl Progress for Inner<'_> {
        fn at(&self, _done: f64, _note: &str) {}
        fn stopped(&self) -> bool {
            self.0.stopped()
        }
    }
    let document = points.origin.document.with(point)?;
    let study = points.subject.study;
    study(&document, points.files, seed, &Inner(points.watched))
}

/// A point in the words of the command line.
fn name(point: &[Setting]) -> String {
    point.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The files in which a sweep keeps its finished points: `points.jsonl`, a line for each, and
/// `sweep.json`, which says of what scenario, seed and program they are.
struct Kept {
    known: Done,
    file: File,
    path: PathBuf,
    origin: Map<String, Value>,
}

impl Kept {
    /// Opens them, and reads what an earlier run of the same scenario, seed and program left. The
    /// last line of a run that was killed may be incomplete: it counts as not finished.
    fn open(place: &Path, points: &Points<'_>, fresh: bool) -> Result<Kept> {
        fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
        let mut origin = Map::new();
        origin.insert("scenario".into(), points.origin.document.to_toml().into());
        origin.insert("seed".into(), points.origin.seed.into());
        origin.insert("revision".into(), env!("EBB_REVISION").into());
        let (path, data) = (place.join("sweep.json"), place.join("points.jsonl"));
        let known = if fresh { None } else { known(&path, &data, &origin) }.unwrap_or_default();
        let mut content = String::new();
        for line in known.runs.values() {
            content += &(serde_json::to_string(line)? + "\n");
        }
        ebb_report::write_file(&data, content.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&data);
        let file = file.with_context(|| format!("cannot open {}", data.display()))?;
        let kept = Kept { known, file, path, origin };
        kept.write_origin(&kept.known.shapes)?;
        Ok(kept)
    }

    fn write_origin(&self, shapes: &[Columns]) -> Result<()> {
        let mut origin = self.origin.clone();
        origin.insert("columns".into(), serde_json::to_value(shapes)?);
        let text = serde_json::to_string_pretty(&origin)? + "\n";
        Ok(ebb_report::write_file(&self.path, text.as_bytes())?)
    }
}

/// What an earlier run of the same origin left in its two files; nothing if any of it is of another.
fn known(origin_path: &Path, data: &Path, origin: &Map<String, Value>) -> Option<Done> {
    let mut left: Map<String, Value> =
        serde_json::from_str(&fs::read_to_string(origin_path).ok()?).ok()?;
    let shapes = serde_json::from_value(left.remove("columns")?).ok()?;
    if left != *origin {
        return None;
    }
    let text = fs::read_to_string(data).ok()?;
    let seed = origin.get("seed")?.as_u64()?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Finished>(line).ok());
    let keyed = |line: Finished| ((line.point.clone(), line.seed.unwrap_or(seed)), line);
    Some(Done { runs: lines.map(keyed).collect(), shapes })
}

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Context, Result};
use ebb_report::{Report, nested};
use ebb_scenario::{Files, Progress, Setting, Sweep};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::args::StudyArgs;
use super::run::Origin;
use super::sweep_report::{Row, report};
use super::{Subject, Watched};

/// Everything that the points of a sweep have in common.
pub(super) struct Points<'a> {
    pub(super) subject: Subject,
    pub(super) origin: &'a Origin<'a>,
    pub(super) sweep: &'a Sweep,
    pub(super) files: &'a dyn Files,
    pub(super) watched: &'a Watched,
}

/// One finished point, a line of the sweep's file.
#[derive(Clone, Serialize, Deserialize)]
struct Finished {
    point: String,
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
    points: BTreeMap<String, Finished>,
    /// Each list of columns that some point has: a saturated network has no latency.
    shapes: Vec<Columns>,
}

impl Done {
    /// The columns of all points, in an order that does not depend on which was finished first.
    fn columns(&self, all: &[Vec<Setting>]) -> Columns {
        let mut columns = Columns::new();
        for finished in all.iter().filter_map(|point| self.points.get(&name(point))) {
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
/// Every point uses the same seed, so that points differ by their settings and not by luck.
pub(super) fn run(points: &Points<'_>, place: Option<&Path>, args: &StudyArgs) -> Result<Report> {
    let mut kept = place.map(|place| Kept::open(place, points, args.fresh)).transpose()?;
    let known = kept.as_mut().map(|kept| std::mem::take(&mut kept.known)).unwrap_or_default();
    let all: Vec<Vec<Setting>> = points.sweep.points().collect();
    let reused = all.iter().filter(|point| known.points.contains_key(&name(point))).count();
    if reused > 0 {
        eprintln!(
            "ebb: {reused} of {} points are finished already (--fresh computes them again)",
            all.len()
        );
    }
    let jobs = args.jobs.map_or_else(processors, usize::from).min(all.len().max(1));
    let done = compute(points, &all, known, kept, jobs)?;
    let rows = all.iter().filter_map(|point| {
        let finished = done.points.get(&name(point))?;
        Some(Row { point, figures: &finished.figures })
    });
    Ok(report(points, all.len(), &rows.collect::<Vec<_>>(), &done.columns(&all)))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Points in any order by `jobs` threads; what is finished is written at once.
fn compute(
    points: &Points<'_>,
    all: &[Vec<Setting>],
    known: Done,
    kept: Option<Kept>,
    jobs: usize,
) -> Result<Done> {
    let todo: Vec<&Vec<Setting>> =
        all.iter().filter(|point| !known.points.contains_key(&name(point))).collect();
    let before = all.len() - todo.len();
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((known, kept, None::<anyhow::Error>));
    let work = || {
        while let Some(point) = todo.get(next.fetch_add(1, Relaxed)) {
            let outcome = one(points, point);
            let mut shared = shared.lock().expect("no thread panicked");
            let (done, kept, failed) = &mut *shared;
            if points.watched.stopped() || failed.is_some() {
                return;
            }
            if let Err(error) = outcome.and_then(|found| keep(done, kept.as_mut(), point, found)) {
                *failed = Some(error.context(format!("at {}", name(point))));
                return;
            }
            let finished = done.points.len();
            let share = finished.max(before) as f64 / all.len() as f64;
            points.watched.at(share, &format!("point {finished} of {}", all.len()));
        }
    };
    std::thread::scope(|scope| {
        (0..jobs).for_each(|_| drop(scope.spawn(work)));
    });
    let (done, _, failed) = shared.into_inner().expect("no thread panicked");
    match failed {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// Writes a finished point before it counts as one.
fn keep(done: &mut Done, kept: Option<&mut Kept>, point: &[Setting], found: Report) -> Result<()> {
    let known = done.shapes.contains(&found.columns);
    if !known {
        done.shapes.push(found.columns);
    }
    let line = Finished { point: name(point), set: settings(point), figures: found.figures };
    if let Some(kept) = kept {
        if !known {
            kept.write_origin(&done.shapes)?;
        }
        let text = serde_json::to_string(&line)? + "\n";
        kept.file.write_all(text.as_bytes()).context("cannot keep a finished point")?;
    }
    done.points.insert(line.point.clone(), line);
    Ok(())
}

/// The settings of a point as JSON, with dots and nested.
pub(super) fn settings(point: &[Setting]) -> Map<String, Value> {
    let value = |setting: &Setting| serde_json::to_value(&setting.value).unwrap_or_default();
    nested(&point.iter().map(|setting| (setting.path.clone(), value(setting))).collect())
}

fn one(points: &Points<'_>, point: &[Setting]) -> Result<Report> {
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
    study(&document, points.files, points.origin.seed, &Inner(points.watched))
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
        for line in known.points.values() {
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
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Finished>(line).ok());
    Some(Done { points: lines.map(|line| (line.point.clone(), line)).collect(), shapes })
}

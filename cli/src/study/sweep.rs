use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Context, Result};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_scenario::{Files, Progress, Setting, Sweep};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::args::StudyArgs;
use super::run::Origin;
use super::{Subject, Watched};

/// Figures drawn at most; all are in the table.
const PLOTS_MAX: usize = 12;

/// Figures side by side at most, of those whose names have nothing in common.
const COLUMNS_MAX: usize = 7;

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
    figures: Map<String, Value>,
}

/// Computes all points, those that an earlier run finished excepted.
///
/// Every point uses the same seed, so that points differ by their settings and not by luck.
pub(super) fn run(points: &Points<'_>, place: Option<&Path>, args: &StudyArgs) -> Result<Report> {
    let mut kept = place.map(|place| Kept::open(place, points, args.fresh)).transpose()?;
    let known = kept.as_mut().map(|kept| std::mem::take(&mut kept.known)).unwrap_or_default();
    let all: Vec<Vec<Setting>> = points.sweep.points().collect();
    let reused = all.iter().filter(|point| known.contains_key(&name(point))).count();
    if reused > 0 {
        eprintln!(
            "ebb: {reused} of {} points are finished already (--fresh computes them again)",
            all.len()
        );
    }
    let jobs = args.jobs.map_or_else(processors, usize::from).min(all.len().max(1));
    let finished = compute(points, &all, known, kept.map(|kept| kept.file), jobs)?;
    if let Some(place) = place {
        let (varied, rows) = (points.sweep.varied().collect::<Vec<_>>(), rows(&all, &finished));
        let all = table("Points", &varied, &figures(&rows), &rows);
        ebb_report::write_file(&place.join("points.csv"), all.to_csv().as_bytes())?;
    }
    Ok(report(points, &all, &finished))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Points in any order by `jobs` threads; what is finished is written at once.
fn compute(
    points: &Points<'_>,
    all: &[Vec<Setting>],
    known: BTreeMap<String, Map<String, Value>>,
    file: Option<File>,
    jobs: usize,
) -> Result<BTreeMap<String, Map<String, Value>>> {
    let todo: Vec<&Vec<Setting>> =
        all.iter().filter(|point| !known.contains_key(&name(point))).collect();
    let before = all.len() - todo.len();
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((known, file, None::<anyhow::Error>));
    let work = || {
        while let Some(point) = todo.get(next.fetch_add(1, Relaxed)) {
            let outcome = one(points, point);
            let mut shared = shared.lock().expect("no thread panicked");
            let (finished, file, failed) = &mut *shared;
            if points.watched.stopped() || failed.is_some() {
                return;
            }
            let kept = outcome.and_then(|figures| {
                let line = Finished { point: name(point), figures };
                if let Some(file) = file {
                    let text = serde_json::to_string(&line)? + "\n";
                    file.write_all(text.as_bytes()).context("cannot keep a finished point")?;
                }
                finished.insert(line.point, line.figures);
                Ok(())
            });
            if let Err(error) = kept {
                *failed = Some(error.context(format!("at {}", name(point))));
                return;
            }
            let done = finished.len().max(before) as f64 / all.len() as f64;
            points.watched.at(done, &format!("point {} of {}", finished.len(), all.len()));
        }
    };
    std::thread::scope(|scope| {
        (0..jobs).for_each(|_| drop(scope.spawn(work)));
    });
    let (finished, _, failed) = shared.into_inner().expect("no thread panicked");
    match failed {
        Some(error) => Err(error),
        None => Ok(finished),
    }
}

fn one(points: &Points<'_>, point: &[Setting]) -> Result<Map<String, Value>> {
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
    let report = study(&document, points.files, points.origin.seed, &Inner(points.watched))?;
    Ok(report.figures)
}

/// A point in the words of the command line.
fn name(point: &[Setting]) -> String {
    point.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The file in which a sweep keeps its finished points.
struct Kept {
    known: BTreeMap<String, Map<String, Value>>,
    file: File,
}

impl Kept {
    /// Opens it, and reads what an earlier run of the same scenario, seed and program left. The
    /// last line of a run that was killed may be incomplete: it counts as not finished.
    fn open(place: &Path, points: &Points<'_>, fresh: bool) -> Result<Kept> {
        let path = place.join("points.jsonl");
        fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
        let header = serde_json::json!({
            "scenario": points.origin.document.to_toml(),
            "seed": points.origin.seed,
            "revision": env!("EBB_REVISION"),
        })
        .to_string();
        let text =
            if fresh { String::new() } else { fs::read_to_string(&path).unwrap_or_default() };
        let mut lines = text.lines();
        let same = lines.next() == Some(header.as_str());
        let finished = lines.filter(|_| same).filter_map(|line| serde_json::from_str(line).ok());
        let known: BTreeMap<_, _> =
            finished.map(|line: Finished| (line.point, line.figures)).collect();
        let mut content = header + "\n";
        for (point, figures) in &known {
            let line = Finished { point: point.clone(), figures: figures.clone() };
            content += &(serde_json::to_string(&line)? + "\n");
        }
        ebb_report::write_file(&path, content.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path);
        Ok(Kept { known, file: file.with_context(|| format!("cannot open {}", path.display()))? })
    }
}

fn report(
    points: &Points<'_>,
    all: &[Vec<Setting>],
    finished: &BTreeMap<String, Map<String, Value>>,
) -> Report {
    let rows: Vec<(&Vec<Setting>, &Map<String, Value>)> = all
        .iter()
        .filter_map(|point| finished.get(&name(point)).map(|found| (point, found)))
        .collect();
    let varied: Vec<&str> = points.sweep.varied().collect();
    let mut figures: Vec<&String> = Vec::new();
    for (_, found) in &rows {
        let new = found.iter().filter(|(_, value)| value.is_number()).map(|(key, _)| key);
        new.for_each(|key| {
            if !figures.contains(&key) {
                figures.push(key)
            }
        });
    }
    let Subject { kind, system, .. } = points.subject;
    let title = format!("{kind} {system}: sweep over {}", varied.join(", "));
    let mut report = Report::new(title).text(format!(
        "{} of {} points, each with seed {}.",
        rows.len(),
        all.len(),
        points.origin.seed
    ));
    for (title, group) in groups(&figures) {
        report = report.table(table(&title, &varied, &group, &rows));
    }
    let changing = |figure: &&&String| {
        rows.iter().any(|(_, found)| found.get(**figure) != rows[0].1.get(**figure))
    };
    for figure in figures.iter().filter(changing).take(PLOTS_MAX) {
        if let Some(plot) = plot(&varied, figure, &rows) {
            report = report.plot(plot);
        }
    }
    let points: Vec<Value> = rows.iter().map(|(point, found)| as_json(point, found)).collect();
    report.figure("points", points)
}

fn as_json(point: &[Setting], found: &Map<String, Value>) -> Value {
    let set: Map<String, Value> = point
        .iter()
        .map(|setting| {
            (setting.path.clone(), serde_json::to_value(&setting.value).unwrap_or_default())
        })
        .collect();
    serde_json::json!({ "set": set, "figures": found })
}

type Rows<'a> = [(&'a Vec<Setting>, &'a Map<String, Value>)];

fn rows<'a>(
    all: &'a [Vec<Setting>],
    finished: &'a BTreeMap<String, Map<String, Value>>,
) -> Vec<(&'a Vec<Setting>, &'a Map<String, Value>)> {
    let found = |point: &'a Vec<Setting>| finished.get(&name(point)).map(|found| (point, found));
    all.iter().filter_map(found).collect()
}

/// The names of all numbers that any point has.
fn figures<'a>(rows: &Rows<'a>) -> Vec<&'a String> {
    let mut figures: Vec<&String> = Vec::new();
    for (_, found) in rows {
        for (key, _) in found.iter().filter(|(_, value)| value.is_number()) {
            if !figures.contains(&key) {
                figures.push(key);
            }
        }
    }
    figures
}

/// Tables narrow enough to read: figures that begin alike together, the others a few at a time.
fn groups<'a>(figures: &[&'a String]) -> Vec<(String, Vec<&'a String>)> {
    let (alike, single): (Vec<&String>, Vec<&String>) =
        figures.iter().partition(|figure| figure.contains('.'));
    let mut groups: Vec<(String, Vec<&String>)> =
        single.chunks(COLUMNS_MAX).map(|some| ("Points".to_owned(), some.to_vec())).collect();
    for figure in alike {
        let title = figure.split('.').next().unwrap_or_default();
        match groups.iter_mut().find(|(other, _)| other == title) {
            Some((_, group)) => group.push(figure),
            None => groups.push((title.to_owned(), vec![figure])),
        }
    }
    groups
}

/// Digits after the point that tell the values apart.
fn decimals(figure: &str, rows: &Rows<'_>) -> usize {
    let values: Vec<f64> =
        rows.iter().filter_map(|(_, found)| found.get(figure)?.as_f64()).collect();
    let most = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    match most {
        _ if values.iter().all(|value| value.fract() == 0.0) => 0,
        100.0.. => 1,
        1.0.. => 3,
        0.001.. => 5,
        _ => 9,
    }
}

fn table(title: &str, varied: &[&str], figures: &[&String], rows: &Rows<'_>) -> Table {
    let numeric = |path: &str| rows.iter().all(|(point, _)| number(point, path).is_some());
    let head = varied
        .iter()
        .map(|path| if numeric(path) { Column::number(*path, "", 3) } else { Column::text(*path) });
    let columns = head
        .chain(figures.iter().map(|name| Column::number(name.as_str(), "", decimals(name, rows))));
    let mut table = Table::new(title, columns);
    for (point, found) in rows {
        let setting = |path: &&str| -> Cell {
            match number(point, path) {
                Some(value) if numeric(path) => value.into(),
                _ => text(point, path).into(),
            }
        };
        let head = varied.iter().map(setting);
        let values = figures.iter().map(|name| {
            found.get(name.as_str()).and_then(Value::as_f64).map_or(Cell::Missing, Cell::Number)
        });
        table.row(head.chain(values));
    }
    table
}

/// The figure over the first numeric setting, a line for each combination of the others.
fn plot(varied: &[&str], figure: &str, rows: &Rows<'_>) -> Option<Plot> {
    let axis =
        varied.iter().find(|path| rows.iter().all(|(point, _)| number(point, path).is_some()))?;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (point, found) in rows {
        let rest = varied.iter().filter(|path| path != &axis);
        let name = rest.map(|path| text(point, path)).collect::<Vec<_>>().join(", ");
        let (x, y) = (number(point, axis)?, found.get(figure).and_then(Value::as_f64)?);
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, line)) => line.push((x, y)),
            None => lines.push((name, vec![(x, y)])),
        }
    }
    let mut plot = Plot::new(figure, Axis::new(*axis, "")).panel(Axis::new(figure, "").from_zero());
    for (name, mut line) in lines {
        line.sort_by(|left, right| left.0.total_cmp(&right.0));
        let name = if name.is_empty() { figure.to_owned() } else { name };
        plot = plot.series(Series::line(name, line));
    }
    Some(plot)
}

fn number(point: &[Setting], path: &str) -> Option<f64> {
    let value = &point.iter().find(|setting| setting.path == path)?.value;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn text(point: &[Setting], path: &str) -> String {
    let setting = point.iter().find(|setting| setting.path == path);
    let shown = setting.map(ToString::to_string).unwrap_or_default();
    shown.split_once('=').map_or(String::new(), |(_, value)| value.to_owned())
}

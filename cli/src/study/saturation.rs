//! The most that is still stable: halves of an interval of one setting, for each point of a sweep.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, bail};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_scenario::{Progress, Setting};

use super::Unreadable;
use super::headlines::STABLE;
use super::interval::Interval;
use super::points::{Points, settings};
use super::sweep::one;

/// One value that was tried.
#[derive(Clone, Debug)]
struct Trial {
    value: f64,
    status: String,
}

impl Trial {
    fn is_stable(&self) -> bool {
        self.status == STABLE
    }
}

/// What the trials of a point come to.
#[derive(Clone, Debug)]
struct Found {
    trials: Vec<Trial>,
}

impl Found {
    fn most(&self) -> Option<f64> {
        let stable = self.trials.iter().filter(|trial| trial.is_stable());
        stable.map(|trial| trial.value).reduce(f64::max)
    }

    fn least_unstable(&self) -> Option<f64> {
        let unstable = self.trials.iter().filter(|trial| !trial.is_stable());
        unstable.map(|trial| trial.value).reduce(f64::min)
    }
}

/// Looks for the most at every point.
pub(super) fn find(points: &Points<'_>, interval: &Interval, jobs: usize) -> Result<Report> {
    let all: Vec<Vec<Setting>> = points.sweep.points().collect();
    if all.iter().flatten().any(|setting| setting.path == interval.path) {
        let message = format!("--saturation varies {}: leave it out of --set", interval.path);
        return Err(Unreadable::because(message));
    }
    let next = AtomicUsize::new(0);
    let found = Mutex::new((vec![None; all.len()], None::<anyhow::Error>));
    let work = || {
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(point) = all.get(index) else { return };
            let outcome = of_point(points, point, interval);
            let mut found = found.lock().expect("no thread panicked");
            let (results, failed) = &mut *found;
            match outcome {
                Ok(one) => results[index] = Some(one),
                Err(error) => *failed = failed.take().or(Some(error)),
            }
            let done = results.iter().flatten().count();
            points.watched.at(done as f64 / all.len() as f64, "looking for saturation");
            if failed.is_some() || points.watched.stopped() {
                return;
            }
        }
    };
    std::thread::scope(|scope| (0..jobs.clamp(1, all.len())).for_each(|_| drop(scope.spawn(work))));
    let (results, failed) = found.into_inner().expect("no thread panicked");
    if let Some(error) = failed {
        return Err(error);
    }
    let results: Vec<(&Vec<Setting>, Found)> =
        all.iter().zip(results).filter_map(|(point, found)| Some((point, found?))).collect();
    if results.is_empty() || points.watched.stopped() {
        bail!("interrupted");
    }
    Ok(report(points, interval, &results))
}

fn of_point(points: &Points<'_>, point: &[Setting], interval: &Interval) -> Result<Found> {
    let mut found = Found { trials: Vec::new() };
    let mut attempt = |value: f64| -> Result<bool> {
        let settings = [point, &[interval.setting(value)]].concat();
        let figures = one(points, &settings, points.origin.seed)?.figures;
        let status = figures.get("status").and_then(|status| status.as_str());
        let Some(status) = status else {
            return Err(Unreadable::because("--saturation: there is no `status` to go by"));
        };
        let trial = Trial { value, status: status.to_owned() };
        let stable = trial.is_stable();
        found.trials.push(trial);
        Ok(stable)
    };
    let (mut good, mut bad) = (interval.low, interval.high);
    if attempt(bad)? || !attempt(good)? {
        return Ok(found);
    }
    while bad - good > interval.close * (1.0 + 1e-9) && !points.watched.stopped() {
        let middle = (good + bad) / 2.0;
        *(if attempt(middle)? { &mut good } else { &mut bad }) = middle;
    }
    Ok(found)
}

fn report(points: &Points<'_>, interval: &Interval, results: &[(&Vec<Setting>, Found)]) -> Report {
    let path = &interval.path;
    let title = format!(
        "{} {}: the most of {path} that is stable",
        points.subject.kind, points.subject.system
    );
    let text = format!(
        "By halves of {} to {}, to {} (seed {}). Where the upper end is stable already, the most is at \
         least that; where the lower is not, there is none.",
        interval.low, interval.high, interval.close, points.origin.seed
    );
    let varied: Vec<&str> = points.sweep.varied().collect();
    let text_of = |point: &[Setting], path: &str| {
        let setting = point.iter().find(|setting| setting.path == path);
        let shown = setting.map(ToString::to_string).unwrap_or_default();
        shown.split_once('=').map_or(String::new(), |(_, value)| value.to_owned())
    };
    let head = varied.iter().map(|path| Column::text(*path));
    let body = [
        Column::number("most stable", "", 4),
        Column::number("least not stable", "", 4),
        Column::text("status there"),
        Column::count("runs"),
    ];
    let mut table = Table::new("Saturation", head.chain(body)).named_by(varied.len().max(1));
    let mut curve = Vec::new();
    for (point, found) in results {
        let first_bad = found.least_unstable();
        let status = found.trials.iter().find(|trial| Some(trial.value) == first_bad);
        let cells: [Cell; 4] = [
            found.most().into(),
            first_bad.into(),
            status.map(|trial| trial.status.as_str()).into(),
            (found.trials.len() as u64).into(),
        ];
        let head = varied.iter().map(|path| Cell::from(text_of(point, path)));
        table.row(head.chain(cells));
        let at = varied.first().and_then(|path| text_of(point, path).parse::<f64>().ok());
        curve.extend(at.zip(found.most()));
    }
    let mut report = Report::new(title).text(text).table(table);
    if let ([path], true) = (varied.as_slice(), curve.len() == results.len() && curve.len() > 1) {
        let plot = Plot::new(
            format!("Most stable {} against {path}", interval.path),
            Axis::new(*path, ""),
        )
        .panel(Axis::new(interval.path.as_str(), "").from_zero());
        report = report.plot(plot.series(Series::line("most stable", curve)));
    }
    let of = |(point, found): &(&Vec<Setting>, Found)| {
        let trials = found.trials.iter();
        let trials = trials.map(|trial| serde_json::json!([trial.value, trial.status]));
        serde_json::json!({
            "set": settings(point),
            "most_stable": found.most(),
            "least_not_stable": found.least_unstable(),
            "trials": trials.collect::<Vec<_>>(),
        })
    };
    if let ([(_, only)], true) = (results, varied.is_empty()) {
        report = report
            .figure("most_stable", only.most())
            .figure("least_not_stable", only.least_unstable());
    }
    report.figure("points", results.iter().map(of).collect::<Vec<_>>())
}

//! The most that is still stable: halves of an interval of one setting, for each point of a sweep.

use std::ops::ControlFlow;

use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_scenario::Setting;

use crate::executor::Point;
use crate::interval::Interval;
use crate::job::Job;
use crate::points::settings;
use crate::study::STABLE;
use crate::sweep::one;
use crate::{JobError, StudyError};

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
#[derive(Clone, Debug, Default)]
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

impl Found {
    /// What to try next: both ends, then the middle between those that are stable and those that are not.
    fn next(&self, interval: &Interval) -> Option<f64> {
        if self.trials.is_empty() {
            return Some(interval.high);
        }
        let bad = self.least_unstable()?;
        if self.trials.len() == 1 {
            return Some(interval.low);
        }
        let good = self.most()?;
        (bad - good > interval.close * (1.0 + 1e-9)).then_some((good + bad) / 2.0)
    }
}

/// Looks for the most at every point: in rounds, one run of each that is still in doubt.
pub(crate) fn find(job: &Job<'_>, interval: &Interval) -> Result<Report, JobError> {
    let all: Vec<Vec<Setting>> = job.sweep.points().collect();
    if all.iter().flatten().any(|setting| setting.path == interval.path) {
        let message = format!("varies {}: remove it from --set", interval.path);
        return Err(StudyError::in_file("--saturation", message).into());
    }
    let mut found = vec![Found::default(); all.len()];
    loop {
        let open = |(index, found): (usize, &Found)| Some((index, found.next(interval)?));
        let open: Vec<(usize, f64)> = found.iter().enumerate().filter_map(open).collect();
        if open.is_empty() || job.watcher.stopped() {
            break;
        }
        let point = |(index, value): &(usize, f64)| Point {
            settings: [&all[*index][..], &[interval.setting(*value)]].concat(),
            seed: job.seed,
        };
        let points: Vec<Point> = open.iter().map(point).collect();
        let mut failed = None;
        job.executor.run(&points, &|point| one(job, "", point), &mut |at, outcome| {
            let (index, value) = open[at];
            let status = outcome.and_then(|run| {
                let status = run.figures.get("status").and_then(|status| status.as_str());
                let missing = "the study reports no `status`";
                status
                    .map(str::to_owned)
                    .ok_or_else(|| StudyError::in_file("--saturation", missing))
            });
            match status {
                Ok(status) => found[index].trials.push(Trial { value, status }),
                Err(error) => {
                    failed = Some(JobError { point: points[at].name(), error: error.into() });
                    return ControlFlow::Break(());
                }
            }
            let done = found.iter().filter(|found| found.next(interval).is_none()).count();
            job.watcher.at(done as f64 / all.len() as f64, "looking for saturation");
            if job.watcher.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    if job.watcher.stopped() {
        return Err(StudyError::Stopped.into());
    }
    Ok(report(job, interval, &all.iter().zip(found).collect::<Vec<_>>()))
}

fn report(job: &Job<'_>, interval: &Interval, results: &[(&Vec<Setting>, Found)]) -> Report {
    let path = &interval.path;
    let title = format!("{}: highest stable {path}", job.study.name());
    let text = format!(
        "Bisection from {} to {}, to within {} (seed {}). If the upper end is stable, the highest \
        stable value is at least that; if the lower end is not, there is none.",
        interval.low, interval.high, interval.close, job.seed
    );
    let varied: Vec<&str> = job.sweep.varied().collect();
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
            format!("Highest stable {} against {path}", interval.path),
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

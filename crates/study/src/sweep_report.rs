//! What a sweep says: one table of all points, and the figures over the first number that varies.

use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table, nested};
use ebb_scenario::Setting;
use serde_json::{Map, Value};

use crate::job::Job;
use crate::points::{Swept, settings};
use crate::study::STABLE;

/// Figures drawn at most; all are in the table.
const PLOTS_MAX: usize = 12;

/// A finished point.
pub(crate) struct Row<'a> {
    pub(crate) point: &'a [Setting],
    pub(crate) figures: &'a Map<String, Value>,
}

/// A figure by its name and unit.
type Figure = (String, String);

impl Row<'_> {
    fn number(&self, figure: &str) -> Option<f64> {
        scalar(self.figures.get(figure)?).as_f64()
    }

    fn status(&self) -> Option<&str> {
        self.figures.get("status").and_then(Value::as_str)
    }

    /// Whether the figure means what it says: a network that takes less than is offered has no
    /// latency, one that stands still has nothing.
    fn holds(&self, figure: &str) -> bool {
        match self.status() {
            None | Some(STABLE) => true,
            Some("saturated") => !figure.contains("latency"),
            Some(_) => false,
        }
    }

    fn setting(&self, path: &str) -> Option<&Setting> {
        self.point.iter().find(|setting| setting.path == path)
    }

    fn set_number(&self, path: &str) -> Option<f64> {
        let value = &self.setting(path)?.value;
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    }

    fn set_text(&self, path: &str) -> String {
        let shown = self.setting(path).map(ToString::to_string).unwrap_or_default();
        shown.split_once('=').map_or(String::new(), |(_, value)| value.to_owned())
    }
}

/// A list of one is what is in it.
fn scalar(value: &Value) -> &Value {
    match value {
        Value::Array(list) if list.len() == 1 => &list[0],
        value => value,
    }
}

pub(crate) fn report(job: &Job<'_>, swept: &Swept, rows: &[Row<'_>], columns: &[Figure]) -> Report {
    let varied: Vec<&str> = job.sweep.varied().collect();
    let title = format!("{}: sweep over {}", job.study.name(), varied.join(", "));
    let (seed, all) = (job.seed, swept.all);
    let seeds = match job.repeat {
        None => format!("with seed {seed}"),
        Some(repeat) => format!(
            "the mean of as many runs as `seeds` says, with seeds from {seed} on{}. Intervals are \
            Student's 95 % intervals over these runs; all points use the same seeds",
            repeat.words()
        ),
    };
    let mut report =
        Report::new(title).text(format!("{} of {all} points, each {seeds}.", rows.len()));
    if swept.wide > 0 {
        report = report.text(format!(
            "At {} points the interval is still wider than requested after the maximum number of \
            seeds.",
            swept.wide
        ));
    }
    let bad = rows.iter().filter(|row| row.status().is_some_and(|status| status != STABLE)).count();
    if bad > 0 {
        report = report.text(format!(
            "{bad} points did not become stable: see `status`. Figures that are not valid there \
            are separate marks in the plots, not parts of a line."
        ));
    }
    report = report.table(table(&varied, columns, rows));
    let changing: Vec<&Figure> = columns.iter().filter(|(name, _)| changes(name, rows)).collect();
    let heads = job.study.headlines;
    let first = heads.iter().filter_map(|head| changing.iter().find(|(name, _)| name == head));
    let rest = changing.iter().filter(|(name, _)| !heads.contains(&name.as_str()));
    for (name, unit) in first.chain(rest).take(PLOTS_MAX) {
        if let Some(plot) = plot(&varied, name, unit, rows) {
            report = report.plot(plot);
        }
    }
    let points = rows.iter().map(|row| {
        let (set, figures) = (settings(row.point), nested(row.figures));
        serde_json::json!({ "set": set, "status": row.status(), "figures": figures })
    });
    report.figure("points", points.collect::<Vec<Value>>())
}

/// Whether the figure is a number that is not the same at all points, nor an interval of another.
fn changes(name: &str, rows: &[Row<'_>]) -> bool {
    let mut values = rows.iter().map(|row| row.number(name));
    let first = values.next().flatten();
    !name.ends_with("half_width_95")
        && name != "seeds"
        && values.any(|value| value != first && value.is_some())
}

/// One row for each point: what varies, the status, then every figure in the order of a single
/// report.
fn table(varied: &[&str], columns: &[Figure], rows: &[Row<'_>]) -> Table {
    let numeric = |path: &str| rows.iter().all(|row| row.set_number(path).is_some());
    let has_status = rows.iter().any(|row| row.status().is_some());
    let kind = |name: &str| rows.iter().find_map(|row| Some(scalar(row.figures.get(name)?)));
    let known = |name: &str| name == "seed" || name == "status" || varied.contains(&name);
    let figures: Vec<(&Figure, bool)> = columns
        .iter()
        .filter(|(name, _)| !known(name))
        .filter_map(|figure| match kind(&figure.0)? {
            Value::Number(_) => Some((figure, true)),
            Value::Bool(_) => Some((figure, false)),
            Value::Null => {
                rows.iter().any(|row| row.number(&figure.0).is_some()).then_some((figure, true))
            }
            _ => None,
        })
        .collect();
    let head = varied.iter().map(|path| {
        let written = rows.iter().map(|row| row.set_text(path));
        let after = written.map(|text| text.split_once('.').map_or(0, |(_, rest)| rest.len()));
        let decimals = after.max().unwrap_or(0).min(9);
        if numeric(path) { Column::number(*path, "", decimals) } else { Column::text(*path) }
    });
    let status = has_status.then(|| Column::text("status"));
    let body = figures.iter().map(|((name, unit), number)| {
        let decimals = decimals(rows.iter().filter_map(|row| row.number(name)));
        if *number { Column::number(name, unit, decimals) } else { Column::text(name) }
    });
    let keys = varied.len() + usize::from(has_status);
    let mut table = Table::new("Points", head.chain(status).chain(body)).named_by(keys);
    for row in rows {
        let head = varied.iter().map(|path| match row.set_number(path) {
            Some(value) if numeric(path) => value.into(),
            _ => row.set_text(path).into(),
        });
        let status = has_status.then(|| row.status().map(str::to_owned).into());
        let body = figures.iter().map(|((name, _), _)| match row.figures.get(name).map(scalar) {
            Some(Value::Bool(value)) => (if *value { "yes" } else { "no" }).into(),
            Some(value) => value.as_f64().into(),
            None => Cell::Missing,
        });
        table.row(head.chain(status).chain(body));
    }
    table
}

/// Digits after the point that tell the values apart.
fn decimals(values: impl Iterator<Item = f64>) -> usize {
    let values: Vec<f64> = values.collect();
    let most = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    match most {
        _ if values.iter().all(|value| value.fract() == 0.0) => 0,
        100.0.. => 1,
        1.0.. => 3,
        0.001.. => 5,
        _ => 9,
    }
}

/// A point of a plot.
struct Drawn {
    at: (f64, f64),
    half: f64,
    holds: bool,
}

/// The figure over the first numeric setting, a line for each combination of the others, with its
/// 95 % intervals where the points have any.
fn plot(varied: &[&str], figure: &str, unit: &str, rows: &[Row<'_>]) -> Option<Plot> {
    let axis = varied.iter().find(|path| rows.iter().all(|row| row.set_number(path).is_some()))?;
    let base = figure.strip_suffix(".mean").unwrap_or(figure);
    let mut lines: Vec<(String, Vec<Drawn>)> = Vec::new();
    for row in rows {
        let rest = varied.iter().filter(|path| path != &axis);
        let name = rest.map(|path| row.set_text(path)).collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { figure.to_owned() } else { name };
        let Some(y) = row.number(figure) else { continue };
        let half = row.number(&format!("{base}.half_width_95")).unwrap_or(f64::NAN);
        let point = Drawn { at: (row.set_number(axis)?, y), half, holds: row.holds(figure) };
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, line)) => line.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    let xs = lines.iter().flat_map(|(_, line)| line).map(|point| point.at.0);
    let x = Axis::new(*axis, "").fitting(xs.collect::<Vec<_>>().into_iter());
    let ys = lines.iter().flat_map(|(_, line)| line).map(|point| point.at.1);
    let y = Axis::new(figure, unit).fitting(ys.collect::<Vec<_>>().into_iter());
    let y = if y.log { y } else { y.from_zero() };
    let mut plot = Plot::new(format!("{figure} against {axis}"), x).panel(y);
    for (name, mut line) in lines {
        line.sort_by(|left, right| left.at.0.total_cmp(&right.at.0));
        let (good, bad): (Vec<_>, Vec<_>) = line.into_iter().partition(|point| point.holds);
        let halves = good.iter().map(|point| point.half).collect();
        let points = |of: &[Drawn]| of.iter().map(|point| point.at).collect();
        plot = plot.series(Series::line(name.as_str(), points(&good)).within(halves));
        if !bad.is_empty() {
            plot = plot.series(Series::points(format!("{name}, not stable"), points(&bad)));
        }
    }
    Some(plot)
}

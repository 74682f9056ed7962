//! One scenario with several seeds: the figures of all, then what the run with the first seed says.

use ebb_report::{Column, Replications, Report, Table};

use crate::job::Job;
use crate::repeat::Repeat;
use crate::{JobError, StudyError, sweep};

/// Runs it with all seeds.
pub(crate) fn repeated(job: &Job<'_>) -> Result<Report, JobError> {
    let swept = sweep::compute(job)?;
    let Some((_, all)) = swept.rows.first() else { return Err(StudyError::Stopped.into()) };
    let first = job.once()?;
    let columns = Replications::columns(&swept.columns, &[&all.figures]);
    let seed = job.seed;
    let words = job.repeat.map(Repeat::words).unwrap_or_default();
    let mut report = Report::new(first.title)
        .text(format!(
            "Means over {} runs with seeds from {seed} on{words}; intervals are Student's 95 % \
            intervals. The parts after the first table are of the run with seed {seed}.",
            all.figures["seeds"]
        ))
        .table(over_seeds(all, &columns));
    if swept.wide > 0 {
        report = report
            .text("The interval is still wider than requested after the maximum number of seeds.");
    }
    report.sections.extend(first.sections);
    report.attachments = first.attachments;
    report.files = first.files;
    (report.figures, report.columns) = (all.figures.clone(), columns);
    Ok(report)
}

/// Every number with its interval.
fn over_seeds(all: &Replications, columns: &[(String, String)]) -> Table {
    let heads = [
        Column::text("figure"),
        Column::text("unit"),
        Column::number("mean", "", 6),
        Column::number("half-width, 95 %", "", 6),
        Column::number("least", "", 6),
        Column::number("most", "", 6),
    ];
    let mut table = Table::new("Over all seeds", heads);
    for (name, unit) in columns.iter().filter(|(name, _)| !name.ends_with(".half_width_95")) {
        let Some((_, seen)) = all.numbers.iter().find(|(other, _)| other == name) else { continue };
        let values = all.figures["by_seed"][name].as_array();
        let values = || values.into_iter().flatten().filter_map(serde_json::Value::as_f64);
        table.row([
            name.as_str().into(),
            unit.as_str().into(),
            seen.mean().into(),
            seen.half_width_95().into(),
            values().reduce(f64::min).into(),
            values().reduce(f64::max).into(),
        ]);
    }
    table
}

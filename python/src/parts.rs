//! Finished points as files of a table, while a sweep goes on.
//!
//! Room: from finished runs, as a job keeps them, to one Parquet file of a growing data set. Columns
//! are the settings, the seed and every figure that is a single value. It decides no order.

use std::path::PathBuf;

use ebb_report::{Cell, Column, Table, write_file};
use ebb_study::{Finished, StudyError};
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors;

/// Writes finished runs, as `compute` returned them, into a new Parquet file.
#[pyfunction]
pub(crate) fn write_part(
    py: Python<'_>,
    path: PathBuf,
    paths: Vec<String>,
    runs: Vec<String>,
) -> PyResult<()> {
    let write = || {
        let runs: Result<Vec<Finished>, _> =
            runs.iter().map(|run| serde_json::from_str(run)).collect();
        let table = table(&paths, &runs.map_err(StudyError::failed)?);
        write_file(&path, &table.to_parquet().map_err(StudyError::failed)?)?;
        Ok(())
    };
    py.detach(write).map_err(|error: StudyError| errors::of_study(py, &error, ""))
}

fn table(paths: &[String], runs: &[Finished]) -> Table {
    let mut figures: Vec<(&str, &str)> = Vec::new();
    for (name, unit) in runs.iter().flat_map(|run| &run.columns) {
        let single = runs.iter().filter_map(|run| run.figures.get(name));
        let single = single.filter(|value| !value.is_null()).all(|value| cell(value).is_some());
        if single && !figures.iter().any(|(known, _)| known == name) {
            figures.push((name, unit));
        }
    }
    let numeric = |path: &String| {
        let mut values = runs.iter().map(|run| run.set.get(path));
        values.all(|value| value.is_none_or(Value::is_number))
    };
    let settings = paths.iter().map(|path| match numeric(path) {
        true => Column::number(path, "", 6),
        false => Column::text(path),
    });
    let body = figures.iter().map(|(name, unit)| Column::number(*name, *unit, 6));
    let mut table = Table::new("Points", settings.chain([Column::count("seed")]).chain(body));
    let missing = |value: Option<&Value>| value.and_then(cell).unwrap_or(Cell::Missing);
    for run in runs {
        let head = paths.iter().map(|path| match run.set.get(path) {
            Some(value) => cell(value).unwrap_or_else(|| value.to_string().into()),
            None => Cell::Missing,
        });
        let body = figures.iter().map(|(name, _)| missing(run.figures.get(*name)));
        table.row(head.chain([run.seed.into()]).chain(body));
    }
    table
}

/// A single value; numbers all alike, so that the files of a data set agree.
fn cell(value: &Value) -> Option<Cell> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => number.as_f64().map(Cell::Number),
        Value::Bool(value) => Some((if *value { "yes" } else { "no" }).into()),
        _ => None,
    }
}

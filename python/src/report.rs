//! A report in Python's hands: figures, tables, plots and the forms that the command writes.
//!
//! Room: what `ebb_report` holds, handed over without loss and quickly: numbers of a column as one
//! block of memory. It knows no library of Python; data frames are made in `../ebb`.

use ebb_report::{Cell, Section, Table, Terminal};
use ebb_study::tables;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use serde_json::{Value, json};

/// What a run found.
#[pyclass(frozen, name = "Report")]
pub(crate) struct Report {
    report: ebb_report::Report,
}

impl Report {
    pub(crate) fn of(report: ebb_report::Report) -> Report {
        Report { report }
    }

    fn table(&self, index: usize) -> PyResult<(String, &Table)> {
        let none = || PyIndexError::new_err("no such table");
        tables(&self.report).into_iter().nth(index).ok_or_else(none)
    }

    fn plots(&self) -> impl Iterator<Item = &ebb_report::Plot> {
        self.report.sections.iter().filter_map(|section| match section {
            Section::Plot(plot) => Some(plot),
            _ => None,
        })
    }
}

/// A column on its way: what kind of block it is, and the block.
type Block<'py> = (&'static str, Bound<'py, PyAny>);

#[pymethods]
impl Report {
    /// Its headline.
    #[getter]
    fn title(&self) -> &str {
        &self.report.title
    }

    /// The figures as a JSON object.
    fn figures(&self) -> String {
        Value::Object(self.report.figures.clone()).to_string()
    }

    /// Names of figures in order, each with its unit.
    fn units(&self) -> Vec<(String, String)> {
        self.report.columns.clone()
    }

    /// What the command prints where there is no terminal.
    fn text(&self) -> String {
        self.report.to_terminal(&Terminal::plain())
    }

    /// The page that the command writes.
    fn html(&self) -> String {
        self.report.to_html()
    }

    /// The JSON that the command writes.
    fn json(&self) -> String {
        self.report.to_json()
    }

    /// The tables as JSON: name of the file, title, columns with units, number of rows.
    fn tables(&self) -> String {
        let of = |(name, table): (String, &Table)| {
            json!({ "name": name, "title": table.title, "columns": table.columns,
                "keys": table.keys, "rows": table.rows.len() })
        };
        Value::from(tables(&self.report).into_iter().map(of).collect::<Vec<_>>()).to_string()
    }

    /// The columns of the table of this index, each ("count", block of uint64), ("number", block of
    /// float64) or ("text", list).
    fn columns<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Vec<Block<'py>>> {
        let (_, table) = self.table(index)?;
        (0..table.columns.len()).map(|column| block(py, table, column)).collect()
    }

    /// The table of this index as the command writes it.
    fn csv<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.table(index)?.1.to_csv().as_bytes()))
    }

    /// The plots as JSON.
    fn plots_json(&self) -> String {
        serde_json::to_string(&self.plots().collect::<Vec<_>>()).unwrap_or_default()
    }

    /// The plots as the page draws them.
    fn svg(&self) -> Vec<String> {
        self.plots().map(ebb_report::Plot::to_svg).collect()
    }
}

fn block<'py>(py: Python<'py>, table: &Table, column: usize) -> PyResult<Block<'py>> {
    let cells = || table.rows.iter().map(|row| &row[column]);
    if cells().all(|cell| matches!(cell, Cell::Count(_))) {
        let count = |cell: &Cell| if let Cell::Count(count) = cell { *count } else { 0 };
        let bytes = memory(table.rows.len(), cells().map(|cell| count(cell).to_le_bytes()));
        return Ok(("count", PyByteArray::new(py, &bytes).into_any()));
    }
    if cells().any(|cell| matches!(cell, Cell::Text(_))) {
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => text.into_pyobject(py).map(Bound::into_any),
            Cell::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            Cell::Count(count) => Ok(count.into_pyobject(py)?.into_any()),
            Cell::Missing => Ok(py.None().into_bound(py)),
        };
        let texts: Result<Vec<_>, _> = cells().map(text).collect();
        return Ok(("text", PyList::new(py, texts?)?.into_any()));
    }
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => *number,
        Cell::Count(count) => *count as f64,
        Cell::Text(_) | Cell::Missing => f64::NAN,
    };
    let bytes = memory(table.rows.len(), cells().map(|cell| number(cell).to_le_bytes()));
    Ok(("number", PyByteArray::new(py, &bytes).into_any()))
}

/// Numbers one after another.
fn memory(count: usize, numbers: impl Iterator<Item = [u8; 8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * count);
    numbers.for_each(|number| bytes.extend_from_slice(&number));
    bytes
}

//! A table with a column of times and one of values.

use super::even::Rows;
use super::{Ask, Measure, Series, time};
use crate::ScenarioError;
use crate::csv::Table;

/// Words for a value that is not there.
const MISSING: [&str; 5] = ["", "-", "null", "na", "n/a"];

pub(super) fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    let table = Table::parse(ask.file, bytes)?;
    let at = table.column(&[ask.time.unwrap_or("time")])?;
    let value = match ask.value {
        Some(name) => table.column(&[name])?,
        None if table.width() == 2 => 1 - at,
        None => {
            let remedy = format!("set `value` to one of: {}", table.header().join(", "));
            return Err(table.whole("has several columns of values", &remedy));
        }
    };
    of_columns(&table, (at, value), None)
}

/// The series of two columns.
pub(super) fn of_columns(
    table: &Table,
    (at, value): (usize, usize),
    measure: Option<Measure>,
) -> Result<Series, ScenarioError> {
    if table.len() < 2 {
        return Err(
            table.whole("has fewer than two rows", "expected at least two rows at equal intervals")
        );
    }
    let times = time::of_column(table, at)?;
    let known = |row| {
        let missing = MISSING.iter().any(|word| table.text(row, value).eq_ignore_ascii_case(word));
        if missing { Ok(None) } else { table.non_negative(row, value).map(Some) }
    };
    let values = (0..table.len()).map(known).collect::<Result<Vec<_>, _>>()?;
    let fault = |row: usize, message: &str, remedy: &str| table.fault(row, at, message, remedy);
    Rows { times, values, fault: &fault }.even(measure, Vec::new())
}

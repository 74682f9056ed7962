//! A table with a column of times and one of values; or a long one, in which further columns say of which
//! series a row is.

use super::even::Rows;
use super::{Ask, Measure, Series, choose, measure, time};
use crate::ScenarioError;
use crate::csv::Table;

/// Words for a value that is not there.
const MISSING: [&str; 7] = ["", "-", "null", "na", "n/a", "nan", "undefined"];
/// What a scenario calls the column of times where it does not say otherwise.
const TIME: &str = "time";
/// What others call it, in small letters.
const TIMES: [&str; 9] =
    ["timestamp", "date", "datetime", "date time", "ts", "_time", "epoch", "clock", "zeit"];

pub(super) fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    let table = Table::parse(ask.file, bytes)?;
    let at = times(ask, &table)?;
    if let Some(long) = Long::of(&table, at)
        && ask.value.is_none_or(|name| table.column(&[name]).is_err())
    {
        return long.read(ask, &table, at);
    }
    let value = match ask.value {
        Some(name) => table.column(&[name])?,
        None if table.width() == 2 => 1 - at,
        None => {
            let remedy = format!("set `value` to one of: {}", table.header().join(", "));
            return Err(table.whole("has several columns of values", &remedy));
        }
    };
    of_columns(&table, (at, value), measure::of_head(&table.header()[value]))
}

/// The column of times: the one asked for, or where that is no more than the usual name, one that others use.
fn times(ask: &Ask<'_>, table: &Table) -> Result<usize, ScenarioError> {
    let asked = ask.time.unwrap_or(TIME);
    let found = table.column(&[asked]);
    if found.is_ok() || asked != TIME {
        return found;
    }
    let known = |name: &&String| TIMES.contains(&name.to_ascii_lowercase().as_str());
    let mut named = table.header().iter().filter(known);
    match (named.next(), named.next()) {
        (Some(name), None) => table.column(&[name]),
        _ => found,
    }
}

/// The series of two columns.
pub(super) fn of_columns(
    table: &Table,
    (at, value): (usize, usize),
    measure: Option<(Measure, f64)>,
) -> Result<Series, ScenarioError> {
    let all: Vec<usize> = (0..table.len()).collect();
    of_rows(table, &all, (at, value), measure)
}

/// The series of two columns in some rows.
fn of_rows(
    table: &Table,
    rows: &[usize],
    (at, value): (usize, usize),
    measure: Option<(Measure, f64)>,
) -> Result<Series, ScenarioError> {
    if rows.len() < 2 {
        return Err(
            table.whole("has fewer than two rows", "expected at least two rows at equal intervals")
        );
    }
    let instants = time::of_column(table, at)?;
    let times = rows.iter().map(|row| instants[*row]).collect();
    let factor = measure.map_or(1.0, |(_, factor)| factor);
    let known = |row: &usize| {
        if missing(table.text(*row, value)) {
            Ok(None)
        } else {
            table.non_negative(*row, value).map(|value| Some(value * factor))
        }
    };
    let values = rows.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let fault =
        |row: usize, message: &str, remedy: &str| table.fault(rows[row], at, message, remedy);
    let certain = rows.iter().all(|row| time::is_certain(table.text(*row, at)));
    let series = Rows { times, values, certain, fault: &fault }
        .even(measure.map(|(measure, _)| measure), Vec::new())?;
    let (times, values) = (&table.header()[at], &table.header()[value]);
    let called = format!("times are in column `{times}`, values in column `{values}`");
    Ok(Series { called, ..series })
}

fn missing(text: &str) -> bool {
    MISSING.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// A long table: one column of numbers, and columns of words that name the series.
struct Long {
    value: usize,
    words: Vec<usize>,
}

impl Long {
    fn of(table: &Table, at: usize) -> Option<Long> {
        let others = (0..table.width()).filter(|column| *column != at);
        let number = |row: usize, column: usize| {
            missing(table.text(row, column)) || table.number(row, column).is_ok()
        };
        let numeric = |column: &usize| (0..table.len()).all(|row| number(row, *column));
        let (numbers, words): (Vec<usize>, Vec<usize>) = others.partition(numeric);
        let [value] = numbers[..] else { return None };
        (!words.is_empty()).then_some(Long { value, words })
    }

    fn read(&self, ask: &Ask<'_>, table: &Table, at: usize) -> Result<Series, ScenarioError> {
        let name_of = |row: usize| {
            let words: Vec<&str> =
                self.words.iter().map(|column| table.text(row, *column)).collect();
            words.join(" ")
        };
        let mut names: Vec<String> = Vec::new();
        let mut rows: Vec<Vec<usize>> = Vec::new();
        for row in 0..table.len() {
            let name = name_of(row);
            match names.iter().position(|known| *known == name) {
                Some(place) => rows[place].push(row),
                None => {
                    names.push(name);
                    rows.push(vec![row]);
                }
            }
        }
        let chosen = choose(ask, &names)?;
        let head = &table.header()[self.value];
        let measure = measure::of_head(&names[chosen]).or_else(|| measure::of_head(head));
        let series = of_rows(table, &rows[chosen], (at, self.value), measure)?;
        let called = format!("the series is `{}`; {}", names[chosen], series.called);
        Ok(Series { called, ..series })
    }
}

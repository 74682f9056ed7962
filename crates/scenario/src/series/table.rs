//! A table with a column of times and one of values; or a long one, in which further columns say of which
//! series a row is.

use std::collections::BTreeSet;

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
    if let Some(long) = Long::of(&table, at) {
        let column = ask.value.filter(|name| table.column(&[name]).is_ok());
        if column.is_none() || long.values.len() > 1 {
            return long.read(ask, &table, at);
        }
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

/// A long table: a column of numbers, or several, and columns of words that name the series.
struct Long {
    values: Vec<usize>,
    words: Vec<usize>,
}

impl Long {
    fn of(table: &Table, at: usize) -> Option<Long> {
        let others = (0..table.width()).filter(|column| *column != at);
        let number = |row: usize, column: usize| {
            missing(table.text(row, column)) || table.number(row, column).is_ok()
        };
        let numeric = |column: &usize| (0..table.len()).all(|row| number(row, *column));
        let (values, words): (Vec<usize>, Vec<usize>) = others.partition(numeric);
        // With several columns of numbers it is the times that say it: each is there for every series.
        let mut times = BTreeSet::new();
        let repeat = (0..table.len()).any(|row| !times.insert(table.text(row, at)));
        let named = !words.is_empty() && (values.len() == 1 || repeat);
        (named && !values.is_empty()).then_some(Long { values, words })
    }

    fn read(&self, ask: &Ask<'_>, table: &Table, at: usize) -> Result<Series, ScenarioError> {
        let words_of = |row: usize| {
            let words: Vec<&str> =
                self.words.iter().map(|column| table.text(row, *column)).collect();
            words.join(" ")
        };
        let mut groups: Vec<String> = Vec::new();
        let mut rows: Vec<Vec<usize>> = Vec::new();
        for row in 0..table.len() {
            let name = words_of(row);
            match groups.iter().position(|known| *known == name) {
                Some(place) => rows[place].push(row),
                None => {
                    groups.push(name);
                    rows.push(vec![row]);
                }
            }
        }
        let several = self.values.len() > 1;
        let named = |group: &String| {
            let with = |value: &usize| match several {
                true => format!("{group} {}", table.header()[*value]),
                false => group.clone(),
            };
            self.values.iter().map(with).collect::<Vec<_>>()
        };
        let names: Vec<String> = groups.iter().flat_map(named).collect();
        let chosen = choose(ask, &names)?;
        let (group, value) = (chosen / self.values.len(), self.values[chosen % self.values.len()]);
        let head = &table.header()[value];
        let measure = measure::of_head(&names[chosen]).or_else(|| measure::of_head(head));
        let series = of_rows(table, &rows[group], (at, value), measure)?;
        let called = format!("the series is `{}`; {}", names[chosen], series.called);
        Ok(Series { called, ..series })
    }
}

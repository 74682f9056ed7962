//! The CSV of dstat and pcp-dstat: lines about the run, two lines of heads (group and name), then rows.
//! A column is called by its group and name, such as `net/total recv`; a group stands over its first
//! column alone.

use super::{Ask, Measure, Series, choose, fault, table};
use crate::ScenarioError;
use crate::csv::Table;

pub(super) fn is_log(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or(b"");
    let first = String::from_utf8_lossy(first).to_ascii_lowercase();
    first.contains("dstat") && first.contains("csv output")
}

pub(super) fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let mut records: Vec<(usize, Vec<String>)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map(|at| at.line() as usize);
            fault(ask.file, line, "is not valid CSV", "use the file that dstat --output wrote")
        })?;
        let line = record.position().map_or(0, |at| at.line() as usize);
        let mut fields: Vec<String> = record.iter().map(str::to_owned).collect();
        while fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        if !fields.is_empty() {
            records.push((line, fields));
        }
    }
    let number = |field: &String| field.parse::<f64>().is_ok();
    let first = records.iter().position(|(_, fields)| fields.iter().all(number));
    let first = first.filter(|first| *first >= 2).ok_or_else(|| {
        let remedy = "expected two header lines and rows of numbers, with --epoch";
        fault(ask.file, None, "has no rows of numbers below the header", remedy)
    })?;
    let names = names(&records[first - 2].1, &records[first - 1].1);
    let width = names.len();
    let mut rows = Vec::with_capacity(records.len() - first);
    for (line, fields) in records.split_off(first) {
        if fields.len() != width || !fields.iter().all(number) {
            let message = format!("is not a row of {width} numbers");
            return Err(fault(ask.file, Some(line), message, "use one run of dstat per file"));
        }
        rows.push((line, fields));
    }
    let epoch = ask.time.filter(|name| *name != "time").unwrap_or("epoch");
    let at = choose(&Ask { value: Some(epoch), ..*ask }, &names)?;
    let value = choose(ask, &names)?;
    // dstat's network columns are bytes a second (its manual, --net).
    let measure = names[value].starts_with("net/").then_some((Measure::BytesPerSecond, 1.0));
    table::of_columns(&Table::of_rows(ask.file, names, rows), (at, value), measure)
}

/// Group and name of every column.
fn names(groups: &[String], names: &[String]) -> Vec<String> {
    let mut group = "";
    let of = |(place, name): (usize, &String)| {
        if let Some(head) = groups.get(place).filter(|head| !head.is_empty()) {
            group = head;
        }
        if group == name { name.clone() } else { format!("{group} {name}") }
    };
    names.iter().enumerate().map(of).collect()
}

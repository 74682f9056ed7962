//! Prometheus' answer to `query_range` (HTTP API): series of labels with pairs of time and value. A series
//! is called by a label, `device="eth0"`, or by the label's value.

use serde_json::Value;

use super::even::Rows;
use super::{Ask, Series, fault};
use crate::ScenarioError;

pub(super) fn read(ask: &Ask<'_>, root: &Value) -> Result<Series, ScenarioError> {
    if root["status"].as_str().is_some_and(|status| status != "success") {
        let why = root["error"].as_str().unwrap_or("no reason given");
        return Err(fault(ask.file, None, format!("the query failed: {why}"), "fix the query"));
    }
    let data = &root["data"];
    if data["resultType"] != "matrix" {
        let message = format!("resultType is {}", data["resultType"]);
        return Err(fault(ask.file, None, message, "expected matrix, the answer to query_range"));
    }
    let result = data["result"].as_array().map_or(&[][..], Vec::as_slice);
    let chosen = chosen(ask, result)?;
    let values = result[chosen]["values"].as_array().map_or(&[][..], Vec::as_slice);
    let wrong = |row: usize| {
        let message = format!("result[{chosen}].values[{row}] is not a pair of time and value");
        fault(ask.file, None, message, "for example [1772409600, \"2524525862\"]")
    };
    let (mut times, mut known) = (Vec::new(), Vec::new());
    for (row, pair) in values.iter().enumerate() {
        times.push(pair[0].as_f64().ok_or_else(|| wrong(row))?);
        let text = pair[1].as_str().ok_or_else(|| wrong(row))?;
        let value: f64 = text.parse().map_err(|_| wrong(row))?;
        if value < 0.0 || value.is_infinite() {
            let message = format!("values[{row}]: {text} is not a rate");
            return Err(fault(ask.file, None, message, "expected a finite number of 0 or more"));
        }
        known.push((!value.is_nan()).then_some(value));
    }
    let notes = root["warnings"].as_array().into_iter().flatten();
    let notes = notes.map(|warning| format!("Prometheus warned: {warning}")).collect();
    let fault = |row: usize, message: &str, remedy: &str| {
        fault(ask.file, None, format!("values[{row}]: {message}"), remedy)
    };
    let series = Rows { times, values: known, certain: true, fault: &fault }.even(None, notes)?;
    Ok(Series { called: format!("the series is {}", named(&result[chosen])), ..series })
}

/// A series by its labels.
fn named(series: &Value) -> String {
    let pairs = labels(series).into_iter().map(|(name, value)| format!("{name}=\"{value}\""));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

fn labels(series: &Value) -> Vec<(String, String)> {
    let metric = series["metric"].as_object().into_iter().flatten();
    metric.map(|(name, value)| (name.clone(), value.as_str().unwrap_or("").to_owned())).collect()
}

fn chosen(ask: &Ask<'_>, result: &[Value]) -> Result<usize, ScenarioError> {
    let listed = || result.iter().take(8).map(named).collect::<Vec<_>>().join(" ");
    let Some(asked) = ask.value else {
        let message = || format!("has {} series", result.len());
        let one = result.len() == 1;
        return one.then_some(0).ok_or_else(|| {
            fault(
                ask.file,
                None,
                message(),
                format!("set `value` to a label of one of: {}", listed()),
            )
        });
    };
    let wanted: Vec<(Option<String>, String)> = asked
        .trim_matches(['{', '}'])
        .split(',')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) => {
                (Some(name.trim().to_owned()), value.trim().trim_matches('"').to_owned())
            }
            None => (None, pair.trim().to_owned()),
        })
        .collect();
    let fits = |series: &Value| {
        let labels = labels(series);
        let has = |(name, value): &(Option<String>, String)| {
            labels
                .iter()
                .any(|(label, of)| name.as_ref().is_none_or(|name| name == label) && of == value)
        };
        wanted.iter().all(has)
    };
    let places: Vec<usize> = (0..result.len()).filter(|at| fits(&result[*at])).collect();
    match places[..] {
        [only] => Ok(only),
        _ => {
            let message = format!("{} series have the label `{asked}`", places.len());
            Err(fault(ask.file, None, message, format!("use the labels of one of: {}", listed())))
        }
    }
}

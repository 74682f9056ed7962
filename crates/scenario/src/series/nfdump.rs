//! The list of flows that `nfdump -o csv` writes: each flow's bytes or packets are spread evenly over its time,
//! and added up in equal steps.

use super::{Ask, Measure, Series, time};
use crate::ScenarioError;
use crate::csv::Table;

/// Seconds of a step, and of one where there would be too many.
const STEPS_S: [f64; 3] = [60.0, 300.0, 3600.0];
/// Steps, at most, before longer ones are used.
const STEPS_MAX: f64 = 10_000.0;

pub(super) fn is_list(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or(b"");
    let first = String::from_utf8_lossy(first);
    let names: Vec<&str> = first.split(',').map(str::trim).collect();
    ["ts", "te", "ipkt", "ibyt"].iter().all(|name| names.contains(name))
}

pub(super) fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    // What follows the flows is about all of them.
    let end = bytes.windows(8).position(|window| window == b"\nSummary").unwrap_or(bytes.len());
    let table = Table::parse(ask.file, &bytes[..end])?;
    let counter = match ask.value {
        None | Some("bytes") => "ibyt",
        Some("packets") => "ipkt",
        Some(other) => other,
    };
    let measure = match counter.to_ascii_lowercase().as_str() {
        "ibyt" | "obyt" => Measure::BytesPerSecond,
        "ipkt" | "opkt" => Measure::PacketsPerSecond,
        _ => {
            let message = format!("`{counter}` is no counter of flows");
            return Err(table.whole(&message, "set `value` to one of: ibyt, ipkt, obyt, opkt"));
        }
    };
    let (starts, ends) = (table.column(&["ts"])?, table.column(&["te"])?);
    let value = table.column(&[counter])?;
    let (starts, ends) = (time::of_column(&table, starts)?, time::of_column(&table, ends)?);
    let first = starts.iter().copied().fold(f64::INFINITY, f64::min);
    let last = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let fits = |step: &&f64| (last - first) / **step <= STEPS_MAX;
    let step_s = *STEPS_S.iter().find(fits).unwrap_or(&STEPS_S[2]);
    let first = (first / step_s).floor() * step_s;
    let count = ((last - first) / step_s).ceil();
    if !(2.0..=1e7).contains(&count) {
        let message = format!("has flows of {:.0} s", last - first);
        return Err(table.whole(&message, "expected flows of at least two minutes"));
    }
    let mut values = vec![0.0; count as usize];
    for (row, (start, end)) in starts.into_iter().zip(ends).enumerate() {
        let amount = table.non_negative(row, value)?;
        spread(&mut values, step_s, (start - first, end - first), amount);
    }
    let called = format!(
        "{} flows, times in columns `ts` and `te`, values in column `{counter}`, each flow spread evenly over its \
        time and added up in steps of {step_s} s",
        table.len()
    );
    Ok(Series { step_s, values, measure: Some(measure), called, notes: Vec::new() })
}

/// Adds an amount between two times, as a rate, to the steps it touches.
fn spread(values: &mut [f64], step_s: f64, (start, end): (f64, f64), amount: f64) {
    let last = values.len() - 1;
    let place = |at: f64| ((at / step_s) as usize).min(last);
    if end <= start {
        values[place(start)] += amount / step_s;
        return;
    }
    for (step, value) in values.iter_mut().enumerate().take(place(end) + 1).skip(place(start)) {
        let (from, to) = (step as f64 * step_s, (step + 1) as f64 * step_s);
        let share = (end.min(to) - start.max(from)).max(0.0) / (end - start);
        *value += amount * share / step_s;
    }
}

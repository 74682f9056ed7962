//! A rate over time from a CSV file.

use ebb_scenario::ScenarioError;
use ebb_scenario::csv::Table;

use crate::scenario::{TraceChoice, Unit};

/// Packets a second in equal steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Steps {
    pub(super) step_s: f64,
    pub(super) pps: Vec<f64>,
    /// Whether the values are relative and need a scale.
    pub(super) relative: bool,
}

impl Steps {
    pub(super) fn len_s(&self) -> f64 {
        self.step_s * self.pps.len() as f64
    }
}

/// Reads the trace; frames have `mean_bytes` on average.
pub(super) fn read(
    choice: &TraceChoice,
    bytes: &[u8],
    mean_bytes: f64,
) -> Result<Steps, ScenarioError> {
    let table = Table::parse(&choice.file, bytes)?;
    let (time, value) = (table.column(&[&choice.time])?, table.column(&[&choice.value])?);
    if table.len() < 2 {
        return Err(table.whole("has fewer than two rows", "at least two, equally far apart"));
    }
    let times = (0..table.len()).map(|row| seconds(&table, row, time));
    let times = times.collect::<Result<Vec<f64>, _>>()?;
    let step_s = times[1] - times[0];
    if step_s <= 0.0 {
        return Err(table.fault(1, time, "the time does not ascend", "ascending times"));
    }
    for row in 2..table.len() {
        let gap = times[row] - times[row - 1];
        if (gap / step_s - 1.0).abs() > 0.01 {
            let message = format!("{gap} s after the row before, {step_s} s elsewhere");
            let remedy = "fill the gap or sort the rows; all must be equally far apart";
            return Err(table.fault(row, time, &message, remedy));
        }
    }
    let factor = match choice.unit {
        Unit::BitsPerSecond => 1.0 / 8.0 / mean_bytes,
        Unit::GigabitsPerSecond => 1e9 / 8.0 / mean_bytes,
        Unit::BytesPerSecond => 1.0 / mean_bytes,
        Unit::PacketsPerSecond | Unit::Relative => 1.0,
        Unit::BitsPerRow => 1.0 / 8.0 / mean_bytes / step_s,
    };
    let pps = (0..table.len()).map(|row| Ok(table.non_negative(row, value)? * factor));
    let pps = pps.collect::<Result<Vec<f64>, ScenarioError>>()?;
    Ok(Steps { step_s, pps, relative: choice.unit == Unit::Relative })
}

/// The time of a row in seconds: a number, or a date with a time of day.
fn seconds(table: &Table, row: usize, column: usize) -> Result<f64, ScenarioError> {
    let text = table.text(row, column);
    if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
        return Ok(number);
    }
    let date = humantime::parse_rfc3339_weak(text).ok();
    let since = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
    since.map(|since| since.as_secs_f64()).ok_or_else(|| {
        let message = format!("`{text}` is no time");
        table.fault(row, column, &message, "seconds, or 2005-06-07T07:00:00")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(unit: Unit) -> TraceChoice {
        let (file, time, value) = ("my.csv".to_owned(), "time".to_owned(), "v".to_owned());
        TraceChoice { file, time, value, unit }
    }

    fn error(text: &str) -> String {
        read(&choice(Unit::Relative), text.as_bytes(), 64.0).expect_err("bad").to_string()
    }

    #[test]
    fn marks_of_windows_do_not_matter_and_units_do() {
        let text = "\u{feff}time,v\r\n2005-06-07T07:00:00,512\r\n2005-06-07T07:05:00,1024\r\n";
        let steps = read(&choice(Unit::BitsPerSecond), text.as_bytes(), 64.0).expect("good");
        assert_eq!((steps.step_s, steps.pps.as_slice()), (300.0, [1.0, 2.0].as_slice()));
        let steps = read(&choice(Unit::BitsPerRow), text.as_bytes(), 64.0).expect("good");
        assert_eq!(steps.pps[1], 2.0 / 300.0);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        let gap = error("time,v\n0,1\n1,1\n3,1\n");
        assert!(gap.starts_with("my.csv:4: field `time`: 2 s after the row before"), "{gap}");
        let negative = error("time,v\n0,1\n1,-1\n");
        assert!(negative.starts_with("my.csv:3: field `v`: -1 is negative"), "{negative}");
        assert!(error("time,v\n0,1\n1,NaN\n").contains("my.csv:3: field `v`"));
        assert!(error("time,w\n0,1\n1,1\n").contains("no column `v`"));
        assert!(error("time,v\n0,1\nnoon,1\n").contains("`noon` is no time"));
        assert!(error("time,v\n5,1\n5,1\n").contains("does not ascend"));
        assert!(error("time,v\n5,1\n").contains("fewer than two rows"));
    }
}

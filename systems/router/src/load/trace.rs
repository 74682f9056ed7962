//! A rate over time from a file of monitoring.

use ebb_scenario::ScenarioError;
use ebb_scenario::series::{self, Ask, Measure};

use crate::scenario::{TraceChoice, Unit};

/// Packets a second in equal steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Steps {
    pub(super) step_s: f64,
    pub(super) pps: Vec<f64>,
    /// Whether the values are relative and need a scale.
    pub(super) relative: bool,
    /// What was left out of the file or taken to be meant.
    pub(super) notes: Vec<String>,
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
    let value = choice.value.as_deref();
    let ask = Ask { file: &choice.file, time: Some(&choice.time), value };
    let series = series::read(&ask, bytes)?;
    let (unit, why) = unit(choice, series.measure)?;
    let factor = unit.bytes_per_second(series.step_s).map_or(1.0, |bytes| bytes / mean_bytes);
    let pps = series.values.iter().map(|value| value * factor).collect();
    let relative = unit == Unit::Relative;
    let taken = format!("the values are {}, {why}", unit.name());
    let called =
        if series.called.is_empty() { taken } else { format!("{}; {taken}", series.called) };
    let notes = std::iter::once(called).chain(series.notes).collect();
    Ok(Steps { step_s: series.step_s, pps, relative, notes })
}

/// What the values are, and who says so: the file, else the scenario.
fn unit(
    choice: &TraceChoice,
    measure: Option<Measure>,
) -> Result<(Unit, &'static str), ScenarioError> {
    let said = match measure {
        None => {
            return Ok(match choice.unit {
                Some(unit) => (unit, "as `unit` says"),
                None => (Unit::default(), "which is assumed: set `unit` if they are not"),
            });
        }
        Some(Measure::BitsPerSecond) => Unit::BitsPerSecond,
        Some(Measure::KilobitsPerSecond) => Unit::KilobitsPerSecond,
        Some(Measure::MegabitsPerSecond) => Unit::MegabitsPerSecond,
        Some(Measure::GigabitsPerSecond) => Unit::GigabitsPerSecond,
        Some(Measure::KilobytesPerSecond) => Unit::KilobytesPerSecond,
        Some(Measure::MegabytesPerSecond) => Unit::MegabytesPerSecond,
        Some(Measure::BytesPerRow) => Unit::BytesPerRow,
        Some(Measure::BytesPerSecond) => Unit::BytesPerSecond,
        Some(Measure::PacketsPerSecond) => Unit::PacketsPerSecond,
    };
    match choice.unit {
        Some(other) if other != said && other != Unit::Relative => Err(ScenarioError {
            file: choice.file.clone(),
            line: None,
            field: Some("traffic.trace.unit".to_owned()),
            message: format!("is {}, but the values in the file are {}", other.name(), said.name()),
            remedy: "remove it".to_owned(),
        }),
        Some(other) => Ok((other, "as `unit` says")),
        None => Ok((said, "as the file says")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(unit: Unit) -> TraceChoice {
        let (file, time, value) = ("my.csv".to_owned(), "time".to_owned(), Some("v".to_owned()));
        TraceChoice { file, time, value, unit: Some(unit) }
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
        assert!(gap.starts_with("my.csv:4: field `time`: 2 s after the previous row"), "{gap}");
        let negative = error("time,v\n0,1\n1,-1\n");
        assert!(negative.starts_with("my.csv:3: field `v`: -1 is negative"), "{negative}");
        assert!(error("time,v\n0,1\n1,much\n").contains("my.csv:3: field `v`"));
        assert!(error("time,w\n0,1\n1,1\n").contains("no column `v`"));
        assert!(error("time,v\n0,1\nnoon,1\n").contains("`noon` is not a time"));
        assert!(error("time,v\n5,1\n5,1\n").contains("does not ascend"));
        assert!(error("time,v\n5,1\n").contains("fewer than two rows"));
    }

    #[test]
    fn every_unit_is_a_rate_and_a_format_that_has_one_keeps_it() {
        let text = "time,v\n0,10\n100,10\n";
        let pps = |unit| read(&choice(unit), text.as_bytes(), 100.0).expect("good").pps[0];
        for (unit, rate) in [
            (Unit::BitsPerSecond, 0.0125),
            (Unit::KilobitsPerSecond, 12.5),
            (Unit::MegabitsPerSecond, 12_500.0),
            (Unit::GigabitsPerSecond, 12_500_000.0),
            (Unit::BytesPerSecond, 0.1),
            (Unit::KilobytesPerSecond, 100.0),
            (Unit::MegabytesPerSecond, 100_000.0),
            (Unit::PacketsPerSecond, 10.0),
            (Unit::BitsPerRow, 0.000125),
            (Unit::BytesPerRow, 0.001),
            (Unit::Relative, 10.0),
        ] {
            assert!((pps(unit) / rate - 1.0).abs() < 1e-12, "{unit:?}");
        }
        let log = "\"Dstat 0.7 CSV output\"\n\"epoch\",\"net/total\"\n\"epoch\",\"recv\",\"send\"\n\
            0,5,6\n1,5,6\n";
        let of = |unit| {
            let choice =
                TraceChoice { value: Some("recv".to_owned()), unit, ..choice(Unit::Relative) };
            read(&choice, log.as_bytes(), 1.0).map(|steps| steps.pps)
        };
        assert_eq!(of(None), Ok(vec![5.0, 5.0]));
        assert_eq!(of(Some(Unit::BytesPerSecond)), Ok(vec![5.0, 5.0]));
        let error = of(Some(Unit::BitsPerSecond)).expect_err("not bits").to_string();
        assert!(error.contains("traffic.trace.unit"), "{error}");
    }
}

//! A rate over time from a file of monitoring.

use ebb_scenario::ScenarioError;
use ebb_scenario::series::{self, Ask, Measure, Series};

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
    if choice.unit.is_none() && series.measure.is_none() {
        beyond_doubt(choice, &series)?;
    }
    let factor = unit.bytes_per_second(series.step_s).map_or(1.0, |bytes| bytes / mean_bytes);
    let mut more = Vec::new();
    let values = match unit.is_counter() {
        true => growth(&series.values, series.step_s, &mut more),
        false => series.values,
    };
    let pps = values.iter().map(|value| value * factor).collect();
    let relative = unit == Unit::Relative;
    let taken = format!("the values are {}, {why}", unit.name());
    let called =
        if series.called.is_empty() { taken } else { format!("{}; {taken}", series.called) };
    let notes = std::iter::once(called).chain(series.notes).chain(more).collect();
    Ok(Steps { step_s: series.step_s, pps, relative, notes })
}

/// Rows that only ever grow, from which on a file is one of a counter: a rate would fall once.
const GROWING: usize = 12;
/// What counters of 32 bits start again from.
const WRAP: f64 = 4_294_967_296.0;

fn only_grow(values: &[f64]) -> bool {
    values.len() >= GROWING
        && values.is_sorted()
        && values.windows(2).filter(|pair| pair[0] < pair[1]).count() >= GROWING / 2
}

/// Bits a second are assumed only where nothing says otherwise.
fn beyond_doubt(choice: &TraceChoice, series: &Series) -> Result<(), ScenarioError> {
    let called = series.called.to_ascii_lowercase();
    let (message, remedy) = if only_grow(&series.values) {
        let remedy =
            "set `unit` to `byte-counter`, or to `bits-per-second` or another if it is a rate";
        ("is not said, and the values never fall, as those of a counter", remedy)
    } else if called.contains("octets") || called.contains("byte") {
        let remedy = "set `unit` to `bytes-per-second` or `bytes-per-row`";
        ("is not said, but the name is one of bytes", remedy)
    } else {
        return Ok(());
    };
    Err(ScenarioError {
        file: choice.file.clone(),
        line: None,
        field: Some("traffic.trace.unit".to_owned()),
        message: format!("{message} ({})", series.called),
        remedy: remedy.to_owned(),
    })
}

/// Growth a second from row to row. A counter that falls went past the end of 32 bits, if it was in their last
/// quarter; or it began anew.
fn growth(values: &[f64], step_s: f64, notes: &mut Vec<String>) -> Vec<f64> {
    let (mut wraps, mut restarts) = (0, 0);
    let grown = |pair: &[f64]| match pair[1] - pair[0] {
        more if more >= 0.0 => more,
        less if (0.75 * WRAP..WRAP).contains(&pair[0]) && pair[1] < 0.25 * WRAP => {
            wraps += 1;
            less + WRAP
        }
        _ => {
            restarts += 1;
            pair[1]
        }
    };
    let rates = values.windows(2).map(grown).map(|grown| grown / step_s).collect();
    if wraps > 0 {
        notes.push(format!("the counter went {wraps} times past the end of its 32 bits"));
    }
    if restarts > 0 {
        notes.push(format!(
            "the counter began anew {restarts} times: what it counted since then is taken"
        ));
    }
    rates
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
    fn counters_are_their_growth() {
        let text = "time,octets\n0,4294967000\n10,704\n20,1704\n30,200\n40,200\n";
        let choice =
            |unit| TraceChoice { value: Some("octets".to_owned()), unit, ..choice(Unit::Relative) };
        let steps = read(&choice(Some(Unit::ByteCounter)), text.as_bytes(), 100.0).expect("good");
        assert_eq!((steps.step_s, steps.pps), (10.0, vec![1.0, 1.0, 0.2, 0.0]));
        let told = steps.notes.join("; ");
        assert!(told.contains("1 times past the end") && told.contains("anew 1 times"), "{told}");
        let packets =
            read(&choice(Some(Unit::PacketCounter)), text.as_bytes(), 64.0).expect("good");
        assert_eq!(packets.pps[1], 100.0);
        let grows: String = (0..20).map(|row| format!("{row},{}\n", row * row)).collect();
        let grows = format!("time,octets\n{grows}");
        let error = read(&choice(None), grows.as_bytes(), 64.0).expect_err("no rate").to_string();
        assert!(error.contains("never fall") && error.contains("byte-counter"), "{error}");
        let rates = "time,ifInOctets\n0,5\n1,4\n".as_bytes();
        let bytes = TraceChoice { value: None, ..choice(None) };
        let error = read(&bytes, rates, 64.0).expect_err("bytes").to_string();
        assert!(error.contains("one of bytes") && error.contains("bytes-per-row"), "{error}");
        let said = read(&choice(Some(Unit::BitsPerSecond)), grows.as_bytes(), 64.0);
        assert_eq!(said.expect("said").pps[8], 0.125);
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

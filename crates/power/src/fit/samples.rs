//! Measured samples to which a model is fitted.

use core::fmt::Write;

use ebb_scenario::ScenarioError;
use ebb_scenario::csv::Table;
use ebb_units::{Hertz, PacketsPerSecond, Watts};

/// What was measured at one operating point under one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The clock of the active cores.
    pub frequency: Hertz,
    /// Active cores, at least 1; the load is spread evenly over them.
    pub cores: u16,
    /// What arrived.
    pub offered: PacketsPerSecond,
    /// What left.
    pub forwarded: PacketsPerSecond,
    /// Power, above 0.
    pub watts: Watts,
}

/// Names of the column of frequencies and how many hertz its unit has.
const FREQUENCY: [(&str, f64); 5] = [
    ("frequency_hz", 1.0),
    ("frequency", 1.0),
    ("frequency_khz", 1e3),
    ("frequency_mhz", 1e6),
    ("frequency_ghz", 1e9),
];
/// A slower clock is a number in the wrong unit.
const FREQUENCY_MIN_HZ: f64 = 1e6;
/// More may be forwarded than was offered by this factor: the two are counted apart.
const COUNTING: f64 = 1.05;

/// Reads samples: a header with `frequency_hz` (or `_khz`, `_mhz`, `_ghz`), `cores`,
/// `offered_pps`, `forwarded_pps` and `watts`, in any order, and a line each.
///
/// ```
/// let text = "frequency_ghz,cores,offered_pps,forwarded_pps,watts\n1.6,1,1e6,9.9e5,131.5\n";
/// let samples = ebb_power::read_samples("lab.csv", text.as_bytes())?;
/// assert_eq!(samples[0].frequency.0, 1_600_000_000);
/// # Ok::<(), ebb_scenario::ScenarioError>(())
/// ```
///
/// # Errors
/// When a column is missing or a value is no such quantity: with file, line and field.
pub fn read_samples(file: &str, bytes: &[u8]) -> Result<Vec<Sample>, ScenarioError> {
    let table = Table::parse(file, bytes)?;
    let known = |(name, hertz): (&str, f64)| Some((table.column(&[name]).ok()?, hertz));
    let clock = match FREQUENCY.into_iter().find_map(known) {
        Some(column) => column,
        None => (table.column(&FREQUENCY.map(|(name, _)| name))?, 1.0),
    };
    let cores = table.column(&["cores"])?;
    let offered = table.column(&["offered_pps", "offered"])?;
    let forwarded = table.column(&["forwarded_pps", "forwarded"])?;
    let watts = table.column(&["watts", "power_w", "power"])?;
    let sample = |row| {
        let sample = Sample {
            frequency: frequency(&table, row, clock)?,
            cores: count(&table, row, cores)?,
            offered: PacketsPerSecond(table.non_negative(row, offered)?),
            forwarded: PacketsPerSecond(table.non_negative(row, forwarded)?),
            watts: Watts(table.number(row, watts)?),
        };
        if sample.forwarded.0 > sample.offered.0 * COUNTING {
            let message = format!("is above the offered {}", sample.offered.0);
            return Err(table.fault(
                row,
                forwarded,
                &message,
                "use packets per second of the same interval",
            ));
        }
        if sample.watts.0 <= 0.0 {
            let message = format!("{} is not the power of a running machine", sample.watts.0);
            return Err(table.fault(row, watts, &message, "expected watts above 0"));
        }
        Ok(sample)
    };
    let samples: Vec<Sample> = (0..table.len()).map(sample).collect::<Result<_, _>>()?;
    if samples.is_empty() {
        return Err(table.whole("there are no samples", "add a line for each measurement"));
    }
    Ok(samples)
}

/// Samples as a file that [`read_samples`] reads.
pub fn write_samples(samples: &[Sample]) -> String {
    let mut text = String::from("frequency_hz,cores,offered_pps,forwarded_pps,watts\n");
    for sample in samples {
        let Sample { frequency, cores, offered, forwarded, watts } = sample;
        _ = writeln!(text, "{},{cores},{},{},{}", frequency.0, offered.0, forwarded.0, watts.0);
    }
    text
}

fn frequency(table: &Table, row: usize, clock: (usize, f64)) -> Result<Hertz, ScenarioError> {
    let (column, hertz) = clock;
    let value = table.number(row, column)? * hertz;
    if value < FREQUENCY_MIN_HZ {
        let message =
            format!("{} is {value} Hz, which is not a core frequency", table.text(row, column));
        let remedy = "use hertz, or name the unit in the column, for example frequency_ghz";
        return Err(table.fault(row, column, &message, remedy));
    }
    Ok(Hertz(value.round() as u64))
}

fn count(table: &Table, row: usize, column: usize) -> Result<u16, ScenarioError> {
    let value = table.number(row, column)?;
    if value.fract() != 0.0 || !(1.0..=f64::from(u16::MAX)).contains(&value) {
        let message = format!("{value} is not a number of cores");
        return Err(table.fault(row, column, &message, "expected 1 or more active cores"));
    }
    Ok(value as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "frequency_hz,cores,offered_pps,forwarded_pps,watts";

    #[test]
    fn what_is_written_is_read() {
        let text = format!("{HEAD}\n1600000000,2,1000000.5,990000,131.25\n2e9,1,0,0,90\n");
        let samples = read_samples("s.csv", text.as_bytes()).expect("good");
        assert_eq!(read_samples("s.csv", write_samples(&samples).as_bytes()), Ok(samples));
    }

    #[test]
    fn a_spreadsheets_file_is_read() {
        let text = format!("\u{feff}{}\r\n1.6,1,10,10,90\r\n", HEAD.replace("_hz", "_GHz"));
        let samples = read_samples("s.csv", text.as_bytes()).expect("good");
        assert_eq!(samples[0].frequency, Hertz(1_600_000_000));
    }

    #[test]
    fn faults_name_file_line_and_field() {
        let refused =
            |text: String| read_samples("s.csv", text.as_bytes()).expect_err("bad").to_string();
        for (line, field) in [
            ("2000000000,1,5,5,NaN", "watts"),
            ("2000000000,1,5,5,0", "watts"),
            ("2000000000,1,-5,5,90", "offered_pps"),
            ("2000000000,1,5,inf,90", "forwarded_pps"),
            ("2000000000,1,5,6,90", "forwarded_pps"),
            ("2000000000,1.5,5,5,90", "cores"),
            ("2000000000,0,5,5,90", "cores"),
            ("1.6,1,5,5,90", "frequency_hz"),
            (",1,5,5,90", "frequency_hz"),
        ] {
            let message = refused(format!("{HEAD}\n2000000000,1,5,5,90\n{line}\n"));
            let place = format!("s.csv:3: field `{field}`");
            assert!(message.starts_with(&place), "{message}");
        }
        assert!(refused(HEAD.replace("watts", "volts") + "\n1,1,1,1,1\n").contains("`watts`"));
        assert!(
            refused(HEAD.replace("frequency_hz", "f") + "\n1,1,1,1,1\n").contains("frequency_hz")
        );
        assert!(refused(format!("{HEAD}\n")).contains("no samples"));
        assert!(refused(format!("{HEAD}\n1,2,3\n")).starts_with("s.csv:2: "));
    }
}

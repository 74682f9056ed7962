//! What tells the power: the machine's energy counters, or an external meter's log.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use ebb_host::Sysfs;
use ebb_host::energy::Rapl;
use ebb_power::Sample;
use ebb_scenario::ScenarioError;
use ebb_scenario::csv::Table;
use ebb_scenario::series::time::of_column as instants;
use ebb_units::{Hertz, PacketsPerSecond, Watts};

/// A source of watts.
pub enum Meter {
    /// The machine's energy counters.
    Counters {
        /// The counters.
        rapl: Rapl,
        /// What tells the time of a mark, seconds since 1970.
        clock: fn() -> f64,
    },
    /// A log that is read when the walk is over.
    Log(PathBuf),
}

/// An instant with what the meter said at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Seconds since 1970.
    pub unix_s: f64,
    /// Energy since some moment; `None` where the log will tell.
    pub joules: Option<f64>,
}

/// What was carried in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Sent by the hosts.
    pub offered: PacketsPerSecond,
    /// Received by the hosts.
    pub forwarded: PacketsPerSecond,
}

/// A measurement whose power may still have to be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The clock.
    pub frequency: Hertz,
    /// Active cores.
    pub cores: u16,
    /// The traffic.
    pub carried: Carried,
    /// The window's ends.
    pub marks: [Mark; 2],
}

impl Meter {
    /// The log if one is given, or the machine's counters.
    ///
    /// # Errors
    /// Without either: with what is missing and how to provide it.
    pub fn open(sysfs: &Sysfs, log: Option<&Path>) -> Result<Meter> {
        if let Some(log) = log {
            read_log(log).map(drop)?;
            return Ok(Meter::Log(log.to_owned()));
        }
        let rapl = Rapl::open(sysfs).map_err(|error| anyhow!("{error}"));
        rapl.map(|rapl| Meter::Counters { rapl, clock: unix_now }).context(
            "there is no power meter, which calibration needs. Use one of:\n\
             \x20 - RAPL energy counters: run as root on a machine with \
             /sys/class/powercap/intel-rapl:*\n\
             \x20 - an external meter: --meter FILE.csv with columns time (Unix seconds) and watts, \
             to which its logger appends meanwhile\n\
             \x20 - samples measured before: --samples FILE.csv\n\
             Reason",
        )
    }

    /// Notes the present instant.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn mark(&mut self) -> Result<Mark> {
        match self {
            Meter::Counters { rapl, clock } => {
                let joules = rapl.energy().map_err(|error| anyhow!("{error}"))?.0;
                Ok(Mark { unix_s: clock(), joules: Some(joules) })
            }
            Meter::Log(_) => Ok(Mark { unix_s: unix_now(), joules: None }),
        }
    }

    /// Readings with their power.
    ///
    /// # Errors
    /// When the log cannot be used or says nothing about some reading's window.
    pub fn resolve(&self, readings: &[Reading]) -> Result<Vec<Sample>> {
        let log = match self {
            Meter::Log(path) => Some(read_log(path)?),
            Meter::Counters { .. } => None,
        };
        let sample = |reading: &Reading| {
            let [begin, end] = reading.marks;
            let watts = match (&log, begin.joules, end.joules) {
                (Some(log), ..) => log.mean(begin.unix_s, end.unix_s)?,
                (None, Some(first), Some(last)) => (last - first) / (end.unix_s - begin.unix_s),
                _ => unreachable!("counters have joules in every mark"),
            };
            Ok(Sample {
                frequency: reading.frequency,
                cores: reading.cores,
                offered: reading.carried.offered,
                forwarded: reading.carried.forwarded,
                watts: Watts(watts),
            })
        };
        readings.iter().map(sample).collect()
    }
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Instants and watts of a meter.
#[derive(Debug, PartialEq)]
struct Log {
    file: String,
    readings: Vec<(f64, f64)>,
}

fn read_log(path: &Path) -> Result<Log> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the meter's log {}", path.display()))?;
    Ok(Log::parse(&path.display().to_string(), &bytes)?)
}

impl Log {
    fn parse(file: &str, bytes: &[u8]) -> Result<Log, ScenarioError> {
        let table = Table::parse(file, bytes)?;
        let time = table.column(&["time", "time_s", "unix_s"])?;
        let watts = table.column(&["watts", "power_w", "power"])?;
        let mut readings: Vec<(f64, f64)> = Vec::with_capacity(table.len());
        for (row, at) in instants(&table, time)?.into_iter().enumerate() {
            if readings.last().is_some_and(|(before, _)| *before >= at) {
                let remedy = "sort the lines by time";
                return Err(table.fault(row, time, "is not later than the line before", remedy));
            }
            readings.push((at, table.non_negative(row, watts)?));
        }
        Ok(Log { file: file.to_owned(), readings })
    }

    /// Mean of the readings within a window.
    fn mean(&self, begin: f64, end: f64) -> Result<f64, ScenarioError> {
        let first = self.readings.partition_point(|(at, _)| *at < begin);
        let last = self.readings.partition_point(|(at, _)| *at <= end);
        if first < last {
            let sum: f64 = self.readings[first..last].iter().map(|(_, watts)| watts).sum();
            return Ok(sum / (last - first) as f64);
        }
        Err(ScenarioError {
            file: self.file.clone(),
            line: None,
            field: Some("time".to_owned()),
            message: format!("no reading between {begin:.1} and {end:.1} (Unix seconds)"),
            remedy: "log at least two readings per second with this machine's clock, or measure \
                longer with --seconds"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_mean_of_its_readings() {
        let log = Log::parse("w.csv", b"time,watts\n1,10\n2,20\n3,40\n4,90\n").expect("good");
        assert_eq!(log.mean(1.5, 3.0), Ok(30.0));
        let error = log.mean(4.5, 9.0).expect_err("nothing").to_string();
        assert!(error.starts_with("w.csv: field `time`: no reading between 4.5"), "{error}");
    }

    #[test]
    fn faults_of_a_log_are_located() {
        let refused =
            |text: &str| Log::parse("w.csv", text.as_bytes()).expect_err("bad").to_string();
        assert!(refused("time,watts\n1,10\n1,11\n").starts_with("w.csv:3: field `time`"));
        assert!(refused("time,watts\n1,-10\n").starts_with("w.csv:2: field `watts`"));
        let dated = Log::parse("w.csv", b"time;watts\n2026-03-02T00:05:00Z;10,5\n").expect("good");
        assert_eq!(dated.readings, [(1_772_409_900.0, 10.5)]);
        assert!(refused("time,volts\n1,10\n").contains("no column `watts`"));
    }

    #[test]
    fn without_a_meter_it_says_how_to_provide_one() {
        let nowhere = tempfile::tempdir().expect("a directory");
        let error = Meter::open(&Sysfs::new(nowhere.path()), None).err().expect("no meter");
        let text = format!("{error:#}");
        for word in ["RAPL", "--meter", "--samples", "powercap"] {
            assert!(text.contains(word), "{text}");
        }
    }
}

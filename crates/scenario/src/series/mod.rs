//! Values over time, as monitoring writes them: CSV of any kind, wide or long, dstat's, and what `sadf -j`,
//! `vnstat --json`, `rrdtool dump`, `nfdump -o csv` and Prometheus give out.
//!
//! Room: bytes to [`Series`], one file per format; [`time`] reads instants for all of them, and tables of
//! times elsewhere use it too. What a file means by its values is said where the format fixes it
//! ([`Measure`]); the rest is the caller's. What is left out is in [`Series::notes`].
//!
//! ```
//! let csv = b"Time;Gbit/s\n2026-03-02 00:00;0,5\n2026-03-02 00:15;0,75\n";
//! let ask = ebb_scenario::series::Ask { file: "tag.csv", time: Some("time"), value: Some("Gbit/s") };
//! let series = ebb_scenario::series::read(&ask, csv).unwrap();
//! assert_eq!((series.step_s, series.values), (900.0, vec![0.5, 0.75]));
//! ```

mod dress;
mod dstat;
mod even;
mod measure;
mod nfdump;
mod prometheus;
mod rrd;
mod sadf;
mod table;
pub mod time;
mod vnstat;

pub use measure::Measure;
use serde_json::Value;

use crate::ScenarioError;

/// Which series of a file.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    /// The column of times, of tables alone; `time` if absent.
    pub time: Option<&'a str>,
    /// The column or series of values; may be absent where the file has only one.
    pub value: Option<&'a str>,
}

/// Values in equal steps of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Seconds from one value to the next.
    pub step_s: f64,
    /// The values, oldest first; at least two.
    pub values: Vec<f64>,
    /// What they are, where the format says it.
    pub measure: Option<Measure>,
    /// Which columns or which series they are, for people; empty where a note says it.
    pub called: String,
    /// What was left out or taken to be meant, for people.
    pub notes: Vec<String>,
}

/// Reads the series that is asked for.
///
/// # Errors
/// With file, line and column of what makes no sense, and with the names there are where the one asked for
/// is not among them.
pub fn read(ask: &Ask<'_>, bytes: &[u8]) -> Result<Series, ScenarioError> {
    let (bytes, around) = dress::undress(bytes);
    let bytes = &*bytes;
    let start = bytes.trim_ascii_start();
    if start.starts_with(b"<") {
        return rrd::read(ask, start);
    }
    if start.starts_with(b"{") {
        let root: Value = serde_json::from_slice(start).map_err(|error| {
            let message = format!("is not complete JSON: {error}");
            fault(ask.file, Some(error.line()), message, "use the whole output of the program")
        })?;
        return if root.get("sysstat").is_some() {
            sadf::read(ask, &root)
        } else if root.get("interfaces").is_some() {
            vnstat::read(ask, &root)
        } else if root.get("data").is_some() {
            prometheus::read(ask, &root)
        } else {
            let remedy = "use JSON of sadf -j, vnstat --json or Prometheus' query_range, or CSV";
            Err(fault(ask.file, None, "is JSON of an unknown kind", remedy))
        };
    }
    if dstat::is_log(start) {
        dstat::read(ask, start)
    } else if nfdump::is_list(start) {
        nfdump::read(ask, start)
    } else {
        let series = table::read(ask, bytes)?;
        Ok(Series { measure: series.measure.or(around), ..series })
    }
}

fn fault(
    file: &str,
    line: Option<usize>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> ScenarioError {
    let (message, remedy) = (message.into(), remedy.into());
    ScenarioError { file: file.to_owned(), line, field: None, message, remedy }
}

/// The one of `names` that `asked` names, or the only one. A name may be given whole, or by its last parts
/// where these are no other's; parts are divided by a point, a colon, a slash or a blank.
fn choose(ask: &Ask<'_>, names: &[String]) -> Result<usize, ScenarioError> {
    let listed = || {
        let some: Vec<&str> = names.iter().take(12).map(String::as_str).collect();
        let more = if names.len() > some.len() { ", ..." } else { "" };
        format!("known: {}{more}", some.join(", "))
    };
    let Some(asked) = ask.value else {
        return match names {
            [_] => Ok(0),
            [] => Err(fault(ask.file, None, "has no series", "use a file with values")),
            _ => Err(fault(ask.file, None, format!("has {} series", names.len()), listed())),
        };
    };
    let parts = |text: &str| -> Vec<String> {
        text.split(['.', ':', '/', ' ']).map(str::to_ascii_lowercase).collect()
    };
    if let Some(whole) = names.iter().position(|name| name.eq_ignore_ascii_case(asked)) {
        return Ok(whole);
    }
    let wanted = parts(asked);
    let fits = |name: &&String| parts(name).ends_with(&wanted);
    let places: Vec<usize> = (0..names.len()).filter(|at| fits(&&names[*at])).collect();
    match places[..] {
        [only] => Ok(only),
        [] => Err(fault(ask.file, None, format!("has no series `{asked}`"), listed())),
        _ => {
            let several: Vec<&str> = places.iter().map(|at| names[*at].as_str()).collect();
            let message = format!("{} series have the name `{asked}`", several.len());
            Err(fault(ask.file, None, message, format!("use one of: {}", several.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests;

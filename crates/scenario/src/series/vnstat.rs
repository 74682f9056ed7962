//! What `vnstat --json` writes: bytes of every hour, day and the like, by interface. A series is an
//! interface's name, its interval's and the direction, such as `eth0.hour.rx`; without the interval it is
//! the shortest of which there are two rows.

use serde_json::Value;

use super::even::Rows;
use super::{Ask, Measure, Series, choose, fault, time};
use crate::ScenarioError;

/// Intervals of equal length, shortest first, with their seconds.
const INTERVALS: [(&str, f64); 3] = [("fiveminute", 300.0), ("hour", 3600.0), ("day", 86_400.0)];

pub(super) fn read(ask: &Ask<'_>, root: &Value) -> Result<Series, ScenarioError> {
    let version = root["jsonversion"].as_str().unwrap_or("");
    if version != "2" {
        let message = format!("jsonversion is `{version}`");
        return Err(fault(ask.file, None, message, "expected 2, as vnstat 2 writes it"));
    }
    let interfaces = root["interfaces"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut names, mut places) = (Vec::new(), Vec::new());
    for (place, interface) in interfaces.iter().enumerate() {
        let name = interface["name"].as_str().unwrap_or("");
        for interval in 0..INTERVALS.len() {
            let rows = interface["traffic"][INTERVALS[interval].0].as_array().map_or(0, Vec::len);
            if rows > 1 {
                for direction in ["rx", "tx"] {
                    names.push(format!("{name}.{}.{direction}", INTERVALS[interval].0));
                    places.push((place, interval, direction));
                }
            }
        }
    }
    let chosen = chosen(ask, &names, &places)?;
    let (place, interval, direction) = places[chosen];
    let (interval, seconds) = INTERVALS[interval];
    let interface = &interfaces[place];
    let rows = interface["traffic"][interval].as_array().map_or(&[][..], Vec::as_slice);
    let mut notes = vec![format!("the series is {}", names[chosen])];
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let wrong = |what: &str| {
            fault(
                ask.file,
                None,
                format!("{interval}[{at}] has no {what}"),
                "use the file that vnstat wrote",
            )
        };
        times.push(begin(row).ok_or_else(|| wrong("date"))?);
        values.push(Some(row[direction].as_f64().ok_or_else(|| wrong(direction))?));
    }
    // The row of the interval in which the database was written is not over.
    if begin(&interface["updated"])
        .is_some_and(|written| times.last().is_some_and(|last| written < last + seconds))
    {
        times.pop();
        values.pop();
        notes.push(format!("the last {interval} is not complete: it is left out"));
    }
    let fault = |row: usize, message: &str, remedy: &str| {
        fault(ask.file, None, format!("{interval}[{row}]: {message}"), remedy)
    };
    let rows = Rows { times, values, certain: true, fault: &fault };
    let series = rows.even(Some(Measure::BytesPerRow), notes)?;
    if (series.step_s / seconds - 1.0).abs() > 0.01 {
        let message =
            format!("rows are {} s apart, but a {interval} has {seconds} s", series.step_s);
        return Err(fault(0, &message, "expected rows without gaps"));
    }
    Ok(series)
}

/// The name asked for; of several intervals the shortest.
fn chosen(
    ask: &Ask<'_>,
    names: &[String],
    places: &[(usize, usize, &str)],
) -> Result<usize, ScenarioError> {
    let error = match choose(ask, names) {
        Ok(chosen) => return Ok(chosen),
        Err(error) => error,
    };
    let Some(asked) = ask.value else { return Err(error) };
    let (interface, direction) = asked.rsplit_once(['.', '/', ':', ' ']).unwrap_or(("", asked));
    let fits = |at: &usize| {
        let named = names[*at].starts_with(&format!("{interface}."));
        (interface.is_empty() || named) && places[*at].2 == direction
    };
    let fitting: Vec<usize> = (0..names.len()).filter(fits).collect();
    let one = fitting.iter().all(|at| places[*at].0 == places[fitting[0]].0);
    let shortest = fitting.into_iter().min_by_key(|at| places[*at].1);
    shortest.filter(|_| one).ok_or(error)
}

/// Seconds since 1970 at which a row begins: its time stamp, or its date and time of day.
fn begin(row: &Value) -> Option<f64> {
    if let Some(stamp) = row["timestamp"].as_f64() {
        return Some(stamp);
    }
    let (date, clock) = (&row["date"], &row["time"]);
    let number = |of: &Value, key: &str| of[key].as_u64();
    let (year, month) = (number(date, "year")?, number(date, "month")?);
    let day = number(date, "day")?;
    let (hour, minute) = (number(clock, "hour").unwrap_or(0), number(clock, "minute").unwrap_or(0));
    time::of_date(&format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}"))
}

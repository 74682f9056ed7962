//! Instants as people and programs write them.

use chrono::{DateTime, NaiveDate, NaiveDateTime};

use crate::ScenarioError;
use crate::csv::Table;

/// Forms of a date with a time of day, without a zone; a fraction of a second may follow seconds.
const DATES: [&str; 10] = [
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y %H:%M:%S%.f",
    "%d.%m.%Y %H:%M",
    // Who counts hours to twelve has months first.
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
];
/// The same with the offset of a zone.
const ZONED: [&str; 4] = [
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
];

/// Seconds of a day: what begins at 0 is a run's own time for as long.
const DAY_S: f64 = 86_400.0;

/// Seconds since 1970 of a date with a time of day: ISO 8601 with or without seconds and zone (UTC where
/// there is none), `2026/03/02 00:05`, `02.03.2026 00:05`, or a date alone.
pub fn of_date(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Some(seconds(instant.naive_utc()));
    }
    let zoned = |form: &str| DateTime::parse_from_str(&text.replace(" +", "+"), form).ok();
    if let Some(instant) = ZONED.iter().find_map(|form| zoned(form)) {
        return Some(seconds(instant.naive_utc()));
    }
    let plain = text.trim_end_matches('Z').trim_end_matches("UTC").trim_end();
    let dated = |form: &str| NaiveDateTime::parse_from_str(plain, form).ok();
    let alone = || NaiveDate::parse_from_str(plain, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    DATES.iter().find_map(|form| dated(form)).or_else(alone).map(seconds)
}

/// Whether a text says an instant beyond doubt: a number since 1970, or a date with a zone.
pub(super) fn is_certain(text: &str) -> bool {
    let text = text.trim();
    let clock = text.get(10..).unwrap_or("");
    text.parse::<f64>().is_ok() || text.ends_with(['Z', 'C']) || clock.contains(['+', '-'])
}

/// An instant for people: a date in UTC, or seconds where they are of no clock.
pub(super) fn written(seconds: f64) -> String {
    let of_clock = DateTime::from_timestamp(seconds as i64, 0).filter(|_| seconds >= DAY_S);
    let date = of_clock.map(|instant| instant.format("%Y-%m-%d %H:%M:%S UTC").to_string());
    date.unwrap_or_else(|| format!("{seconds} s"))
}

fn seconds(instant: NaiveDateTime) -> f64 {
    let instant = instant.and_utc();
    instant.timestamp() as f64 + f64::from(instant.timestamp_subsec_nanos()) * 1e-9
}

/// What numbers of times count: so many of them are a second. Since 1970 seconds are near 2e9, and nobody
/// counts seconds beyond the year 5000; a number that large is of milli-, micro- or nanoseconds.
pub fn ticks_per_second(largest: f64) -> f64 {
    match largest.abs() {
        large if large >= 1e17 => 1e9,
        large if large >= 1e14 => 1e6,
        large if large >= 1e11 => 1e3,
        _ => 1.0,
    }
}

/// The instants of a column: numbers of seconds (or parts of them, by [`ticks_per_second`]) or dates.
///
/// # Errors
/// With line and column of what is no time.
pub fn of_column(table: &Table, column: usize) -> Result<Vec<f64>, ScenarioError> {
    let rows = 0..table.len();
    if let Ok(numbers) =
        rows.clone().map(|row| table.number(row, column)).collect::<Result<Vec<_>, _>>()
    {
        let largest = numbers.iter().fold(0.0f64, |most, number| most.max(number.abs()));
        let ticks = ticks_per_second(largest);
        return Ok(numbers.into_iter().map(|number| number / ticks).collect());
    }
    let dates: Vec<Option<f64>> =
        rows.clone().map(|row| of_date(table.text(row, column))).collect();
    let number = |row: &usize| table.number(*row, column).is_ok();
    let lacks = |row: &usize| dates[*row].is_none();
    let strange = rows.clone().find(|row| lacks(row) && !number(row));
    if let Some(row) = strange.or_else(|| rows.clone().find(lacks)) {
        let text = table.text(row, column);
        let message = match number(&row) {
            true => format!("`{text}` is a number, but other rows have dates"),
            false => format!("`{text}` is not a time"),
        };
        let remedy = "use seconds, or 2005-06-07T07:00:00 with or without a zone, for example \
            +02:00";
        return Err(table.fault(row, column, &message, remedy));
    }
    Ok(dates.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_of_many_kinds_are_the_same_instant() {
        let instant = Some(1_772_409_900.0);
        for text in [
            "2026-03-02T00:05:00Z",
            "2026-03-02T00:05Z",
            "2026-03-02 00:05",
            "2026-03-02 00:05:00",
            "2026-03-02 00:05:00 UTC",
            "2026-03-02T01:05:00+01:00",
            "2026-03-02 01:05:00+0100",
            "2026-03-02 01:05:00 +0100",
            "2026-03-01T19:05-05:00",
            "2026/03/02 00:05",
            "02.03.2026 00:05:00",
            "3/2/2026 12:05:00 AM",
            " 2026-03-02T00:05:00.000 ",
        ] {
            assert_eq!(of_date(text), instant, "{text}");
        }
        assert_eq!(of_date("2026-03-02"), Some(1_772_409_600.0));
        assert_eq!(of_date("2026-03-02T00:05:00.25Z"), Some(1_772_409_900.25));
        for text in ["", "noon", "2026-13-02 00:05", "03/02/2026 00:05", "2026-03-02 25:00"] {
            assert_eq!(of_date(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(at in 0i64..4_000_000_000, east in -12i32..=14) {
            let zone = chrono::FixedOffset::east_opt(east * 3600).expect("a zone");
            let instant = DateTime::from_timestamp(at, 0).expect("an instant").with_timezone(&zone);
            prop_assert_eq!(of_date(&instant.to_rfc3339()), Some(at as f64));
            for (ticks, largest) in [(1.0, 4e9), (1e3, 4e12), (1e6, 4e15), (1e9, 4e18)] {
                prop_assert_eq!(ticks_per_second(largest), ticks);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9TZ:+. /-]{0,24}") {
            let _ = of_date(&text);
        }
    }
}

//! From instants with values to equal steps.

use super::{Measure, Series};
use crate::ScenarioError;

/// Share of a step that an instant may lie off its place: collectors take turns that are early or late, but
/// a row that is missing is a whole step.
const OFF_MAX: f64 = 0.5;
/// The same from which it is worth a word.
const OFF_SAID: f64 = 0.01;

/// Rows of a file: instants, values where there are some, and what a fault at a row is.
pub(super) struct Rows<'a> {
    /// Seconds, of the beginning of each row's interval or of its end, the same for all.
    pub(super) times: Vec<f64>,
    /// `None` where the row has none.
    pub(super) values: Vec<Option<f64>>,
    /// Says what is wrong with a row, in words and with a remedy.
    pub(super) fault: &'a dyn Fn(usize, &str, &str) -> ScenarioError,
}

impl Rows<'_> {
    /// The series: rows without a value left out, oldest first, equally far apart.
    pub(super) fn even(
        self,
        measure: Option<Measure>,
        mut notes: Vec<String>,
    ) -> Result<Series, ScenarioError> {
        let mut rows: Vec<(usize, f64, f64)> = self.known(&mut notes);
        if rows.len() < 2 {
            return Err((self.fault)(
                0,
                "has fewer than two rows",
                "expected at least two rows at equal intervals",
            ));
        }
        if rows.windows(2).all(|pair| pair[0].1 > pair[1].1) {
            rows.reverse();
            notes.push("the rows go from newest to oldest: they are read in reverse".to_owned());
        }
        let unordered = rows.windows(2).find(|pair| pair[0].1 >= pair[1].1);
        if let Some(&[_, (row, at, _)]) = unordered {
            let message =
                format!("the time does not ascend: {at} s follows a time that is not earlier");
            let remedy = "list every time once, in ascending or descending order; add the zone, \
                for example +02:00, where clocks were changed";
            return Err((self.fault)(row, &message, remedy));
        }
        let (first, last) = (rows[0].1, rows[rows.len() - 1].1);
        let usual = usual_gap(&rows);
        for pair in rows.windows(2) {
            let gap = pair[1].1 - pair[0].1;
            if (gap / usual - 1.0).abs() > OFF_MAX {
                let message = format!("{gap} s after the previous row, but {usual} s elsewhere");
                let remedy = "fill the gap: rows must be at equal intervals; add the zone, for \
                    example +02:00, where clocks were changed";
                return Err((self.fault)(pair[1].0, &message, remedy));
            }
        }
        let step_s = (last - first) / (rows.len() - 1) as f64;
        let off = |(place, (_, at, _)): (usize, &(usize, f64, f64))| {
            (at - first - place as f64 * step_s).abs()
        };
        let (row, most) = rows
            .iter()
            .enumerate()
            .map(|row| (row.1.0, off(row)))
            .fold((0, 0.0), |most: (usize, f64), row| if row.1 > most.1 { row } else { most });
        if most > OFF_MAX * step_s {
            let message = format!("{most:.3} s off equal steps of {step_s:.3} s");
            return Err((self.fault)(row, &message, "expected rows at equal intervals"));
        }
        if most > OFF_SAID * step_s {
            notes.push(format!("rows are up to {most:.3} s off equal steps of {step_s:.3} s"));
        }
        let values = rows.into_iter().map(|(_, _, value)| value).collect();
        Ok(Series { step_s, values, measure, called: String::new(), notes })
    }

    /// Rows that have a value: number, instant and value.
    fn known(&self, notes: &mut Vec<String>) -> Vec<(usize, f64, f64)> {
        let rows = self.times.iter().zip(&self.values).enumerate();
        let known: Vec<_> =
            rows.filter_map(|(row, (at, value))| Some((row, *at, (*value)?))).collect();
        let missing = self.times.len() - known.len();
        if missing > 0 && !known.is_empty() {
            notes.push(format!(
                "{missing} of {} rows have no value: they are left out",
                self.times.len()
            ));
        }
        known
    }
}

/// The median distance of rows.
fn usual_gap(rows: &[(usize, f64, f64)]) -> f64 {
    let mut gaps: Vec<f64> = rows.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    gaps.sort_by(f64::total_cmp);
    gaps[(gaps.len() - 1) / 2]
}

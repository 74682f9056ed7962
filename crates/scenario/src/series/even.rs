//! From instants with values to equal steps.

use super::{Measure, Series, time};
use crate::ScenarioError;

/// Share of a step that an instant may lie off its place: collectors take turns that are early or late, but
/// a row that is missing is a whole step.
const OFF_MAX: f64 = 0.5;
/// The same from which it is worth a word.
const OFF_SAID: f64 = 0.01;
/// Share of rows that may be missing: outages are filled, a file of holes is refused.
const MISSING_MAX: f64 = 0.1;

/// Rows of a file: instants, values where there are some, and what a fault at a row is.
pub(super) struct Rows<'a> {
    /// Seconds, of the beginning of each row's interval or of its end, the same for all.
    pub(super) times: Vec<f64>,
    /// `None` where the row has none.
    pub(super) values: Vec<Option<f64>>,
    /// Whether instants are beyond doubt: since 1970, or with a zone. Otherwise an hour that is missing may
    /// be one by which clocks were put forward.
    pub(super) certain: bool,
    /// Says what is wrong with a row, in words and with a remedy.
    pub(super) fault: &'a dyn Fn(usize, &str, &str) -> ScenarioError,
}

impl Rows<'_> {
    /// The series: rows without a value left out, oldest first, equally far apart; what is missing for a while
    /// is on the line between its neighbours.
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
        self.fill(&mut rows, usual, &mut notes)?;
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

    /// Puts rows into gaps of whole steps, where there are few and they are no hour that clocks jumped over.
    fn fill(
        &self,
        rows: &mut Vec<(usize, f64, f64)>,
        usual: f64,
        notes: &mut Vec<String>,
    ) -> Result<(), ScenarioError> {
        let steps = |pair: &[(usize, f64, f64)]| (pair[1].1 - pair[0].1) / usual;
        let lacking = |pair: &[(usize, f64, f64)]| (steps(pair).round() - 1.0).max(0.0);
        let missing: f64 = rows.windows(2).map(lacking).sum();
        let few = missing <= MISSING_MAX * (rows.len() as f64 + missing);
        // Rows that are there without a value say that no clock jumped over them.
        let jumped = |pair: &[(usize, f64, f64)]| {
            let next = pair[0].0.abs_diff(pair[1].0) == 1;
            let hour = pair[1].1 - pair[0].1 - usual - 3600.0;
            !self.certain && next && hour.abs() < OFF_MAX * usual
        };
        let mut whole = Vec::with_capacity(rows.len() + missing.min(1e6) as usize);
        let mut longest = (0.0, 0.0);
        for pair in rows.windows(2) {
            whole.push(pair[0]);
            let (gap, steps) = (pair[1].1 - pair[0].1, steps(pair));
            if steps < 1.0 - OFF_MAX || (steps > 1.0 + OFF_MAX && (!few || jumped(pair))) {
                let message = format!("{gap} s after the previous row, but {usual} s elsewhere");
                let remedy = "fill the gap: rows must be at equal intervals, but for a tenth of them; add \
                    the zone, for example +02:00, where clocks were changed";
                return Err((self.fault)(pair[1].0, &message, remedy));
            }
            let count = lacking(pair) + 1.0;
            for place in 1..count as usize {
                let share = place as f64 / count;
                let between = |from: f64, to: f64| from + share * (to - from);
                let (at, value) = (between(pair[0].1, pair[1].1), between(pair[0].2, pair[1].2));
                whole.push((pair[1].0, at, value));
            }
            if count > 1.0 && gap > longest.1 {
                longest = (pair[0].1, gap);
            }
        }
        whole.extend(rows.last());
        if missing > 0.0 {
            let (at, gap) = longest;
            notes.push(format!(
                "rows that are missing: {missing}, most of them in the {gap:.0} s after {}; they are taken to lie \
                 between their neighbours",
                time::written(at)
            ));
        }
        *rows = whole;
        Ok(())
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

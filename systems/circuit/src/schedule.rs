//! When which input is connected to which output.

use crate::{Demand, demand::sums};

/// The time that is planned at once, and what each change of circuits costs of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its length, in windows of the demand: usually 1.
    pub length: f64,
    /// Length of a night, in the same unit.
    pub delta: f64,
}

/// Circuits that stand for a time, after the night in which they are set up.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Day {
    /// How long light passes, the night before it not included.
    pub duration: f64,
    /// The output of each input: a permutation.
    pub matching: Vec<usize>,
}

/// Days in the order in which they come, each after a night.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Schedule {
    /// The days.
    pub days: Vec<Day>,
}

/// Shorter days are not worth a night: rounding made them.
const SHORTEST: f64 = 1e-12;

impl Schedule {
    /// Nights and days together.
    pub fn length(&self, delta: f64) -> f64 {
        self.days.iter().map(|day| day.duration + delta).sum()
    }

    /// Time that is left for a day after all there are.
    pub fn room(&self, window: Window) -> f64 {
        (window.length - self.length(window.delta) - window.delta).max(0.0)
    }

    /// Adds a day, cut off at the window's end, and says whether there may be another.
    pub fn push(&mut self, duration: f64, matching: Vec<usize>, window: Window) -> bool {
        let duration = duration.min(self.room(window));
        if duration > SHORTEST {
            self.days.push(Day { duration, matching });
        }
        self.room(window) > SHORTEST
    }

    /// For how long each input is connected to each output, row by row.
    pub fn connected(&self, ports: usize) -> Vec<f64> {
        let mut time = vec![0.0; ports * ports];
        for day in &self.days {
            for (from, to) in day.matching.iter().enumerate() {
                time[from * ports + to] += day.duration;
            }
        }
        time
    }

    /// What circuits carry of the demand directly, in its unit.
    pub fn carried(&self, demand: &Demand) -> f64 {
        let time = self.connected(demand.ports());
        time.iter().zip(demand.amounts()).map(|(time, amount)| time.min(*amount)).sum()
    }

    /// The share of the demand that circuits carry; all of it where nobody wants anything.
    pub fn served(&self, demand: &Demand) -> f64 {
        let total = demand.total();
        if total > 0.0 { self.carried(demand) / total } else { 1.0 }
    }

    /// What is left of the demand, row by row.
    pub fn residual(&self, demand: &Demand) -> Vec<f64> {
        let time = self.connected(demand.ports());
        let left = time.iter().zip(demand.amounts()).map(|(time, amount)| (amount - time).max(0.0));
        left.collect()
    }

    /// The longest day, 0 without any.
    pub fn longest(&self) -> f64 {
        self.days.iter().map(|day| day.duration).fold(0.0, f64::max)
    }

    /// What is wrong with it, if anything: matchings that are no permutations, days without
    /// length, more than the window holds.
    pub fn fault(&self, ports: usize, window: Window) -> Option<String> {
        for (index, day) in self.days.iter().enumerate() {
            let mut seen = vec![false; ports];
            let fresh = |to: &usize| *to < ports && !std::mem::replace(&mut seen[*to], true);
            if day.matching.len() != ports || !day.matching.iter().all(fresh) {
                return Some(format!("day {index} is not a matching"));
            }
            if !(day.duration > 0.0 && day.duration.is_finite()) {
                return Some(format!("day {index} lasts {}", day.duration));
            }
        }
        let length = self.length(window.delta);
        let fits = length <= window.length * (1.0 + 1e-9);
        (!fits).then(|| format!("it needs {length} of {}", window.length))
    }
}

/// Adds to a matrix, at places that have something first, what makes all rows and columns sum to
/// its largest sum (`QuickStuff` of Liu et al., CoNEXT 2015, algorithm 2).
pub(crate) fn stuffed(ports: usize, matrix: &[f64]) -> Vec<f64> {
    let (rows, columns) = sums(ports, matrix);
    let most = rows.iter().chain(&columns).copied().fold(0.0, f64::max);
    let mut slack_row: Vec<f64> = rows.iter().map(|sum| most - sum).collect();
    let mut slack_column: Vec<f64> = columns.iter().map(|sum| most - sum).collect();
    let mut out = matrix.to_vec();
    for something in [true, false] {
        for at in 0..out.len() {
            if (matrix[at] > 0.0) == something {
                let (row, column) = (&mut slack_row[at / ports], &mut slack_column[at % ports]);
                let more = row.min(*column);
                out[at] += more;
                *row -= more;
                *column -= more;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_cut_off_at_the_windows_end() {
        let window = Window { length: 1.0, delta: 0.1 };
        let mut schedule = Schedule::default();
        assert!(schedule.push(0.5, vec![1, 0], window));
        assert!(!schedule.push(0.9, vec![1, 0], window));
        assert!((schedule.days[1].duration - 0.3).abs() < 1e-12);
        assert_eq!(schedule.fault(2, window), None);
        let demand = Demand::new(2, vec![0.0, 1.0, 0.25, 0.0]).unwrap();
        assert!((schedule.served(&demand) - (0.8 + 0.25) / 1.25).abs() < 1e-12);
        assert_eq!(Schedule::default().served(&Demand::new(1, vec![0.0]).unwrap()), 1.0);
    }

    #[test]
    fn stuffing_evens_all_sums() {
        let matrix = [0.0, 0.5, 0.2, 0.1, 0.0, 0.0, 0.0, 0.3, 0.0];
        let (rows, columns) = sums(3, &stuffed(3, &matrix));
        assert!(rows.iter().chain(&columns).all(|sum| (sum - 0.8).abs() < 1e-12));
    }
}

//! The scheduler Eclipse (SIGMETRICS 2016).

use super::Scheduler;
use crate::matching::Heaviest;
use crate::{Demand, Schedule, Window};

/// Eclipse (Bojja Venkatakrishnan, Alizadeh and Viswanath, SIGMETRICS 2016): the next day is the
/// matching and length whose gain per time, `sum min(length, left) / (length + delta)`, is
/// greatest. Within a factor of the best schedule because gains only shrink (they are submodular).
pub(crate) struct Eclipse;

/// Lengths nearer to each other than this ratio are tried once.
const APART: f64 = 0.01;
/// Days shorter than this part of the window are not worth planning, even with nights of nothing;
/// what is less than that is served by a day of this length.
const SHORTEST: f64 = 1e-4;

impl Scheduler for Eclipse {
    fn name(&self) -> &'static str {
        "eclipse"
    }

    fn about(&self) -> &'static str {
        "always the day of greatest gain per time"
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        greedy(demand.ports(), demand.amounts().to_vec(), window)
    }
}

/// Days of greatest gain until the window is full or nothing is left.
pub(super) fn greedy(ports: usize, mut left: Vec<f64>, window: Window) -> Schedule {
    let mut schedule = Schedule::default();
    let mut search = Search::new(ports);
    loop {
        let room = schedule.room(window);
        if room < SHORTEST * window.length {
            return schedule;
        }
        let Some((length, mates)) = search.best(&left, room, window) else { return schedule };
        for (from, to) in mates.iter().enumerate() {
            let entry = &mut left[from * ports + to];
            *entry = if *entry <= length * (1.0 + 1e-12) { 0.0 } else { *entry - length };
        }
        if !schedule.push(length, mates, window) {
            return schedule;
        }
    }
}

struct Search {
    ports: usize,
    /// How many lengths are tried with a matching at most.
    tries: usize,
    clipped: Vec<f64>,
    heaviest: Heaviest,
}

impl Search {
    fn new(ports: usize) -> Search {
        let tries = match ports {
            0..=32 => usize::MAX,
            // The bound is met so nearly that a second matching gained nothing; a near one may miss it.
            33..=128 => 1,
            _ => 2,
        };
        Search { ports, tries, clipped: vec![0.0; ports * ports], heaviest: Heaviest::new(ports) }
    }

    /// The best length up to `room` and its matching; `None` when nothing is left or no room is.
    fn best(&mut self, left: &[f64], room: f64, window: Window) -> Option<(f64, Vec<usize>)> {
        let mut lengths = self.promising(left, room, window);
        lengths.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let mut found: Option<(f64, f64, Vec<usize>)> = None;
        for (bound, length) in lengths.into_iter().take(self.tries) {
            if found.as_ref().is_some_and(|(gain, ..)| bound <= *gain) {
                break;
            }
            self.clipped
                .iter_mut()
                .zip(left)
                .for_each(|(clipped, left)| *clipped = left.min(length));
            let (mates, sum) = self.heaviest.of(&self.clipped);
            let gain = sum / (length + window.delta);
            if found.as_ref().is_none_or(|(best, ..)| gain > *best) {
                found = Some((gain, length, mates));
            }
        }
        found.map(|(_, length, mates)| (length, mates))
    }

    /// Lengths worth trying, each with a bound on its gain per time: no matching gains more than
    /// the greatest entries of all rows, or of all columns. Between two neighbouring amounts the
    /// gain is a ratio of linear functions of the length, so that only amounts need be tried.
    fn promising(&self, left: &[f64], room: f64, window: Window) -> Vec<(f64, f64)> {
        let ports = self.ports;
        let mut tops = [vec![0.0_f64; ports], vec![0.0_f64; ports]];
        let mut classes = vec![0.0_f64; CLASSES];
        for (row, entries) in left.chunks_exact(ports).enumerate() {
            for (column, entry) in entries.iter().enumerate() {
                if *entry > 0.0 {
                    let length = entry.max(SHORTEST * window.length).min(room);
                    let class = &mut classes[class_of(length)];
                    *class = class.max(length);
                    tops[1][column] = tops[1][column].max(*entry);
                    tops[0][row] = tops[0][row].max(*entry);
                }
            }
        }
        let bound = |length: f64| {
            let sums = tops.iter().map(|tops| tops.iter().map(|top| top.min(length)).sum::<f64>());
            sums.fold(f64::INFINITY, f64::min) / (length + window.delta)
        };
        let lengths = classes.into_iter().filter(|length| *length > 0.0);
        lengths.map(|length| (bound(length), length)).collect()
    }
}

/// Classes of lengths: the bits of a number that say its magnitude and the first six that follow
/// them, so that a class is at most one part in 64 wide.
const CLASSES: usize = 64 * 64;
const _: () = assert!(1.0 / 64.0 < 2.0 * APART);

fn class_of(length: f64) -> usize {
    // 2^-60 is nothing, 2^3 and more the longest window.
    let bits = (length.to_bits() >> 46) as usize;
    let least = (1023 - 60) << 6;
    bits.saturating_sub(least).min(CLASSES - 1)
}

//! Traffic matrix scheduling (Farrington et al. 2012).

use super::Scheduler;
use crate::demand::sums;
use crate::matching::{self, FREE};
use crate::{Demand, Schedule, Window};

/// Traffic matrix scheduling (Farrington et al., "Hunting mice with microsecond circuit switches",
/// HotNets 2012): the demand is scaled until all rows and columns sum to one (Sinkhorn 1964), and
/// that matrix is taken apart into matchings (Birkhoff 1946, von Neumann 1953), whose weights are
/// shares of the window. Any matching will do for the proof; which one is taken decides how short
/// the days become.
pub(super) struct Tms {
    /// Takes the matching whose least entry is greatest instead of any.
    pub(super) bottleneck: bool,
}

/// Rounds of scaling, and how near to one all sums must be to need no more.
const ROUNDS: usize = 500;
const NEAR: f64 = 1e-6;

impl Scheduler for Tms {
    fn name(&self) -> &'static str {
        if self.bottleneck { "tms-bottleneck" } else { "tms-arbitrary" }
    }

    fn about(&self) -> &'static str {
        if self.bottleneck {
            "Sinkhorn, then Birkhoff-von Neumann with matchings whose least entry is greatest"
        } else {
            "Sinkhorn, then Birkhoff-von Neumann with any matching"
        }
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        let ports = demand.ports();
        let mut left = scaled(ports, demand.amounts());
        let mut schedule = Schedule::default();
        let (mut mates, mut most) = (vec![FREE; ports], f64::INFINITY);
        while let Some((found, weight)) = self.next(ports, &left, most.min(1.0), &mates) {
            for (from, to) in found.iter().enumerate() {
                let entry = &mut left[from * ports + to];
                *entry -= weight;
                // What rounding leaves would be days of no length.
                if *entry < 1e-12 {
                    *entry = 0.0;
                }
            }
            (mates, most) = (found, weight);
            if !schedule.push(weight * window.length, mates.clone(), window) {
                break;
            }
        }
        schedule
    }
}

impl Tms {
    /// The next matching and its least entry.
    fn next(
        &self,
        ports: usize,
        left: &[f64],
        most: f64,
        start: &[usize],
    ) -> Option<(Vec<usize>, f64)> {
        if self.bottleneck {
            return matching::bottleneck(ports, left, most, start);
        }
        let mates = matching::perfect(ports, left, f64::MIN_POSITIVE, start)?;
        let entries = mates.iter().enumerate().map(|(from, to)| left[from * ports + to]);
        let least = entries.fold(f64::INFINITY, f64::min);
        Some((mates, least))
    }
}

/// The matrix scaled so that rows and columns sum to one; entries are added first where no scaling
/// can do that.
fn scaled(ports: usize, amounts: &[f64]) -> Vec<f64> {
    let most = amounts.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return vec![0.0; ports * ports];
    }
    let mut matrix: Vec<f64> = amounts.iter().map(|amount| amount / most).collect();
    if matching::perfect(ports, &matrix, f64::MIN_POSITIVE, &vec![FREE; ports]).is_none() {
        matrix = crate::schedule::stuffed(ports, &matrix);
    }
    let mut by_column = vec![1.0; ports];
    let mut by_row = vec![1.0; ports];
    for _ in 0..ROUNDS {
        let mut off = 0.0_f64;
        let mut columns = vec![0.0; ports];
        for (row, scale) in matrix.chunks_exact(ports).zip(&mut by_row) {
            let sum: f64 = row.iter().zip(&by_column).map(|(entry, scale)| entry * scale).sum();
            off = off.max((sum * *scale - 1.0).abs());
            *scale = 1.0 / sum;
            columns.iter_mut().zip(row).for_each(|(column, entry)| *column += entry * *scale);
        }
        by_column.iter_mut().zip(&columns).for_each(|(scale, sum)| *scale = 1.0 / sum);
        if off < NEAR {
            break;
        }
    }
    for (row, scale) in matrix.chunks_exact_mut(ports).zip(&by_row) {
        row.iter_mut().zip(&by_column).for_each(|(entry, column)| *entry *= scale * column);
    }
    debug_assert!(sums(ports, &matrix).1.iter().all(|sum| (sum - 1.0).abs() < 1e-6));
    matrix
}

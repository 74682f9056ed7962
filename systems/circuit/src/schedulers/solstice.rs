//! The scheduler Solstice (CoNEXT 2015).

use super::Scheduler;
use crate::matching::{self, FREE};
use crate::schedule::stuffed;
use crate::{Demand, Schedule, Window};

/// Solstice (Liu et al., CoNEXT 2015, algorithms 1 to 3): the demand is stuffed until all rows and
/// columns sum to the same, then matchings all of whose entries reach a threshold are taken out,
/// each for as long as its least entry, and the threshold is halved where there is none.
pub(super) struct Solstice;

/// Thresholds below this part of the first find nothing but rounding.
const LEAST: f64 = 1e-9;

impl Scheduler for Solstice {
    fn name(&self) -> &'static str {
        "solstice"
    }

    fn about(&self) -> &'static str {
        "QuickStuff, then matchings above a threshold that is halved"
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        let ports = demand.ports();
        let mut left = stuffed(ports, demand.amounts());
        let most = left.iter().copied().fold(0.0, f64::max);
        let mut schedule = Schedule::default();
        if most <= 0.0 {
            return schedule;
        }
        // The largest power of two that is not above the largest entry.
        let mut threshold = libm::exp2(libm::floor(libm::log2(most)));
        let end = threshold * LEAST;
        let mut mates = vec![FREE; ports];
        while threshold > end {
            let Some(found) = matching::perfect(ports, &left, threshold, &mates) else {
                threshold /= 2.0;
                continue;
            };
            mates = found;
            let entries = mates.iter().enumerate().map(|(from, to)| left[from * ports + to]);
            let least = entries.fold(f64::INFINITY, f64::min);
            for (from, to) in mates.iter().enumerate() {
                let entry = &mut left[from * ports + to];
                *entry = (*entry - least).max(0.0);
            }
            if !schedule.push(least, mates.clone(), window) {
                break;
            }
        }
        schedule
    }
}

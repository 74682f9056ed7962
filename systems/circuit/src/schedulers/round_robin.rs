//! The scheduler that knows no demand.

use super::Scheduler;
use crate::{Demand, Schedule, Window};

/// Every input meets every other output for the same time, whatever the demand.
pub(crate) struct RoundRobin;

/// A slot is at least this many nights long: where the window is too short for everybody's turn,
/// some are left out rather than all.
const NIGHTS_PER_SLOT: f64 = 2.0;

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn about(&self) -> &'static str {
        "all rotations of the ports in turn, for equal times"
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        let ports = demand.ports();
        let slot = (window.length / (ports - 1) as f64).max(NIGHTS_PER_SLOT * window.delta);
        let mut schedule = Schedule::default();
        for shift in 1..ports {
            let matching = (0..ports).map(|from| (from + shift) % ports).collect();
            if !schedule.push(slot - window.delta, matching, window) {
                break;
            }
        }
        schedule
    }
}

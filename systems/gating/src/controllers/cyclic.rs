//! The controller that tries times off in turn.

use super::{Action, Controller, Event, Seen};
use crate::memory::Ps;

/// Stalls between two changes of mind.
const WINDOW: u32 = 64;
/// It gives way when more than this part of the time off was late.
const LATE_MAX: f64 = 0.02;
/// Steps of the time off, ps.
const STEP: Ps = 2_000;
/// The longest, ps.
const LONGEST: Ps = 1_000_000;

/// Cyclic gating, in the manner of criticality-driven cyclic power gating (CRIT-CPG): blind to the
/// memory system, it is off for a fixed time at every long stall, and lengthens or shortens that time
/// by how late it was. It knows of stalls no more than that they begin.
#[derive(Default)]
pub(super) struct Cyclic {
    off: Ps,
    since: Ps,
    stalls: u32,
    late: Ps,
    total: Ps,
}

impl Controller for Cyclic {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        let shortest = seen.wake + seen.break_even;
        self.off = self.off.max(shortest);
        self.since = seen.since;
        if seen.event == Event::Stalled && self.off > shortest {
            return Action::Off { up_by: Some(now + self.off) };
        }
        Action::Keep
    }

    fn resumed(&mut self, until: Ps, late: Ps) {
        let stall = until - self.since;
        (self.stalls, self.late, self.total) =
            (self.stalls + 1, self.late + late, self.total + stall);
        if self.stalls < WINDOW {
            return;
        }
        let mean = self.total / Ps::from(self.stalls);
        if self.late as f64 > LATE_MAX * self.total as f64 {
            self.off = self.off.saturating_sub(4 * STEP);
        } else if mean > self.off {
            self.off = (self.off + STEP).min(LONGEST);
        }
        (self.stalls, self.late, self.total) = (0, 0, 0);
    }
}

//! The controller that knows when a stall ends.

use super::{Action, Controller, Event, Facts, Seen};
use crate::memory::Ps;
use crate::power::Island;

/// Knows when a stall ends, and gates all of it but the wake-up where that pays: the whole core or, in
/// another one of these beside it, the functional units, whichever saves more (section 2.5.1). As a
/// late wake-up never saves what it adds, no controller that gates can save more in any stall.
pub(super) struct Oracle {
    own: Island,
    rival: Island,
    /// Whether it gates where both save the same.
    first: bool,
}

impl Oracle {
    pub(super) fn core(facts: &Facts) -> Oracle {
        let [own, rival] = facts.islands;
        Oracle { own, rival, first: true }
    }

    pub(super) fn units(facts: &Facts) -> Oracle {
        let [rival, own] = facts.islands;
        Oracle { own, rival, first: false }
    }
}

/// Energy saved in a stall, J.
fn gain(island: &Island, stall: Ps) -> f64 {
    stall
        .checked_sub(island.wake)
        .map_or(f64::NEG_INFINITY, |off| island.saved_w * off as f64 * 1e-12 - island.wake_j)
}

impl Controller for Oracle {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        let (Event::Stalled, Some(until)) = (seen.event, seen.until) else { return Action::Keep };
        let (own, rival) = (gain(&self.own, until - now), gain(&self.rival, until - now));
        if own > 0.0 && (own > rival || self.first && own == rival) {
            return Action::Off { up_by: Some(until) };
        }
        Action::Keep
    }

    fn foresees(&self) -> bool {
        true
    }
}

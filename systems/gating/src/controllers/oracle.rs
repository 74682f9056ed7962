use super::{Action, Controller, Event, Seen};
use crate::memory::Ps;

/// Knows when a stall ends and gates all of it, if that pays (section 2.5.1): no controller that
/// gates whole cores can save more in a stall.
pub(super) struct Oracle;

impl Controller for Oracle {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        let (Event::Stalled, Some(until)) = (seen.event, seen.until) else { return Action::Keep };
        if until > now + seen.wake + seen.break_even {
            return Action::Off { up_by: Some(until) };
        }
        Action::Keep
    }

    fn foresees(&self) -> bool {
        true
    }
}

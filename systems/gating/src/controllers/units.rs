//! Gating of functional units (Strong, section 2.4).

use super::{Action, Controller, Event, Seen};
use crate::memory::Ps;

/// A stall of this length turns the functional units off, ps.
const IDLE: Ps = 5_000;
/// Over every interval of this length, ps,
const INTERVAL: Ps = 10_000_000;
/// at most this may be lost: 2 %, ps.
const BUDGET: Ps = INTERVAL / 50;

/// Functional-unit power gating with a guard (section 2.4, after Hu et al. 2004, Lungu et al. 2009
/// and Madan et al. 2011): off after 5 ns without work, on again when work comes, which is always
/// late; once 2 % of an interval of 10 µs is lost, not again in it.
#[derive(Default)]
pub(super) struct Units {
    at: Option<Ps>,
    interval: Ps,
    lost: Ps,
}

impl Controller for Units {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        if now / INTERVAL != self.interval {
            (self.interval, self.lost) = (now / INTERVAL, 0);
        }
        match seen.event {
            Event::Stalled => self.at = Some(now + IDLE),
            Event::Timer => {
                self.at = None;
                if self.lost + seen.wake <= BUDGET {
                    return Action::Off { up_by: None };
                }
            }
            _ => {}
        }
        Action::Keep
    }

    fn next_at(&self) -> Option<Ps> {
        self.at
    }

    fn resumed(&mut self, _until: Ps, late: Ps) {
        self.at = None;
        self.lost += late;
    }
}

//! Token-based adaptive power gating (Strong, section 2.3.4).

use super::{Action, Controller, Event, Facts, Seen};
use crate::memory::Ps;

/// Token-based adaptive power gating (section 2.3.4): off at the token of the last cache, on again
/// for the earliest bound that a token of the memory controller tells.
///
/// It is never late as long as that token comes at least a wake-up before the answer. Where a memory
/// is so fast, or a wake-up so slow, that it might not, it waits for the token before it turns off.
pub(super) struct Tap {
    warning: Ps,
    /// The bounds of misses that are told and not answered.
    bounds: Vec<(u16, Ps)>,
    /// How many go to memory without a bound.
    unknown: Vec<u16>,
}

impl Tap {
    pub(super) fn new(facts: &Facts) -> Tap {
        Tap {
            warning: facts.warning,
            bounds: Vec::with_capacity(32),
            unknown: Vec::with_capacity(32),
        }
    }

    fn forget(&mut self, id: u16) {
        self.bounds.retain(|(own, _)| *own != id);
        self.unknown.retain(|own| *own != id);
    }
}

impl Controller for Tap {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        match seen.event {
            Event::Stalled => {
                self.bounds.clear();
                self.unknown.clear();
            }
            Event::Missed { id, .. } => {
                self.forget(id);
                self.unknown.push(id);
            }
            Event::Hint { id, bound, .. } | Event::Told { id, bound, .. } => {
                self.forget(id);
                self.bounds.push((id, bound));
            }
            // The source has one token of memory. Where a write that came later opened the read's row its bound is
            // too late, by up to a row miss; a second token then is what keeps the promise of section 2.3.4 that
            // no core is ever late (0.033 % of time on the profile that it costs most, without it).
            Event::Decided { id, bound, .. } => {
                let own = self.bounds.iter_mut().find(|(own, _)| *own == id);
                if let Some((_, told)) = own {
                    *told = bound.min(*told);
                }
            }
            Event::Answered { id } => self.forget(id),
            Event::Timer => {}
        }
        if !seen.settled {
            return Action::Keep;
        }
        // Whose bound is not known yet may be answered first: its token has to come early enough.
        let warned = self.unknown.is_empty() || self.warning >= seen.wake;
        // A bound that has passed means that the answer can come at any time.
        match self.bounds.iter().map(|(_, bound)| *bound).min() {
            Some(bound) if seen.off => Action::UpBy(bound),
            Some(bound) if seen.on && warned && bound > now + seen.wake + seen.break_even => {
                Action::Off { up_by: Some(bound) }
            }
            None if !self.unknown.is_empty() && warned => Action::Off { up_by: None },
            _ => Action::Keep,
        }
    }
}

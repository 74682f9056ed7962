//! The controller MAPG-Counter (Strong, section 2.3.3).

use super::{Action, Controller, Event, Facts, Seen};
use crate::memory::Ps;

/// What its registers count, ps: 15 bits reach 3.28 µs (section 2.3.3).
const STEP: Ps = 100;
/// The largest value of a register.
const REGISTER_MAX: i64 = (1 << 15) - 1;

/// MAPG-Counter (section 2.3.3): when a stall has outlasted an answer of the last cache, it expects
/// memory's answer a row miss after the begin of the stall, plus delta. Delta follows what was seen:
/// at once when the answer was early, by a quarter of the difference when it was late
/// (alpha = 0.75, two shifts).
///
/// The algorithm is printed with one `diff` for both cases. Taken against the expectation with delta
/// in it, the average would settle at half of the true difference; the text asks for the average of
/// the differences, so late answers are compared with the row miss alone. What it learns is the delay of
/// memory: from every stall that memory ended, however short, and from none that a cache did.
pub(super) struct Counter {
    last_cache: Ps,
    row_miss: i64,
    /// In steps.
    delta: i64,
    since: Ps,
    /// Whether the core waits for memory.
    memory: bool,
    /// When it decides.
    decides_at: Option<Ps>,
}

impl Counter {
    pub(super) fn new(facts: &Facts) -> Counter {
        let row_miss = (facts.row_miss / STEP) as i64;
        Counter {
            last_cache: facts.last_cache,
            row_miss,
            delta: 0,
            since: 0,
            memory: false,
            decides_at: None,
        }
    }

    /// How long a stall is expected to be, ps.
    pub(super) fn expected(&self) -> Ps {
        (self.row_miss + self.delta).max(0) as Ps * STEP
    }

    fn learn(&mut self, stall: Ps) {
        let actual = ((stall / STEP) as i64).min(REGISTER_MAX);
        let early = actual - (self.row_miss + self.delta);
        if early < 0 {
            self.delta += early;
        } else {
            self.delta = self.delta - (self.delta >> 2) + ((actual - self.row_miss) >> 2);
        }
        self.delta = self.delta.clamp(-self.row_miss, REGISTER_MAX);
    }
}

impl Controller for Counter {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        match seen.event {
            Event::Stalled => {
                (self.since, self.memory) = (now, false);
                self.decides_at = Some(now + self.last_cache);
                Action::Keep
            }
            Event::Timer => {
                self.decides_at = None;
                let until = seen.since + self.expected();
                if until > now + seen.wake + seen.break_even {
                    return Action::Off { up_by: Some(until) };
                }
                Action::Keep
            }
            Event::Missed { blocking, .. }
            | Event::Told { blocking, .. }
            | Event::Decided { blocking, .. } => {
                self.memory |= blocking;
                Action::Keep
            }
            _ => Action::Keep,
        }
    }

    fn next_at(&self) -> Option<Ps> {
        self.decides_at
    }

    fn resumed(&mut self, until: Ps, _late: Ps) {
        self.decides_at = None;
        if self.memory {
            self.learn(until - self.since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_answers_count_at_once_and_late_ones_by_a_quarter() {
        let machine = crate::MachineSettings::default();
        let facts = Facts { last_cache: 22_000, row_miss: 45_000, ..Facts::of(&machine) };
        let mut counter = Counter::new(&facts);
        counter.learn(85_000);
        assert_eq!(counter.expected(), 55_000);
        counter.learn(50_000);
        assert_eq!(counter.expected(), 50_000);
        counter.learn(20_000);
        assert_eq!(counter.expected(), 20_000, "memory answered what was asked for long before");
        (0..100).for_each(|_| counter.learn(60_000));
        assert!(counter.expected().abs_diff(60_000) <= 400, "{}", counter.expected());
        counter.learn(u64::MAX);
        assert!(counter.expected() < 4_600_000);
    }
}

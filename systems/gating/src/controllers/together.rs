//! The controller that weighs savings against lateness over all cores.

use super::counter::Counter;
use super::{Action, Controller, Event, Facts, Seen};
use crate::memory::Ps;

/// Weight of the last stall in what is expected of the next: 1/16.
const MEMORY: f64 = 1.0 / 16.0;
/// Lateness costs more than the leakage it adds: time, too. In units of the energy saved in it.
const LATE_COST: f64 = 4.0;
/// While more than this part of all time was lost, nothing is risked.
pub(super) const LATE_MAX: f64 = 0.003;

/// When to turn off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// At once: most stalls are misses of the last cache anyway.
    Begin,
    /// At the token of the last cache.
    Missed,
    /// At the token of the memory controller.
    Told,
}

const WHENS: [When; 3] = [When::Begin, When::Missed, When::Told];

/// Tokens and expectation together. It waits for the miss that holds the core, the last of those that
/// overlap, instead of the earliest; turns off when that saved most in the stalls before, perhaps
/// before any token came; and where no token can tell in time, it expects what the counter expects.
pub(super) struct Together {
    warning: Ps,
    counter: Counter,
    /// What turning off at each time saves a stall, in ps of time off beyond the break-even.
    gains: [f64; 3],
    /// Of the stall at hand; what memory has decided, not what its banks estimate.
    since: Ps,
    missed: Option<Ps>,
    told: Option<(Ps, Ps)>,
    wake: Ps,
    break_even: Ps,
    lost: Ps,
    /// What has come since it last decided.
    asked: Option<When>,
}

impl Together {
    pub(super) fn new(facts: &Facts) -> Together {
        Together {
            warning: facts.warning,
            counter: Counter::new(facts),
            gains: [-1.0, 0.0, 0.0],
            since: 0,
            missed: None,
            told: None,
            wake: 0,
            break_even: 0,
            lost: 0,
            asked: None,
        }
    }

    fn best(&self, now: Ps) -> Option<When> {
        // One more that is late altogether has to be affordable, also at the begin of a run.
        let careful = (self.lost + self.wake) as f64 > LATE_MAX * now as f64;
        let all = WHENS.into_iter().zip(self.gains);
        let safe = all.filter(|(when, _)| !(careful && *when == When::Begin));
        let (when, gain) = safe.max_by(|one, other| one.1.total_cmp(&other.1))?;
        (gain >= 0.0).then_some(when)
    }

    /// Off, if that can pay by what is known.
    fn off(&self, now: Ps, seen: &Seen) -> Action {
        let up_by = self.told.map(|(_, bound)| bound);
        let up_by = up_by
            .or_else(|| (self.warning < seen.wake).then(|| seen.since + self.counter.expected()));
        match up_by {
            Some(up) if up <= now + seen.wake + seen.break_even => Action::Keep,
            up_by => Action::Off { up_by },
        }
    }

    /// What turning off at `from` would have saved in the stall that ended at `until`.
    fn gain(&self, from: Option<Ps>, until: Ps) -> f64 {
        let Some(from) = from.filter(|from| *from < until) else { return 0.0 };
        let wakes = match self.told {
            Some((told, bound)) => bound.saturating_sub(self.wake).max(told).min(until),
            None => until,
        };
        if wakes <= from {
            return -(self.break_even as f64);
        }
        let late = (wakes + self.wake).saturating_sub(until);
        (wakes - from) as f64 - self.break_even as f64 - LATE_COST * late as f64
    }
}

impl Controller for Together {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        match seen.event {
            Event::Stalled => {
                (self.since, self.missed, self.told) = (now, None, None);
                (self.wake, self.break_even) = (seen.wake, seen.break_even);
                let _ = self.counter.decide(now, seen);
                self.asked = Some(When::Begin);
            }
            Event::Missed { blocking: true, .. } => {
                self.missed = Some(now);
                self.asked = Some(When::Missed);
            }
            Event::Decided { bound, blocking: true, .. } => {
                self.told = Some((now, bound));
                self.asked = Some(When::Told);
            }
            _ => {}
        }
        if !seen.settled {
            return Action::Keep;
        }
        let asked = self.asked.take();
        match (asked, self.told, self.missed) {
            (None, ..) => Action::Keep,
            (_, Some((_, bound)), _) if seen.off => Action::UpBy(bound),
            (_, Some(_), _) => self.off(now, seen),
            (_, None, Some(_)) if matches!(self.best(now), Some(When::Missed | When::Begin)) => {
                self.off(now, seen)
            }
            (_, None, None) if self.best(now) == Some(When::Begin) => self.off(now, seen),
            _ => Action::Keep,
        }
    }

    fn resumed(&mut self, until: Ps, late: Ps) {
        self.lost += late;
        let paid = |from: Option<Ps>| self.gain(from, until);
        let told = self.told.filter(|(told, bound)| *bound > told + self.wake + self.break_even);
        let gains = [paid(Some(self.since)), paid(self.missed), paid(told.map(|(told, _)| told))];
        for (mean, gain) in self.gains.iter_mut().zip(gains) {
            *mean += MEMORY * (gain - *mean);
        }
        self.counter.resumed(until, late);
    }
}

use super::counter::Counter;
use super::tap::Tap;
use super::together::{LATE_MAX, Together};
use super::{Action, Controller, Event, Facts, Seen};
use crate::gate::Switch;
use crate::keeper::Keeper;
use crate::memory::Ps;

/// Weight of the last stall in what is expected of the next.
const MEMORY: f64 = 1.0 / 64.0;
/// As in `together`.
const LATE_COST: f64 = 2.0;

/// One of those it chooses from, with a switch that does what it would have done.
struct Arm {
    controller: Box<dyn Controller>,
    shadow: Switch,
    keeper: Keeper,
    /// What it saved a stall lately, in ps of time off beyond the break-even.
    gain: f64,
}

impl Arm {
    fn new(controller: Box<dyn Controller>) -> Arm {
        Arm { controller, shadow: Switch::new(0, 0), keeper: Keeper::lone(0), gain: 0.0 }
    }
}

/// A bandit with full information: what each of its arms would have saved in a stall is known
/// afterwards, whoever was in charge. The best of late is in charge of the next; one that may be late
/// only while that has cost less than 0.3 % of all time.
pub(super) struct Bandit {
    arms: [Arm; 3],
    chosen: usize,
    break_even: Ps,
    lost: Ps,
    started: bool,
}

impl Bandit {
    pub(super) fn new(facts: &Facts) -> Bandit {
        let arms = [
            Arm::new(Box::new(Together::new(facts))),
            Arm::new(Box::new(Tap::new(facts))),
            Arm::new(Box::new(Counter::new(facts))),
        ];
        Bandit { arms, chosen: 0, break_even: 0, lost: 0, started: false }
    }

    fn choose(&mut self, now: Ps) {
        let careful = self.lost as f64 > LATE_MAX * now as f64;
        // Of the three only TAP is never late; `together` looks after its own lateness.
        let safe = if careful { 0..2 } else { 0..3 };
        let mut best = safe.start;
        for arm in safe {
            if self.arms[arm].gain > self.arms[best].gain {
                best = arm;
            }
        }
        self.chosen = best;
    }
}

impl Controller for Bandit {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        if seen.event == Event::Stalled {
            if !self.started {
                self.arms.iter_mut().for_each(|arm| arm.keeper = Keeper::lone(seen.wake));
                (self.started, self.break_even) = (true, seen.break_even);
            }
            self.choose(now);
        }
        let mut wanted = Action::Keep;
        for (index, arm) in self.arms.iter_mut().enumerate() {
            if seen.event == Event::Timer && arm.controller.next_at().is_none_or(|at| at > now) {
                continue;
            }
            arm.shadow.pass(now, &mut arm.keeper);
            let (on, off) = arm.shadow.is();
            let action = arm.controller.decide(now, &Seen { on, off, ..*seen });
            arm.shadow.act(now, action, &mut arm.keeper);
            if index == self.chosen {
                wanted = action;
            }
        }
        wanted
    }

    fn next_at(&self) -> Option<Ps> {
        self.arms.iter().filter_map(|arm| arm.controller.next_at()).min()
    }

    fn resumed(&mut self, until: Ps, late: Ps) {
        self.lost += late;
        for arm in &mut self.arms {
            let late = arm.shadow.end(until, &mut arm.keeper);
            arm.controller.resumed(until, late);
            let (gated, wakeups, late) = arm.shadow.take();
            let paid = wakeups as f64 * self.break_even as f64;
            let gain = gated as f64 - paid - LATE_COST * late as f64;
            arm.gain += MEMORY * (gain - arm.gain);
        }
    }
}

//! The controller that learns how long to stay off.

use super::counter::Counter;
use super::tap::Tap;
use super::together::{LATE_MAX, Together};
use super::{Action, Controller, Event, Facts, Never, Seen};
use crate::keeper::Keeper;
use crate::memory::Ps;
use crate::switch::Switch;

/// Weight of the last stall in what is expected of the next: of a phase, and of the program.
const MEMORIES: [f64; 2] = [1.0 / 64.0, 1.0 / 4096.0];
/// An arm is ahead by more than chance in a phase, or over a longer time without being behind in the
/// phase, by so many standard deviations of the mean: few stalls can carry most of what is saved.
const AHEAD: [f64; 2] = [6.0, 4.0];
/// What has not been seen in n stalls happens in less than 3/n of them, with 95 % confidence.
const UNSEEN: f64 = 3.0;
/// As in `together`.
const LATE_COST: f64 = 2.0;
/// While more than this part of all time was lost, wake-ups that had to wait for others are asked for
/// earlier.
const LATE_MUCH: f64 = 0.0042;
/// What may be lost of all time, whatever it would save: who could lose more does not turn off.
const LATE_MOST: f64 = 0.0045;

/// One of those it chooses from, with a switch that does what it would have done.
struct Arm {
    controller: Box<dyn Controller>,
    shadow: Switch,
    keeper: Keeper,
    /// What it saved a stall more than TAP did, in ps of time off beyond the break-even, by [`MEMORIES`].
    ahead: [Mean; 2],
}

/// A mean that forgets.
#[derive(Clone, Copy, Default)]
struct Mean {
    mean: f64,
    square: f64,
}

impl Mean {
    fn take(&mut self, value: f64, weight: f64) {
        self.mean += weight * (value - self.mean);
        self.square += weight * (value * value - self.square);
    }

    /// Standard deviation of the mean, if there is nothing to be known of the next from the last.
    fn deviation(&self, weight: f64) -> f64 {
        (self.square * weight / 2.0).sqrt()
    }
}

impl Arm {
    fn new(controller: Box<dyn Controller>) -> Arm {
        let ahead = Default::default();
        Arm { controller, shadow: Switch::new(0, 0), keeper: Keeper::lone(0), ahead }
    }

    /// How far it is ahead of TAP, if that is more than chance: also if a stall as worthwhile as
    /// `most`, which it might miss, just did not happen while it was looked at.
    fn is_ahead(&self, most: f64) -> Option<f64> {
        let [phase, program] = [0, 1].map(|index| {
            let (mean, weight) = (&self.ahead[index], MEMORIES[index]);
            (mean.mean, mean.deviation(weight), UNSEEN * weight * most)
        });
        let lately = phase.0 > (AHEAD[0] * phase.1).max(phase.2);
        let long =
            program.0 > (AHEAD[1] * program.1).max(program.2) && phase.0 > -AHEAD[1] * phase.1;
        (lately || long).then_some(phase.0.max(program.0))
    }
}

/// A bandit with full information: what each of its arms would have saved in a stall is known
/// afterwards, whoever was in charge. TAP is in charge but while another is ahead of it by more than
/// chance, of late or over a longer time; who never gates is one of those. One that may be late is in
/// charge only while that has cost less than 0.3 % of all time.
///
/// Where wake-ups wait for those of neighbours even TAP may be late. That is found out when it is; from
/// then on wake-ups are asked for as much earlier as they came too late, while time has to be saved,
/// and nobody turns off who could lose more than 0.45 % of it.
pub(super) struct Bandit {
    arms: [Arm; 4],
    chosen: usize,
    warning: Ps,
    break_even: Ps,
    wake: Ps,
    lost: Ps,
    /// How much later than it should a wake-up ended lately because others came first, ps; 0 as long as
    /// that never happened.
    crowded: Ps,
    started: bool,
    /// The most that TAP saved in a stall of late, in ps of time off beyond the break-even.
    most: f64,
}

/// The places of two among the arms.
const TAP: usize = 1;
const TOGETHER: usize = 2;

impl Bandit {
    pub(super) fn new(facts: &Facts) -> Bandit {
        let arms = [
            Arm::new(Box::new(Never)),
            Arm::new(Box::new(Tap::new(facts))),
            Arm::new(Box::new(Together::new(facts))),
            Arm::new(Box::new(Counter::new(facts))),
        ];
        let (warning, chosen, started) = (facts.warning, TAP, false);
        let (break_even, wake, lost, crowded) = (0, 0, 0, 0);
        Bandit { arms, chosen, warning, break_even, wake, lost, crowded, started, most: 0.0 }
    }

    /// Whether another wake-up that is late altogether would cost more than this part of all time.
    fn risks(&self, part: f64, now: Ps) -> bool {
        (self.lost + self.wake) as f64 > part * now as f64
    }

    fn choose(&mut self, now: Ps) {
        // They are in order of what they risk: `Together` looks after its own lateness, but not where no
        // token comes in time.
        let safe = if self.risks(LATE_MOST, now) && self.warning < self.wake {
            0..TAP + 1
        } else if self.risks(LATE_MAX, now) {
            0..TOGETHER + 1
        } else {
            0..self.arms.len()
        };
        let ahead = safe.filter_map(|arm| Some((arm, self.arms[arm].is_ahead(self.most)?)));
        let best = ahead.max_by(|one, other| one.1.total_cmp(&other.1));
        self.chosen = best.map_or(TAP, |(arm, _)| arm);
    }

    /// What is left of a wish where others may come first.
    fn guarded(&self, now: Ps, wanted: Action) -> Action {
        if self.crowded == 0 || !self.risks(LATE_MUCH, now) {
            return wanted;
        }
        let early = self.crowded;
        let takes = self.wake + early;
        match wanted {
            Action::Off { .. } if self.risks(LATE_MOST, now) => Action::Keep,
            Action::Off { up_by: None } if self.warning < takes => Action::Keep,
            Action::Off { up_by: Some(up) } if up <= now + takes + self.break_even => Action::Keep,
            Action::Off { up_by: Some(up) } => Action::Off { up_by: Some(up - early) },
            Action::UpBy(up) => Action::UpBy(up.saturating_sub(early)),
            other => other,
        }
    }
}

impl Controller for Bandit {
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action {
        if seen.event == Event::Stalled {
            if !self.started {
                self.arms.iter_mut().for_each(|arm| arm.keeper = Keeper::lone(seen.wake));
                (self.started, self.break_even) = (true, seen.break_even);
            }
            self.wake = seen.wake;
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
        self.guarded(now, wanted)
    }

    fn next_at(&self) -> Option<Ps> {
        self.arms.iter().filter_map(|arm| arm.controller.next_at()).min()
    }

    fn resumed(&mut self, until: Ps, late: Ps) {
        self.lost += late;
        self.crowded -= self.crowded / 256;
        let mut gains = [0.0; 4];
        for (index, (arm, gain)) in self.arms.iter_mut().zip(&mut gains).enumerate() {
            let alone = arm.shadow.end(until, &mut arm.keeper);
            arm.controller.resumed(until, alone);
            if index == self.chosen {
                self.crowded = self.crowded.max(late.saturating_sub(alone));
            }
            let (gated, wakeups, late) = arm.shadow.take();
            let paid = wakeups as f64 * self.break_even as f64;
            *gain = gated as f64 - paid - LATE_COST * late as f64;
        }
        self.most = gains[TAP].max(self.most * (1.0 - MEMORIES[1]));
        for (arm, gain) in self.arms.iter_mut().zip(gains) {
            for (mean, weight) in arm.ahead.iter_mut().zip(MEMORIES) {
                mean.take(gain - gains[TAP], weight);
            }
        }
    }
}

//! The engine as a plant for `ebb_control::drive`.

use ebb_control::{Action, Idle, Observation, Plant};
use ebb_units::{Joules, Time};

use super::core::{Order, Waits};
use super::{Exact, NEVER};
use crate::account::Doing;
use crate::engine::{LOOK_DECISIONS, Stopped};
use crate::machine::{PER_NANO, Picos};

impl Exact<'_> {
    /// The core whose round comes next, and when.
    fn earliest(&self) -> (usize, Picos) {
        let mut best = (0, NEVER);
        for (index, at) in self.next.iter().enumerate() {
            if *at < best.1 {
                best = (index, *at);
            }
        }
        best
    }

    /// A timer of the policy wakes core 0 if it sleeps.
    fn timer(&mut self) {
        let interrupt = self.machine.interrupt(self.clock(0));
        let core = &mut self.cores[0];
        if let (Waits::Asleep, Doing::Nap(nap)) = (core.waits, core.doing) {
            core.switch(self.now, Doing::Wake, &mut self.account);
            let awake = self.now + interrupt;
            core.switch(awake, Doing::Nap(nap), &mut self.account);
        }
    }
}

impl Plant for Exact<'_> {
    type Observation = Observation;
    type Action = Action;
    type Error = Stopped;

    fn now(&self) -> Time {
        Time::from_nanos(self.now / PER_NANO)
    }

    fn observe(&mut self) -> Observation {
        let longest = self.cores.iter().map(|core| core.shown).max().unwrap_or(0);
        let core = &mut self.cores[self.observer.unwrap_or(0)];
        let received = std::mem::take(&mut core.unreported);
        let wake_ps = self.options.wake_ps(self.machine, self.point.depth, self.frequency);
        let wake_nanos = (wake_ps / PER_NANO) as u32;
        Observation {
            queue_len: longest,
            own_queue_len: core.shown,
            received,
            worker: self.observer.unwrap_or(0) as u16,
            room: self.options.queue_len,
            late_nanos: wake_nanos,
            wake_nanos,
        }
    }

    fn apply(&mut self, action: &Action) -> Result<(), Stopped> {
        self.recorder.decisions += 1;
        if self.recorder.decisions.is_multiple_of(LOOK_DECISIONS) && self.progress.stopped() {
            return Err(Stopped);
        }
        if !self.begun {
            self.begin(action.point, action.idle);
            return Ok(());
        }
        let observer = self.observer.take();
        if let Some(index) = observer
            && self.cores[index].waits == Waits::Spinning
            && self.cores[index].order == Order::Run
            && action.idle != Idle::Poll
        {
            self.rest(index, action.idle);
        }
        if action.point != self.point && self.handover.is_none() {
            self.change(action.point);
        }
        Ok(())
    }

    /// Runs until a core has received a batch while no change is under way, or until `until`.
    /// While a change is under way it runs on: the live router's policy is not asked then.
    fn run_until(&mut self, until: Time) -> Result<(), Stopped> {
        let until = until.as_nanos().saturating_mul(PER_NANO);
        let until = until.min(self.load.end_ps).max(self.now + 1);
        loop {
            let (mut index, mut at) = self.earliest();
            let limit = if self.handover.is_some() { self.alarm } else { self.alarm.min(until) };
            let horizon = self.dispatch(at.min(limit));
            if horizon < at {
                (index, at) = self.earliest();
            }
            if at < limit {
                self.now = at;
                if self.round(index) {
                    self.observer = Some(index);
                    return Ok(());
                }
                continue;
            }
            self.now = limit;
            if self.alarm <= limit {
                self.ring();
                if self.progress.stopped() {
                    return Err(Stopped);
                }
            }
            if self.now >= self.load.end_ps {
                return Ok(());
            }
            if self.now >= until && self.handover.is_none() {
                self.timer();
                return Ok(());
            }
        }
    }

    fn energy(&mut self) -> Result<Joules, Stopped> {
        self.settle();
        Ok(Joules(self.account.joules()))
    }
}

//! The engine as a plant for `ebb_control::drive`.

use ebb_control::redirect::{gainers, rebalance};
use ebb_control::{Action, Observation, OperatingPoint, Plant};
use ebb_units::{Joules, Time};

use super::jump::{PATIENT_SLOTS, SAME};
use super::{Change, Slotted};
use crate::account::Account;
use crate::engine::{LOOK_DECISIONS, Stopped};
use crate::machine::{PER_NANO, Picos};
use crate::scenario::Ordering;

impl Slotted<'_> {
    /// Begins to move to `point`.
    fn start(&mut self, point: OperatingPoint) {
        self.settle();
        self.recorder.changes += 1;
        self.rounds = 0;
        self.same = 0;
        let old = std::mem::replace(&mut self.point, point);
        let new = rebalance(&self.table, point.cores);
        let moved = self.table.iter().zip(&new).filter(|(old, new)| old != new).count();
        self.recorder.entries_moved += moved as u64;
        if point.frequency > old.frequency && moved == 0 {
            self.change = Some(Change::Clock { until: self.now + self.machine.dvfs_ps });
            return;
        }
        if point.frequency > old.frequency {
            self.clock();
        }
        if moved == 0 || self.options.ordering == Ordering::None {
            self.table = new;
            self.refresh();
            self.release();
            return;
        }
        let gaining = gainers(&self.table, &new);
        let mut wait = self.slot_ps;
        for index in 0..self.cores.len() {
            if gaining.contains(index as u8) {
                self.cores[index].held = true;
                if index >= usize::from(old.cores) {
                    wait = wait.max(self.answer_ps(self.options.parked));
                }
            }
        }
        self.next_table = new;
        self.change = Some(Change::Hold { until: self.now + wait });
    }

    /// Brings the account up to now.
    pub(super) fn settle(&mut self) {
        self.account.close(self.machine, self.frequency, self.now);
        let clock = self.machine.frequencies[usize::from(self.frequency)];
        self.recorder.held(self.now, self.point.cores, clock);
    }

    /// What is due now: rates, the end of the warm-up, samples.
    pub(super) fn due(&mut self) {
        let pieces = self.load.rates.pieces();
        if self.piece + 1 < pieces.len() && pieces[self.piece].until_ps <= self.now {
            self.piece += 1;
            self.refresh();
        }
        if !self.warm && self.load.warm_ps <= self.now {
            self.settle();
            self.warm = true;
            self.recorder.reset(self.now, 0);
            self.totals = super::Totals { queued_before: self.queued(), ..Default::default() };
            (self.carried, self.wakeups) = (0.0, 0.0);
            self.account = Account::new(self.now);
        }
        if self.sample_at <= self.now || self.now >= self.load.end_ps {
            self.settle();
            let clock = self.machine.frequencies[usize::from(self.frequency)];
            let longest = self.cores.iter().map(|core| core.queue).fold(0.0, f64::max);
            self.recorder.counts.arrived = self.totals.arrived as u64;
            if self.warm {
                let point = (self.point.cores, clock);
                self.recorder.sample(self.now, &self.account, point, longest as u32);
            }
            self.sample_at = self.now + self.options.sample_ps;
            self.progress.at(self.now as f64 / self.load.end_ps as f64, "slots");
        }
    }

    /// The next instant at which a rate, a sample or the end is due.
    fn horizon(&self) -> Picos {
        let pieces = self.load.rates.pieces();
        let piece = match self.piece + 1 < pieces.len() {
            true => pieces[self.piece].until_ps,
            false => Picos::MAX,
        };
        let warm = if self.warm { Picos::MAX } else { self.load.warm_ps };
        piece.min(warm).min(self.sample_at).min(self.load.end_ps)
    }

    /// One slot, cut short where something else is due.
    fn slot_until(&mut self, horizon: Picos) {
        let mut end = (self.now + self.slot_ps).min(horizon);
        if let Some(Change::Hold { until } | Change::Rewrite { until } | Change::Clock { until }) =
            self.change
        {
            end = end.min(until);
        }
        if end > self.now {
            self.slot(end - self.now);
        }
        self.advance_change();
    }
}

impl Plant for Slotted<'_> {
    type Observation = Observation;
    type Action = Action;
    type Error = Stopped;

    fn now(&self) -> Time {
        Time::from_nanos(self.now / PER_NANO)
    }

    fn observe(&mut self) -> Observation {
        let (longest, shortest) = self.shown();
        let received = self.received.floor();
        self.received -= received;
        let wake_ps = self.options.wake_ps(self.machine, self.point.depth, self.frequency);
        let wake_nanos = (wake_ps / PER_NANO) as u32;
        Observation {
            queue_len: longest,
            own_queue_len: shortest,
            received: received as u32,
            worker: 0,
            // What was received is that of all active cores.
            room: self.options.queue_len * u32::from(self.point.cores),
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
        } else if self.change.is_none() {
            if self.shown().1 == 0 {
                self.idle = action.idle;
            }
            if action.point == self.point {
                self.same = self.same.saturating_add(1);
            } else {
                self.start(action.point);
            }
        }
        Ok(())
    }

    /// Runs for a slot, or jumps to `until` while nothing changes. While a change is under way it
    /// runs on: the live router's policy is not asked then.
    fn run_until(&mut self, until: Time) -> Result<(), Stopped> {
        if self.rounds > 1 && self.change.is_none() {
            self.rounds -= 1;
            return Ok(());
        }
        let until = until.as_nanos().saturating_mul(PER_NANO).max(self.now + 1);
        loop {
            let horizon = self.horizon();
            if horizon <= self.now {
                self.due();
                if self.progress.stopped() {
                    return Err(Stopped);
                }
                if self.now >= self.load.end_ps {
                    return Ok(());
                }
                continue;
            }
            if self.stationary() {
                let asked = if self.same >= SAME {
                    until.max(self.now + self.slot_ps * PATIENT_SLOTS)
                } else {
                    until
                };
                let target = asked.min(horizon);
                if let Some((at, core, height)) = self.excursion(target) {
                    self.jump(at.max(self.now + 1));
                    self.grow(core, height);
                    continue;
                }
                self.jump(target);
                if self.now >= asked {
                    return Ok(());
                }
                continue;
            }
            self.slot_until(horizon);
            if self.change.is_none() {
                return Ok(());
            }
        }
    }

    fn energy(&mut self) -> Result<Joules, Stopped> {
        self.settle();
        Ok(Joules(self.account.joules()))
    }
}

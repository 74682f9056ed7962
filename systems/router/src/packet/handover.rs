//! Changes of the operating point, in the order in which the live router's governor makes them.
//!
//! Capacity is raised before traffic moves onto it and lowered after traffic left it. With the
//! barrier, cores that gain entries hold, the table is rewritten, cores that lose entries forward
//! what waits, then the gainers go on: no flow is reordered.

use ebb_control::redirect::{gainers, losers, rebalance};
use ebb_control::{Idle, OperatingPoint};

use super::core::{Order, Table, Waits};
use super::{Exact, NEVER};
use crate::account::Doing;
use crate::machine::Picos;
use crate::scenario::Ordering;

/// A change under way; meanwhile the policy is not asked.
pub(super) struct Handover {
    phase: Phase,
    new: Table,
    /// Cores that have not answered yet.
    awaited: usize,
}

enum Phase {
    /// Gainers are told to hold.
    Hold,
    /// The table has been written, packets steered by the old one may be on their way until then.
    Rewrite { until: Picos },
    /// Losers forward what waits.
    Drain,
    /// Only a change of frequency is left, until then.
    Clock { until: Picos },
}

impl Handover {
    /// What the step is called.
    pub(super) fn step(&self) -> &'static str {
        match self.phase {
            Phase::Hold => "hold",
            Phase::Rewrite { .. } => "rewrite the redirect table",
            Phase::Drain => "drain",
            Phase::Clock { .. } => "change the clock",
        }
    }

    pub(super) fn alarm(&self) -> Picos {
        match self.phase {
            Phase::Rewrite { until } | Phase::Clock { until } => until,
            Phase::Hold | Phase::Drain => NEVER,
        }
    }
}

impl Exact<'_> {
    /// Begins to move to `point`.
    pub(super) fn change(&mut self, point: OperatingPoint) {
        self.settle();
        self.recorder.changes += 1;
        let new = rebalance(&self.table, point.cores);
        self.recorder.entries_moved +=
            self.table.iter().zip(&new).filter(|(old, new)| old != new).count() as u64;
        let old = std::mem::replace(&mut self.point, point);
        self.refresh();
        if point.frequency > old.frequency {
            self.clock_change = Some((self.now + self.machine.dvfs_ps, point.frequency));
        }
        self.handover = Some(Handover { phase: Phase::Hold, new, awaited: 0 });
        if self.options.ordering == Ordering::Barrier {
            let gaining = gainers(&self.table, &new);
            (0..self.cores.len())
                .filter(|core| gaining.contains(*core as u8))
                .for_each(|core| self.hold(core));
            self.proceed();
        } else {
            self.table = new;
            self.release();
        }
        self.set_alarm();
        self.show();
    }

    fn hold(&mut self, index: usize) {
        let interrupt = self.machine.interrupt(self.clock(index));
        let core = &mut self.cores[index];
        core.order = Order::Hold;
        match core.waits {
            Waits::Spinning => {}
            Waits::No => core.owes_answer = true,
            Waits::Asleep => {
                core.owes_answer = true;
                if let Doing::Nap(nap) = core.doing {
                    let awake = self.now + self.machine.nap(nap).exit_ps;
                    core.wake(self.now, awake);
                    self.next[index] = awake + interrupt;
                }
            }
        }
        let owes = usize::from(core.owes_answer);
        self.handover.as_mut().expect("a change is under way").awaited += owes;
    }

    /// A core that owes an answer begins a round. Returns whether the round ends here.
    pub(super) fn answers(&mut self, index: usize) -> bool {
        let core = &mut self.cores[index];
        let holds = core.order == Order::Hold;
        if holds {
            core.switch(self.now, Doing::Nap(self.options.shallow), &mut self.account);
            core.waits = Waits::Spinning;
        } else if core.drain.is_some_and(|left| left > 0) {
            return false;
        }
        core.drain = None;
        core.owes_answer = false;
        self.handover.as_mut().expect("a change is under way").awaited -= 1;
        self.proceed();
        self.set_alarm();
        self.show();
        holds
    }

    /// Takes the next step when every answer has come.
    fn proceed(&mut self) {
        let Some(handover) = &mut self.handover else { return };
        if handover.awaited > 0 {
            return;
        }
        match handover.phase {
            Phase::Hold if handover.new == self.table => self.release(),
            Phase::Hold => {
                let until = self.now + self.options.rewrite_ps;
                handover.phase = Phase::Rewrite { until };
                let old = std::mem::replace(&mut self.table, handover.new);
                handover.new = old;
            }
            Phase::Drain => self.release(),
            Phase::Rewrite { .. } | Phase::Clock { .. } => {}
        }
    }

    /// What is due at the alarm.
    pub(super) fn advance_handover(&mut self) {
        let Some(handover) = &mut self.handover else { return };
        match handover.phase {
            Phase::Rewrite { until } if until <= self.now => {
                handover.phase = Phase::Drain;
                let losing = losers(&handover.new, &self.table);
                let losing = (0..self.cores.len()).filter(|core| losing.contains(*core as u8));
                for index in losing {
                    let core = &mut self.cores[index];
                    if core.waits == Waits::No {
                        core.drain = Some(core.queue.len());
                        core.owes_answer = true;
                        handover.awaited += 1;
                    }
                }
                self.proceed();
            }
            Phase::Clock { until } if until <= self.now => self.finish(),
            _ => {}
        }
    }

    /// Gainers go on, cores without entries are parked, and what frequency is too much goes.
    fn release(&mut self) {
        for index in 0..self.cores.len() {
            let active = index < usize::from(self.point.cores);
            let order = if active { Order::Run } else { Order::Park };
            let core = &mut self.cores[index];
            let before = std::mem::replace(&mut core.order, order);
            let held = before == Order::Hold;
            let newly_parked = order == Order::Park && before == Order::Run;
            if held && core.waits != Waits::No {
                core.switch(self.now, Doing::Spin, &mut self.account);
                core.waits = Waits::No;
                self.next[index] = self.now;
            } else if newly_parked && core.waits != Waits::No && core.queue.len() == 0 {
                self.rest(index, Idle::Halt);
            }
        }
        if self.point.frequency < self.frequency {
            self.clock_change = Some((self.now + self.machine.dvfs_ps, self.point.frequency));
        }
        match self.clock_change {
            None => self.finish(),
            Some((until, _)) => {
                let handover = self.handover.as_mut().expect("a change is under way");
                handover.phase = Phase::Clock { until };
            }
        }
    }

    /// The policy is asked again; cores that polled meanwhile ask at once.
    fn finish(&mut self) {
        self.handover = None;
        for (core, next) in self.cores.iter_mut().zip(&mut self.next) {
            if core.order == Order::Run && core.waits == Waits::Spinning {
                core.waits = Waits::No;
                *next = self.now;
            }
        }
    }
}

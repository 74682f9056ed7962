//! Clocks of a core's own.
//!
//! The policy's frequency is the most that a core may have. A governor looks at every core in turns
//! of a fixed length, as the kernel's does, and gives it the lowest clock that carries what the core
//! forwarded in the last turn with a quarter to spare; a core whose queue is more than a tenth full
//! gets the most. The change takes effect after the server's latency of such changes.

use ebb_units::{Hertz, Watts};

use super::{Exact, NEVER};
use crate::machine::{Picos, Service};

/// Room above the last turn's load, as in the kernel's `schedutil`.
const ROOM: f64 = 1.25;

/// The clock of one core.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoreClock {
    /// Frequencies below the one in force.
    below: u16,
    /// What the core draws less, awake, than at the frequency in force.
    pub(super) less: Watts,
    /// Packets and bytes forwarded in this turn.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// The frequency it gets when the change takes effect.
    wanted: u16,
}

/// When the clocks change next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// The end of the turn.
    turn: Picos,
    /// When what the last turn asked for takes effect.
    change: Picos,
}

impl Turns {
    pub(super) fn new(period: Option<Picos>) -> Turns {
        Turns { turn: period.unwrap_or(NEVER), change: NEVER }
    }

    pub(super) fn alarm(&self) -> Picos {
        self.turn.min(self.change)
    }
}

impl Exact<'_> {
    /// The frequency number of one core.
    pub(super) fn clock(&self, index: usize) -> u16 {
        self.frequency - self.cores[index].clock.below.min(self.frequency)
    }

    /// The mean clock of the active cores.
    pub(super) fn mean_clock(&self) -> Hertz {
        let of = |number: u16| self.machine.frequencies[usize::from(number)];
        if self.options.clock_ps.is_none() {
            return of(self.frequency);
        }
        let active = usize::from(self.point.cores);
        let sum: u64 = (0..active).map(|index| of(self.clock(index)).0).sum();
        Hertz(sum / active as u64)
    }

    /// What a packet takes on one core, and the time where all are alike.
    pub(super) fn service_on(&self, index: usize) -> (Service, Option<Picos>) {
        if self.cores[index].clock.below == 0 {
            return (self.service, self.fixed_ps);
        }
        let service = self.machine.service(self.point.cores, self.clock(index));
        (service, self.fixed_ps.and(self.load.sizes.only()).map(|bytes| service.of(bytes)))
    }

    /// What is due at the alarm.
    pub(super) fn turn_clocks(&mut self) {
        if self.turns.change <= self.now {
            self.turns.change = NEVER;
            self.settle();
            for index in 0..self.cores.len() {
                let wanted = self.cores[index].clock.wanted;
                self.cores[index].clock.below = self.frequency.saturating_sub(wanted);
            }
            self.price_clocks();
        }
        if let Some(period) = self.options.clock_ps.filter(|_| self.turns.turn <= self.now) {
            self.turns = Turns {
                turn: self.now + period,
                change: self.now + self.machine.dvfs_ps.min(period),
            };
            for index in 0..self.cores.len() {
                let wanted = self.wanted(index, period);
                let clock = &mut self.cores[index].clock;
                (clock.wanted, clock.packets, clock.bytes) = (wanted, 0, 0);
            }
        }
    }

    /// The frequency in force has changed: every core is at it until the next turn.
    pub(super) fn reset_clocks(&mut self) {
        for core in &mut self.cores {
            core.clock.below = 0;
            core.clock.wanted = self.frequency;
        }
        self.price_clocks();
    }

    /// The lowest clock that carries the turn's load.
    fn wanted(&self, index: usize, period: Picos) -> u16 {
        let core = &self.cores[index];
        if core.queue.len() > self.options.queue_len / 10 {
            return self.frequency;
        }
        let carries = |number: &u16| {
            let service = self.machine.service(self.point.cores, *number);
            let busy = service.packet_ps * core.clock.packets as f64
                + service.byte_ps * core.clock.bytes as f64;
            busy * ROOM <= period as f64
        };
        (0..self.frequency).find(carries).unwrap_or(self.frequency)
    }

    /// What each core draws less at its clock.
    fn price_clocks(&mut self) {
        let awake = |number: u16| self.machine.awake[usize::from(number)].0;
        let most = awake(self.frequency);
        for index in 0..self.cores.len() {
            let less = Watts(most - awake(self.clock(index)));
            self.cores[index].clock.less = less;
        }
    }
}

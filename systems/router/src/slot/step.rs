//! One slot: arrivals drawn, queues worked off, core time and latency added up.

use ebb_control::Idle;
use rand::RngCore;
use rand::distr::Distribution;
use rand_distr::StandardNormal;

use super::estimate::{Station, Steady, per_pico, span};
use super::{Change, Slotted};
use crate::account::Doing;
use crate::machine::{Nap, Picos};
use crate::scenario::Arrivals;

/// Above this mean the number of arrivals in a slot is drawn from a normal distribution.
const NORMAL_FROM: f64 = 12.0;
/// The policy is asked at most so often about one slot.
const ROUNDS_MAX: f64 = 8.0;

impl Slotted<'_> {
    /// The queueing station that core `index` is now.
    pub(super) fn station(&self, index: usize) -> Station {
        let core = &self.cores[index];
        let share = self.share(index);
        let nap = self.nap(core.pps);
        let (cluster, variance) = match self.load.arrivals {
            Arrivals::Poisson => (1.0, 1.0),
            Arrivals::Constant => (1.0, 1.0 - share),
            Arrivals::Onoff => ((f64::from(self.load.burst.0) * share).max(1.0), 1.0 - share),
        };
        Station {
            rate: per_pico(core.pps),
            service: self.service_ps,
            asleep_delay: span(self.machine.delivery_ps + self.machine.nap(nap).exit_ps),
            interrupt: span(self.machine.interrupt(self.frequency)),
            cluster,
            variance,
            variation: self.variation,
            halts: self.idle != Idle::Poll,
            gathers: self.gathers(),
        }
    }

    /// Share of all arrivals that core `index` receives.
    fn share(&self, index: usize) -> f64 {
        let all = self.load.rates.pieces()[self.piece].pps;
        if all > 0.0 { (self.cores[index].pps / all).min(1.0) } else { 0.0 }
    }

    /// Arrivals at core `index` in `len`.
    fn draw(&mut self, index: usize, len: Picos) -> f64 {
        let mean = per_pico(self.cores[index].pps) * span(len);
        if mean <= 0.0 {
            return 0.0;
        }
        let share = self.share(index);
        let variance = match self.load.arrivals {
            Arrivals::Poisson => mean,
            Arrivals::Constant => mean * (1.0 - share),
            Arrivals::Onoff => mean * (1.0 - share) + self.burst_variance(share, len),
        };
        if mean < NORMAL_FROM && self.load.arrivals == Arrivals::Poisson {
            return self.poisson(mean);
        }
        let normal: f64 = StandardNormal.sample(&mut self.random);
        (mean + normal * variance.sqrt()).max(0.0)
    }

    /// What partial bursts within a slot add to the variance.
    fn burst_variance(&self, share: f64, len: Picos) -> f64 {
        let burst = f64::from(self.load.burst.0);
        let links = f64::from(self.load.links);
        let pps = self.load.rates.pieces()[self.piece].pps;
        let bursts = per_pico(pps) * span(len) / burst / links;
        let part = bursts.fract();
        links * (burst * share).powi(2) * part * (1.0 - part)
    }

    /// Packets that a core works off when it can do `mean` on average.
    fn vary(&mut self, mean: f64) -> f64 {
        if self.variation < 0.01 {
            return mean;
        }
        let normal: f64 = StandardNormal.sample(&mut self.random);
        (mean + normal * (mean * self.variation).sqrt()).max(0.0)
    }

    fn poisson(&mut self, mean: f64) -> f64 {
        let mut left = self.random.next_u64() as f64 / 18_446_744_073_709_551_616.0;
        let mut chance = libm::exp(-mean);
        let mut count = 0.0;
        while left >= chance && count < 100.0 {
            left -= chance;
            count += 1.0;
            chance *= mean / count;
        }
        count
    }

    /// Runs for `len`; random arrivals if `random`, the mean otherwise.
    pub(super) fn slot(&mut self, len: Picos) {
        let active = usize::from(self.point.cores);
        let limit = f64::from(self.options.queue_len + self.options.batch);
        let draining = matches!(self.change, Some(Change::Drain));
        let mut rounds = 0.0;
        for index in 0..self.cores.len() {
            let parked = index >= active && self.change.is_none();
            if parked && self.cores[index].queue == 0.0 && self.cores[index].pps == 0.0 {
                self.account.add(Doing::Nap(self.options.parked), span(len));
                continue;
            }
            let arrived = self.draw(index, len);
            let mean = if self.cores[index].held { 0.0 } else { span(len) / self.service_ps };
            let can = self.vary(mean);
            let core = &mut self.cores[index];
            let before = core.queue;
            let served = (before + arrived).min(can);
            let after = before + arrived - served;
            let lost = (after - limit).max(0.0);
            core.queue = after - lost;
            if draining {
                core.drain = (core.drain - served).max(0.0);
            }
            self.totals.arrived += arrived;
            self.totals.delivered += served;
            self.totals.lost += lost;
            self.received += served;
            let queue = core.queue;
            if served > 0.0 {
                rounds += served / before.clamp(1.0, f64::from(self.options.batch));
            }
            let steady = self.station(index).steady(limit);
            let waited = ((before + queue) / 2.0 * self.service_ps).max(steady.sojourn);
            let floor = self.service_ps + span(self.machine.pipeline_ps);
            let mean = waited + span(self.machine.pipeline_ps);
            self.spread.record(&mut self.recorder, served, floor, mean);
            self.spend(index, len, served, &steady);
        }
        self.carry_bits();
        self.now += len;
        self.careful = self.careful.saturating_sub(1);
        self.rounds = rounds.clamp(1.0, ROUNDS_MAX) as u32;
    }

    /// Adds up what core `index` did in a slot.
    fn spend(&mut self, index: usize, len: Picos, served: f64, steady: &Steady) {
        let all = span(len);
        let work = (served * self.service_ps).min(all);
        self.account.add(Doing::Work, work);
        let left = all - work;
        let active = index < usize::from(self.point.cores);
        if !active || self.cores[index].held {
            let nap = if active { self.options.shallow } else { self.options.parked };
            self.account.add(Doing::Nap(nap), left);
        } else if self.cores[index].queue > 0.0 || steady.work >= 1.0 {
            self.account.add(Doing::Work, left);
        } else if self.idle == Idle::Poll || self.change.is_some() {
            self.account.add(Doing::Spin, left);
        } else {
            let asleep = (steady.asleep * all).min(left);
            self.account.add(Doing::Nap(self.nap(self.cores[index].pps)), asleep);
            self.account.add(Doing::Wake, left - asleep);
            self.wakeups += steady.wakeups * all;
        }
    }

    /// Hands what was delivered since the last call to the account.
    pub(super) fn carry_bits(&mut self) {
        let packets = self.totals.delivered - self.carried;
        self.account.carried(packets * self.load.sizes.mean() * 8.0);
        self.carried = self.totals.delivered;
    }

    /// Longest queue behind a batch, and the shortest of an active core.
    pub(super) fn shown(&self) -> (u32, u32) {
        let batch = f64::from(self.options.batch);
        let active = &self.cores[..usize::from(self.point.cores)];
        let shown = |core: &super::Core| (core.queue - batch).max(0.0) as u32;
        let longest = active.iter().map(shown).max().unwrap_or(0);
        (longest, active.iter().map(shown).min().unwrap_or(0))
    }

    /// Takes the change under way as far as `now` allows.
    pub(super) fn advance_change(&mut self) {
        loop {
            match self.change {
                Some(Change::Hold { until }) if until <= self.now => {
                    let losing = ebb_control::redirect::losers(&self.table, &self.next_table);
                    std::mem::swap(&mut self.table, &mut self.next_table);
                    self.refresh();
                    for (index, core) in self.cores.iter_mut().enumerate() {
                        core.drain = f64::from(u8::from(losing.contains(index as u8)));
                    }
                    let until = self.now + self.options.rewrite_ps;
                    self.change = Some(Change::Rewrite { until });
                }
                Some(Change::Rewrite { until }) if until <= self.now => {
                    for core in &mut self.cores {
                        core.drain *= core.queue;
                    }
                    self.change = Some(Change::Drain);
                }
                Some(Change::Drain) if self.cores.iter().all(|core| core.drain < 1e-9) => {
                    self.release();
                }
                Some(Change::Clock { until }) if until <= self.now => {
                    self.clock();
                    self.change = None;
                    self.careful = self.settling();
                }
                _ => return,
            }
        }
    }

    /// Gainers go on; a lower frequency is set only now.
    pub(super) fn release(&mut self) {
        self.cores.iter_mut().for_each(|core| core.held = false);
        let until = self.now + self.machine.dvfs_ps;
        let falls = self.point.frequency < self.frequency;
        self.change = if falls { Some(Change::Clock { until }) } else { None };
        self.careful = self.settling();
    }

    /// The frequency that the point asks for comes into force.
    pub(super) fn clock(&mut self) {
        if self.frequency != self.point.frequency {
            self.settle();
            self.frequency = self.point.frequency;
            self.refresh();
        }
    }

    /// How long a gainer takes to answer: a parked one has to wake.
    pub(super) fn answer_ps(&self, nap: Nap) -> Picos {
        self.machine.nap(nap).exit_ps + self.machine.interrupt(self.frequency)
    }
}

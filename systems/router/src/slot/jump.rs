//! Jumps over times in which nothing changes.

use ebb_control::Idle;
use rand::RngCore;
use rand::distr::Distribution;
use rand_distr::{Exp1, StandardNormal};

use super::Slotted;
use super::estimate::{per_pico, span};
use crate::account::Doing;
use crate::machine::Picos;
use crate::scenario::Arrivals;

/// Below this utilization a queue that a policy can see is rarer than once in an hour.
const CALM: f64 = 0.8;
/// Slots drawn at random after a change, by utilization: calm, busy.
const SETTLING: (u32, u32) = (4, 100);
/// Where the policy's answer does not change any more, queues are shown to it at most so often per
/// picosecond: five times a second.
const PATIENT_RATE: f64 = 5e-12;
/// So many equal answers in a row to queues that stay as they are, and the policy is asked but
/// once in [`PATIENT_SLOTS`].
pub(super) const SAME: u32 = 2_000;
/// Slots between two questions then.
pub(super) const PATIENT_SLOTS: u64 = 1_000;

impl Slotted<'_> {
    /// Utilization of the busiest core.
    pub(super) fn utilization(&self) -> f64 {
        let busiest = self.cores.iter().map(|core| core.pps).fold(0.0, f64::max);
        per_pico(busiest) * self.service_ps
    }

    /// Slots to be drawn at random after a change.
    pub(super) fn settling(&self) -> u32 {
        if self.utilization() < CALM { SETTLING.0 } else { SETTLING.1 }
    }

    /// When, before `target`, a queue next grows so long that a policy sees it, on which core, and
    /// how long it gets.
    ///
    /// Queues of a busy core are taken for reflected Brownian motion with drift `m = (1 - ρ) / s`
    /// and tail `exp(-η q)`, `η = 2 (1 - ρ) / (c_a² + c_s²)` (Kingman's heavy traffic): excursions
    /// above a level b come as a Poisson process of rate `η m exp(-η b)` (Aldous 1989, section
    /// A), and their heights above b are exponential of mean `1 / η`.
    pub(super) fn excursion(&mut self, target: Picos) -> Option<(Picos, usize, f64)> {
        if self.utilization() < CALM {
            return None;
        }
        let visible = f64::from(self.options.batch);
        let mut rates = Vec::with_capacity(usize::from(self.point.cores));
        for index in 0..usize::from(self.point.cores) {
            let station = self.station(index);
            let load = station.rate * station.service;
            let spare = 1.0 - load;
            let variability = station.variance * station.cluster + station.variation;
            let tail = 2.0 * spare / variability.max(1e-3);
            let grows = (CALM..1.0).contains(&load);
            let rate = tail * spare / station.service * libm::exp(-tail * visible);
            rates.push(if grows { (rate, tail) } else { (0.0, tail) });
        }
        let all: f64 = rates.iter().map(|(rate, _)| rate).sum();
        if all <= 0.0 {
            return None;
        }
        let wait: f64 = Exp1.sample(&mut self.random);
        let wait = wait / if self.same >= SAME { all.min(PATIENT_RATE) } else { all };
        if wait >= span(target - self.now) {
            return None;
        }
        let mut ticket = self.random.next_u32() as f64 / 4_294_967_296.0 * all;
        let chosen = rates.iter().position(|(rate, _)| {
            ticket -= rate;
            ticket < 0.0
        });
        let core = chosen.unwrap_or(0);
        let above: f64 = Exp1.sample(&mut self.random);
        let limit = f64::from(self.options.queue_len);
        Some((self.now + wait as Picos, core, (visible + above / rates[core].1).min(limit)))
    }

    /// A queue has grown: what came for it came at the expense of what comes later.
    pub(super) fn grow(&mut self, core: usize, height: f64) {
        let more = (height - self.cores[core].queue).max(0.0);
        self.cores[core].queue += more;
        self.totals.arrived += more;
        self.debt += more;
    }

    /// Whether the router is as it will be until something outside changes.
    pub(super) fn stationary(&self) -> bool {
        if self.change.is_some() || self.careful > 0 {
            return false;
        }
        let limit = f64::from(self.options.queue_len + self.options.batch);
        let batch = f64::from(self.options.batch);
        self.cores.iter().all(|core| {
            let load = per_pico(core.pps) * self.service_ps;
            let full = core.queue >= limit - 1.0;
            let drained = core.queue <= batch || self.same >= SAME;
            if load < 1.0 { drained && !full } else { full }
        })
    }

    /// What a policy counts when `packets` are expected: policies estimate loads, and estimates
    /// have noise.
    fn counted(&mut self, packets: f64) -> f64 {
        if self.load.arrivals == Arrivals::Constant {
            return packets;
        }
        let normal: f64 = StandardNormal.sample(&mut self.random);
        (packets + normal * packets.sqrt()).max(0.0)
    }

    /// Goes on to `until` at constant rates.
    pub(super) fn jump(&mut self, until: Picos) {
        let len = until - self.now;
        let limit = f64::from(self.options.queue_len + self.options.batch);
        let active = usize::from(self.point.cores);
        let (mut packets, mut sojourns) = (0.0, 0.0);
        for index in 0..self.cores.len() {
            let pps = self.cores[index].pps;
            if index >= active && pps == 0.0 {
                self.account.add(Doing::Nap(self.options.parked), span(len));
                continue;
            }
            let steady = self.station(index).steady(limit);
            let mut arrived = per_pico(pps) * span(len);
            let paid = self.debt.min(arrived / 2.0);
            self.debt -= paid;
            arrived -= paid;
            let served = arrived.min(span(len) / self.service_ps);
            self.totals.arrived += arrived;
            self.totals.delivered += served;
            self.totals.lost += arrived - served;
            packets += served;
            sojourns += served * steady.sojourn;
            let work = served * self.service_ps / span(len);
            self.account.add(Doing::Work, work * span(len));
            let rest = 1.0 - work - steady.asleep;
            let awake = if self.idle == Idle::Poll { Doing::Spin } else { Doing::Wake };
            self.account.add(awake, rest.max(0.0) * span(len));
            self.account.add(Doing::Nap(self.nap(pps)), steady.asleep * span(len));
            self.wakeups += steady.wakeups * span(len);
        }
        if packets > 0.0 {
            let pipeline = span(self.machine.pipeline_ps);
            let (floor, mean) = (self.service_ps + pipeline, sojourns / packets + pipeline);
            self.spread.record(&mut self.recorder, packets, floor, mean);
        }
        self.received += self.counted(packets);
        self.carry_bits();
        self.now = until;
    }
}

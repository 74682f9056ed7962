//! Jumps over times in which nothing changes.

use ebb_control::Idle;

use super::Slotted;
use super::estimate::{per_pico, span};
use crate::account::Doing;
use crate::machine::Picos;

/// Below this utilization of the busiest core no queue ever reaches a policy's thresholds.
const CALM: f64 = 0.9;
/// Slots drawn at random after a change, by utilization: calm, busy.
const SETTLING: (u32, u32) = (4, 100);
/// Slots drawn at random before the policy's timer where queues fluctuate.
pub(super) const LOOKING: u32 = 20;
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

    /// Whether the policy might see queues that fluctuate.
    pub(super) fn fluctuates(&self) -> bool {
        let utilization = self.utilization();
        (CALM..1.0).contains(&utilization)
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
            let arrived = per_pico(pps) * span(len);
            let served = arrived.min(span(len) / self.service_ps);
            self.totals.arrived += arrived;
            self.totals.delivered += served;
            self.totals.lost += arrived - served;
            packets += served;
            sojourns += served * steady.sojourn;
            self.account.add(Doing::Work, steady.work * span(len));
            let rest = 1.0 - steady.work - steady.asleep;
            let awake = if self.idle == Idle::Poll { Doing::Spin } else { Doing::Wake };
            self.account.add(awake, rest.max(0.0) * span(len));
            self.account.add(Doing::Nap(self.nap(pps)), steady.asleep * span(len));
            self.recorder.wakeups += (steady.wakeups * span(len)) as u64;
        }
        if packets > 0.0 {
            let pipeline = span(self.machine.pipeline_ps);
            let (floor, mean) = (self.service_ps + pipeline, sojourns / packets + pipeline);
            self.spread.record(&mut self.recorder, packets, floor, mean);
        }
        self.received += packets;
        self.carry_bits();
        self.now = until;
    }
}

//! Shares that follow capacities, and relief for a back-end that is nearly full.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ebb_cluster::{Move, SLOTS};
use ebb_units::Time;

use super::Plane;

/// How long packets are counted before it is judged whether a back-end is nearly full.
const EVERY: Duration = Duration::from_secs(1);

/// What slots are asked for.
pub(super) struct Asked {
    /// By slot, since `since`.
    pub(super) packets: Vec<u32>,
    since: Time,
}

impl Asked {
    pub(super) fn new(now: Time) -> Asked {
        Asked { packets: vec![0; SLOTS], since: now }
    }

    /// Packets per second of each slot, once they have been counted for long enough.
    fn take(&mut self, now: Time) -> Option<Vec<f64>> {
        let span = now.since(self.since);
        if span < EVERY {
            return None;
        }
        self.since = now;
        let seconds = span.as_secs_f64();
        let rate = |packets: &mut u32| f64::from(std::mem::take(packets)) / seconds;
        Some(self.packets.iter_mut().map(rate).collect())
    }
}

impl Plane {
    /// Takes over weights and capacities of back-ends, by name.
    pub fn weigh(&mut self, capacities: &BTreeMap<String, (u32, f64)>, now: Time) {
        for back_end in &mut self.topology.back_ends {
            if let Some((weight, pps)) = capacities.get(&back_end.name) {
                (back_end.weight, back_end.capacity_pps) = (*weight, *pps);
            }
        }
        let weights = self.topology.back_ends.iter().map(|one| one.weight).collect();
        let moves = self.logic.reweigh(weights);
        self.carry_out(moves, VecDeque::new(), now);
    }

    /// Once a second: moves slots off a back-end that is nearly full. Each balancer, and of it each worker, evens out
    /// what comes to it, and with that the sum: of a back-end's capacity it counts its own part.
    pub(super) fn relieve(&mut self, now: Time) {
        let Some(loads) = self.asked.take(now) else { return };
        let part = self.worker.part(loads.iter().sum()) / f64::from(self.worker.balancers());
        let back_ends = self.topology.back_ends.iter();
        let capacities: Vec<f64> = back_ends.map(|one| one.capacity_pps * part).collect();
        let moves = self.logic.relieve(&loads, &capacities);
        let slots = moves.iter().map(|step| match step {
            Move::Drain { slots, .. } | Move::Settled { slots } => slots.len() as u64,
        });
        self.counters.relieved += slots.sum::<u64>();
        self.carry_out(moves, VecDeque::new(), now);
    }
}

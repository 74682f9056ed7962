//! What passes between a balancer and the store.

use core::time::Duration;

use ebb_units::Time;

use crate::every::Every;
use crate::plan::{Acknowledgement, ClusterPlan, Snapshot, Write};

/// Over how long a load is measured: as long as a leader waits between two looks. Over less, what comes in bursts wakes
/// back-ends that stay on for nothing.
const LOAD_OVER: Duration = Duration::from_millis(500);
/// A load that is within this share of the last word is told only with the next sign of life: everybody hears it.
const NEAR: f64 = 0.02;
/// Whoever has nothing else to say shows once in so long that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// Carries plans from the store to a balancer and what it says back. It registers before it first reads a plan:
/// from then on every drain waits for it.
#[derive(Clone, Debug)]
pub struct Carrier {
    name: String,
    /// What the store has confirmed.
    said: Option<Acknowledgement>,
    version: u64,
    beats: Every,
    beat: u64,
    counting: Every,
    counted: (Time, u64),
    load_pps: f64,
    /// As it was told.
    told_pps: f64,
}

impl Carrier {
    /// For the balancer `name`, which has seen no packet until `now`.
    pub fn new(name: impl Into<String>, now: Time) -> Carrier {
        let mut carrier = Carrier {
            name: name.into(),
            said: None,
            version: 0,
            beats: Every::new(BEAT),
            beat: 0,
            counting: Every::new(LOAD_OVER),
            counted: (now, 0),
            load_pps: 0.0,
            told_pps: 0.0,
        };
        carrier.counting.done(now);
        carrier
    }

    /// The balancer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to write when the balancer says `says`, to which so many `packets` have come by now.
    pub fn says(&mut self, now: Time, says: Acknowledgement, packets: u64) -> Option<Write> {
        if self.counting.take(now) {
            let (since, before) = self.counted;
            self.counted = (now, packets);
            // On a clock that has gone back nobody knows over how long these came.
            if now > since {
                self.load_pps = (packets - before) as f64 / now.since(since).as_secs_f64();
            }
        }
        let beats = self.beats.take(now);
        self.beat += u64::from(beats);
        if beats || (self.load_pps - self.told_pps).abs() > NEAR * self.told_pps {
            self.told_pps = self.load_pps;
        }
        let acknowledgement = Acknowledgement { load_pps: self.told_pps, beat: self.beat, ..says };
        let balancer = self.name.clone();
        (self.said.as_ref() != Some(&acknowledgement))
            .then_some(Write::Acknowledge { balancer, acknowledgement })
    }

    /// The store has made a change that was asked for.
    pub fn written(&mut self, write: Write) {
        if let Write::Acknowledge { acknowledgement, .. } = write {
            self.said = Some(acknowledgement);
        }
    }

    /// Whether it may look for plans.
    pub fn is_registered(&self) -> bool {
        self.said.is_some()
    }

    /// A plan that the balancer has not been given yet.
    pub fn follows<'a>(&mut self, seen: &'a Snapshot) -> Option<&'a ClusterPlan> {
        let (plan, _) = seen.plan.as_ref().filter(|(plan, _)| plan.version > self.version)?;
        self.version = plan.version;
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_hardly_changes_is_told_once_a_second() {
        let at = |halves: u64| Time::from_nanos(halves * 500_000_000);
        let mut carrier = Carrier::new("b0", at(0));
        let (mut packets, mut told) = (0, Vec::new());
        for half in 1..=10 {
            // A hundredth to and fro; at 4 s a twentieth more.
            packets += 1000 + half % 2 * 10 + if half >= 8 { 50 } else { 0 };
            if let Some(write) = carrier.says(at(half), Acknowledgement::default(), packets) {
                told.push(half);
                carrier.written(write);
            }
        }
        assert_eq!(told, [1, 3, 5, 7, 8, 9]);
    }

    #[test]
    fn says_what_is_new_and_that_it_lives() {
        let at = |tenths: u64| Time::from_nanos(tenths * 100_000_000);
        let mut carrier = Carrier::new("b0", at(50));
        let mut wrote = Vec::new();
        for tenth in 50..75 {
            // 300 packets a second.
            let packets = 30 * (tenth - 50);
            if let Some(write) = carrier.says(at(tenth), Acknowledgement::default(), packets) {
                let Write::Acknowledge { acknowledgement, .. } = &write else { unreachable!() };
                wrote.push((tenth, acknowledgement.beat, acknowledgement.load_pps));
                carrier.written(write);
            }
        }
        assert_eq!(wrote, [(50, 1, 0.0), (55, 1, 300.0), (60, 2, 300.0), (70, 3, 300.0)]);
        // Its clock goes back: the load is what it was, and it still shows that it lives.
        for (tenth, packets) in [(20, 750), (21, 780)] {
            let write = carrier.says(at(tenth), Acknowledgement::default(), packets);
            let Some(Write::Acknowledge { acknowledgement, .. }) = write else { panic!("silent") };
            assert_eq!((acknowledgement.beat, acknowledgement.load_pps), (4, 300.0));
        }
    }
}

//! What a worker's sleeps cost, and what they bring: for its patience.
//!
//! Room: one worker's own numbers, of no thread but its. It reads no clock; [`crate::worker`] does.

use std::time::Duration;

use ebb_units::Time;

/// Every so many sleeps their cost is measured.
const COST_EVERY: u32 = 64;
/// Waking this part of the time later than the kernel was told is its own lateness; more is a silence.
const LATEST: u32 = 4;

/// Means over the latest sleeps.
#[derive(Debug, Default)]
pub struct SleepCost {
    sleeps: u32,
    /// Nanoseconds of processor time of going to sleep and waking.
    pub wake_nanos: u32,
    /// How much later than asked the last gathering ended.
    pub late_nanos: u32,
    woke: Time,
    /// Awake between two sleeps, nanoseconds.
    work: u64,
    /// From what the kernel was told to the time that the worker woke, nanoseconds.
    overdue: u64,
    /// Packets a round from all ports and from the port that had most, in 1,024th packets.
    came: (u64, u64),
}

impl SleepCost {
    /// Whether the cost of the coming sleep is to be measured.
    #[inline]
    pub fn samples(&mut self) -> bool {
        let sampled = self.sleeps.is_multiple_of(COST_EVERY);
        self.sleeps = self.sleeps.wrapping_add(1);
        sampled
    }

    /// A sleep took so much processor time.
    pub fn cost(&mut self, cost: Duration) {
        let cost = cost.as_nanos() as u32;
        let known = self.wake_nanos;
        self.wake_nanos = if known == 0 { cost } else { known - known / 8 + cost / 8 };
    }

    /// The worker goes to sleep. What took longer than `most` counts as that: it was not let run.
    #[inline]
    pub fn sleeps(&mut self, now: Time, most: Duration) {
        let work = now.since(self.woke).min(most);
        self.work = mean(self.work, work.as_nanos() as u64);
    }

    /// It woke. Packets gather for `holds` if they come without a silence.
    #[inline]
    pub fn wakes(&mut self, now: Time, holds: Duration) {
        let period = now.since(std::mem::replace(&mut self.woke, now));
        if !holds.is_zero() && period < holds * 2 {
            let overdue = period.saturating_sub(holds).min(holds / LATEST);
            self.overdue = mean(self.overdue, overdue.as_nanos() as u64);
        }
    }

    /// Takes in what a round brought: from all ports, from the one that had most.
    #[inline]
    pub fn came(&mut self, all: u32, most: u32) {
        let sample = |packets: u32| u64::from(packets) << 10;
        self.came = (mean(self.came.0, sample(all)), mean(self.came.1, sample(most)));
    }

    /// How long the worker is awake between two sleeps.
    pub fn work(&self) -> Duration {
        Duration::from_nanos(self.work)
    }

    /// What to tell the kernel so that the worker wakes after `span`.
    pub fn told(&self, span: Duration) -> Duration {
        span.saturating_sub(Duration::from_nanos(self.overdue))
    }

    /// What the queues of all ports hold until that of the busiest is full, which holds `room`.
    pub fn room(&self, room: u32) -> u32 {
        let (all, most) = self.came;
        (u64::from(room) * all.max(1) / most.max(1)) as u32
    }
}

fn mean(mean: u64, sample: u64) -> u64 {
    mean - mean / 8 + sample / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Wakes, works and sleeps a hundred times.
    fn lived(period: Duration, work: Duration, holds: Duration) -> SleepCost {
        let (mut sleep_cost, mut now) = (SleepCost::default(), Time::from_secs_f64(1.0));
        for _ in 0..100 {
            now += period;
            sleep_cost.wakes(now, holds);
            sleep_cost.sleeps(now + work, us(200));
        }
        sleep_cost
    }

    #[test]
    fn work_is_what_lies_between_sleeps() {
        let about = |found: Duration, wanted| found <= us(wanted) && found > us(wanted - 1);
        assert!(about(lived(us(250), us(50), us(200)).work(), 50));
        let held = lived(us(9_000), us(8_000), us(200)).work();
        assert!(about(held, 200), "it was not let run: {held:?}");
    }

    #[test]
    fn the_kernels_lateness_is_taken_off() {
        // To the nearest microsecond.
        let told =
            |period, holds| (lived(period, us(20), holds).told(us(220)) + us(1) / 2).as_micros();
        assert_eq!(told(us(200), us(200)), 220);
        assert_eq!(told(us(230), us(200)), 190);
        assert_eq!(told(us(390), us(200)), 170, "never more than a quarter");
        assert_eq!(told(us(5_000), us(200)), 220, "nothing came");
        assert_eq!(told(us(230), Duration::ZERO), 220, "it sets its own timers");
    }

    #[test]
    fn the_busiest_port_is_full_first() {
        let room = |packets: [u32; 2]| {
            let mut sleep_cost = SleepCost::default();
            (0..100)
                .for_each(|_| sleep_cost.came(packets[0] + packets[1], packets[0].max(packets[1])));
            sleep_cost.room(256)
        };
        assert_eq!(SleepCost::default().room(256), 256, "nothing is known");
        assert_eq!(room([20, 0]), 256);
        assert!((500..=512).contains(&room([20, 20])));
        assert!((330..=342).contains(&room([10, 30])));
    }

    #[test]
    fn some_sleeps_are_measured() {
        let mut sleep_cost = SleepCost::default();
        assert_eq!((0..640).filter(|_| sleep_cost.samples()).count(), 10);
        (0..100).for_each(|_| sleep_cost.cost(us(20)));
        assert_eq!(sleep_cost.wake_nanos, 20_000);
    }
}

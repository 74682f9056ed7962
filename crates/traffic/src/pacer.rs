//! Paced sending: a rate that changes over time, and how many packets that makes due by now.

use core::time::Duration;

use ebb_units::{PacketsPerSecond, Time};

use crate::{DayProfile, Due};

/// A packet rate over time: linear between equally spaced points.
///
/// ```
/// use core::time::Duration;
/// use ebb_traffic::{DayProfile, Schedule};
/// use ebb_units::PacketsPerSecond;
/// let day = Schedule::day(DayProfile::UK_BACKBONE, PacketsPerSecond(1e5), Duration::from_secs(20));
/// assert!((day.packets() / (20.0 * 1e5 * 0.6464) - 1.0).abs() < 0.001);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Rate at each point, packets per second.
    points: Vec<f64>,
    /// Packets from the start to each point.
    packets: Vec<f64>,
    step_s: f64,
}

impl Schedule {
    /// `points` spread equally over `span`, the first at its start and the last at its end.
    ///
    /// # Panics
    /// When there are fewer than two points, one is negative or not finite, or the span is zero.
    pub fn new(points: Vec<f64>, span: Duration) -> Schedule {
        assert!(points.len() >= 2, "a schedule needs two points");
        assert!(points.iter().all(|rate| rate.is_finite() && *rate >= 0.0), "a rate below zero");
        assert!(!span.is_zero(), "a schedule needs a span");
        let step_s = span.as_secs_f64() / (points.len() - 1) as f64;
        let mut packets = Vec::with_capacity(points.len());
        let mut total = 0.0;
        packets.push(0.0);
        for pair in points.windows(2) {
            total += (pair[0] + pair[1]) / 2.0 * step_s;
            packets.push(total);
        }
        Schedule { points, packets, step_s }
    }

    /// The same rate for `span`.
    pub fn constant(rate: PacketsPerSecond, span: Duration) -> Schedule {
        Schedule::new(vec![rate.0, rate.0], span)
    }

    /// From `from` to `to` in a straight line over `span`.
    pub fn ramp(from: PacketsPerSecond, to: PacketsPerSecond, span: Duration) -> Schedule {
        Schedule::new(vec![from.0, to.0], span)
    }

    /// A day compressed into `span`, `peak` at its busiest.
    pub fn day(profile: DayProfile, peak: PacketsPerSecond, span: Duration) -> Schedule {
        let steps = profile.steps();
        let points = (0..=steps.len()).map(|index| steps[index % steps.len()] * peak.0).collect();
        Schedule::new(points, span)
    }

    /// The same course at `factor` times the rate, such as one direction's share.
    ///
    /// # Panics
    /// When the factor is negative or not finite.
    pub fn scaled(&self, factor: f64) -> Schedule {
        assert!(factor.is_finite() && factor >= 0.0, "a factor below zero");
        let scale = |values: &[f64]| values.iter().map(|value| value * factor).collect();
        Schedule { points: scale(&self.points), packets: scale(&self.packets), step_s: self.step_s }
    }

    /// How long it lasts.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.step_s * (self.points.len() - 1) as f64)
    }

    /// Rate at `offset` from the start; zero after the end.
    pub fn rate(&self, offset: Duration) -> PacketsPerSecond {
        let Some((index, share)) = self.position(offset) else { return PacketsPerSecond(0.0) };
        let (left, right) = (self.points[index], self.points[index + 1]);
        PacketsPerSecond(left + (right - left) * share)
    }

    /// Packets from the start until `offset`, as a real number.
    pub fn packets_until(&self, offset: Duration) -> f64 {
        let Some((index, share)) = self.position(offset) else { return self.packets() };
        let (left, right) = (self.points[index], self.points[index + 1]);
        let mean = left + (right - left) * share / 2.0;
        self.packets[index] + mean * share * self.step_s
    }

    /// Packets from the start to the end.
    pub fn packets(&self) -> f64 {
        *self.packets.last().expect("two points at least")
    }

    /// The segment that holds `offset` and how far into it, `None` after the end.
    fn position(&self, offset: Duration) -> Option<(usize, f64)> {
        let position = offset.as_secs_f64() / self.step_s;
        let index = position as usize;
        (index + 1 < self.points.len()).then_some((index, position - index as f64))
    }
}

/// Releases the packets of a [`Schedule`].
///
/// A sender that comes late gets the packets it missed, but no more than `backlog` of them: older
/// ones are [`Pacer::missed`], so that a stalled sender does not follow up with a flood. One that has to
/// send all of them gets them later, at a rate that is no flood: [`Pacer::catching_up`].
#[derive(Clone, Debug)]
pub struct Pacer {
    schedule: Schedule,
    start: Time,
    released: u64,
    missed: u64,
    backlog_max: u64,
    catch_up: Option<CatchUp>,
}

/// How fast late packets may follow: a bucket of as many packets as `burst_max` that fills at a rate.
#[derive(Clone, Copy, Debug)]
struct CatchUp {
    rate_max: PacketsPerSecond,
    burst_max: f64,
    level: f64,
    at: Time,
}

impl CatchUp {
    /// Packets that may leave at `now`, out of `waiting`.
    fn allow(&mut self, now: Time, waiting: u64) -> u64 {
        if now > self.at {
            let filled = self.rate_max.0 * (now - self.at).as_secs_f64();
            self.level = (self.level + filled).min(self.burst_max);
            self.at = now;
        }
        waiting.min(self.level as u64)
    }
}

impl Pacer {
    /// Follows `schedule` from `start` on and remembers at most `backlog_max` late packets.
    pub fn new(schedule: Schedule, start: Time, backlog_max: u64) -> Pacer {
        Pacer { schedule, start, released: 0, missed: 0, backlog_max, catch_up: None }
    }

    /// Follows `schedule` from `start` on and leaves nothing out: who comes late gets what is due, up to
    /// `burst_max` packets at once and at most `rate_max` on average, which should be above the schedule's
    /// highest rate. It may then end later than the schedule.
    pub fn catching_up(
        schedule: Schedule,
        start: Time,
        rate_max: PacketsPerSecond,
        burst_max: u32,
    ) -> Pacer {
        let burst_max = f64::from(burst_max);
        let catch_up = Some(CatchUp { rate_max, burst_max, level: burst_max, at: start });
        Pacer { catch_up, ..Pacer::new(schedule, start, u64::MAX) }
    }

    /// The schedule it follows.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The rate that holds at `now`.
    pub fn rate(&self, now: Time) -> PacketsPerSecond {
        self.schedule.rate(now - self.start)
    }

    /// Packets released so far.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Packets that were due but are not sent any more because the sender came too late.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether the schedule is over at `now` and everything due was released.
    pub fn finished(&self, now: Time) -> bool {
        now - self.start >= self.schedule.span() && self.waiting(now) == 0
    }

    fn waiting(&self, now: Time) -> u64 {
        let target = self.schedule.packets_until(now - self.start) as u64;
        target.saturating_sub(self.released + self.missed)
    }
}

impl Due for Pacer {
    fn due(&mut self, now: Time, max: u32) -> u32 {
        let waiting = self.waiting(now);
        self.missed += waiting.saturating_sub(self.backlog_max);
        let allowed = match &mut self.catch_up {
            Some(catch_up) => catch_up.allow(now, waiting),
            None => waiting.min(self.backlog_max),
        };
        let count = allowed.min(u64::from(max));
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.level -= count as f64;
        }
        self.released += count;
        count as u32
    }

    /// An estimate from the present rate: early rather than late while the rate falls.
    fn next_at(&mut self) -> Option<Time> {
        let next = (self.released + self.missed + 1) as f64;
        if next > self.schedule.packets() {
            return None;
        }
        let index = self.schedule.packets.partition_point(|packets| *packets < next).max(1);
        let (before, after) = (self.schedule.packets[index - 1], self.schedule.packets[index]);
        let share = ((next - before) / (after - before)).clamp(0.0, 1.0);
        Some(
            self.start
                + Duration::from_secs_f64((index as f64 - 1.0 + share) * self.schedule.step_s),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_constant_rate_is_met_exactly() {
        let schedule = Schedule::constant(PacketsPerSecond(1000.0), SECOND);
        let mut pacer = Pacer::new(schedule, Time::ZERO, u64::MAX);
        assert_eq!(pacer.due(Time::ZERO, 64), 0);
        assert_eq!(pacer.due(Time::from_secs_f64(0.1), 64), 64);
        assert_eq!(pacer.due(Time::from_secs_f64(0.1), 64), 36);
        assert_eq!(pacer.due(Time::from_secs_f64(5.0), u32::MAX), 900);
        assert!(pacer.finished(Time::from_secs_f64(5.0)));
        assert_eq!((pacer.released(), pacer.missed()), (1000, 0));
        assert_eq!(pacer.next_at(), None);
    }

    #[test]
    fn a_ramp_integrates_as_a_triangle() {
        let ramp = Schedule::ramp(PacketsPerSecond(0.0), PacketsPerSecond(1000.0), SECOND);
        assert!((ramp.packets_until(SECOND / 2) - 125.0).abs() < 1e-9);
        assert!((ramp.packets() - 500.0).abs() < 1e-9);
        assert!((ramp.rate(SECOND / 4).0 - 250.0).abs() < 1e-9);
        assert_eq!(ramp.rate(2 * SECOND), PacketsPerSecond(0.0));
    }

    #[test]
    fn shares_of_a_schedule_add_up() {
        let day =
            Schedule::day(DayProfile::UK_BACKBONE, PacketsPerSecond(1e5), Duration::from_secs(7));
        let (most, rest) = (day.scaled(0.75), day.scaled(0.25));
        for part in [0.0, 0.2, 0.77, 1.0] {
            let offset = day.span().mul_f64(part);
            let sum = most.packets_until(offset) + rest.packets_until(offset);
            assert!((sum - day.packets_until(offset)).abs() < 1e-6);
            assert!((most.rate(offset).0 - 0.75 * day.rate(offset).0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_late_sender_does_not_flood() {
        let schedule = Schedule::constant(PacketsPerSecond(1e6), SECOND);
        let mut pacer = Pacer::new(schedule, Time::ZERO, 100);
        assert_eq!(pacer.due(Time::from_secs_f64(0.5), u32::MAX), 100);
        assert_eq!(pacer.missed(), 499_900);
    }

    #[test]
    fn who_catches_up_sends_everything_and_no_faster_than_it_may() {
        let schedule = Schedule::constant(PacketsPerSecond(1000.0), SECOND);
        let rate_max = PacketsPerSecond(2000.0);
        let mut pacer = Pacer::catching_up(schedule, Time::ZERO, rate_max, 50);
        assert_eq!(pacer.due(Time::from_secs_f64(0.5), u32::MAX), 50, "the bucket");
        assert_eq!(pacer.due(Time::from_secs_f64(0.51), u32::MAX), 20);
        let mut sent = 70;
        for step in 52..200 {
            let now = Time::from_secs_f64(f64::from(step) / 100.0);
            let count = pacer.due(now, u32::MAX);
            assert!(count <= 21, "{count} at {now:?}");
            sent += u64::from(count);
        }
        assert_eq!((sent, pacer.missed(), pacer.next_at()), (1000, 0, None));
    }

    proptest! {
        #[test]
        fn nothing_is_released_twice_or_forgotten(
            rates in proptest::collection::vec(0.0..5e4f64, 2..20),
            mut times in proptest::collection::vec(0u64..3_000_000_000, 1..200),
            max in 1u32..500,
        ) {
            times.sort_unstable();
            let schedule = Schedule::new(rates, 2 * SECOND);
            let mut pacer = Pacer::new(schedule.clone(), Time::ZERO, 1000);
            let mut total = 0;
            for at in times {
                let now = Time::from_nanos(at);
                let count = pacer.due(now, max);
                prop_assert!(count <= max);
                total += u64::from(count);
                let target = schedule.packets_until(now - Time::ZERO);
                prop_assert!(total + pacer.missed() <= target as u64);
            }
            let end = Time::from_secs_f64(4.0);
            while !pacer.finished(end) {
                total += u64::from(pacer.due(end, max));
            }
            prop_assert_eq!(total, pacer.released());
            prop_assert_eq!(total + pacer.missed(), schedule.packets() as u64);
        }
    }
}

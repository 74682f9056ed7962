//! Arrival processes: iterators over instants that own their seeded generator.

use core::iter::Peekable;
use core::time::Duration;

use ebb_units::{PacketsPerSecond, Time};
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;

use crate::Random;

/// Something that says how many packets should be on their way.
pub trait Due {
    /// Packets due by `now` and not yet asked for, at most `max`; those beyond `max` stay due.
    fn due(&mut self, now: Time, max: u32) -> u32;
    /// When the next packet is due, `None` after the last.
    fn next_at(&mut self) -> Option<Time>;
}

/// Any arrival process as a [`Due`].
#[derive(Clone, Debug)]
pub struct Timeline<I: Iterator<Item = Time>>(Peekable<I>);

impl<I: Iterator<Item = Time>> Timeline<I> {
    /// Releases packets as `arrivals` says.
    pub fn new(arrivals: I) -> Self {
        Timeline(arrivals.peekable())
    }
}

impl<I: Iterator<Item = Time>> Due for Timeline<I> {
    fn due(&mut self, now: Time, max: u32) -> u32 {
        (0..max).take_while(|_| self.0.next_if(|at| *at <= now).is_some()).count() as u32
    }

    fn next_at(&mut self) -> Option<Time> {
        self.0.peek().copied()
    }
}

/// Arrivals at equal distances, for ever.
///
/// ```
/// use ebb_traffic::Constant;
/// use ebb_units::{PacketsPerSecond, Time};
/// let mut arrivals = Constant::new(Time::ZERO, PacketsPerSecond(1e6));
/// assert_eq!(arrivals.nth(2), Some(Time::from_nanos(2_000)));
/// ```
#[derive(Clone, Debug)]
pub struct Constant {
    start: Time,
    gap_ns: f64,
    index: u64,
}

impl Constant {
    /// From `start` on at `rate`.
    ///
    /// # Panics
    /// When the rate is not positive.
    pub fn new(start: Time, rate: PacketsPerSecond) -> Self {
        assert!(rate.0 > 0.0, "a rate above zero");
        Constant { start, gap_ns: 1e9 / rate.0, index: 0 }
    }
}

impl Iterator for Constant {
    type Item = Time;
    fn next(&mut self) -> Option<Time> {
        let offset_ns = (self.index as f64 * self.gap_ns) as u64;
        self.index += 1;
        Some(self.start + Duration::from_nanos(offset_ns))
    }
}

/// A Poisson process: independent exponential gaps, for ever.
#[derive(Clone, Debug)]
pub struct Poisson {
    start: Time,
    offset_ns: f64,
    gap_ns: f64,
    random: Random,
}

impl Poisson {
    /// From `start` on at a mean of `rate`.
    ///
    /// # Panics
    /// When the rate is not positive.
    pub fn new(start: Time, rate: PacketsPerSecond, seed: u64) -> Self {
        assert!(rate.0 > 0.0, "a rate above zero");
        let random = Random::seed_from_u64(seed);
        Poisson { start, offset_ns: 0.0, gap_ns: 1e9 / rate.0, random }
    }
}

impl Iterator for Poisson {
    type Item = Time;
    fn next(&mut self) -> Option<Time> {
        self.offset_ns += self.random.sample::<f64, _>(Exp1) * self.gap_ns;
        Some(self.start + Duration::from_nanos(self.offset_ns as u64))
    }
}

/// Bursts at `peak` rate and silences between them, both of exponential length (an interrupted
/// deterministic process).
#[derive(Clone, Debug)]
pub struct Bursts {
    start: Time,
    offset_ns: f64,
    burst_end_ns: f64,
    gap_ns: f64,
    on_ns: f64,
    off_ns: f64,
    random: Random,
}

impl Bursts {
    /// From `start` on, silences of mean `off` between bursts of mean `on`.
    ///
    /// # Panics
    /// When the peak rate or the mean length of a burst is not positive.
    pub fn new(
        start: Time,
        peak: PacketsPerSecond,
        on: Duration,
        off: Duration,
        seed: u64,
    ) -> Self {
        assert!(peak.0 > 0.0 && !on.is_zero(), "bursts need a rate and a length");
        let mut random = Random::seed_from_u64(seed);
        let (on_ns, off_ns) = (on.as_nanos() as f64, off.as_nanos() as f64);
        let burst_end_ns = random.sample::<f64, _>(Exp1) * on_ns;
        Bursts { start, offset_ns: 0.0, burst_end_ns, gap_ns: 1e9 / peak.0, on_ns, off_ns, random }
    }

    /// Mean rate over bursts and silences.
    pub fn mean_rate(&self) -> PacketsPerSecond {
        PacketsPerSecond(1e9 / self.gap_ns * self.on_ns / (self.on_ns + self.off_ns))
    }
}

impl Iterator for Bursts {
    type Item = Time;
    fn next(&mut self) -> Option<Time> {
        self.offset_ns += self.gap_ns;
        while self.offset_ns > self.burst_end_ns {
            let over = self.offset_ns - self.burst_end_ns;
            let resume = self.burst_end_ns + self.random.sample::<f64, _>(Exp1) * self.off_ns;
            self.offset_ns = resume + over;
            self.burst_end_ns = resume + self.random.sample::<f64, _>(Exp1) * self.on_ns;
        }
        Some(self.start + Duration::from_nanos(self.offset_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured_rate(arrivals: impl Iterator<Item = Time>) -> f64 {
        let count = 200_000;
        let last = arrivals.take(count).last().expect("arrivals");
        count as f64 / last.as_secs_f64()
    }

    #[test]
    fn mean_rates_hold() {
        let rate = PacketsPerSecond(250_000.0);
        assert!((measured_rate(Constant::new(Time::ZERO, rate)) / rate.0 - 1.0).abs() < 1e-4);
        assert!((measured_rate(Poisson::new(Time::ZERO, rate, 3)) / rate.0 - 1.0).abs() < 0.01);
        let (on, off) = (Duration::from_micros(300), Duration::from_micros(700));
        let bursts = Bursts::new(Time::ZERO, rate, on, off, 4);
        let expected = bursts.mean_rate().0;
        assert!((expected - 75_000.0).abs() < 1e-6);
        let measured = measured_rate(bursts);
        assert!((measured / expected - 1.0).abs() < 0.05, "{measured} against {expected}");
    }

    #[test]
    fn poisson_gaps_vary_as_much_as_their_mean() {
        let times: Vec<Time> =
            Poisson::new(Time::ZERO, PacketsPerSecond(1e6), 9).take(100_000).collect();
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos() as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_timeline_keeps_what_is_beyond_the_maximum() {
        let mut line = Timeline::new(Constant::new(Time::ZERO, PacketsPerSecond(1e9)));
        let now = Time::from_nanos(9);
        assert_eq!(line.due(now, 4), 4);
        assert_eq!(line.due(now, 100), 6);
        assert_eq!(line.due(now, 100), 0);
        assert_eq!(line.next_at(), Some(Time::from_nanos(10)));
    }

    proptest! {
        #[test]
        fn arrivals_never_go_back_and_follow_their_seed(seed in any::<u64>(), rate in 1.0..1e7f64) {
            let start = Time::from_nanos(17);
            let rate = PacketsPerSecond(rate);
            let spans = (Duration::from_micros(50), Duration::from_micros(50));
            let poisson: Vec<Time> = Poisson::new(start, rate, seed).take(200).collect();
            let bursts: Vec<Time> =
                Bursts::new(start, rate, spans.0, spans.1, seed).take(200).collect();
            for times in [&poisson, &bursts] {
                prop_assert!(times[0] >= start);
                prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
            }
            prop_assert_eq!(poisson, Poisson::new(start, rate, seed).take(200).collect::<Vec<_>>());
        }
    }
}

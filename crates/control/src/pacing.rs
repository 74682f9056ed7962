//! When tables that another keeps are compared again, so that comparisons leave most of the time to other work.

use core::time::Duration;

use ebb_units::Time;

/// Pauses before what could not be read is asked for again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After a comparison so many times its duration pass before the next.
const REST: u32 = 4;

/// When the next comparison may begin. Time is an argument and never goes back.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    not_before: Time,
    pause: Duration,
    waits: bool,
}

impl Pacing {
    /// Whether one that is wanted may begin; else it waits.
    pub fn may_begin(&mut self, now: Time) -> bool {
        self.waits = now < self.not_before;
        !self.waits
    }

    /// When the one that waits begins.
    pub fn next(&self) -> Option<Time> {
        self.waits.then_some(self.not_before)
    }

    /// Nothing is wanted any more.
    pub fn rest(&mut self) {
        self.waits = false;
    }

    /// One has taken place from `begun` until `now`. If it has not read everything, returns how long what is missing has
    /// to wait: twice as long as last time, at most 5 s.
    pub fn ended(&mut self, begun: Time, now: Time, complete: bool) -> Option<Duration> {
        let took = now.since(begun);
        if complete {
            self.pause = Duration::ZERO;
            self.not_before = now + REST * took;
            return None;
        }
        self.pause = (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX);
        self.not_before = now + self.pause.max(took);
        Some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_rests_four_times_as_long_as_it_took_and_a_failed_one_ever_longer() {
        let (ms, mut pacing) = (Duration::from_millis, Pacing::default());
        let begun = Time::from_nanos(1_000_000_000);
        assert!(pacing.may_begin(begun) && pacing.next().is_none());
        assert_eq!(pacing.ended(begun, begun + ms(10), true), None);
        assert!(!pacing.may_begin(begun + ms(49)));
        assert_eq!(pacing.next(), Some(begun + ms(50)));
        assert!(pacing.may_begin(begun + ms(50)));
        let pauses: Vec<_> = (0..8).map(|_| pacing.ended(begun, begun, false)).collect();
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
        assert_eq!(pauses, expected.map(|pause| Some(ms(pause))));
        pacing.ended(begun, begun, true);
        assert_eq!(pacing.ended(begun, begun, false), Some(ms(100)), "it begins anew");
    }
}

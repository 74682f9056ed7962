//! Whether a back-end forwards, told from its probes (RFC 5880).

use core::time::Duration;

use ebb_units::Time;

/// Whether a back-end forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// What is sent to it comes out again.
    Alive,
    /// Nothing has come out for too long.
    Dead,
}

/// Tells from what comes out of a back-end whether it forwards (as BFD's echo function, RFC 5880
/// section 6.4): probes are packets that it routes back to the balancer, so that one that answers but
/// forwards nothing is dead. Nothing else counts as a sign of life: who has lost its routes still sends
/// errors.
#[derive(Clone, Debug)]
pub struct Detector {
    patience: Duration,
    /// What counts of the time between two looks at most.
    step: Duration,
    heard: Time,
    looked: Time,
    state: Liveness,
    /// Probes in a row that came back while it was taken for dead.
    back: u32,
}

/// Probes that must come back in a row before a dead one is taken for alive.
const BACK_AFTER: u32 = 3;
/// Of the time between two looks no more counts than this part of the detection time: so often, and once more, has
/// been looked in vain before one is dead, however long whoever looks was asleep in between.
const LOOKS: u32 = 3;

impl Detector {
    /// One whose back-end is probed every `interval` and dead after `misses` of them; dead at first.
    pub fn new(interval: Duration, misses: u32, now: Time) -> Detector {
        let patience = interval * misses.max(1);
        let step = interval.max(patience / LOOKS);
        Detector { patience, step, heard: now, looked: now, state: Liveness::Dead, back: 0 }
    }

    /// A probe came back. Returns whether that brought it back to life.
    pub fn answered(&mut self, now: Time) -> bool {
        self.heard = now;
        if self.state == Liveness::Alive {
            return false;
        }
        self.back += 1;
        if self.back >= BACK_AFTER {
            self.state = Liveness::Alive;
        }
        self.state == Liveness::Alive
    }

    /// Looks at the clock. Returns whether it is dead from now on. A long time in which nobody looked counts as a
    /// short one: whoever sleeps itself cannot say that another is silent. Who gets a processor only now and then, as on a
    /// busy machine, finds the dead after four looks all the same.
    pub fn look(&mut self, now: Time) -> bool {
        let asleep = now.since(self.looked).saturating_sub(self.step);
        self.looked = now;
        self.heard += asleep;
        if now.since(self.heard) <= self.patience {
            return false;
        }
        self.back = 0;
        core::mem::replace(&mut self.state, Liveness::Dead) == Liveness::Alive
    }

    /// What it is.
    pub fn state(&self) -> Liveness {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Time {
        Time::from_nanos(time * 1_000_000)
    }

    #[test]
    fn dead_after_so_many_misses_and_alive_after_several_answers() {
        let mut detector = Detector::new(Duration::from_millis(10), 4, ms(0));
        assert_eq!(detector.state(), Liveness::Dead);
        assert!(!detector.answered(ms(1)) && !detector.answered(ms(2)) && detector.answered(ms(3)));
        for at in (5..=43).step_by(5) {
            assert!(!detector.look(ms(at)), "{at}");
        }
        assert!(detector.look(ms(48)) && !detector.look(ms(49)));
        assert_eq!(detector.state(), Liveness::Dead);
    }

    #[test]
    fn whoever_slept_itself_accuses_nobody() {
        let mut detector = Detector::new(Duration::from_millis(10), 4, ms(0));
        (1..4).for_each(|at| _ = detector.answered(ms(at)));
        assert!(!detector.look(ms(500)), "half a second of sleep is no silence");
        assert!(!detector.look(ms(510)) && !detector.look(ms(520)));
        assert!((53..60).any(|tens| detector.look(ms(tens * 10))), "but silence afterwards is");
    }

    /// Looks come as the machine lets them: what is dead is found after four of them, or the detection time.
    #[test]
    fn who_looks_seldom_finds_the_dead_late_but_soon() {
        for (gap, latest) in [(1, 51), (5, 55), (10, 60), (20, 80), (30, 120), (100, 400)] {
            let mut detector = Detector::new(Duration::from_millis(5), 10, ms(0));
            (1..4).for_each(|_| _ = detector.answered(ms(0)));
            let found = (1..100).map(|look| look * gap).find(|at| detector.look(ms(*at)));
            assert!(found.is_some_and(|at| (50..=latest).contains(&at)), "{gap}: {found:?}");
        }
    }
}

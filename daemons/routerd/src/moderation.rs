//! How long packets gather in the ports' queues before the kernel wakes a worker for them: what the
//! workers wish, and what holds.
//!
//! Room: numbers that workers and the control thread share. Each worker writes its own wish, the
//! control thread alone turns the ports' knobs and says what holds.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use ebb_units::Time;

/// Most ports whose packets the kernel lets gather unless it is told to. Each has a time of its own: with
/// more of them workers would wake oftener than by one timer that they set themselves.
pub const PORTS_MAX: usize = 2;
/// The longest that packets gather: half of what a NIC's table is given to settle when flows move.
pub const LONGEST: Duration = Duration::from_millis(1);
/// Packets that a driver's queue holds where nothing is known of it: as many as a veth's.
pub const QUEUE_LEN: u32 = 256;

/// A worker to whom it is all the same, for hardly any packets come.
const INDIFFERENT: u32 = u32::MAX;
/// How soon a worker asks again for more time.
const MORE_AFTER: Duration = Duration::from_millis(100);
/// How soon it asks again for less.
const LESS_AFTER: Duration = Duration::from_millis(5);
/// A worker that has not slept for so long has no time to let anything gather.
const BUSY_AFTER: Duration = Duration::from_millis(5);

/// Shared by the workers and the control thread.
#[derive(Debug, Default)]
pub struct Moderation {
    /// Whether the ports can do it.
    possible: AtomicBool,
    /// Nanoseconds; 0: every packet is handed over at once.
    holds: AtomicU32,
}

/// What one worker wishes, in nanoseconds: written by it alone.
#[derive(Debug)]
pub struct Wish(AtomicU32);

impl Default for Wish {
    fn default() -> Wish {
        Wish(AtomicU32::new(INDIFFERENT))
    }
}

impl Wish {
    /// It is all the same to a worker that is parked.
    pub fn forget(&self) {
        self.0.store(INDIFFERENT, Relaxed);
    }
}

impl Moderation {
    /// How long packets gather; zero: not at all.
    #[inline]
    pub fn holds(&self) -> Duration {
        Duration::from_nanos(u64::from(self.holds.load(Relaxed)))
    }

    /// Whether wishes can be fulfilled.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.possible.load(Relaxed)
    }

    /// Says what holds from now on, and whether wishes can be fulfilled.
    pub fn set(&self, possible: bool, holds: Duration) {
        self.possible.store(possible, Relaxed);
        self.holds.store(u32::try_from(holds.as_nanos()).unwrap_or(0), Relaxed);
    }

    /// What `wishes` come to, if it is worth a change: nobody gets more than he asked for.
    pub fn due<'a>(&self, wishes: impl Iterator<Item = &'a Wish>) -> Option<Duration> {
        let least = wishes.map(|wish| wish.0.load(Relaxed)).min().unwrap_or(INDIFFERENT);
        let wanted = if least == INDIFFERENT { 0 } else { least };
        let holds = self.holds.load(Relaxed);
        differs(holds, wanted).then(|| Duration::from_nanos(u64::from(wanted)))
    }
}

/// Whether a change is worth its system calls.
pub fn differs(holds: u32, wanted: u32) -> bool {
    (holds == 0) != (wanted == 0) || wanted < holds / 8 * 7 || wanted / 8 * 7 > holds
}

/// One worker's side.
#[derive(Debug, Default)]
pub struct Asking {
    asked_at: Time,
    rested_at: Time,
}

impl Asking {
    /// The worker is about to sleep, and would have packets gather for `wish`; `None`: not. Whether
    /// it is time that the control thread looks at the wishes.
    #[inline]
    pub fn rests(
        &mut self,
        now: Time,
        moderation: &Moderation,
        own: &Wish,
        wish: Option<Duration>,
    ) -> bool {
        self.rested_at = now;
        let wish = wish.map_or(INDIFFERENT, |wish| wish.min(LONGEST).as_nanos() as u32);
        self.ask(now, moderation, own, wish)
    }

    /// The worker goes on at once, and packets that come late make it no cheaper.
    #[inline]
    pub fn goes_on(&mut self, now: Time, moderation: &Moderation, own: &Wish) -> bool {
        moderation.holds.load(Relaxed) > 0
            && now.since(self.rested_at) > BUSY_AFTER
            && self.ask(now, moderation, own, 0)
    }

    fn ask(&mut self, now: Time, moderation: &Moderation, own: &Wish, wish: u32) -> bool {
        if own.0.load(Relaxed) != wish {
            own.0.store(wish, Relaxed);
        }
        let pause = if wish < moderation.holds.load(Relaxed) { LESS_AFTER } else { MORE_AFTER };
        let asks = now.since(self.asked_at) >= pause && moderation.is_possible();
        if asks {
            self.asked_at = now;
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn nobody_gets_more_than_he_asked_for() {
        let (moderation, wishes) = (Moderation::default(), [Wish::default(), Wish::default()]);
        moderation.set(true, Duration::ZERO);
        let mut asking = [Asking::default(), Asking::default()];
        let mut rests = |worker: usize, millis, micros| {
            asking[worker].rests(at(millis), &moderation, &wishes[worker], Some(us(micros)))
        };
        assert_eq!(moderation.due(wishes.iter()), None, "nobody wishes anything");
        assert!(rests(0, 0, 150));
        assert_eq!(moderation.due(wishes.iter()), Some(us(150)), "the other is indifferent");
        moderation.set(true, us(150));
        rests(0, 200, 140);
        assert_eq!(moderation.due(wishes.iter()), None, "hardly less");
        assert!(rests(1, 200, 60));
        assert_eq!(moderation.due(wishes.iter()), Some(us(60)));
        moderation.set(true, us(60));
        assert!(!rests(1, 210, 150), "too soon for more");
        assert!(rests(1, 310, 150));
        assert_eq!(moderation.due(wishes.iter()), Some(us(140)));
        wishes.iter().for_each(Wish::forget);
        assert_eq!(moderation.due(wishes.iter()), Some(Duration::ZERO));
    }

    #[test]
    fn who_has_no_time_to_sleep_wants_packets_at_once() {
        let (moderation, wish) = (Moderation::default(), Wish::default());
        moderation.set(true, us(150));
        let mut asking = Asking::default();
        assert!(asking.rests(at(0), &moderation, &wish, Some(us(150))));
        assert_eq!(moderation.due([&wish].into_iter()), None);
        assert!(!asking.goes_on(at(3), &moderation, &wish), "it slept a moment ago");
        assert!(asking.goes_on(at(6), &moderation, &wish));
        assert_eq!(moderation.due([&wish].into_iter()), Some(Duration::ZERO));
        moderation.set(true, Duration::ZERO);
        assert!(!asking.goes_on(at(20), &moderation, &wish), "it has what it wants");
    }

    #[test]
    fn nobody_asks_for_what_cannot_be_had() {
        let (moderation, wish) = (Moderation::default(), Wish::default());
        let mut asking = Asking::default();
        assert!(!asking.rests(at(0), &moderation, &wish, Some(us(150))));
    }
}

//! Which sequence numbers and IVs may be used: in claims that are on record before the first of them is used.
//!
//! A nonce that comes twice under one key gives the key's other secrets away (RFC 4106 section 3), and fixed keys
//! outlive the program. So [`Used`] is remembered outside, for each key; whoever sends has claimed a run of numbers
//! there first, and what a killed program had claimed is never used. Several programs may claim of one key, as an
//! old and a new one do while one takes over from the other. Neighbours: `association` takes numbers.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;

use super::Bell;

/// What may have been used with a key: all up to these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Sequence numbers.
    pub numbers: u64,
    /// IVs.
    pub ivs: u64,
}

/// A run of numbers that nobody else gets, with as many IVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Numbers and IVs are those behind these.
    pub behind: Used,
    /// How many they are.
    pub count: u64,
}

impl Used {
    /// Claims `count` numbers at `now` since 1970. IVs are never behind the clock in nanoseconds either: what was
    /// remembered may be from before (a restored disk), or lost. Nothing when none are left.
    pub fn claim(&mut self, count: u64, now: Duration) -> Option<Claim> {
        let behind = Used { numbers: self.numbers, ivs: self.ivs.max(now.as_nanos() as u64) };
        *self = behind.plus(count)?;
        Some(Claim { behind, count })
    }

    /// Claims those that come next to a claim, if nobody has claimed since; else as [`Used::claim`].
    pub fn claim_more(&mut self, of: &Claim, count: u64, now: Duration) -> Option<Claim> {
        if of.behind.plus(of.count) != Some(*self) {
            return self.claim(count, now);
        }
        *self = self.plus(count)?;
        Some(Claim { behind: of.behind, count: of.count.checked_add(count)? })
    }

    fn plus(self, count: u64) -> Option<Used> {
        let numbers = self.numbers.checked_add(count)?;
        Some(Used { numbers, ivs: self.ivs.checked_add(count)? })
    }
}

/// A number, and the IV that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) sequence: u64,
    pub(super) iv: u64,
}

/// Numbers that one worker has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    next: Number,
    left: u64,
}

impl Taken {
    pub(super) const NONE: Taken = Taken { next: Number { sequence: 0, iv: 0 }, left: 0 };
}

impl Iterator for Taken {
    type Item = Number;

    #[inline]
    fn next(&mut self) -> Option<Number> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        self.next = Number { sequence: number.sequence + 1, iv: number.iv + 1 };
        Some(number)
    }
}

#[derive(Debug)]
struct Held {
    behind: Used,
    taken: AtomicU64,
    count: AtomicU64,
    /// Where more are asked for; once.
    ask_at: AtomicU64,
}

/// The claim from which all workers take.
pub(super) struct Numbers {
    held: ArcSwap<Held>,
    bell: Bell,
}

impl Numbers {
    pub(super) fn new(claim: Claim, bell: Bell) -> Numbers {
        Numbers { held: ArcSwap::from_pointee(Held::new(claim)), bell }
    }

    /// Takes so many numbers, or as many as there are.
    #[inline]
    pub(super) fn take(&self, count: u64) -> Taken {
        let held = self.held.load();
        let all = held.count.load(Relaxed);
        let up_to = |taken: u64| (taken < all).then(|| (taken + count).min(all));
        let Ok(before) = held.taken.fetch_update(Relaxed, Relaxed, up_to) else {
            self.ask(&held);
            return Taken::NONE;
        };
        let left = count.min(all - before);
        if before + left >= held.ask_at.load(Relaxed) {
            self.ask(&held);
        }
        let sequence = held.behind.numbers + before + 1;
        Taken { next: Number { sequence, iv: held.behind.ivs + before + 1 }, left }
    }

    #[cold]
    fn ask(&self, held: &Held) {
        if held.ask_at.swap(u64::MAX, Relaxed) != u64::MAX {
            (self.bell)();
        }
    }

    /// What is held, and how much of it is taken.
    pub(super) fn standing(&self) -> (Claim, u64) {
        let held = self.held.load();
        let count = held.count.load(Relaxed);
        (Claim { behind: held.behind, count }, held.taken.load(Relaxed))
    }

    /// Holds this claim from now on. The workers' numbers stay theirs.
    pub(super) fn hold(&self, claim: Claim) {
        let held = self.held.load();
        if held.behind == claim.behind {
            let before = held.count.swap(claim.count, Relaxed);
            held.ask_at.store(claim.count - claim.count.saturating_sub(before) / 2, Relaxed);
        } else {
            self.held.store(Held::new(claim).into());
        }
    }
}

impl core::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.standing())
    }
}

impl Held {
    fn new(claim: Claim) -> Held {
        Held {
            behind: claim.behind,
            taken: AtomicU64::new(0),
            count: AtomicU64::new(claim.count),
            // Half of what was claimed last is for the time until there are more.
            ask_at: AtomicU64::new(claim.count - claim.count / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn numbers(used: &mut Used, count: u64, now: Duration) -> Numbers {
        Numbers::new(used.claim(count, now).expect("numbers"), Arc::new(|| ()))
    }

    /// Whoever claims when half of the last claim is left is asked in time, however often.
    #[test]
    fn more_numbers_are_asked_for_as_long_as_they_are_used() {
        const RUN: u64 = 64;
        let rings = Arc::new(core::sync::atomic::AtomicU64::new(0));
        let bell = rings.clone();
        let mut used = Used::default();
        let first = used.claim(RUN, Duration::ZERO).expect("numbers");
        let out = Numbers::new(first, Arc::new(move || _ = bell.fetch_add(1, Relaxed)));
        let mut heard = 0;
        for taken in 0..20 * RUN {
            assert_eq!(out.take(1).count(), 1, "after {taken}");
            if rings.load(Relaxed) > heard {
                heard += 1;
                let (claim, taken) = out.standing();
                assert!(claim.count - taken <= RUN / 2, "{taken} of {claim:?}");
                let count = claim.count + RUN;
                out.hold(Claim { count, ..claim });
            }
        }
        assert!((19..=20).contains(&heard), "{heard}");
    }

    #[test]
    fn workers_take_numbers_that_nobody_else_has() {
        let out = numbers(&mut Used::default(), 100_000, Duration::ZERO);
        let take = || (0..10_000).flat_map(|_| out.take(3)).collect::<Vec<Number>>();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let numbers = |worker: std::thread::ScopedJoinHandle<'_, Vec<Number>>| {
                worker.join().expect("numbers").into_iter().map(|number| number.sequence)
            };
            workers.into_iter().flat_map(numbers).collect()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=100_000), "each once, and then no more");
        assert_eq!(out.take(1).next(), None);
    }

    #[test]
    fn more_are_asked_for_once_and_in_time() {
        let rung = Arc::new(AtomicU64::new(0));
        let bell = rung.clone();
        let mut used = Used::default();
        let first = used.claim(100, Duration::from_nanos(7)).expect("numbers");
        let out = Numbers::new(first, Arc::new(move || _ = bell.fetch_add(1, Relaxed)));
        assert_eq!(out.take(49).count(), 49);
        assert_eq!(rung.load(Relaxed), 0);
        assert_eq!(out.take(1).next(), Some(Number { sequence: 50, iv: 57 }));
        assert_eq!(out.take(60).count(), 50);
        assert_eq!((out.take(1).next(), rung.load(Relaxed)), (None, 1));
        let (claim, taken) = out.standing();
        assert_eq!(taken, 100);
        out.hold(used.claim_more(&claim, 10, Duration::MAX).expect("numbers"));
        assert_eq!(out.take(1).next(), Some(Number { sequence: 101, iv: 108 }), "it goes on");
    }

    #[test]
    fn nothing_comes_round() {
        let mut used = Used { numbers: u64::MAX - 5, ivs: 0 };
        assert_eq!(used.claim(6, Duration::ZERO), None);
        let mut used = Used { numbers: 0, ivs: u64::MAX - 5 };
        assert_eq!(used.claim(6, Duration::ZERO), None);
        assert!(used.claim(5, Duration::ZERO).is_some());
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Another program begins; the others go on.
        Start,
        /// A program that no longer lives takes nothing.
        Kill(prop::sample::Index),
        Take(prop::sample::Index, u64),
        More(prop::sample::Index, u64),
        /// The claim is on record, and its program dies before it uses it.
        Lost(u64),
        Clock(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Start),
            any::<prop::sample::Index>().prop_map(Step::Kill),
            (any::<prop::sample::Index>(), 0u64..40)
                .prop_map(|(which, count)| Step::Take(which, count)),
            (any::<prop::sample::Index>(), 1u64..40)
                .prop_map(|(which, count)| Step::More(which, count)),
            (1u64..40).prop_map(Step::Lost),
            (0u64..300).prop_map(Step::Clock),
        ]
    }

    proptest! {
        /// Whatever starts, is killed and claims, and wherever the clock is set: no number and no IV comes twice.
        #[test]
        fn no_nonce_comes_twice(steps in prop::collection::vec(step(), 1..200)) {
            let (mut used, mut now) = (Used::default(), Duration::ZERO);
            let mut alive: Vec<Numbers> = Vec::new();
            let (mut sequences, mut ivs) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Start => alive.push(numbers(&mut used, 30, now)),
                    Step::Kill(which) if !alive.is_empty() => {
                        alive.swap_remove(which.index(alive.len()));
                    }
                    Step::Take(which, count) if !alive.is_empty() => {
                        for number in which.get(&alive).take(count) {
                            prop_assert!(sequences.insert(number.sequence), "{number:?}");
                            prop_assert!(ivs.insert(number.iv), "{number:?}");
                            prop_assert!(number.sequence <= used.numbers && number.iv <= used.ivs);
                        }
                    }
                    Step::More(which, count) if !alive.is_empty() => {
                        let one = which.get(&alive);
                        one.hold(used.claim_more(&one.standing().0, count, now).expect("numbers"));
                    }
                    Step::Lost(count) => _ = used.claim(count, now),
                    Step::Clock(nanos) => now = Duration::from_nanos(nanos),
                    _ => {}
                }
            }
        }
    }
}

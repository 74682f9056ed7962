//! Tells a probe's own answer from everything that looks like one.

use core::time::Duration;

use ebb_units::Time;

/// Probes of one way that can be on their way at a time; whoever is slower than that is not heard.
const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// Tells an answer to a probe that was sent from everything else that looks like one: it has the number of
/// a probe that is on its way, comes within its time, and comes once (the window of RFC 4303, section
/// 3.4.3, turned to what one has sent oneself).
///
/// That number and time of sending are its own words is the caller's to prove, by a seal that nobody else
/// can make.
#[derive(Clone, Debug)]
pub struct Echoes {
    lifetime: Duration,
    /// The number of the next one.
    next: u64,
    /// By number modulo the window: it is on its way.
    waiting: [u64; WORDS],
}

impl Echoes {
    /// Of a way whose answers count for so long after they were asked for.
    pub fn new(lifetime: Duration) -> Echoes {
        Echoes { lifetime, next: 0, waiting: [0; WORDS] }
    }

    /// A probe is sent: its number. The one that was sent a whole window before is given up.
    pub fn send(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        let (word, bit) = place(number);
        self.waiting[word] |= bit;
        number
    }

    /// Whether what came back answers a probe of this way that is still waited for. From then on it is not.
    pub fn take(&mut self, number: u64, sent: Time, now: Time) -> bool {
        let known = number < self.next && self.next - number <= WINDOW;
        let timely = sent <= now && now.since(sent) <= self.lifetime;
        let (word, bit) = place(number);
        let waiting = known && timely && self.waiting[word] & bit != 0;
        if waiting {
            self.waiting[word] &= !bit;
        }
        waiting
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn ms(time: u64) -> Time {
        Time::from_nanos(time * 1_000_000)
    }

    #[test]
    fn an_answer_counts_once_within_its_time_and_only_if_it_was_asked_for() {
        let mut echoes = Echoes::new(Duration::from_millis(100));
        assert!(!echoes.take(0, ms(0), ms(0)), "nothing was asked");
        let (first, second) = (echoes.send(), echoes.send());
        assert!(echoes.take(second, ms(1), ms(3)) && echoes.take(first, ms(1), ms(4)), "any order");
        assert!(!echoes.take(first, ms(1), ms(4)), "a second time");
        let third = echoes.send();
        assert!(!echoes.take(third, ms(10), ms(111)), "too late");
        assert!(!echoes.take(third, ms(12), ms(11)), "before it was sent");
        assert!(!echoes.take(third + 1, ms(10), ms(11)) && echoes.take(third, ms(10), ms(110)));
    }

    proptest! {
        /// Whatever comes back, doubled, late, out of order or made up: what counts was sent, and counts once.
        #[test]
        fn no_more_is_heard_than_was_said(steps in prop::collection::vec((any::<bool>(), 0u64..3000), 0..4000)) {
            let mut echoes = Echoes::new(Duration::from_millis(500));
            let (mut sent, mut heard) = (BTreeMap::new(), BTreeSet::new());
            for (step, (sends, number)) in steps.into_iter().enumerate() {
                let now = ms(step as u64);
                if sends {
                    sent.insert(echoes.send(), now);
                } else {
                    let at = sent.get(&number).copied();
                    let timely = at.is_some_and(|at| now.since(at) <= Duration::from_millis(500));
                    let taken = echoes.take(number, at.unwrap_or(now), now);
                    prop_assert_eq!(taken, timely && heard.insert(number));
                }
            }
        }
    }
}

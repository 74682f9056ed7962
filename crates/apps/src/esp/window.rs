//! The anti-replay window: which sequence numbers have come, for all workers, without a lock.
//!
//! As RFC 6479 has it, blocks of bits in a ring, of which each is used again without moving others. Here each
//! word also says which block it holds, so that one exchange of a word both marks a number and retires what the
//! word held before: two workers can never both accept one number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers whose marks lie in one word; the other half says which they are.
const BLOCK: u64 = 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    /// Number of the block modulo 2^32, then a bit for each of its numbers.
    words: Box<[AtomicU64]>,
    /// The highest number that was accepted.
    top: AtomicU64,
}

impl Window {
    /// Of so many numbers at least; all up to `top` have come.
    pub(super) fn new(len: u32, top: u64) -> Window {
        // One block more: the newest may have begun only just now.
        let blocks = (u64::from(len).div_ceil(BLOCK) + 1).next_power_of_two();
        let words: Box<[_]> = (0..blocks).map(|_| AtomicU64::new(0)).collect();
        let window = Window { words, top: AtomicU64::new(0) };
        window.begin(top);
        window
    }

    /// All up to `top` have come; while no worker accepts any.
    pub(super) fn begin(&self, top: u64) {
        let newest = top / BLOCK;
        for block in newest.saturating_sub(self.words.len() as u64 - 1)..=newest {
            let marks =
                if block < newest { u32::MAX } else { u32::MAX >> (BLOCK - 1 - top % BLOCK) };
            self.word(block).store(u64::from(block as u32) << 32 | u64::from(marks), Relaxed);
        }
        self.top.store(top, Relaxed);
    }

    /// The highest number that was accepted.
    pub(super) fn top(&self) -> u64 {
        self.top.load(Relaxed)
    }

    /// The whole of an extended number of which the packet has the low half: the one nearest to the window
    /// (RFC 4303 appendix A2.2).
    pub(super) fn whole(&self, low: u32) -> u64 {
        let top = self.top();
        let len = self.words.len() as u64 * BLOCK;
        let (high, top_low) = (top >> 32, u64::from(top as u32));
        let low = u64::from(low);
        let high = if top_low >= len - 1 {
            // The window lies within one half's run: what is below it is of the next run.
            if low + len > top_low { high } else { high.saturating_add(1) }
        } else if low > top_low.wrapping_sub(len) & 0xffff_ffff && high > 0 {
            // It reaches back into the run before.
            high - 1
        } else {
            high
        };
        high << 32 | low
    }

    /// Whether the number may still come: neither too old nor marked. Changes nothing: a packet is believed only
    /// once its tag has been seen to be right.
    #[inline]
    pub(super) fn may_come(&self, number: u64) -> bool {
        let block = number / BLOCK;
        number != 0
            && !self.is_too_old(block)
            && marked(self.word(block).load(Relaxed), number).is_some()
    }

    /// Marks the number; false when it has come before or is too old.
    #[inline]
    pub(super) fn accept(&self, number: u64) -> bool {
        let block = number / BLOCK;
        if number == 0 || self.is_too_old(block) {
            return false;
        }
        let word = self.word(block);
        let taken = word.fetch_update(Relaxed, Relaxed, |word| marked(word, number)).is_ok();
        if taken {
            self.top.fetch_max(number, Relaxed);
        }
        taken
    }

    fn word(&self, block: u64) -> &AtomicU64 {
        &self.words[block as usize & (self.words.len() - 1)]
    }

    fn is_too_old(&self, block: u64) -> bool {
        block + self.words.len() as u64 <= self.top() / BLOCK
    }
}

/// The word with the number marked, or nothing if it is, or if the word holds a later block. Leaps of more than 2^36
/// numbers, which the header cannot name, look like steps back, and are refused.
#[inline]
fn marked(word: u64, number: u64) -> Option<u64> {
    let block = (number / BLOCK) as u32;
    let bit = 1 << (number % BLOCK);
    let ahead = block.wrapping_sub((word >> 32) as u32) as i32;
    match ahead {
        0 if word & bit == 0 => Some(word | bit),
        1.. => Some(u64::from(block) << 32 | bit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_accepted_once_and_until_they_are_too_old() {
        let window = Window::new(64, 0);
        assert!(!window.accept(0), "no packet has number 0");
        assert!(window.accept(1) && !window.accept(1));
        assert!(window.accept(200) && !window.may_come(1));
        assert!(window.may_come(200 - 64) && window.accept(200 - 64) && !window.accept(200 - 64));
        assert!(window.accept(201), "and the next");
        assert!(window.accept(1 << 32), "a leap is the sender's right");
        assert!(!window.accept(202));
    }

    #[test]
    fn the_high_half_is_found() {
        let window = Window::new(64, 0);
        assert_eq!(window.whole(5), 5);
        assert!(window.accept(0xffff_fff0));
        assert_eq!(window.whole(0xffff_fff5), 0xffff_fff5);
        assert_eq!(window.whole(3), 0x1_0000_0003, "the half has run over");
        assert!(window.accept(0x1_0000_0003));
        assert_eq!(window.whole(0xffff_fffe), 0xffff_fffe, "late, of the run before");
        assert_eq!(window.whole(4), 0x1_0000_0004);
        let full = Window::new(64, 0);
        assert!(full.accept(127) && full.whole(0) == 0 && full.whole(5) == 5);
        let begun = Window::new(64, 0);
        assert!(begun.accept(3));
        assert_eq!(begun.whole(0xffff_ffff), 0xffff_ffff, "there is no run before the first");
    }

    #[test]
    fn of_workers_that_all_try_one_number_one_gets_it() {
        let window = Window::new(1024, 0);
        let accepted = AtomicU64::new(0);
        let numbers = 200_000;
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (window, accepted) = (&window, &accepted);
                scope.spawn(move || {
                    for number in 1..=numbers {
                        // Somewhat out of order, otherwise for each.
                        let number = (number ^ worker) + 1;
                        accepted.fetch_add(u64::from(window.accept(number)), Relaxed);
                    }
                });
            }
        });
        assert!(accepted.into_inner() <= numbers + 4);
        assert!(window.top() >= numbers);
    }

    proptest! {
        #[test]
        fn as_a_set_of_numbers_would_have_it(
            len in 1u32..200,
            begin in prop_oneof![Just(0u64), 0u64..1000, Just(u64::from(u32::MAX) - 7)],
            steps in prop::collection::vec((0u64..400, any::<bool>()), 1..400),
        ) {
            let window = Window::new(len, begin);
            let (mut seen, mut top) = (BTreeSet::new(), begin);
            for (step, back) in steps {
                let number = if back { top.saturating_sub(step) } else { top + step / 8 };
                let fresh = number > begin && !seen.contains(&number);
                let may = window.may_come(number);
                prop_assert_eq!(may, window.accept(number));
                prop_assert!(!may || fresh, "{} twice", number);
                // Whatever is in the window is taken.
                prop_assert!(may || !fresh || number + u64::from(len) <= top, "{number} refused at {top}");
                if may {
                    seen.insert(number);
                    top = top.max(number);
                }
            }
        }
    }
}

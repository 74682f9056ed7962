//! Fingerprints of windows, and where each was seen last.
//!
//! A fingerprint only proposes: whether the bytes are the same is found out by comparing them. Its key is known to this
//! router alone, so that nobody can send windows that all fall into the same place.

use ebb_graph::{prefetch, zeroes};

/// Bytes of a window: the shortest that can be replaced.
pub const WINDOW: usize = 32;

/// Places where a fingerprint may be.
const WAYS: usize = 4;

/// What a window hashes to.
#[inline]
pub(super) fn of(key: u64, window: &[u8; WINDOW]) -> u64 {
    let (words, _) = window.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    // Products of 128 bits folded, as wyhash has them.
    let fold = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let first = fold(word(0) ^ key, word(1) ^ 0xa076_1d64_78bd_642f);
    let second = fold(word(2) ^ key.rotate_left(32), word(3) ^ 0xe703_7ed1_a0b4_28db);
    fold(first ^ 0x8ebc_6af0_9c88_c6e3, second ^ key)
}

/// Where a window was seen: the number of a packet of the store, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) number: u32,
    pub(super) offset: u16,
}

/// Bounded; what is new takes the place of what is oldest.
#[derive(Debug)]
pub(super) struct Index {
    /// Groups of [`WAYS`]: number (32 bits), offset (11), and 21 bits of the fingerprint, the lowest set; 0: empty.
    slots: Vec<u64>,
    mask: usize,
}

const OFFSET_BITS: u32 = 11;
const MARK_SHIFT: u32 = 32 + OFFSET_BITS;

#[inline]
fn mark(fingerprint: u64) -> u64 {
    (fingerprint >> MARK_SHIFT) | 1
}

impl Index {
    /// For so many windows.
    pub(super) fn new(windows: usize) -> Index {
        let groups = (windows / WAYS).next_power_of_two().max(16);
        Index { slots: zeroes(groups * WAYS), mask: groups - 1 }
    }

    #[inline]
    fn group(&self, fingerprint: u64) -> usize {
        (fingerprint as usize & self.mask) * WAYS
    }

    /// Asks for the memory that the next calls read.
    #[inline]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        prefetch(&self.slots[self.group(fingerprint)]);
    }

    /// Where it may have been seen.
    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> impl Iterator<Item = Seen> + '_ {
        let (group, mark) = (self.group(fingerprint), mark(fingerprint));
        let slots = self.slots[group..group + WAYS].iter().copied();
        slots.filter(move |slot| slot >> MARK_SHIFT == mark).map(|slot| Seen {
            number: slot as u32,
            offset: (slot >> 32) as u16 & ((1 << OFFSET_BITS) - 1),
        })
    }

    /// It was seen there, in the newest packet.
    #[inline]
    pub(super) fn put(&mut self, fingerprint: u64, seen: Seen) {
        let (group, mark) = (self.group(fingerprint), mark(fingerprint));
        let slots = &mut self.slots[group..group + WAYS];
        // The same window's, an empty one, or the oldest.
        let age = |slot: u64| match slot {
            slot if slot >> MARK_SHIFT == mark => u64::MAX,
            0 => u64::MAX - 1,
            slot => u64::from(seen.number.wrapping_sub(slot as u32)),
        };
        let at = (0..WAYS).max_by_key(|at| age(slots[*at])).expect("a place");
        slots[at] = u64::from(seen.number) | u64::from(seen.offset) << 32 | mark << MARK_SHIFT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_found_where_it_was_seen_last() {
        let mut index = Index::new(64);
        let fingerprint = of(7, &[9; WINDOW]);
        assert_eq!(index.find(fingerprint).count(), 0);
        for number in 1..9 {
            index.put(fingerprint, Seen { number, offset: 2047 - number as u16 });
        }
        let all: Vec<Seen> = index.find(fingerprint).collect();
        assert_eq!(all, [Seen { number: 8, offset: 2039 }]);
        assert_ne!(of(7, &[9; WINDOW]), of(8, &[9; WINDOW]), "by key");
    }
}

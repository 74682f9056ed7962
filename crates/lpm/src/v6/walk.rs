//! From the chunks' words to values: all lookups of a batch side by side.

use std::sync::atomic::Ordering::Acquire;

use super::FIRST_LEN;
use super::nodes::{
    DOWN, FIRST_RANGE, Lines, RANGES_BITS, TABLE_BITS, TO_TABLE, WORDS, first_word, range_of,
    range_slot, table_slot,
};
use crate::simd::prefetch;

/// Addresses looked up side by side between two looks at the generation.
pub(super) const LANES: usize = 64;

/// Nodes that a lookup passes at most.
const STEPS: u8 = (128 - FIRST_LEN) / TABLE_BITS;

/// Lookups side by side. Each is a word; the two kinds of nodes that words lead to have a pass of their
/// own over the lookups that are there, which are the bits of a mask: a pass is a few instructions
/// long, so the processor has the loads of many lookups under way, and no branch depends on a single
/// word, which would have to wait for memory.
pub(super) struct Walk {
    pub(super) words: [u32; LANES],
    /// Bits that led to each.
    depths: [u8; LANES],
    tables: u64,
    ranges: u64,
}

impl Walk {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { words: [0; LANES], depths: [FIRST_LEN; LANES], tables: 0, ranges: 0 }
    }

    /// Takes note of the word that a lookup came to, and has what it leads to fetched; `slot` is the next
    /// one in a table.
    #[inline(always)]
    pub(super) fn arrive(&mut self, lines: &Lines, at: usize, word: u32, slot: usize) {
        self.words[at] = word;
        let down = word >> 31;
        let table = word >> 30 & down;
        self.tables |= u64::from(table) << at;
        self.ranges |= u64::from(down ^ table) << at;
        // A value leads nowhere: the first line, which is there already.
        let first = first_word(word & down.wrapping_neg());
        let slot = slot & (table as usize).wrapping_neg();
        prefetch(&raw const lines[(first + slot) % WORDS]);
    }

    /// Takes all lookups to their values.
    #[inline(always)]
    pub(super) fn descend(&mut self, lines: &Lines, addresses: &[u128]) {
        // As long as slots lie in the upper half, shifts of one word do.
        let table = |at: usize, depth| near_table_slot(addresses[at], depth);
        let range = |at: usize, depth| (upper(addresses[at]) << depth >> 48) as u16;
        self.at_tables(lines, table);
        self.at_tables(lines, table);
        // What comes after ranges may lie in the lower half, but in the 64 bits after the first 24.
        let below = |at: usize, depth| (middle(addresses[at]) << (depth - 24) >> 56) as usize;
        self.at_ranges(lines, range, below);
        self.descend_far(lines, addresses);
    }

    /// Puts a lookup at a word that `depth` bits led to.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn begin_at(
        &mut self,
        lines: &Lines,
        at: usize,
        (word, depth): (u32, u8),
        address: u128,
    ) {
        self.depths[at] = depth;
        self.arrive(lines, at, word, table_slot(address, depth));
    }

    /// As [`descend`](Self::descend), from any depth.
    #[inline(always)]
    pub(super) fn descend_far(&mut self, lines: &Lines, addresses: &[u128]) {
        let table = |at: usize, depth| table_slot(addresses[at], depth);
        let range = |at: usize, depth| range_slot(addresses[at], depth);
        // Nodes that a writer uses anew meanwhile may lead round in a circle, so steps are counted.
        for _ in 0..STEPS {
            if (self.tables | self.ranges) == 0 {
                break;
            }
            self.at_tables(lines, table);
            self.at_ranges(lines, range, table);
        }
    }

    #[inline(always)]
    fn at_tables(&mut self, lines: &Lines, slot: impl Fn(usize, u8) -> usize) {
        let mut left = std::mem::take(&mut self.tables);
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let depth = self.depths[at];
            let below = depth.wrapping_add(TABLE_BITS);
            self.depths[at] = below;
            let index = first_word(self.words[at]) + slot(at, depth);
            let word = lines[index % WORDS].load(Acquire);
            self.arrive(lines, at, word, slot(at, below));
        }
    }

    /// `table_slot` is the next one in a table.
    #[inline(always)]
    fn at_ranges(
        &mut self,
        lines: &Lines,
        slot: impl Fn(usize, u8) -> u16,
        table_slot: impl Fn(usize, u8) -> usize,
    ) {
        let mut left = std::mem::take(&mut self.ranges);
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let depth = self.depths[at];
            let below = depth.wrapping_add(RANGES_BITS);
            self.depths[at] = below;
            let first = first_word(self.words[at]);
            let range = range_of(lines, first, slot(at, depth));
            let word = lines[(first + FIRST_RANGE + range) % WORDS].load(Acquire);
            self.arrive(lines, at, word, table_slot(at, below));
        }
    }
}

/// The value that a word leads to after `depth` bits, for few that are not worth a walk.
#[inline]
pub(super) fn follow(lines: &Lines, mut word: u32, address: u128, mut depth: u8) -> u32 {
    for _ in 0..STEPS {
        if word & DOWN == 0 {
            break;
        }
        let first = first_word(word);
        let (at, bits) = if word & TO_TABLE != 0 {
            (first + table_slot(address, depth), TABLE_BITS)
        } else {
            let range = range_of(lines, first, range_slot(address, depth));
            (first + FIRST_RANGE + range, RANGES_BITS)
        };
        word = lines[at % WORDS].load(Acquire);
        depth = depth.wrapping_add(bits);
    }
    word
}

/// As [`table_slot`] where it lies in the upper half.
#[inline(always)]
pub(super) fn near_table_slot(address: u128, depth: u8) -> usize {
    (upper(address) << depth >> (64 - TABLE_BITS)) as usize
}

/// The 64 bits after the first 24.
#[inline(always)]
fn middle(address: u128) -> u64 {
    (address >> 40) as u64
}

#[inline(always)]
fn upper(address: u128) -> u64 {
    (address >> 64) as u64
}

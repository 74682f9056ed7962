//! What lies below the first 32 bits: words, and the two kinds of nodes they are.
//!
//! All nodes are lines of 16 words in one array, a line being what a cache holds together. A *table* is
//! 256 words in 16 lines, one for each value of the next 8 bits. *Ranges* are one line for the next 16
//! bits: up to 11 words, each for a range of slots, behind the last slot of each range but the eleventh.

use std::sync::atomic::AtomicU32;

use crate::pages::Pages;

/// Words of a line.
pub(super) const LINE: usize = 16;
pub(super) const LINES_MAX: usize = 1 << 23;
pub(super) const WORDS: usize = LINES_MAX * LINE;

/// Bits that a table takes.
pub(super) const TABLE_BITS: u8 = 8;
pub(super) const TABLE: usize = 1 << TABLE_BITS;
pub(super) const TABLE_LINES: u32 = (TABLE / LINE) as u32;

/// Bits that ranges take.
pub(super) const RANGES_BITS: u8 = 16;
/// Ranges that fit a line: 10 ends of 16 bits and 11 words.
pub(super) const RANGES_MAX: usize = 11;
/// Where the ranges' words begin.
pub(super) const FIRST_RANGE: usize = LINE - RANGES_MAX;

/// Set in a word that leads further down (from the root to a chunk, from elsewhere to a node), clear in
/// one that is a value.
pub(super) const DOWN: u32 = 1 << 31;
/// Set beside it in a word that leads to a table, clear in one that leads to ranges.
pub(super) const TO_TABLE: u32 = 1 << 30;

pub(super) type Lines = [AtomicU32; WORDS];
pub(super) type LinePages = Pages<AtomicU32, WORDS>;

/// The first word of the node that a word leads to; within the array whatever the word is.
#[inline(always)]
pub(super) fn first_word(word: u32) -> usize {
    word as usize % LINES_MAX * LINE
}

/// The 8 bits after `depth` of an address of which `depth` is a multiple of 8 below 128.
#[inline(always)]
pub(super) fn table_slot(address: u128, depth: u8) -> usize {
    (address.wrapping_shl(u32::from(depth)) >> (128 - TABLE_BITS)) as usize
}

/// The 16 bits after `depth`, zeros after the last.
#[inline(always)]
pub(super) fn range_slot(address: u128, depth: u8) -> u16 {
    (address.wrapping_shl(u32::from(depth)) >> (128 - RANGES_BITS)) as u16
}

/// Which of a line's ranges holds `slot`: how many end before it. Ends rise, and those that a line does
/// not use are the last slot, so that none of them counts.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn range_of(lines: &Lines, first: usize, slot: u16) -> usize {
    use std::arch::x86_64::*;
    let line = lines[first..first + LINE].as_ptr();
    let (low, high): (__m128i, __m128i);
    // SAFETY: every processor of this kind has SSE2; reads the first 32 of a line's 64 bytes, which are
    // aligned to 16 because lines are to 64. In assembly because a writer may store to them meanwhile: the
    // processor carries out each word whole, and what the compiler knows nothing of it cannot split.
    unsafe {
        std::arch::asm!(
            "movdqa {low}, xmmword ptr [{line}]",
            "movdqa {high}, xmmword ptr [{line} + 16]",
            line = in(reg) line,
            low = out(xmm_reg) low,
            high = lateout(xmm_reg) high,
            options(nostack, readonly, preserves_flags),
        );
        let slots = _mm_set1_epi16(slot.cast_signed());
        let not_before = |ends| _mm_cmpeq_epi16(_mm_subs_epu16(slots, ends), _mm_setzero_si128());
        let not_before = _mm_packs_epi16(not_before(low), not_before(high));
        let not_before = _mm_movemask_epi8(not_before).cast_unsigned();
        (not_before | 1 << (RANGES_MAX - 1)).trailing_zeros() as usize
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn range_of(lines: &Lines, first: usize, slot: u16) -> usize {
    (0..RANGES_MAX - 1).map(|at| usize::from(end_at(lines, first, at) < slot)).sum()
}

/// The last slot of one of a line's first 10 ranges, 16 bits each from the first word's lower ones on.
#[inline(always)]
pub(super) fn end_at(lines: &Lines, first: usize, at: usize) -> u16 {
    let pair = lines[first + at / 2].load(std::sync::atomic::Ordering::Relaxed);
    (pair >> (16 * (at % 2))) as u16
}

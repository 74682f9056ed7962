//! 16 addresses looked up at once, where the processor has AVX-512.
//!
//! Same values as the scalar way of [`Ipv6Lpm`](super::Ipv6Lpm); which of the two is faster depends on
//! how the processor carries out a gather, so the table is told which to take.

use core::arch::asm;
use core::arch::x86_64::*;
use core::sync::atomic::Ordering::Acquire;

use super::nodes::{
    DOWN, FIRST_RANGE, LINE, LINES_MAX, Lines, RANGES_BITS, RANGES_MAX, TABLE_BITS, TO_TABLE,
    WORDS, first_word,
};
use super::walk::{LANES, Walk};
use super::{CHUNK, CHUNK_BITS, CHUNKS_MAX, FIRST_LEN, Ipv6Lpm, ROOT_LEN, SHORT_LEN};
use crate::Value;
use crate::simd::{gather, gather_into};

/// Addresses in one vector.
const WIDTH: usize = 16;

/// Lookups below ranges that are followed one by one, each to its end: a walk costs as much as a few.
const SINGLY_MAX: u32 = 4;

/// Whether this processor and system have what the functions here are compiled for.
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
}

/// Lookups of `N` vectors. Each level is a pass over the vectors, so that the loads of all are under way
/// at once, and what branches depend on is loaded by then.
struct Stretch<'a, const N: usize> {
    table: &'a Ipv6Lpm,
    addresses: &'a [[u128; WIDTH]; N],
    values: &'a mut [[Value; WIDTH]; N],
    words: [__m512i; N],
    /// The first 32 bits of the addresses.
    top: [__m512i; N],
    /// Those that roots lead to chunks; the others have their values from there.
    chunked: [__mmask16; N],
}

/// The values of whole vectors of up to [`LANES`] `addresses`; returns how many addresses that were.
///
/// # Safety
/// The processor has what [`available`] asks for, and `values` is as long as `addresses`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
pub(super) unsafe fn read(table: &Ipv6Lpm, addresses: &[u128], values: &mut [Value]) -> usize {
    let (addresses, values) = (addresses.as_chunks().0, values.as_chunks_mut().0);
    // SAFETY: handed on to the caller.
    unsafe {
        let (rest, beyond) = read_groups::<4>(table, addresses, values);
        let (rest, beyond) = read_groups::<2>(table, rest, beyond);
        read_groups::<1>(table, rest, beyond);
    }
    addresses.len() * WIDTH
}

/// Groups of `N` vectors; returns what is left.
///
/// # Safety
/// As [`read`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
unsafe fn read_groups<'a, 'v, const N: usize>(
    table: &Ipv6Lpm,
    addresses: &'a [[u128; WIDTH]],
    values: &'v mut [[Value; WIDTH]],
) -> (&'a [[u128; WIDTH]], &'v mut [[Value; WIDTH]]) {
    let (groups, rest) = addresses.as_chunks::<N>();
    let (into, beyond) = values.as_chunks_mut::<N>();
    for (addresses, values) in groups.iter().zip(into) {
        let [words, top] = [[_mm512_setzero_si512(); N]; 2];
        let mut stretch = Stretch { table, addresses, values, words, top, chunked: [0; N] };
        // SAFETY: handed on to the caller.
        unsafe {
            if stretch.at_chunks() {
                stretch.below_chunks();
            } else {
                stretch.at_short();
            }
        }
    }
    (rest, beyond)
}

impl<const N: usize> Stretch<'_, N> {
    /// From addresses to what chunks hold, where there are chunks; returns whether any root led to one.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_chunks(&mut self) -> bool {
        for at in 0..N {
            self.top[at] = double_words::<3>(&self.addresses[at]);
            let root = _mm512_srli_epi32::<{ 32 - ROOT_LEN as u32 }>(self.top[at]);
            // SAFETY: 20 bits are inside the root.
            self.words[at] = unsafe { gather(self.table.roots.as_ptr().cast(), root, !0) };
        }
        let mut down = 0;
        for at in 0..N {
            let words = self.words[at];
            let chunked = _mm512_movepi32_mask(words);
            self.chunked[at] = chunked;
            if chunked != 0 {
                let chunk = _mm512_and_si512(words, _mm512_set1_epi32(CHUNKS_MAX as i32 - 1));
                let chunk = _mm512_slli_epi32::<{ CHUNK_BITS as u32 }>(chunk);
                let within = _mm512_and_si512(self.top[at], _mm512_set1_epi32(CHUNK as i32 - 1));
                let index = _mm512_or_si512(chunk, within);
                let base = self.table.chunks.as_ptr().cast();
                // SAFETY: a chunk's number is masked to be below CHUNKS_MAX, an entry's below CHUNK.
                self.words[at] = unsafe { gather_into(words, base, index, chunked) };
                down |= chunked;
            }
        }
        down != 0
    }

    /// Stores words, or what short prefixes say in the place of a chunk's or node's 0; what roots say
    /// without a chunk, 0 or not, is the value.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_short(&mut self) {
        for at in 0..N {
            let mut words = self.words[at];
            let none = _mm512_mask_testn_epi32_mask(self.chunked[at], words, words);
            if none != 0 {
                let short = _mm512_srli_epi32::<{ 32 - SHORT_LEN as u32 }>(self.top[at]);
                // SAFETY: 16 bits are inside the table of short prefixes.
                words =
                    unsafe { gather_into(words, self.table.short.as_ptr().cast(), short, none) };
            }
            // SAFETY: writes one vector of values.
            unsafe { _mm512_storeu_si512(self.values[at].as_mut_ptr().cast(), words) };
        }
    }

    /// Through two tables at most, then to ranges.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn below_chunks(&mut self) {
        let lines = self.table.lines.as_ptr().cast();
        let mut lanes = Lanes::new();
        // Bits after the chunks' that are still to be asked, and their depth.
        let mut next: [_; N] = std::array::from_fn(|at| double_words::<2>(&self.addresses[at]));
        let mut depths = [_mm512_set1_epi32(i32::from(FIRST_LEN)); N];
        for _ in 0..2 {
            for at in 0..N {
                let words = self.words[at];
                let tables = to_tables(words);
                let line = _mm512_and_si512(words, _mm512_set1_epi32(LINES_MAX as i32 - 1));
                let slot = _mm512_srli_epi32::<{ 32 - TABLE_BITS as u32 }>(next[at]);
                let index = _mm512_add_epi32(_mm512_slli_epi32::<4>(line), slot);
                let index = _mm512_and_si512(index, _mm512_set1_epi32(WORDS as i32 - 1));
                // SAFETY: the index of a word is masked to be inside the lines.
                self.words[at] = unsafe { gather_into(words, lines, index, tables) };
                let taken = _mm512_set1_epi32(i32::from(TABLE_BITS));
                next[at] = _mm512_mask_sllv_epi32(next[at], tables, next[at], taken);
                depths[at] = _mm512_mask_add_epi32(depths[at], tables, depths[at], taken);
            }
        }
        // SAFETY: handed on to the caller.
        unsafe { self.at_short() };
        for at in 0..N {
            let slots = _mm512_srli_epi32::<{ 32 - RANGES_BITS as u32 }>(next[at]);
            lanes.note(at, self.words[at], slots, depths[at]);
        }
        // SAFETY: handed on to the caller.
        unsafe {
            lanes.finish(self.table, self.addresses.as_flattened(), self.values.as_flattened_mut())
        };
    }
}

/// Lookups one by one: those at ranges, and those that lead further than that.
struct Lanes {
    slots: [u32; LANES],
    depths: [u8; LANES],
    ranges: u64,
    tables: u64,
}

impl Lanes {
    #[inline]
    fn new() -> Self {
        Self { slots: [0; LANES], depths: [0; LANES], ranges: 0, tables: 0 }
    }

    /// Takes note of what a vector came to, and of the slots in the upper halves of `slots`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    fn note(&mut self, vector: usize, words: __m512i, slots: __m512i, depths: __m512i) {
        let tables = to_tables(words);
        let ranges = _mm512_movepi32_mask(words) & !tables;
        self.tables |= u64::from(tables) << (vector * WIDTH);
        self.ranges |= u64::from(ranges) << (vector * WIDTH);
        let into = &mut self.slots.as_chunks_mut::<WIDTH>().0[vector];
        // SAFETY: writes one vector of slots.
        unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), slots) };
        let into = &mut self.depths.as_chunks_mut::<WIDTH>().0[vector];
        // SAFETY: writes one vector of depths.
        unsafe { _mm_storeu_si128(into.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(depths)) };
    }

    /// From words in `values` to values.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn finish(&self, table: &Ipv6Lpm, addresses: &[u128], values: &mut [Value]) {
        let (mut left, mut rest) = (self.ranges, self.tables);
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let first = first_word(values[at]);
            // SAFETY: handed on to the caller.
            let range = unsafe { range_of(&table.lines, first, self.slots[at % LANES] as u16) };
            let word = table.lines[(first + FIRST_RANGE + range) % WORDS].load(Acquire);
            values[at] = word;
            rest |= u64::from(word == 0 || word & DOWN != 0) << at;
        }
        if rest.count_ones() > SINGLY_MAX {
            return self.finish_many(table, addresses, values, rest);
        }
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            values[at] = table.value_below(values[at], addresses[at], self.depth(at));
        }
    }

    /// Bits that led to a lookup's word, behind ranges if it was at some.
    #[inline]
    fn depth(&self, at: usize) -> u8 {
        self.depths[at % LANES] + RANGES_BITS * (self.ranges >> at & 1) as u8
    }

    /// Those of `rest` side by side, so that their loads overlap.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    fn finish_many(&self, table: &Ipv6Lpm, addresses: &[u128], values: &mut [Value], rest: u64) {
        let mut walk = Walk::new();
        let each = |mut lanes: u64| {
            std::iter::from_fn(move || {
                let at = (lanes != 0).then(|| lanes.trailing_zeros() as usize % LANES)?;
                lanes &= lanes - 1;
                Some(at)
            })
        };
        for at in each(rest) {
            let place = (values[at], self.depth(at));
            walk.begin_at(&table.lines, at, place, addresses[at]);
        }
        walk.descend_far(&table.lines, addresses);
        for at in each(rest) {
            values[at] = match walk.words[at] {
                0 => table.short_value(addresses[at]),
                value => value,
            };
        }
    }
}

/// Which words lead to tables.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn to_tables(words: __m512i) -> __mmask16 {
    let table = _mm512_test_epi32_mask(words, _mm512_set1_epi32(TO_TABLE.cast_signed()));
    table & _mm512_movepi32_mask(words)
}

/// One of the four 32-bit words of each address, counted from the lowest.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn double_words<const AT: i32>(addresses: &[u128; WIDTH]) -> __m512i {
    // SAFETY: four times four of the sixteen.
    let four = |at: usize| unsafe { _mm512_loadu_si512(addresses.as_ptr().add(4 * at).cast()) };
    let counts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    let pick = _mm512_add_epi32(counts, _mm512_set1_epi32(AT));
    let low = _mm512_permutex2var_epi32(four(0), pick, four(1));
    let high = _mm512_permutex2var_epi32(four(2), pick, four(3));
    _mm512_shuffle_i64x2::<0b01_00_01_00>(low, high)
}

/// As the scalar one, by one comparison.
///
/// # Safety
/// The processor has AVX-512BW and VL.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1")]
unsafe fn range_of(lines: &Lines, first: usize, slot: u16) -> usize {
    let line = lines[first..first + LINE].as_ptr();
    let slots = _mm256_set1_epi16(slot.cast_signed());
    let not_before: __mmask16;
    // SAFETY: reads the first 32 of a line's 64 bytes.
    unsafe {
        asm!(
            "vpcmpleuw {not_before}, {slots}, ymmword ptr [{line}]",
            line = in(reg) line,
            slots = in(ymm_reg) slots,
            not_before = out(kreg) not_before,
            options(nostack, readonly, preserves_flags),
        );
    }
    (u32::from(not_before) | 1 << (RANGES_MAX - 1)).trailing_zeros() as usize
}

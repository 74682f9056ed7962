//! 16 addresses looked up at once, where the processor has AVX-512.
//!
//! Same values as the scalar way of [`Ipv6Lpm`](super::Ipv6Lpm); which of the two is faster depends on
//! how the processor carries out a gather, so the table is told which to take.

use core::arch::asm;
use core::arch::x86_64::*;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Acquire;

use super::nodes::{
    FIRST_RANGE, LINE, LINES_MAX, Lines, RANGES_BITS, RANGES_MAX, TABLE_BITS, TO_TABLE, WORDS,
    first_word,
};
use super::walk::{LANES, Walk};
use super::{CHUNK, CHUNK_BITS, CHUNKS_MAX, FIRST_LEN, Ipv6Lpm};
use crate::Value;

/// Addresses in one vector.
const WIDTH: usize = 16;

/// Whether this processor and system have what the functions here are compiled for.
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
}

/// Vectors that descend side by side.
const VECTORS: usize = LANES / WIDTH;

/// Lookups of a stretch. Each level is a pass over its vectors, so that the loads of all are under way at
/// once, and what branches depend on is loaded by then.
struct Stretch<'a> {
    table: &'a Ipv6Lpm,
    addresses: &'a [u128],
    words: [__m512i; VECTORS],
    /// Bits after the chunks' that are still to be asked, and their depth.
    next: [__m512i; VECTORS],
    depths: [__m512i; VECTORS],
}

/// The values of whole vectors of up to [`LANES`] `addresses`; returns how many addresses that were.
///
/// # Safety
/// The processor has what [`available`] asks for, and `values` is as long as `addresses`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
pub(super) unsafe fn read(table: &Ipv6Lpm, addresses: &[u128], values: &mut [Value]) -> usize {
    let whole = addresses.len().min(LANES) / WIDTH * WIDTH;
    let (addresses, values) = (&addresses[..whole], &mut values[..whole]);
    let zero = _mm512_setzero_si512();
    let [words, next, depths] = [[zero; VECTORS]; 3];
    let mut stretch = Stretch { table, addresses, words, next, depths };
    // SAFETY: handed on to the caller.
    unsafe {
        let mut top = [zero; VECTORS];
        let down = stretch.at_chunks(&mut top);
        if down {
            stretch.at_tables();
        }
        stretch.at_short(&top, values);
        if down {
            stretch.at_ranges(values);
        }
    }
    whole
}

impl Stretch<'_> {
    /// From addresses to what chunks hold, where there are chunks; returns whether that leads further.
    /// Leaves the first 32 bits of the addresses in `top`.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_chunks(&mut self, top: &mut [__m512i; VECTORS]) -> bool {
        let table = self.table;
        let vectors = self.addresses.as_chunks::<WIDTH>().0;
        let lanes = vectors.iter().zip(top.iter_mut()).zip(&mut self.words);
        for ((addresses, top), words) in lanes {
            *top = double_words::<3>(addresses);
            // SAFETY: 20 bits are inside the root.
            *words = unsafe { gather(table.roots.as_ptr(), _mm512_srli_epi32::<12>(*top), !0) };
        }
        let mut down = 0;
        for (top, words) in top.iter().zip(&mut self.words).take(vectors.len()) {
            let chunked = _mm512_movepi32_mask(*words);
            if chunked != 0 {
                let chunk = _mm512_and_si512(*words, _mm512_set1_epi32(CHUNKS_MAX as i32 - 1));
                let within = _mm512_and_si512(*top, _mm512_set1_epi32(CHUNK as i32 - 1));
                let chunk = _mm512_slli_epi32::<{ CHUNK_BITS as u32 }>(chunk);
                let index = _mm512_or_si512(chunk, within);
                let base = table.chunks.as_ptr();
                // SAFETY: a chunk's number is masked to be below CHUNKS_MAX, an entry's below CHUNK.
                *words = unsafe { gather_into(*words, base, index, chunked) };
                down |= chunked;
            }
        }
        down != 0
    }

    /// Through two tables at most.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_tables(&mut self) {
        let lines = self.table.lines.as_ptr();
        let vectors = self.addresses.as_chunks::<WIDTH>().0;
        for (addresses, next) in vectors.iter().zip(&mut self.next) {
            *next = double_words::<2>(addresses);
        }
        self.depths = [_mm512_set1_epi32(i32::from(FIRST_LEN)); VECTORS];
        for _ in 0..2 {
            for at in 0..vectors.len() {
                let (words, next) = (self.words[at % VECTORS], self.next[at % VECTORS]);
                let tables = to_tables(words);
                let line = _mm512_and_si512(words, _mm512_set1_epi32(LINES_MAX as i32 - 1));
                let slot = _mm512_srli_epi32::<{ 32 - TABLE_BITS as u32 }>(next);
                let index = _mm512_add_epi32(_mm512_slli_epi32::<4>(line), slot);
                let index = _mm512_and_si512(index, _mm512_set1_epi32(WORDS as i32 - 1));
                // SAFETY: the index of a word is masked to be inside the lines.
                self.words[at % VECTORS] = unsafe { gather_into(words, lines, index, tables) };
                self.next[at % VECTORS] =
                    _mm512_mask_slli_epi32::<{ TABLE_BITS as u32 }>(next, tables, next);
                let deeper = _mm512_set1_epi32(i32::from(TABLE_BITS));
                let depth = self.depths[at % VECTORS];
                self.depths[at % VECTORS] = _mm512_mask_add_epi32(depth, tables, depth, deeper);
            }
        }
    }

    /// Stores words, or what short prefixes say in the place of 0.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_short(&self, top: &[__m512i; VECTORS], values: &mut [Value]) {
        let vectors = values.as_chunks_mut::<WIDTH>().0;
        for ((values, &words), top) in vectors.iter_mut().zip(&self.words).zip(top) {
            let none = _mm512_testn_epi32_mask(words, words);
            let short = self.table.short.as_ptr();
            // SAFETY: 16 bits are inside the table of short prefixes; a vector of values is written.
            unsafe {
                let words = match none {
                    0 => words,
                    _ => gather_into(words, short, _mm512_srli_epi32::<16>(*top), none),
                };
                _mm512_storeu_si512(values.as_mut_ptr().cast(), words);
            }
        }
    }

    /// Lookups that are at ranges, one by one, and what few are not at values then.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn at_ranges(&self, values: &mut [Value]) {
        let lines = &*self.table.lines;
        let mut slots = [0u32; LANES];
        let (mut ranges, mut tables) = (0u64, 0u64);
        for (at, (slots, words)) in
            slots.as_chunks_mut::<WIDTH>().0.iter_mut().zip(&self.words).enumerate()
        {
            let to_tables = to_tables(*words);
            tables |= u64::from(to_tables) << (at * WIDTH);
            ranges |= u64::from(_mm512_movepi32_mask(*words) & !to_tables) << (at * WIDTH);
            let slot = _mm512_srli_epi32::<{ 32 - RANGES_BITS as u32 }>(self.next[at]);
            // SAFETY: writes the array.
            unsafe { _mm512_storeu_si512(slots.as_mut_ptr().cast(), slot) };
        }
        let (mut left, mut none, mut further) = (ranges, 0u64, 0u64);
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let first = first_word(values[at]);
            // SAFETY: handed on to the caller.
            let range = unsafe { range_of(lines, first, slots[at] as u16) };
            let word = lines[(first + FIRST_RANGE + range) % WORDS].load(Acquire);
            values[at] = word;
            none |= u64::from(word == 0) << at;
            further |= u64::from(word >> 31) << at;
        }
        if (further | tables) != 0 {
            self.finish(further, tables, values);
        }
        while none != 0 {
            let at = none.trailing_zeros() as usize % LANES;
            none &= none - 1;
            values[at] = self.table.short_value(self.addresses[at]);
        }
    }

    /// The rest is for the scalar way: `further` are those that ranges lead further, `tables` those at
    /// tables still.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    fn finish(&self, further: u64, tables: u64, values: &mut [Value]) {
        let mut walk = Walk::new();
        for (depths, vector) in walk.depths.as_chunks_mut::<WIDTH>().0.iter_mut().zip(self.depths) {
            // SAFETY: writes the array.
            unsafe { _mm_storeu_si128(depths.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(vector)) };
        }
        let all = further | tables;
        let mut left = all;
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            walk.depths[at] += RANGES_BITS * (further >> at & 1) as u8;
            walk.arrive(&self.table.lines, at, values[at], 0);
        }
        walk.descend_far(&self.table.lines, self.addresses);
        left = all;
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let word = walk.words[at];
            values[at] = if word == 0 { self.table.short_value(self.addresses[at]) } else { word };
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

/// Loads the 32-bit words at the indices of `lanes`, zeros in the others.
///
/// # Safety
/// As [`gather_into`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather(base: *const AtomicU32, indices: __m512i, lanes: __mmask16) -> __m512i {
    // SAFETY: handed on to the caller.
    unsafe { gather_into(_mm512_setzero_si512(), base, indices, lanes) }
}

/// Loads the 32-bit words at the indices of `lanes`, those of `other` in the others.
///
/// In assembly because a writer may store to them meanwhile: each lane is an aligned load of its own,
/// which the processor carries out whole, and what the compiler knows nothing of it cannot split.
///
/// # Safety
/// Every index of `lanes` lies within the words at `base`, which outlives the call.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather_into(
    other: __m512i,
    base: *const AtomicU32,
    indices: __m512i,
    lanes: __mmask16,
) -> __m512i {
    let loaded: __m512i;
    // SAFETY: reads the words that the caller vouches for and changes two registers.
    unsafe {
        asm!(
            "vpgatherdd {loaded}{{{lanes}}}, dword ptr [{base} + {indices}*4]",
            base = in(reg) base,
            indices = in(zmm_reg) indices,
            loaded = inout(zmm_reg) other => loaded,
            lanes = inout(kreg) lanes => _,
            options(nostack, readonly, preserves_flags),
        );
    }
    loaded
}

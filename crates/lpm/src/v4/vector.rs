//! 16 addresses looked up at once, where the processor has AVX-512.
//!
//! Same values as the scalar way of [`Ipv4Lpm`](super::Ipv4Lpm); which of the two is faster depends on
//! how the processor carries out a gather, so the table is told which to take.

use core::arch::x86_64::*;
use core::sync::atomic::{AtomicU16, AtomicU32};

use super::{FIRST_LEN, GROUP_LEN, GROUPS_MAX};
use crate::Value;
use crate::simd::gather;

/// Addresses in one vector.
const LANES: usize = 16;

/// Whether this processor and system have what the functions here are compiled for.
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// What the entries lead to.
#[derive(Clone, Copy)]
pub(super) struct Beyond<'a> {
    /// In the place of entries and members of groups that are 0.
    pub default: Value,
    /// Values by group and the last 8 bits.
    pub groups: &'a [AtomicU32; GROUPS_MAX * GROUP_LEN],
}

/// Addresses whose entries are under way at once: what a processor can have outstanding.
const AHEAD: usize = 4 * LANES;

/// The values of whole vectors of `addresses`; returns how many addresses that were.
///
/// # Safety
/// The processor has AVX-512F, and `values` is as long as `addresses`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn read_narrow(
    first: &[AtomicU16; FIRST_LEN],
    beyond: Beyond<'_>,
    addresses: &[u32],
    values: &mut [Value],
) -> usize {
    let entries = |address| {
        // SAFETY: a pair of entries is aligned and inside: 9 bits less than 32 leave an index below
        // half the table's length.
        let pairs = unsafe { gather(first.as_ptr().cast(), _mm512_srli_epi32::<9>(address), !0) };
        // The upper entry of a pair is that of an odd /24.
        let shift = _mm512_and_si512(_mm512_srli_epi32::<4>(address), _mm512_set1_epi32(16));
        _mm512_and_si512(_mm512_srlv_epi32(pairs, shift), _mm512_set1_epi32(0xffff))
    };
    // SAFETY: handed on to the caller.
    unsafe { read::<{ 1 << 15 }>(entries, beyond, addresses, values) }
}

/// As [`read_narrow`], of entries of 32 bits.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn read_wide(
    first: &[AtomicU32; FIRST_LEN],
    beyond: Beyond<'_>,
    addresses: &[u32],
    values: &mut [Value],
) -> usize {
    let entries = |address| {
        // SAFETY: an index of 24 bits is inside the table.
        unsafe { gather(first.as_ptr().cast(), _mm512_srli_epi32::<8>(address), !0) }
    };
    // SAFETY: handed on to the caller.
    unsafe { read::<{ 1 << 31 }>(entries, beyond, addresses, values) }
}

/// All entries of a stretch first, since what follows branches on them and waits for memory.
///
/// # Safety
/// As [`read_narrow`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn read<const FLAG: u32>(
    entries: impl Fn(__m512i) -> __m512i,
    beyond: Beyond<'_>,
    addresses: &[u32],
    values: &mut [Value],
) -> usize {
    debug_assert_eq!(addresses.len(), values.len());
    let whole = addresses.len() / LANES * LANES;
    for begin in (0..whole).step_by(AHEAD) {
        let end = whole.min(begin + AHEAD);
        for at in (begin..end).step_by(LANES) {
            // SAFETY: `at + LANES` is at most both lengths.
            unsafe {
                let address = _mm512_loadu_si512(addresses.as_ptr().add(at).cast());
                _mm512_storeu_si512(values.as_mut_ptr().add(at).cast(), entries(address));
            }
        }
        for at in (begin..end).step_by(LANES) {
            // SAFETY: as above; `values` holds entries.
            unsafe {
                let address = _mm512_loadu_si512(addresses.as_ptr().add(at).cast());
                let entry = _mm512_loadu_si512(values.as_ptr().add(at).cast());
                let value = follow::<FLAG>(entry, address, beyond);
                _mm512_storeu_si512(values.as_mut_ptr().add(at).cast(), value);
            }
        }
    }
    whole
}

/// From entries to values: members of groups, and the default for what is 0 then.
///
/// # Safety
/// The processor has AVX-512F; without `FLAG`, a flagged entry is the number of a group.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn follow<const FLAG: u32>(entry: __m512i, address: __m512i, beyond: Beyond<'_>) -> __m512i {
    let flag = _mm512_set1_epi32(FLAG.cast_signed());
    let grouped = _mm512_test_epi32_mask(entry, flag);
    let mut value = entry;
    if grouped != 0 {
        let numbers = _mm512_set1_epi32((GROUPS_MAX as u32 - 1).cast_signed());
        let group = _mm512_and_si512(_mm512_andnot_si512(flag, entry), numbers);
        let member = _mm512_and_si512(address, _mm512_set1_epi32(255));
        let index = _mm512_or_si512(_mm512_slli_epi32::<8>(group), member);
        // SAFETY: a group's number is masked to be below GROUPS_MAX, a member's to be below 256.
        let members = unsafe { gather(beyond.groups.as_ptr().cast(), index, grouped) };
        value = _mm512_mask_mov_epi32(entry, grouped, members);
    }
    let nothing = _mm512_testn_epi32_mask(value, value);
    _mm512_mask_mov_epi32(value, nothing, _mm512_set1_epi32(beyond.default.cast_signed()))
}

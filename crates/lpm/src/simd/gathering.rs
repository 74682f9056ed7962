//! Loads of 16 words at once, where the processor has AVX-512.

use core::arch::asm;
use core::arch::x86_64::*;

/// Loads the 32-bit words at the indices of `lanes`, zeros in the others.
///
/// # Safety
/// As [`gather_into`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn gather(base: *const u32, indices: __m512i, lanes: __mmask16) -> __m512i {
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
pub(crate) unsafe fn gather_into(
    other: __m512i,
    base: *const u32,
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

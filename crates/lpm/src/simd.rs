//! What the language leaves to the processor: code compiled a second time for those that find, clear and
//! shift bits in one instruction each, loads of many words at once, hints about what will be read next, and
//! trials of which way is faster.

#[cfg(target_arch = "x86_64")]
mod gathering;

use std::time::Duration;

#[cfg(target_arch = "x86_64")]
pub(crate) use gathering::{gather, gather_into};

/// Turns of each way in a trial, of which the fastest counts.
const TURNS: usize = 16;

/// Whether the second way of doing something (`true`) takes no longer than the first, by `clock`, which
/// counts from whenever.
pub(crate) fn no_slower(clock: impl Fn() -> Duration, mut way: impl FnMut(bool)) -> bool {
    let mut least = |second| {
        let turn = |_| {
            let begun = clock();
            way(second);
            clock().saturating_sub(begun)
        };
        (0..TURNS).map(turn).min()
    };
    least(true) <= least(false)
}

/// Runs `body`, compiled with BMI where the processor has it: masks whose bits are lookups are gone through
/// in fewer instructions. `body` must be `#[inline(always)]` to profit.
#[inline(always)]
pub(crate) fn with_bmi<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi1") && std::arch::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has all features that the function is compiled for.
        return unsafe { compiled_with_bmi(body) };
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
fn compiled_with_bmi<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Asks for the cache line of `element`, which will be read soon.
#[inline(always)]
pub(crate) fn prefetch<T>(element: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(element.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = element;
}

//! Code compiled twice: for any processor, and for those that count bits in one instruction.

/// Runs `body`, compiled with POPCNT and BMI where the processor has them. `body` must be
/// `#[inline(always)]` to profit.
#[inline(always)]
pub(crate) fn with_popcount<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor has all features that the function is compiled for.
        return unsafe { counting(body) };
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn counting<R>(body: impl FnOnce() -> R) -> R {
    body()
}

//! Waiting for a write in user mode, where the CPU can (WAITPKG).

use std::sync::atomic::AtomicU32;

/// Whether this CPU can wait for a write in user mode (the WAITPKG instructions).
pub fn has_user_wait() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        waitpkg::present()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Waits until the line of `word` is written, for some microseconds at most; a pause where the CPU cannot.
#[inline]
pub(crate) fn watch(word: &AtomicU32) {
    #[cfg(target_arch = "x86_64")]
    if waitpkg::present() {
        waitpkg::wait(word);
        return;
    }
    let _ = word;
    std::hint::spin_loop();
}

#[cfg(target_arch = "x86_64")]
mod waitpkg {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Longest wait, cycles: some microseconds.
    const CYCLES: u64 = 20_000;

    #[inline]
    pub(super) fn present() -> bool {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        *PRESENT.get_or_init(|| {
            #[allow(unused_unsafe, reason = "some toolchains call CPUID safe")]
            // SAFETY: every x86-64 CPU has CPUID; leaf 7 is asked for only where there is one.
            unsafe {
                __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0
            }
        })
    }

    /// UMONITOR and UMWAIT, in state C0.1 for the quicker return.
    pub(super) fn wait(word: &AtomicU32) {
        // SAFETY: the CPU has the instructions; they read the line of `word`, which is alive, and change
        // no memory. The word is looked at once more after the monitor is armed, so no write is missed.
        unsafe {
            asm!(".byte 0xf3, 0x0f, 0xae, 0xf0", in("rax") word.as_ptr(), options(nostack));
            if word.load(Ordering::Relaxed) == 0 {
                let until = _rdtsc() + CYCLES;
                asm!(
                    ".byte 0xf2, 0x0f, 0xae, 0xf1",
                    in("ecx") 1,
                    in("eax") until as u32,
                    in("edx") (until >> 32) as u32,
                    options(nostack)
                );
            }
        }
    }
}

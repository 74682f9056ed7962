//! The clock of live programs; simulations have their own.

use std::time::Duration;

use ebb_units::Time;
use nix::time::{ClockId, clock_gettime};

/// Time since boot, standing still while the machine is suspended (`CLOCK_MONOTONIC`).
///
/// # Panics
/// When the system has no such clock.
pub fn monotonic() -> Time {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Time since 1970 without leap seconds, as the system has it (`CLOCK_REALTIME`): for what leaves the machine.
///
/// # Panics
/// When the system has no such clock.
pub fn since_1970() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).expect("Linux has a clock of the day");
    Duration::from_secs(now.tv_sec().max(0) as u64) + Duration::from_nanos(now.tv_nsec() as u64)
}

/// Processor time that the calling thread has used (`CLOCK_THREAD_CPUTIME_ID`). A system call.
///
/// # Panics
/// When the system has no such clock.
pub fn thread_cpu() -> Time {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn moves_forward_at_the_pace_of_sleep() {
        let before = super::monotonic();
        std::thread::sleep(Duration::from_millis(5));
        let span = super::monotonic() - before;
        assert!((Duration::from_millis(5)..Duration::from_secs(5)).contains(&span), "{span:?}");
    }
}

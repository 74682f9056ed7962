//! The clock of live programs; simulations have their own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
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

/// A clock beside ours: a network card's, or the system's of atomic time.
#[derive(Debug)]
pub struct OtherClock {
    id: ClockId,
    /// The clock is there while its device is open.
    _device: Option<File>,
}

/// What another clock showed between two looks at [`monotonic`], ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paired {
    /// Ours before.
    pub before_ns: u64,
    /// The other one.
    pub other_ns: u64,
    /// Ours after.
    pub after_ns: u64,
}

impl OtherClock {
    /// Atomic time as the system has it (`CLOCK_TAI`): that of `CLOCK_REALTIME` until a daemon says by how many seconds they differ.
    pub fn tai() -> OtherClock {
        OtherClock { id: ClockId::from_raw(libc::CLOCK_TAI), _device: None }
    }

    /// The system's clock of the day (`CLOCK_REALTIME`), by which the kernel stamps frames.
    pub fn of_day() -> OtherClock {
        OtherClock { id: ClockId::CLOCK_REALTIME, _device: None }
    }

    /// A network card's clock, such as `/dev/ptp0` (`Documentation/driver-api/ptp.rst`).
    ///
    /// # Errors
    /// When there is none, or it may not be opened.
    pub fn device(path: &Path) -> io::Result<OtherClock> {
        let device = File::open(path)?;
        // The number of a clock by its descriptor, as the kernel's FD_TO_CLOCKID makes it.
        let id = ClockId::from_raw((!device.as_raw_fd() << 3) | 3);
        Ok(OtherClock { id, _device: Some(device) })
    }

    /// What it shows, between two looks at ours.
    ///
    /// # Errors
    /// When the device is no clock, or its card is gone.
    pub fn paired(&self) -> io::Result<Paired> {
        let before_ns = monotonic().as_nanos();
        let other = clock_gettime(self.id)?;
        let after_ns = monotonic().as_nanos();
        let other_ns = other.tv_sec().max(0) as u64 * 1_000_000_000 + other.tv_nsec() as u64;
        Ok(Paired { before_ns, other_ns, after_ns })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn atomic_time_goes_as_ours_does_and_a_file_is_no_clock() {
        let clock = super::OtherClock::tai();
        let ahead = || {
            let looks = (0..20).map(|_| clock.paired().expect("every kernel has it"));
            let surest = looks.min_by_key(|look| look.after_ns - look.before_ns).expect("some");
            surest.other_ns - surest.before_ns
        };
        let before = ahead();
        std::thread::sleep(Duration::from_millis(5));
        assert!(ahead().abs_diff(before) < 1_000_000);
        let none = super::OtherClock::device(Path::new("/dev/null")).expect("a file");
        assert!(none.paired().is_err());
    }

    #[test]
    fn moves_forward_at_the_pace_of_sleep() {
        let before = super::monotonic();
        std::thread::sleep(Duration::from_millis(5));
        let span = super::monotonic() - before;
        assert!((Duration::from_millis(5)..Duration::from_secs(5)).contains(&span), "{span:?}");
    }
}

//! Sleeping until a descriptor is ready or a moment has come.

use std::os::fd::RawFd;
use std::time::Duration;

/// Descriptors to sleep on, reused from sleep to sleep.
#[derive(Default)]
pub struct WaitSet(Vec<libc::pollfd>);

/// What became of one descriptor during a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing.
    Idle,
    /// Something to read.
    Readable,
    /// Error, hang-up or not open: waiting on it again would return at once.
    Broken,
}

impl WaitSet {
    /// No descriptors.
    pub fn new() -> WaitSet {
        WaitSet::default()
    }

    /// Forgets all descriptors.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a descriptor; its position is the number of those added before.
    pub fn add(&mut self, fd: RawFd) {
        self.0.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Sleeps until a descriptor is ready, `timeout` is over or a signal came.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map(|span| libc::timespec {
            tv_sec: span.as_secs() as libc::time_t,
            tv_nsec: span.subsec_nanos() as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = self.0.len() as libc::nfds_t;
        // SAFETY: the array is valid for `count` entries; `timeout` is null or outlives the call.
        let ready = unsafe { libc::ppoll(self.0.as_mut_ptr(), count, timeout, std::ptr::null()) };
        if ready < 0 {
            self.0.iter_mut().for_each(|entry| entry.revents = 0);
        }
    }

    /// What the last sleep found for the descriptor at `position`.
    pub fn readiness(&self, position: usize) -> Readiness {
        let events = self.0[position].revents;
        if events & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0 {
            Readiness::Broken
        } else if events & libc::POLLIN != 0 {
            Readiness::Readable
        } else {
            Readiness::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_broken_and_a_silent_one_times_out() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut set = WaitSet::new();
        set.add(std::os::fd::AsRawFd::as_raw_fd(&reader));
        set.wait(Some(Duration::from_millis(1)));
        assert_eq!(set.readiness(0), Readiness::Idle);
        drop(writer);
        set.wait(Some(Duration::from_secs(5)));
        assert_eq!(set.readiness(0), Readiness::Broken);
    }
}

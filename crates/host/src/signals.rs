//! Signals as readable events.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

pub use nix::sys::signal::Signal;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals of this process, blocked and read instead.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks `signals` in the calling thread and those it starts from now on, and collects them
    /// here. To be called before other threads are started.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn open(signals: &[Signal]) -> io::Result<Self> {
        let set: SigSet = signals.iter().copied().collect();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&set), None)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Signals { fd: SignalFd::with_flags(&set, flags)? })
    }

    /// Readable while a signal waits.
    pub fn fd(&self) -> RawFd {
        self.fd.as_fd().as_raw_fd()
    }

    /// The next signal that waits, if any.
    ///
    /// # Errors
    /// When reading fails.
    pub fn take(&mut self) -> io::Result<Option<Signal>> {
        let Some(info) = self.fd.read_signal()? else { return Ok(None) };
        Ok(Some(Signal::try_from(info.ssi_signo as i32)?))
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// When there is no such process or it belongs to someone else.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal)?)
}

/// Sends a signal to the group that a process leads: to all that it has started and that lead none of their
/// own.
///
/// # Errors
/// When there is no such group or it belongs to someone else.
pub fn send_to_group(leader: u32, signal: Signal) -> io::Result<()> {
    Ok(nix::sys::signal::killpg(nix::unistd::Pid::from_raw(leader as i32), signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_read_instead_of_taken() {
        let mut signals = Signals::open(&[Signal::SIGUSR2]).unwrap();
        assert_eq!(signals.take().unwrap(), None);
        nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
        assert_eq!(signals.take().unwrap(), Some(Signal::SIGUSR2));
        assert_eq!(signals.take().unwrap(), None);
    }
}

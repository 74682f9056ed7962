//! A descriptor to sleep on, and the rule by which the other side rings it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes a sleeping receiver and costs the sender one load while the receiver is awake.
#[derive(Debug)]
pub(crate) struct Doorbell {
    event: File,
    armed: AtomicBool,
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Doorbell> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let event = unsafe { File::from_raw_fd(fd) };
        Ok(Doorbell { event, armed: AtomicBool::new(false) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Receiver: from now on the sender rings. The receiver looks into its queue once more after
    /// this; the fence on each side makes one of the two see the other.
    pub(crate) fn arm(&self) {
        let _ = (&self.event).read(&mut [0u8; 8]);
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Receiver: awake, no ringing needed.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Sender: to be called after packets became visible in the queue.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            let _ = (&self.event).write(&1u64.to_ne_bytes());
        }
    }
}

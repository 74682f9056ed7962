//! A wakeup that one thread sends another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes whoever polls [`Doorbell::fd`]. Rings before it is drained count as one. Clones share
/// the bell.
///
/// ```
/// let bell = ebb_host::Doorbell::new()?;
/// bell.ring();
/// bell.ring();
/// assert!(bell.drain());
/// assert!(!bell.drain());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Doorbell {
    event: Arc<EventFd>,
}

impl Doorbell {
    /// A silent bell.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Doorbell { event: Arc::new(EventFd::from_value_and_flags(0, flags)?) })
    }

    /// Makes the descriptor readable.
    ///
    /// # Panics
    /// Never for an open descriptor; a full counter means that it is readable already.
    pub fn ring(&self) {
        match self.event.write(1) {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(error) => panic!("an open eventfd refused a write: {error}"),
        }
    }

    /// Silences the bell and tells whether it rang.
    pub fn drain(&self) -> bool {
        self.event.read().is_ok()
    }

    /// Readable from a ring until the next drain.
    pub fn fd(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

//! The maps of the program that the way of packets touches: its sockets and its redirect table.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use aya::maps::{MapData, XskMap};

use super::program::broken;

/// The sockets that the program sends packets to.
pub(super) struct Sockets(Mutex<XskMap<MapData>>);

impl Sockets {
    pub(super) fn new(map: XskMap<MapData>) -> Sockets {
        Sockets(Mutex::new(map))
    }

    pub(super) fn set(&self, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.0.lock().expect("sockets").set(key, socket, 0).map_err(broken)
    }

    pub(super) fn unset(&self, key: u32) -> io::Result<()> {
        self.0.lock().expect("sockets").unset(key).map_err(broken)
    }
}

/// The redirect table in the program's memory.
#[derive(Debug)]
pub(super) struct Table(NonNull<[AtomicU8; 128]>);

// SAFETY: atomics in a mapping that lives as long as the value.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

const TABLE_BYTES: usize = 128;

impl Table {
    pub(super) fn map(fd: BorrowedFd<'_>) -> io::Result<Table> {
        // SAFETY: a fresh mapping of the map's memory; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                TABLE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Table(NonNull::new(base.cast()).expect("a mapping is not at null")))
    }

    /// The worker of each entry.
    pub(super) fn entries(&self) -> &[AtomicU8; 128] {
        // SAFETY: the mapping is at least this long and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// Stores the entries that differ.
    pub(super) fn write(&self, table: &[u8; 128]) {
        for (entry, worker) in self.entries().iter().zip(table) {
            if entry.load(Ordering::Relaxed) != *worker {
                entry.store(*worker, Ordering::Release);
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped by `Table::map`, and no reference outlives `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), TABLE_BYTES) };
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").finish_non_exhaustive()
    }
}

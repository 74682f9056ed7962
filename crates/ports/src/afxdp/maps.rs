//! The maps of the program that the way of packets touches: its sockets, what is on its way to them, and its redirect table.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use aya::maps::{MapData, XskMap};

use super::program::broken;

/// The sockets that the program sends packets to.
pub(super) struct Sockets {
    map: Mutex<XskMap<MapData>>,
    /// What is on its way to each.
    pub(super) flights: Flights,
}

impl Sockets {
    pub(super) fn new(map: XskMap<MapData>, flights: Flights) -> Sockets {
        Sockets { map: Mutex::new(map), flights }
    }

    pub(super) fn set(&self, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.map.lock().expect("sockets").set(key, socket, 0).map_err(broken)
    }

    pub(super) fn unset(&self, key: u32) -> io::Result<()> {
        self.map.lock().expect("sockets").unset(key).map_err(broken)
    }
}

/// `struct flight` in `bpf/state.h`.
#[repr(C)]
struct Flight {
    given: AtomicU64,
    _apart: [u64; 15],
    done: AtomicU64,
    lost: AtomicU64,
    _unused: [u64; 14],
}

/// Packets that were given to each socket, and what became of them, in the program's memory.
#[derive(Debug)]
pub(super) struct Flights(NonNull<Flight>, u32);

// SAFETY: atomics in a mapping that lives as long as the value.
unsafe impl Send for Flights {}
// SAFETY: as above.
unsafe impl Sync for Flights {}

impl Flights {
    /// Of so many sockets.
    pub(super) fn map(fd: BorrowedFd<'_>, sockets: u32) -> io::Result<Flights> {
        let base = mapped(fd, sockets as usize * size_of::<Flight>())?;
        Ok(Flights(base.cast(), sockets))
    }

    fn of(&self, key: u32) -> Option<&Flight> {
        // SAFETY: the mapping has as many, and lives as long as `self`.
        (key < self.1).then(|| unsafe { self.0.add(key as usize).as_ref() })
    }

    /// Says that nothing of the first `count` packets of a socket is with its worker any more.
    pub(super) fn done(&self, key: u32, count: u64) {
        if let Some(flight) = self.of(key) {
            flight.done.store(count, Ordering::Release);
        }
    }

    /// Says that so many packets found no room at a socket.
    pub(super) fn lost(&self, key: u32, count: u64) {
        if let Some(flight) = self.of(key) {
            flight.lost.store(count, Ordering::Release);
        }
    }

    /// What was given, what is done with, what found no room.
    pub(super) fn read(&self, key: u32) -> (u64, u64, u64) {
        let count = |part: &AtomicU64| part.load(Ordering::Acquire);
        self.of(key).map_or((0, 0, 0), |flight| {
            (count(&flight.given), count(&flight.done), count(&flight.lost))
        })
    }

    /// Whether nothing that was given to a socket is with its worker.
    pub(super) fn is_done(&self, key: u32) -> bool {
        self.of(key).is_none_or(|flight| {
            let count = |part: &AtomicU64| part.load(Ordering::Acquire);
            let finished = count(&flight.done).wrapping_add(count(&flight.lost));
            count(&flight.given).wrapping_sub(finished).cast_signed() <= 0
        })
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        // SAFETY: mapped by `Flights::map`, and no reference outlives `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1 as usize * size_of::<Flight>()) };
    }
}

/// The memory of an array that can be mapped.
fn mapped(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<libc::c_void>> {
    // SAFETY: a fresh mapping of the map's memory; the result is checked.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(base).expect("a mapping is not at null"))
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
        Ok(Table(mapped(fd, TABLE_BYTES)?.cast()))
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

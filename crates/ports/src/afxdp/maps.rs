//! The maps of the program that the way of packets touches: its sockets, what is on its way to them, and its redirect table.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
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
        let base = mapped(fd, sockets as usize * size_of::<Flight>(), BOTH)?;
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

/// Words of 64 bits that a program reads: an array of one value.
pub(super) struct Words(NonNull<AtomicU64>, usize);

// SAFETY: atomics in a mapping that lives as long as the value.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

/// The member of `union bpf_attr` for BPF_MAP_CREATE, as far as it is used.
#[repr(C)]
pub(super) struct Create {
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
}

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;

impl Words {
    /// Makes the array.
    pub(super) fn create(count: usize) -> io::Result<(OwnedFd, Words)> {
        let wanted = Create {
            kind: BPF_MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes: count as u32 * 8,
            entries: 1,
            flags: BPF_F_MMAPABLE,
        };
        let fd = create(&wanted)?;
        let base = mapped(fd.as_fd(), count * 8, BOTH)?;
        Ok((fd, Words(base.cast(), count)))
    }

    /// One word; what was written before it by whoever wrote it is to be seen.
    pub(super) fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Writes one word, to be seen by nobody who does not see what was written before.
    pub(super) fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.1, "{at} of {} words", self.1);
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.0.add(at).as_ref() }
    }

    /// Writes words from a place on.
    ///
    /// # Panics
    /// When there are not as many.
    pub(super) fn write(&mut self, from: usize, words: &[u64]) {
        assert!(from + words.len() <= self.1, "{from} + {} words", words.len());
        for (at, word) in words.iter().enumerate() {
            // SAFETY: within the mapping, which lives as long as `self`.
            unsafe { self.0.add(from + at).as_ref() }.store(*word, Ordering::Relaxed);
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: mapped by `Words::create`, and no reference outlives `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1 * 8) };
    }
}

/// Makes a map.
pub(super) fn create(wanted: &Create) -> io::Result<OwnedFd> {
    let pointer: *const Create = wanted;
    // SAFETY: `pointer` leads to a `bpf_attr` prefix of that length, which the kernel reads.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, pointer, size_of::<Create>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// To be read and written, from the beginning.
const BOTH: (libc::c_int, usize) = (libc::PROT_READ | libc::PROT_WRITE, 0);

/// The memory of a map that can be mapped: what may be done with it, and from which byte on.
pub(super) fn mapped(
    fd: BorrowedFd<'_>,
    bytes: usize,
    (allowed, from): (libc::c_int, usize),
) -> io::Result<NonNull<libc::c_void>> {
    // SAFETY: a fresh mapping of the map's memory; the result is checked.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            allowed,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            from as libc::off_t,
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
        Ok(Table(mapped(fd, TABLE_BYTES, BOTH)?.cast()))
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

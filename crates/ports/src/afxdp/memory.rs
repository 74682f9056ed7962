//! Frame memory that another process can map as well: a file without a name (memfd_create(2))
//! with the frames, and behind them who has each.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

use ebb_graph::{FRAME_LEN, REGION_ALIGN, Region};

/// Fills a range with huge pages whatever the system's setting for shared memory is (Linux 6.1).
const MADV_COLLAPSE: libc::c_int = 25;

/// The frames and the ledger in one mapping, which stays until the process ends.
pub(super) struct Shared {
    pub(super) region: &'static Region,
    pub(super) ledger: &'static [AtomicU16],
    pub(super) file: OwnedFd,
}

fn region_len(frames: u32) -> usize {
    (frames as usize * FRAME_LEN).next_multiple_of(REGION_ALIGN)
}

fn file_len(frames: u32) -> usize {
    region_len(frames) + frames as usize * size_of::<AtomicU16>()
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Shared {
    /// New memory of zeroes, in huge pages where the system has them.
    pub(super) fn allocate(frames: u32) -> io::Result<Shared> {
        // SAFETY: a terminated name; the result is checked.
        let fd = check(unsafe { libc::memfd_create(c"ebb-frames".as_ptr(), libc::MFD_CLOEXEC) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: no pointers are passed.
        check(unsafe { libc::ftruncate(file.as_raw_fd(), file_len(frames) as libc::off_t) })?;
        let shared = Shared::map(file, frames)?;
        let base = shared.region.base().as_ptr().cast();
        // Pages that are there can be gathered into huge ones; registration would fetch them anyway.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE, MADV_COLLAPSE] {
            // SAFETY: the range was just mapped; the advice changes no content and may be refused.
            unsafe { libc::madvise(base, region_len(frames), advice) };
        }
        Ok(shared)
    }

    /// Memory that another process has allocated for as many frames.
    pub(super) fn of(file: OwnedFd, frames: u32) -> io::Result<Shared> {
        // SAFETY: all zeroes are a valid value of this structure.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is valid and the call fills it.
        check(unsafe { libc::fstat(file.as_raw_fd(), &mut status) })?;
        if frames == 0 || status.st_size != file_len(frames) as libc::off_t {
            let message =
                format!("packet memory of {} bytes does not have {frames} frames", status.st_size);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let shared = Shared::map(file, frames)?;
        // Now, and not packet by packet once it forwards. Who cannot (before Linux 5.14) meets faults then.
        let base = shared.region.base().as_ptr().cast();
        // SAFETY: the range was just mapped; the advice changes no content and may be refused.
        unsafe { libc::madvise(base, region_len(frames), libc::MADV_POPULATE_WRITE) };
        Ok(shared)
    }

    fn map(file: OwnedFd, frames: u32) -> io::Result<Shared> {
        let base = map_aligned(&file, file_len(frames))?;
        // SAFETY: within the mapping, which is aligned far beyond the type's needs.
        let ledger = unsafe { base.add(region_len(frames)) }.cast::<AtomicU16>();
        // SAFETY: mapped to the end of the ledger, never unmapped; zeroes are valid, and both
        // processes access it atomically.
        let ledger = unsafe { std::slice::from_raw_parts(ledger.as_ptr(), frames as usize) };
        // SAFETY: mapped for so many frames, never unmapped, and used through this region alone.
        let region = unsafe { Region::over(base, frames) };
        Ok(Shared { region, ledger, file })
    }
}

/// A shared mapping at a multiple of the size of huge pages.
fn map_aligned(file: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
    let map = |at: *mut libc::c_void, len: usize, protection, flags, fd| {
        // SAFETY: a fresh mapping, or one over addresses that the one before has reserved; the
        // result is checked.
        let base = unsafe { libc::mmap(at, len, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base) }
    };
    let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let start = map(std::ptr::null_mut(), len + REGION_ALIGN, libc::PROT_NONE, reserved, -1)?;
    let at = start.map_addr(|addr| addr.next_multiple_of(REGION_ALIGN));
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    let base = map(at, len, protection, flags, file.as_raw_fd())?;
    Ok(NonNull::new(base.cast()).expect("a mapping is not at null"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_show_the_same_frames_and_the_same_ledger() {
        let one = Shared::allocate(100).unwrap();
        let again = || one.file.as_fd().try_clone_to_owned().unwrap();
        let other = Shared::of(again(), 100).unwrap();
        one.ledger[99].store(7, Relaxed);
        assert_eq!(other.ledger[99].load(Relaxed), 7);
        // SAFETY: no other token of either region is made.
        let frames = unsafe { (one.region.take(99 * 2048), other.region.take(99 * 2048)) };
        let packet = frames.0.fill(b"seen from both sides");
        assert_eq!(frames.1.into_packet(256, 20).data(), packet.data());
        assert!(Shared::of(again(), 101).is_err());
    }
}

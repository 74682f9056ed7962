//! Another process's descriptors and memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::owned;

/// A handle of a process.
pub(super) fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: has no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// A handle of the process of a thread.
pub(super) fn open_thread(tid: i32) -> io::Result<OwnedFd> {
    open_process(tid).or_else(|error| {
        // Not the first thread of its process: the process has another number.
        let status = std::fs::read_to_string(format!("/proc/{tid}/status"))?;
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let group = group.and_then(|number| number.trim().parse().ok());
        group.map_or(Err(error), open_process)
    })
}

/// A copy of a process's descriptor: the same open file, with the same offset and flags.
pub(super) fn take_descriptor(process: &OwnedFd, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: has no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Copies from `address` of a process.
pub(super) fn read_memory(tid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `here` is the exclusive slice; the kernel checks `there`, which is another process's.
    let count = unsafe { libc::process_vm_readv(tid, &here, 1, &there, 1, 0) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// Copies to `address` of a process.
pub(super) fn write_memory(tid: i32, address: u64, from: &[u8]) -> io::Result<usize> {
    let here = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: from.len() };
    // SAFETY: `here` is only read; the kernel checks `there`, which is another process's.
    let count = unsafe { libc::process_vm_writev(tid, &here, 1, &there, 1, 0) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

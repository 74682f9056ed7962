//! The system calls of AF_XDP sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ebb_graph::{FRAME_LEN, Region};

use super::ring::Offsets;

const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Where the kernel put the parts of all four rings (`struct xdp_mmap_offsets`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MapOffsets {
    pub(super) rx: Offsets,
    pub(super) tx: Offsets,
    pub(super) fill: Offsets,
    pub(super) completion: Offsets,
}

/// Losses the kernel counted at a socket (`struct xdp_statistics`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    pub(super) rx_dropped: u64,
    pub(super) rx_invalid: u64,
    pub(super) tx_invalid: u64,
    pub(super) rx_ring_full: u64,
    pub(super) fill_ring_empty: u64,
    pub(super) tx_ring_empty: u64,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: `value` points to `len` bytes that live through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.cast(), len) }).map(drop)
}

fn get<T: Default>(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let pointer: *mut T = &mut value;
    // SAFETY: both pointers are valid for the lengths given; older kernels write less.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, pointer.cast(), &mut len) })?;
    Ok(value)
}

/// Bytes before a packet in which the kernel is told what to do with it (`struct xsk_tx_metadata`).
pub(super) const METADATA_LEN: u32 = 24;

/// Where frames may begin in registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// At multiples of their length. Drivers that read and write frames themselves do that best.
    Aligned,
    /// Anywhere, although ours are at such multiples. What the kernel notes of a frame it receives into
    /// then stands where it noted the last one that it is done with, and not in a place of the frame's
    /// own: as many lines less go through its caches as there are frames in the fill ring. Where it
    /// copies that is a tenth of what receiving costs its sender (from Linux 5.16 on; before, it did so anyway).
    Anywhere,
}

/// Registers frame memory. Returns whether the kernel reads metadata before packets (Linux 6.11).
pub(super) fn register(
    fd: BorrowedFd<'_>,
    region: &'static Region,
    chunks: Chunks,
) -> io::Result<bool> {
    const UNALIGNED_CHUNKS: u32 = 1;
    let plain = libc::xdp_umem_reg {
        addr: region.base().as_ptr() as u64,
        len: region.bytes() as u64,
        chunk_size: FRAME_LEN as u32,
        headroom: 0,
        flags: if chunks == Chunks::Anywhere { UNALIGNED_CHUNKS } else { 0 },
        tx_metadata_len: 0,
    };
    let with = libc::xdp_umem_reg {
        flags: plain.flags | libc::XDP_UMEM_TX_METADATA_LEN,
        tx_metadata_len: METADATA_LEN,
        ..plain
    };
    match set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &with) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &plain).map(|()| false)
        }
        result => result.map(|()| true),
    }
}

pub(super) fn set_ring(fd: BorrowedFd<'_>, ring: libc::c_int, len: u32) -> io::Result<()> {
    set(fd, libc::SOL_XDP, ring, &len)
}

pub(super) fn map_offsets(fd: BorrowedFd<'_>) -> io::Result<MapOffsets> {
    get(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
}

pub(super) fn statistics(fd: BorrowedFd<'_>) -> io::Result<Statistics> {
    get(fd, libc::SOL_XDP, libc::XDP_STATISTICS)
}

pub(super) fn is_zero_copy(fd: BorrowedFd<'_>) -> io::Result<bool> {
    const XDP_OPTIONS: libc::c_int = 8;
    Ok(get::<u32>(fd, libc::SOL_XDP, XDP_OPTIONS)? & 1 != 0)
}

/// The pending error of a socket, which this call clears.
pub(super) fn socket_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    match get::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Lets the socket queue as many packets in the kernel as its rings hold. Copy mode makes a
/// socket buffer of each, and from Linux 6.17 on the number per system call can be raised from 32.
pub(super) fn raise_transmit_limits(fd: BorrowedFd<'_>, ring_len: u32) {
    let bytes = (ring_len as libc::c_int).saturating_mul(2 * FRAME_LEN as libc::c_int);
    if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
    let _ = set(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &ring_len);
}

pub(super) fn bind(
    fd: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: u16,
    shared: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    let pointer: *const libc::sockaddr_xdp = &address;
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `pointer` leads to `len` bytes that live through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), len) }).map(drop)
}

/// Makes the kernel look at the TX ring.
#[inline]
pub(super) fn kick_transmit(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: an empty message.
    let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the kernel look at the fill ring.
pub(super) fn kick_receive(fd: BorrowedFd<'_>) {
    let mut buffer = 0u8;
    let pointer: *mut u8 = &mut buffer;
    // SAFETY: an empty message into a valid buffer. The result says nothing of use.
    unsafe { libc::recv(fd.as_raw_fd(), pointer.cast(), 0, libc::MSG_DONTWAIT) };
}

/// Raises the limit of locked memory, which older kernels charge rings, frames and maps to.
pub(super) fn unlock_memory() {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid structure. Refusal shows where memory is locked.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) };
}

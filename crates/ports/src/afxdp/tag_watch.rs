//! Whether tagged frames come to an interface whose tags its XDP program does not see: those that it
//! leaves to the kernel, broadcasts above all, show there with their tag.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT` of `linux/filter.h`.
const TAG_PRESENT: u32 = (-0x1000_i32 + 48).cast_unsigned();

/// A packet socket that takes nothing but the first bytes of tagged frames of one interface.
#[derive(Debug)]
pub struct TagWatch(OwnedFd);

impl TagWatch {
    /// Looks from now on at what the kernel receives on the interface of this index.
    ///
    /// # Errors
    /// When the interface is gone, or without CAP_NET_RAW.
    pub fn open(index: u32) -> io::Result<TagWatch> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers involved.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let watch = TagWatch(unsafe { OwnedFd::from_raw_fd(fd) });
        let step = |code: u32, k: u32, jump: u8| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: jump,
            k,
        };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, TAG_PRESENT, 0),
            // Without a tag over the next step.
            step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, u32::MAX, 1),
            step(libc::BPF_RET | libc::BPF_K, 14, 0),
            step(libc::BPF_RET | libc::BPF_K, 0, 0),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program's steps live through the call, which copies them.
        check(unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as u32,
            )
        })?;
        // SAFETY: all zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        let len = size_of_val(&address) as u32;
        // SAFETY: `address` is a sockaddr_ll of `len` bytes.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
        Ok(watch)
    }

    /// Readable once a tagged frame has come.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether a tagged frame has come that this host did not send itself.
    pub fn has_seen(&self) -> bool {
        loop {
            let mut frame = [0_u8; 14];
            // SAFETY: all zero is a valid sockaddr_ll.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&from) as u32;
            // SAFETY: both buffers live through the call and have the lengths given.
            let received = unsafe {
                libc::recvfrom(
                    self.fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &raw mut len,
                )
            };
            if received < 0 {
                return false;
            }
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                return true;
            }
        }
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

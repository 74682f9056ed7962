//! Opening an interface's sockets: which of them registers the memory, and which share rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::interface::key;
use super::socket::{Pair, PairParts, Socket, SocketParts};
use super::sys::Chunks;
use super::{AfXdpError, InterfaceOptions, Umem, ZeroCopy, sys};

/// Opens the sockets of one interface.
pub(super) struct Opener<'a> {
    pub(super) umem: &'a Arc<Umem>,
    pub(super) options: &'a InterfaceOptions,
    pub(super) index: u32,
    pub(super) native: bool,
    pub(super) chunks: Chunks,
    /// Packets may come and go in several frames.
    pub(super) long: bool,
    pub(super) metadata: bool,
    /// A descriptor of the socket that registered the memory, and whether it is zero-copy.
    pub(super) first: Option<(OwnedFd, bool)>,
}

impl Opener<'_> {
    pub(super) fn open_queue(
        &mut self,
        queue: u32,
        members: std::ops::Range<u32>,
        sockets: &mut [Vec<Socket>],
    ) -> Result<u16, AfXdpError> {
        let id = self.umem.new_pair();
        let id = id.map_err(|e| AfXdpError::system("number AF_XDP rings", e))?;
        let mut head: Option<(OwnedFd, Arc<Pair>)> = None;
        for worker in members {
            let fd = sys::socket().map_err(|e| AfXdpError::system("open AF_XDP sockets", e))?;
            let failed = |e| AfXdpError::system("make AF_XDP rings", e);
            if self.first.is_none() {
                let register = |e| AfXdpError::system("register frame memory", e);
                let region = self.umem.region();
                self.metadata = sys::register(fd.as_fd(), region, self.chunks).map_err(register)?;
            }
            let parts = SocketParts::new(fd.as_fd(), self.options.ring_len).map_err(failed)?;
            let pair = match &head {
                Some((first, pair)) => {
                    self.bind(fd.as_fd(), queue, Some(first.as_fd()))?;
                    pair.clone()
                }
                None => {
                    let InterfaceOptions { ring_len, fill_min, .. } = *self.options;
                    let pair_parts =
                        PairParts::new(fd.as_fd(), ring_len, fill_min).map_err(failed)?;
                    let shared = self.first.as_ref().map(|(fd, _)| fd.as_fd());
                    self.bind(fd.as_fd(), queue, shared)?;
                    let zero_copy = sys::is_zero_copy(fd.as_fd()).map_err(failed)?;
                    let copy = fd.try_clone().map_err(failed)?;
                    if self.first.is_none() {
                        self.first = Some((fd.try_clone().map_err(failed)?, zero_copy));
                    }
                    let pair = Pair::new(self.umem, id, pair_parts, (zero_copy, self.metadata));
                    head = Some((copy, pair.clone()));
                    pair
                }
            };
            let key = key(self.options, queue, worker);
            sockets[worker as usize].push(Socket::new(fd, parts, pair, key));
        }
        Ok(id.number())
    }

    fn bind(
        &self,
        fd: BorrowedFd<'_>,
        queue: u32,
        shared: Option<BorrowedFd<'_>>,
    ) -> Result<(), AfXdpError> {
        let flags = match shared {
            Some(_) => libc::XDP_SHARED_UMEM,
            None => flags(self.options.zero_copy, self.native, self.long),
        };
        sys::bind(fd, self.index, queue, flags, shared).map_err(|error| {
            let interface = self.options.name.clone();
            match error.raw_os_error() {
                Some(libc::EBUSY) => AfXdpError::QueueBusy { interface, queue },
                Some(libc::EOPNOTSUPP) => AfXdpError::NoZeroCopy { interface },
                Some(libc::ENODEV) => AfXdpError::NoInterface { interface },
                Some(libc::ENETDOWN) => AfXdpError::Down { interface },
                _ => AfXdpError::system(format!("bind to queue {queue} of {interface}"), error),
            }
        })
    }
}

/// How the first socket of a queue is bound. Zero-copy is for packets in one frame: kernels before 2026 put what has
/// come of a longer one into the RX ring before they find the ring full, lose the rest, and the next packet would be
/// taken for it. Where packets are copied the kernel counts the parts first (`__xsk_rcv`).
fn flags(zero_copy: ZeroCopy, native: bool, long: bool) -> u16 {
    let copy = match zero_copy {
        ZeroCopy::Yes => libc::XDP_ZEROCOPY,
        ZeroCopy::Auto if native && !long => 0,
        ZeroCopy::Auto | ZeroCopy::No => libc::XDP_COPY,
    };
    let parts = if long { libc::XDP_USE_SG } else { 0 };
    copy | libc::XDP_USE_NEED_WAKEUP | parts
}

#[cfg(test)]
mod tests {
    use libc::{XDP_COPY, XDP_USE_NEED_WAKEUP, XDP_USE_SG, XDP_ZEROCOPY};

    use super::{ZeroCopy, flags};

    #[test]
    fn packets_in_several_frames_are_copied_unless_somebody_insists() {
        let of = |zero_copy, long| flags(zero_copy, true, long) & !XDP_USE_NEED_WAKEUP;
        assert_eq!([of(ZeroCopy::Auto, false), of(ZeroCopy::No, false)], [0, XDP_COPY]);
        assert_eq!(of(ZeroCopy::Auto, true), XDP_COPY | XDP_USE_SG);
        assert_eq!(of(ZeroCopy::Yes, true), XDP_ZEROCOPY | XDP_USE_SG);
        assert_eq!(flags(ZeroCopy::Auto, false, false), XDP_COPY | XDP_USE_NEED_WAKEUP);
    }
}

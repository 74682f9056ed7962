//! The frame memory that all AF_XDP sockets share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use ebb_graph::{FRAME_LEN, Frame, Region, Reserve};

use super::memory::Shared;

/// The frame memory that all AF_XDP ports of the process share.
///
/// Every interface registers the whole region with the kernel, so a frame received on one is
/// transmitted on any other without a copy, and interfaces are independent of each other in
/// everything else. (Within one registration the kernel imposes the copy mode of the first
/// interface on all others.) The ledger knows which pair of fill and completion rings holds each
/// frame that the kernel has; when a pair is closed its frames come back.
#[derive(Debug)]
pub struct Umem {
    region: &'static Region,
    /// By frame: 0, or the number of the pair through which the kernel got it.
    ledger: &'static [AtomicU16],
    pairs: Mutex<Vec<bool>>,
    /// Where both can be mapped by another process.
    file: Option<OwnedFd>,
}

/// The frames of memory that another process is about to leave to this one.
#[derive(Debug)]
pub struct Inheritance(Arc<Umem>);

/// Number of a pair in the ledger, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairId(u16);

impl PairId {
    pub(super) fn number(self) -> u16 {
        self.0
    }
}

impl Inheritance {
    /// The frames that the kernel does not have. To be called once the other process neither
    /// reads nor writes any frame any more, and never will.
    pub fn accept(self) -> Vec<Frame> {
        let Umem { region, ledger, .. } = &*self.0;
        let free = |holder: &AtomicU16| holder.load(Ordering::Acquire) == 0;
        let addresses = (0..).step_by(FRAME_LEN).zip(ledger.iter());
        addresses
            .filter(|(_, holder)| free(holder))
            // SAFETY: no token of the region was made before, the kernel does not have the frame,
            // and the other process has given up what it had: the caller's promise.
            .map(|(address, _)| unsafe { region.take(address) })
            .collect()
    }
}

impl Umem {
    /// Frames of `region` for AF_XDP. To be made once for a region.
    pub fn new(region: &'static Region) -> Arc<Umem> {
        let ledger: Vec<AtomicU16> = (0..region.frames()).map(|_| AtomicU16::new(0)).collect();
        // Like the region it lives as long as the program.
        let ledger = ledger.leak();
        Arc::new(Umem { region, ledger, pairs: Mutex::new(vec![true]), file: None })
    }

    /// New memory that can be left to another process, and all its frames.
    ///
    /// # Errors
    /// When the system has no such memory to give.
    pub fn allocate(frames: u32) -> io::Result<(Arc<Umem>, Arc<Reserve>)> {
        let Shared { region, ledger, file } = Shared::allocate(frames)?;
        let pairs = Mutex::new(vec![true]);
        let umem = Umem { region, ledger, pairs, file: Some(file) };
        // SAFETY: the region is new, this is the only call.
        let tokens = unsafe { region.split() };
        Ok((Arc::new(umem), Reserve::new(tokens)))
    }

    /// The memory that another process has made with [`Umem::allocate`]. All frames are still
    /// that one's; they come with [`Inheritance::accept`].
    ///
    /// # Errors
    /// When the file is no memory of so many frames.
    pub fn inherit(file: OwnedFd, frames: u32) -> io::Result<(Arc<Umem>, Inheritance)> {
        let Shared { region, ledger, file } = Shared::of(file, frames)?;
        let umem = Umem { region, ledger, pairs: Mutex::new(vec![true]), file: Some(file) };
        let umem = Arc::new(umem);
        Ok((umem.clone(), Inheritance(umem)))
    }

    /// Where another process finds the memory; none for memory of [`Umem::new`].
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
    }

    /// The memory itself.
    pub fn region(&self) -> &'static Region {
        self.region
    }

    /// Frames that the kernel has at the moment.
    pub fn in_kernel(&self) -> usize {
        self.ledger.iter().filter(|holder| holder.load(Ordering::Relaxed) != 0).count()
    }

    pub(super) fn new_pair(&self) -> io::Result<PairId> {
        let mut pairs = self.pairs.lock().expect("pairs");
        let index = match pairs.iter().position(|used| !used) {
            Some(index) => index,
            None => {
                pairs.push(false);
                pairs.len() - 1
            }
        };
        let id = u16::try_from(index).map_err(|_| io::Error::other("too many queues"))?;
        pairs[index] = true;
        Ok(PairId(id))
    }

    /// Takes the number that a pair has in the ledger of the process that opened it.
    pub(super) fn inherit_pair(&self, number: u16) -> PairId {
        let mut pairs = self.pairs.lock().expect("pairs");
        let index = usize::from(number);
        if pairs.len() <= index {
            pairs.resize(index + 1, false);
        }
        assert!(!std::mem::replace(&mut pairs[index], true), "two pairs with number {number}");
        PairId(number)
    }

    pub(super) fn end_pair(&self, pair: PairId) {
        self.pairs.lock().expect("pairs")[usize::from(pair.0)] = false;
    }

    /// Notes that the kernel gets the frame at `address` through `pair`.
    #[inline]
    pub(super) fn lend(&self, address: u64, pair: PairId) {
        self.ledger[address as usize / FRAME_LEN].store(pair.0, Ordering::Relaxed);
    }

    /// The frame at `address`, which the kernel has just given back.
    ///
    /// # Panics
    /// When the kernel did not have it: two owners of one frame would corrupt packets.
    #[inline]
    pub(super) fn take_back(&self, address: u64) -> Frame {
        let holder = &self.ledger[address as usize / FRAME_LEN];
        assert_ne!(holder.load(Ordering::Relaxed), 0, "frame {address:#x} came back twice");
        holder.store(0, Ordering::Relaxed);
        // SAFETY: the ledger says that the kernel had the frame, its token was given up in `lend`'s
        // caller, and the kernel has just passed the address back through a ring.
        unsafe { self.region.take(address) }
    }

    /// Every frame that the kernel got through `pair` and never gave back.
    ///
    /// # Safety
    /// All sockets of the pair are closed: the kernel has let go of its frames.
    pub(super) unsafe fn reclaim(&self, pair: PairId, mut f: impl FnMut(Frame)) {
        for index in 0..self.ledger.len() {
            if self.ledger[index].load(Ordering::Relaxed) == pair.0 {
                f(self.take_back((index * FRAME_LEN) as u64));
            }
        }
    }
}

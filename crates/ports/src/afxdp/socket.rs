//! One socket on one queue, and the fill and completion rings that the sockets of a queue share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use ebb_graph::{Batch, FRAME_LEN, Pool};

use super::ring::{ConsumerRing, Descriptor, Indices, ProducerRing};
use super::sys::{self, MapOffsets};
use super::umem::{PairId, Umem};

/// Free places in a fill ring that make refilling worthwhile.
const REFILL_MIN: u32 = 64;

/// The fill and completion rings of one (interface, queue).
#[derive(Debug)]
pub(super) struct Pair {
    umem: Arc<Umem>,
    id: PairId,
    rings: Mutex<PairRings>,
    fill: Indices,
    completion: Indices,
    fill_len: u32,
    zero_copy: bool,
}

#[derive(Debug)]
struct PairRings {
    fill: ProducerRing<u64>,
    completion: ConsumerRing<u64>,
    /// Another process has used them until now.
    inherited: bool,
}

/// The parts of a queue's first socket before it is bound.
pub(super) struct PairParts {
    rings: PairRings,
    fill_len: u32,
}

impl PairParts {
    pub(super) fn new(fd: BorrowedFd<'_>, ring_len: u32) -> io::Result<PairParts> {
        sys::set_ring(fd, libc::XDP_UMEM_FILL_RING, ring_len)?;
        sys::set_ring(fd, libc::XDP_UMEM_COMPLETION_RING, completion_len(ring_len))?;
        PairParts::map(fd, ring_len, false)
    }

    /// Those that another process has made.
    pub(super) fn inherit(fd: BorrowedFd<'_>, ring_len: u32) -> io::Result<PairParts> {
        PairParts::map(fd, ring_len, true)
    }

    fn map(fd: BorrowedFd<'_>, ring_len: u32, inherited: bool) -> io::Result<PairParts> {
        let offsets = sys::map_offsets(fd)?;
        let (page, at) = (libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &offsets.fill);
        let fill = ProducerRing::map(fd, page, at, ring_len)?;
        let (page, at) = (libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, &offsets.completion);
        let completion = ConsumerRing::map(fd, page, at, completion_len(ring_len))?;
        Ok(PairParts { rings: PairRings { fill, completion, inherited }, fill_len: ring_len })
    }
}

/// Completions of all workers' packets arrive in one ring; packets in the kernel are bounded by it.
fn completion_len(ring_len: u32) -> u32 {
    ring_len * 2
}

impl Pair {
    pub(super) fn new(
        umem: &Arc<Umem>,
        id: PairId,
        parts: PairParts,
        zero_copy: bool,
    ) -> Arc<Pair> {
        let PairParts { rings, fill_len } = parts;
        Arc::new(Pair {
            umem: umem.clone(),
            id,
            fill: rings.fill.indices().clone(),
            completion: rings.completion.indices().clone(),
            rings: Mutex::new(rings),
            fill_len,
            zero_copy,
        })
    }

    /// Goes on where the process stopped that had the rings, if that is still to be done. To be
    /// called by each worker before it uses them.
    pub(super) fn resume(&self) {
        let mut rings = self.rings.lock().expect("rings");
        if std::mem::take(&mut rings.inherited) {
            rings.fill.resume();
            rings.completion.resume();
        }
    }

    /// Takes transmitted frames back and gives the kernel frames to receive into. When another
    /// worker is at it, this one goes on.
    #[inline]
    pub(super) fn service(&self, pool: &mut Pool) {
        let room = self.fill_len.wrapping_sub(self.fill.len());
        let wanted = room >= REFILL_MIN.min(self.fill_len) || self.completion.len() > 0;
        if wanted && let Ok(mut rings) = self.rings.try_lock() {
            self.exchange(&mut rings, pool);
        }
    }

    fn exchange(&self, rings: &mut PairRings, pool: &mut Pool) {
        let count = rings.completion.available();
        for _ in 0..count {
            pool.put(self.umem.take_back(rings.completion.pop()));
        }
        if count > 0 {
            rings.completion.release();
        }
        let mut posted = 0;
        for _ in 0..rings.fill.free(self.fill_len) {
            let Some(frame) = pool.get() else { break };
            let address = self.umem.region().address(&frame);
            self.umem.lend(address, self.id);
            rings.fill.push(address);
            posted += 1;
        }
        if posted > 0 {
            rings.fill.publish();
        }
    }

    pub(super) fn receive_needs_kick(&self) -> bool {
        self.fill.need_wakeup()
    }
}

/// One worker's socket on one queue.
#[derive(Debug)]
pub(super) struct Socket {
    rx: ConsumerRing<Descriptor>,
    tx: ProducerRing<Descriptor>,
    fd: Arc<OwnedFd>,
    pair: Arc<Pair>,
    /// Place in the program's map of sockets.
    pub(super) key: u32,
    /// Packets that waited at the last mark and have not been received since.
    marked: u32,
}

/// The RX and TX rings of a socket before it is bound.
pub(super) struct SocketParts {
    rx: ConsumerRing<Descriptor>,
    tx: ProducerRing<Descriptor>,
}

impl SocketParts {
    pub(super) fn new(fd: BorrowedFd<'_>, ring_len: u32) -> io::Result<SocketParts> {
        sys::set_ring(fd, libc::XDP_RX_RING, ring_len)?;
        sys::set_ring(fd, libc::XDP_TX_RING, ring_len)?;
        sys::raise_transmit_limits(fd, ring_len);
        SocketParts::map(fd, ring_len)
    }

    /// Those of a socket that another process has bound.
    pub(super) fn map(fd: BorrowedFd<'_>, ring_len: u32) -> io::Result<SocketParts> {
        let offsets: MapOffsets = sys::map_offsets(fd)?;
        let (page, at) = (libc::XDP_PGOFF_RX_RING, &offsets.rx);
        let rx = ConsumerRing::map(fd, page, at, ring_len)?;
        let (page, at) = (libc::XDP_PGOFF_TX_RING, &offsets.tx);
        let tx = ProducerRing::map(fd, page, at, ring_len)?;
        Ok(SocketParts { rx, tx })
    }
}

impl Socket {
    /// A socket that has been bound.
    pub(super) fn new(fd: OwnedFd, parts: SocketParts, pair: Arc<Pair>, key: u32) -> Socket {
        let SocketParts { rx, tx } = parts;
        Socket { rx, tx, fd: Arc::new(fd), pair, key, marked: 0 }
    }

    /// The socket for another process, as long as it is open here.
    pub(super) fn handle(&self) -> Weak<OwnedFd> {
        Arc::downgrade(&self.fd)
    }

    /// See [`Pair::resume`].
    pub(super) fn resume(&mut self) {
        self.rx.resume();
        self.tx.resume();
        self.pair.resume();
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let count = self.rx.available().min(max as u32);
        for _ in 0..count {
            let descriptor = self.rx.pop();
            let frame = self.pair.umem.take_back(descriptor.address);
            let offset = descriptor.address as usize & (FRAME_LEN - 1);
            batch.push(frame.into_packet(offset, descriptor.len as usize));
        }
        if count > 0 {
            self.rx.release();
            self.marked = self.marked.saturating_sub(count);
        }
        count as usize
    }

    pub(super) fn mark(&mut self) {
        self.marked = self.queue_len();
    }

    pub(super) fn marked(&self) -> u32 {
        self.marked
    }

    #[inline]
    pub(super) fn transmit(&mut self, batch: &mut Batch) -> usize {
        let wanted = batch.len() as u32;
        let count = self.tx.free(wanted).min(wanted);
        for packet in batch.drain(..count as usize) {
            let address = self.pair.umem.region().packet_address(&packet);
            let len = packet.len() as u32;
            self.pair.umem.lend(address, self.pair.id);
            // The token ends here: its address in the ring stands for it from now on.
            let _ = packet;
            self.tx.push(Descriptor { address, len, options: 0 });
        }
        if count > 0 {
            self.tx.publish();
        }
        count as usize
    }

    #[inline]
    pub(super) fn queue_len(&self) -> u32 {
        self.rx.indices().len()
    }

    #[inline]
    pub(super) fn transmit_pending(&self) -> u32 {
        self.tx.indices().len()
    }

    /// Makes the kernel send what is pending, as far as it can at the moment.
    ///
    /// In copy mode one call sends at most as many packets as the budget of the socket (32, see
    /// [`sys::raise_transmit_limits`]) and stops early where the interface drops one, hence the
    /// loop; it ends when a call has made no progress.
    #[inline]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut pending = self.transmit_pending();
        while pending > 0 && self.tx.indices().need_wakeup() {
            let result = sys::kick_transmit(self.fd());
            if let Err(error) = result {
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                    _ => return Err(error),
                }
            }
            let left = self.transmit_pending();
            if left >= pending {
                break;
            }
            pending = left;
        }
        Ok(())
    }

    pub(super) fn statistics(&self) -> io::Result<sys::Statistics> {
        sys::statistics(self.fd())
    }

    /// Closes the socket; the last one of a queue takes all frames back that the kernel had.
    pub(super) fn close(mut self, pool: &mut Pool) {
        let mut batch = Batch::new();
        while self.receive(&mut batch, Batch::RECEIVE_MAX) > 0 {
            pool.put_batch(&mut batch);
        }
        let Socket { rx, tx, fd, pair, .. } = self;
        // The kernel's socket lives as long as its descriptor or a mapping of a ring.
        drop((rx, tx, fd));
        let Some(pair) = Arc::into_inner(pair) else { return };
        let Pair { umem, id, rings, fill, completion, zero_copy, .. } = pair;
        drop((rings, fill, completion));
        if zero_copy {
            // The kernel stops the NIC's queue in a work item after the last socket is closed.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        // SAFETY: the queue's sockets are closed and their rings unmapped.
        unsafe { umem.reclaim(id, |frame| pool.put(frame)) };
        umem.end_pair(id);
    }
}

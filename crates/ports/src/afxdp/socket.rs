//! One socket on one queue, and the fill and completion rings that the sockets of a queue share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use ebb_graph::{Batch, FRAME_LEN, HEADROOM, Packet, Pool};
use ebb_wire::unfinished;

use super::ring::{ConsumerRing, Descriptor, Indices, ProducerRing};
use super::sys::{self, MapOffsets};
use super::umem::{PairId, Umem};

/// Frames missing from a fill ring that make refilling worthwhile.
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
    /// [`Depth::now`], to be looked at without the lock.
    depth: AtomicU32,
    zero_copy: bool,
    /// What stands before a packet tells the kernel what to do with it.
    metadata: bool,
}

#[derive(Debug)]
struct PairRings {
    fill: ProducerRing<u64>,
    completion: ConsumerRing<u64>,
    depth: Depth,
    /// Another process has used them until now.
    inherited: bool,
}

/// The parts of a queue's first socket before it is bound.
pub(super) struct PairParts {
    rings: PairRings,
    fill_len: u32,
}

impl PairParts {
    pub(super) fn new(fd: BorrowedFd<'_>, ring_len: u32, fill_min: u32) -> io::Result<PairParts> {
        sys::set_ring(fd, libc::XDP_UMEM_FILL_RING, ring_len)?;
        sys::set_ring(fd, libc::XDP_UMEM_COMPLETION_RING, completion_len(ring_len))?;
        PairParts::map(fd, (ring_len, fill_min), false)
    }

    /// Those that another process has made.
    pub(super) fn inherit(
        fd: BorrowedFd<'_>,
        ring_len: u32,
        fill_min: u32,
    ) -> io::Result<PairParts> {
        PairParts::map(fd, (ring_len, fill_min), true)
    }

    fn map(
        fd: BorrowedFd<'_>,
        (ring_len, fill_min): (u32, u32),
        inherited: bool,
    ) -> io::Result<PairParts> {
        let offsets = sys::map_offsets(fd)?;
        let (page, at) = (libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &offsets.fill);
        let fill = ProducerRing::map(fd, page, at, ring_len)?;
        let (page, at) = (libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, &offsets.completion);
        let completion = ConsumerRing::map(fd, page, at, completion_len(ring_len))?;
        let depth = Depth::new(fill_min, ring_len);
        let rings = PairRings { fill, completion, depth, inherited };
        Ok(PairParts { rings, fill_len: ring_len })
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
        (zero_copy, metadata): (bool, bool),
    ) -> Arc<Pair> {
        let PairParts { rings, fill_len } = parts;
        Arc::new(Pair {
            umem: umem.clone(),
            id,
            fill: rings.fill.indices().clone(),
            completion: rings.completion.indices().clone(),
            depth: AtomicU32::new(rings.depth.now),
            rings: Mutex::new(rings),
            fill_len,
            zero_copy,
            // The kernel's own copying understands it; of drivers only a few do.
            metadata: metadata && !zero_copy,
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
        let missing = self.depth.load(Relaxed).saturating_sub(self.fill.len());
        let wanted = missing >= REFILL_MIN || self.completion.len() > 0;
        if wanted && let Ok(mut rings) = self.rings.try_lock() {
            rings.depth.left(self.fill.len());
            self.depth.store(rings.depth.now, Relaxed);
            let depth = rings.depth.now;
            self.exchange(&mut rings, depth, pool);
        }
    }

    /// Gives the kernel as many frames as the ring holds: nobody may look after it for a while.
    #[inline]
    pub(super) fn brim(&self, pool: &mut Pool) {
        if self.fill_len.saturating_sub(self.fill.len()) >= REFILL_MIN
            && let Ok(mut rings) = self.rings.try_lock()
        {
            self.exchange(&mut rings, self.fill_len, pool);
        }
    }

    fn exchange(&self, rings: &mut PairRings, depth: u32, pool: &mut Pool) {
        let count = rings.completion.available();
        for _ in 0..count {
            pool.put(self.umem.take_back(rings.completion.pop()));
        }
        if count > 0 {
            rings.completion.release();
        }
        let there = self.fill_len - rings.fill.free(self.fill_len);
        let mut posted = 0;
        for _ in there..depth {
            let Some(frame) = pool.get() else { break };
            let address = self.umem.region().address(&frame);
            self.umem.lend(address, self.id);
            rings.fill.push(address);
            posted += 1;
        }
        if posted > 0 {
            rings.fill.publish();
        }
        rings.depth.posted(posted);
    }

    #[inline]
    pub(super) fn metadata(&self) -> bool {
        self.metadata
    }

    pub(super) fn receive_needs_kick(&self) -> bool {
        self.fill.need_wakeup()
    }
}

/// How many frames the kernel gets to receive into.
///
/// The kernel takes them in turn, so that with a ring filled to the brim as many frames go round as
/// it has places, with what the kernel keeps of each: more than caches hold. A few batches do while
/// somebody looks after the ring all the time. Where they ran low the next look may come as late, and
/// twice as many are posted from then on.
#[derive(Debug)]
struct Depth {
    now: u32,
    least: u32,
    most: u32,
    /// Frames posted since half of them were last used up between two looks.
    calm: u32,
}

impl Depth {
    /// Frames posted in calm after which half of them have to do.
    const CALM: u32 = 1 << 20;

    fn new(least: u32, ring_len: u32) -> Depth {
        let least = least.clamp(REFILL_MIN.min(ring_len), ring_len);
        Depth { now: least, least, most: ring_len, calm: 0 }
    }

    /// Takes note of how many are left when the ring is looked at.
    fn left(&mut self, left: u32) {
        if left < self.now / 4 {
            self.now = (self.now * 2).min(self.most);
            self.calm = 0;
        } else if left < self.now / 2 {
            self.calm = 0;
        }
    }

    fn posted(&mut self, count: u32) {
        self.calm = self.calm.saturating_add(count);
        if self.calm >= Depth::CALM {
            self.now = (self.now / 2).max(self.least);
            self.calm = 0;
        }
    }
}

/// Tells the kernel, before the packet, where to compute its checksum; the descriptor's options that
/// say so (`struct xsk_tx_metadata` in `linux/if_xdp.h`).
#[inline]
fn leave_checksum(packet: &mut Packet) -> u32 {
    unfinished(packet.data()).map_or(0, |place| leave_at(packet, &place))
}

fn leave_at(packet: &mut Packet, place: &ebb_wire::Unfinished) -> u32 {
    const CHECKSUM: u64 = 1 << 1;
    const OPTION: u32 = 1 << 1;
    let before = packet.before_mut(sys::METADATA_LEN as usize);
    before[..8].copy_from_slice(&CHECKSUM.to_ne_bytes());
    before[8..10].copy_from_slice(&place.start.to_ne_bytes());
    before[10..12].copy_from_slice(&place.field.to_ne_bytes());
    OPTION
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
    /// What has come of a packet that goes on.
    parts: Vec<Packet>,
    /// Packets for which there was no long frame.
    unheld: u64,
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
        Socket { rx, tx, fd: Arc::new(fd), pair, key, marked: 0, parts: Vec::new(), unheld: 0 }
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
    pub(super) fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        let before = batch.len();
        let count = self.rx.available().min(max as u32);
        for _ in 0..count {
            let descriptor = self.rx.pop();
            let start = descriptor.start();
            let frame = self.pair.umem.take_back(start);
            let offset = start as usize & (FRAME_LEN - 1);
            let packet = frame.into_packet(offset, descriptor.len as usize);
            if descriptor.options & Descriptor::GOES_ON != 0 || !self.parts.is_empty() {
                self.parts.push(packet);
                if descriptor.options & Descriptor::GOES_ON == 0 {
                    self.join(pool, batch);
                }
                continue;
            }
            packet.prefetch();
            batch.push(packet);
        }
        if count > 0 {
            self.rx.release();
            self.marked = self.marked.saturating_sub(count);
        }
        batch.len() - before
    }

    /// The last part of a packet has come.
    #[cold]
    fn join(&mut self, pool: &mut Pool, batch: &mut Batch) {
        match pool.gather(&mut self.parts) {
            Some(packet) => batch.push(packet),
            None => self.unheld += 1,
        }
    }

    pub(super) fn mark(&mut self) {
        self.marked = self.queue_len();
    }

    pub(super) fn marked(&self) -> u32 {
        self.marked
    }

    #[inline]
    pub(super) fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if pool.has_long() && batch.iter().any(|packet| !self.lends(packet)) {
            return self.transmit_long(pool, batch);
        }
        let wanted = batch.len() as u32;
        let count = self.tx.free(wanted).min(wanted);
        let metadata = self.pair.metadata;
        for mut packet in batch.drain(..count as usize) {
            let left = metadata && packet.flags & Packet::LEFT != 0;
            let options = if left { leave_checksum(&mut packet) } else { 0 };
            self.lend(packet, options);
        }
        if count > 0 {
            self.tx.publish();
        }
        count as usize
    }

    #[inline(always)]
    fn lend(&mut self, packet: Packet, options: u32) {
        let address = self.pair.umem.region().packet_address(&packet);
        let len = packet.len() as u32;
        self.pair.umem.lend(address, self.pair.id);
        // The token ends here: its address in the ring stands for it from now on.
        let _ = packet;
        self.tx.push(Descriptor { address, len, options });
    }

    /// Whether the kernel may have the packet's own frame.
    fn lends(&self, packet: &Packet) -> bool {
        self.pair.umem.region().holds(packet)
    }

    /// The same where there are packets in long frames: they leave in parts.
    #[cold]
    fn transmit_long(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut taken = 0;
        while let Some(packet) = batch.get_mut(taken) {
            let own = self.lends(packet);
            let parts = if own { 1 } else { packet.len().div_ceil(FRAME_LEN - HEADROOM) } as u32;
            if self.tx.free(parts) < parts || !own && !pool.has(parts as usize) {
                break;
            }
            taken += 1;
            let left = self.pair.metadata && packet.flags & Packet::LEFT != 0;
            let place = if left { unfinished(packet.data()) } else { None };
            if own {
                let options = place.map_or(0, |place| leave_at(packet, &place));
                let (address, len) = (self.pair.umem.region().packet_address(packet), packet.len());
                self.pair.umem.lend(address, self.pair.id);
                self.tx.push(Descriptor { address, len: len as u32, options });
                continue;
            }
            let mut chunks = packet.data().chunks(FRAME_LEN - HEADROOM).enumerate().peekable();
            while let Some((at, bytes)) = chunks.next() {
                let mut part = pool.get().expect("as many as are there").fill(bytes);
                let first = place.as_ref().filter(|_| at == 0);
                let options = first.map_or(0, |place| leave_at(&mut part, place));
                let goes_on = if chunks.peek().is_some() { Descriptor::GOES_ON } else { 0 };
                self.lend(part, options | goes_on);
            }
        }
        for packet in batch.drain(..taken) {
            // The others' frames are the kernel's by now.
            if !self.pair.umem.region().holds(&packet) {
                pool.put(packet.into_frame());
            }
        }
        if taken > 0 {
            self.tx.publish();
        }
        taken
    }

    #[inline]
    pub(super) fn queue_len(&self) -> u32 {
        self.rx.indices().len()
    }

    #[inline]
    pub(super) fn transmit_pending(&self) -> u32 {
        self.tx.indices().len()
    }

    /// Packets that the kernel has not taken whole.
    pub(super) fn unsent(&self) -> u64 {
        Descriptor::packets(self.tx.pending())
    }

    /// Packets that came and found no long frame.
    #[inline]
    pub(super) fn unheld(&self) -> u64 {
        self.unheld
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
        let seen = sys::statistics(self.fd())?;
        Ok(sys::Statistics { rx_dropped: seen.rx_dropped + self.unheld, ..seen })
    }

    /// Closes the socket; the last one of a queue takes all frames back that the kernel had.
    pub(super) fn close(mut self, pool: &mut Pool) {
        let mut batch = Batch::new();
        while self.queue_len() > 0 {
            self.receive(pool, &mut batch, Batch::RECEIVE_MAX);
            pool.put_batch(&mut batch);
        }
        pool.put_batch(&mut self.parts);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Depth;

    #[test]
    fn frames_that_run_low_become_more_up_to_the_ring_and_fewer_in_calm() {
        let mut depth = Depth::new(256, 2048);
        assert_eq!(depth.now, 256);
        depth.left(64);
        assert_eq!(depth.now, 256, "a quarter is left");
        for wanted in [512, 1024, 2048, 2048] {
            depth.left(0);
            assert_eq!(depth.now, wanted);
        }
        depth.posted(Depth::CALM - 1);
        depth.left(1000);
        depth.posted(Depth::CALM - 1);
        assert_eq!(depth.now, 2048, "half of them were used up meanwhile");
        for wanted in [1024, 512, 256, 256] {
            depth.posted(Depth::CALM);
            assert_eq!(depth.now, wanted);
        }
    }

    proptest! {
        #[test]
        fn the_depth_stays_between_its_bounds(
            least in 0u32..5000,
            bits in 6u32..14,
            looks in prop::collection::vec((any::<u32>(), any::<u32>()), 0..100),
        ) {
            let ring_len = 1 << bits;
            let mut depth = Depth::new(least, ring_len);
            for (left, posted) in looks {
                depth.left(left % ring_len);
                depth.posted(posted);
                prop_assert!((64..=ring_len).contains(&depth.now), "{depth:?}");
            }
        }
    }
}

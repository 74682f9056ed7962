//! Frame memory: one [`Region`] of equal frames, owned tokens for them, and packets in them.
//!
//! Every frame of a region has exactly one owner at any time: a [`Frame`] or [`Packet`] value, or
//! the kernel while its address is in an AF_XDP ring. Tokens are neither `Clone` nor `Copy`; the
//! two ways to make one from an address ([`Region::take`] and [`Region::split`]) state that rule.
//! A token that is dropped loses its frame for good (the memory stays valid), which the workers'
//! frame accounting finds in tests.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use ebb_units::Time;

use crate::DropReason;

/// Bytes of one frame, headroom included.
pub const FRAME_LEN: usize = 2048;
/// Free bytes in front of a packet when it is received: metadata, encapsulation, ICMP headers.
pub const HEADROOM: usize = 256;

/// A huge page; a region's size and alignment are whole multiples of it.
pub const REGION_ALIGN: usize = 2 << 20;

/// `len` zeroes, backed by huge pages where the system has them: for tables that are read all over the place, of
/// which nearly every page would miss the translation buffer otherwise.
pub fn zeroes(len: usize) -> Vec<u64> {
    let zeroes = vec![0u64; len];
    let page = REGION_ALIGN;
    let begin = zeroes.as_ptr().addr().next_multiple_of(page);
    let end = zeroes.as_ptr().wrapping_add(len).addr() / page * page;
    if begin < end {
        let start = zeroes.as_ptr().wrapping_byte_add(begin - zeroes.as_ptr().addr());
        // SAFETY: the range lies within the vector's own memory; the advice changes no content and may be refused.
        unsafe { libc::madvise(start.cast_mut().cast(), end - begin, libc::MADV_HUGEPAGE) };
    }
    zeroes
}

/// Number of a port in the router's configuration order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// Contiguous memory cut into frames of [`FRAME_LEN`] bytes; an AF_XDP UMEM where ports need one.
///
/// A region lives as long as the program: tokens can then never outlive their memory.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    frames: u32,
}

// SAFETY: a region hands out disjoint frames as owned tokens; it reads and writes nothing itself.
unsafe impl Send for Region {}
// SAFETY: as above, shared references give no access to the bytes.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates `frames` frames of zeroes, backed by huge pages where the system has them.
    ///
    /// # Panics
    /// When `frames` is zero.
    pub fn new(frames: u32) -> &'static Region {
        assert!(frames > 0, "a region needs at least one frame");
        let bytes = (frames as usize * FRAME_LEN).next_multiple_of(REGION_ALIGN);
        let layout = Layout::from_size_align(bytes, REGION_ALIGN).expect("region size overflows");
        // SAFETY: the layout has a non-zero size.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: the range was just allocated; the advice changes no content and may be refused.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Box::leak(Box::new(Region { base, frames }))
    }

    /// A region over memory of the caller's: such as several processes share.
    ///
    /// # Panics
    /// When `frames` is zero or `base` is not aligned to a huge page.
    ///
    /// # Safety
    /// `base` leads to readable and writable memory for `frames` frames that stays mapped until
    /// the process ends, and that is used through this region alone.
    pub unsafe fn over(base: NonNull<u8>, frames: u32) -> &'static Region {
        assert!(frames > 0, "a region needs at least one frame");
        assert!(base.as_ptr().addr().is_multiple_of(REGION_ALIGN), "memory at {base:?}");
        Box::leak(Box::new(Region { base, frames }))
    }

    /// First byte of the region, aligned to a huge page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes from the first frame to the end of the last.
    pub fn bytes(&self) -> usize {
        self.frames as usize * FRAME_LEN
    }

    /// Every frame of the region as tokens.
    ///
    /// # Safety
    /// To be called once per region: a second call would give a second owner to each frame.
    pub unsafe fn split(&'static self) -> Vec<Frame> {
        (0..self.frames)
            // SAFETY: each address is taken once here, and the caller calls this once.
            .map(|index| unsafe { self.take(u64::from(index) * FRAME_LEN as u64) })
            .collect()
    }

    /// The token for the frame that holds byte `address` of the region.
    ///
    /// # Panics
    /// When `address` lies beyond the region.
    ///
    /// # Safety
    /// No other token for this frame exists: the kernel has just given its address back.
    pub unsafe fn take(&'static self, address: u64) -> Frame {
        let start = address as usize & !(FRAME_LEN - 1);
        assert!(start < self.bytes(), "frame address {address:#x} beyond the region");
        // SAFETY: `start` is inside the allocation.
        Frame { start: unsafe { self.base.add(start) } }
    }

    /// Byte offset of `frame` in the region.
    pub fn address(&self, frame: &Frame) -> u64 {
        (frame.start.as_ptr() as usize - self.base.as_ptr() as usize) as u64
    }

    /// Byte offset of the packet's first byte in the region.
    pub fn packet_address(&self, packet: &Packet) -> u64 {
        (packet.data.as_ptr() as usize - self.base.as_ptr() as usize) as u64
    }
}

/// An owned frame without a packet in it.
#[derive(Debug)]
#[must_use = "a dropped frame is lost to its region"]
pub struct Frame {
    start: NonNull<u8>,
}

// SAFETY: the token is the only owner of its bytes.
unsafe impl Send for Frame {}

impl Frame {
    /// A packet of `len` bytes that begins `offset` bytes into the frame.
    ///
    /// # Panics
    /// When the packet would reach beyond the frame.
    #[inline]
    pub fn into_packet(self, offset: usize, len: usize) -> Packet {
        assert!(offset + len <= FRAME_LEN, "packet of {len} bytes at {offset} beyond its frame");
        Packet {
            // SAFETY: `offset` is within the frame.
            data: unsafe { self.start.add(offset) },
            rx_time: Time::ZERO,
            len: len as u16,
            l3: 0,
            flags: 0,
            input: PortId(0),
            output: PortId(0),
            reason: DropReason::Truncated,
            kind: 0,
            interface: 0,
            vlan: 0,
            key: 0,
        }
    }

    /// A packet that holds a copy of `bytes` behind the usual headroom.
    ///
    /// # Panics
    /// When `bytes` is longer than `FRAME_LEN - HEADROOM`.
    #[inline]
    pub fn fill(self, bytes: &[u8]) -> Packet {
        let mut packet = self.into_packet(HEADROOM, bytes.len());
        packet.data_mut().copy_from_slice(bytes);
        packet
    }
}

/// Asks for the first cache line of something that will be read soon.
#[inline(always)]
pub fn prefetch<T>(of: &T) {
    prefetch_at(core::ptr::from_ref(of).cast());
}

#[inline(always)]
fn prefetch_at(_at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_at.cast()) };
    }
}

/// A packet: the bytes from its Ethernet header on, and what the nodes found out about it. What is set
/// together stands together.
#[derive(Debug)]
#[repr(C)]
#[must_use = "a dropped packet's frame is lost to its region"]
pub struct Packet {
    data: NonNull<u8>,
    /// When the driver saw the packet, for the sampled few; [`Time::ZERO`] for all others.
    pub rx_time: Time,
    len: u16,
    /// Application's number of the layer-3 interface it arrived on.
    pub interface: u16,
    /// VLAN identifier it arrived with, 0 for none.
    pub vlan: u16,
    /// Offset of the network header from the first byte.
    pub l3: u8,
    /// Free for the application: of which kind the packet is, such as the version of IP.
    pub kind: u8,
    /// Free for the application, as [`Packet::kind`]: what a later node has to know, such as what it asks
    /// a table for, so that it need not touch the frame again.
    pub key: u32,
    /// Bits of [`Packet::ORIGINATED`], [`Packet::UNFINISHED`] and [`Packet::LEFT`]; applications may
    /// use others.
    pub flags: u8,
    /// Where it arrived.
    pub input: PortId,
    /// Where it leaves.
    pub output: PortId,
    /// Why it is dropped, valid at the drop exit.
    pub reason: DropReason,
}

/// Half a cache line: two move as one.
const _: () = assert!(size_of::<Packet>() == 32);

// SAFETY: the packet is the only owner of its frame's bytes.
unsafe impl Send for Packet {}

impl Packet {
    /// Flag: made by the router itself (an ICMP error), not counted as forwarded.
    pub const ORIGINATED: u8 = 1;
    /// Flag: came from a link whose senders may leave checksums to hardware that is not there.
    pub const UNFINISHED: u8 = 2;
    /// Flag, beside the former: a checksum may be left to where the packet is sent, and, once the
    /// application has looked, is left to there.
    pub const LEFT: u8 = 4;

    /// The bytes, from the Ethernet header on.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `data .. data + len` lies in the frame this packet owns.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    /// The bytes, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }

    /// First byte, for prefetching and rings.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// Packets between the one that is looked at and the one to [`Packet::prefetch`].
    pub const AHEAD: usize = 6;

    /// Asks for the packet's first cache line, which will be read soon.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_at(self.data.as_ptr());
    }

    /// Length in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Free bytes in front of the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.data.as_ptr() as usize & (FRAME_LEN - 1)
    }

    /// Most bytes the packet could have without moving its start.
    #[inline]
    pub fn capacity(&self) -> usize {
        FRAME_LEN - self.headroom()
    }

    /// Cuts or extends the packet at its end; new bytes hold whatever the frame held.
    ///
    /// # Panics
    /// When `len` exceeds [`Packet::capacity`].
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length {len} beyond the frame");
        self.len = len as u16;
    }

    /// Adds `count` bytes in front.
    ///
    /// # Panics
    /// When the headroom is smaller.
    #[inline]
    pub fn push_front(&mut self, count: usize) {
        assert!(count <= self.headroom(), "{count} bytes beyond the headroom");
        // SAFETY: still within the frame by the assertion.
        self.data = unsafe { self.data.sub(count) };
        self.len += count as u16;
    }

    /// Removes `count` bytes in front.
    ///
    /// # Panics
    /// When the packet is shorter.
    #[inline]
    pub fn pull_front(&mut self, count: usize) {
        assert!(count <= self.len as usize, "{count} bytes from a packet of {}", self.len);
        // SAFETY: within the packet, hence within the frame.
        self.data = unsafe { self.data.add(count) };
        self.len -= count as u16;
    }

    /// The `count` bytes in front of the packet, where drivers leave metadata.
    ///
    /// # Panics
    /// When the headroom is smaller.
    #[inline]
    pub fn before_mut(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= self.headroom(), "{count} bytes beyond the headroom");
        // SAFETY: within the frame by the assertion; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().sub(count), count) }
    }

    /// Gives the frame back and forgets the packet.
    #[inline]
    pub fn into_frame(self) -> Frame {
        let offset = self.headroom();
        // SAFETY: rounds down to the start of the frame this packet owns.
        Frame { start: unsafe { self.data.sub(offset) } }
    }
}

/// Moves the packets for which `leaves` names a port and a length to the end of that port's list of `to`, or
/// of the one that the bits of its number in `mask` name, cut to that length; the others stay, in order.
///
/// Whole, from memory to memory, and set where they go: what has just been written in parts, or taken apart
/// by an iterator, the processor is slow to read as a whole (store forwarding).
///
/// # Panics
/// When there is no such list, or `leaves` does; packets are lost then.
#[inline(always)]
pub(crate) fn move_leaving(
    packets: &mut Vec<Packet>,
    to: &mut [impl AsMut<Vec<Packet>>],
    mask: usize,
    mut leaves: impl FnMut(&mut Packet) -> Option<(PortId, usize)>,
) {
    let count = packets.len();
    let from = packets.as_mut_ptr();
    // SAFETY: fewer than there are; nobody else sees those beyond until they have been moved or counted in.
    unsafe { packets.set_len(0) };
    let mut kept = 0;
    for at in 0..count {
        if at + Packet::AHEAD < count {
            // SAFETY: below the length that the list had, and not moved yet.
            unsafe { (*from.add(at + Packet::AHEAD)).prefetch() };
        }
        // SAFETY: `at` is below the length that the list had, and this packet has not been moved yet.
        let packet = unsafe { &mut *from.add(at) };
        let Some((output, len)) = leaves(packet) else {
            // SAFETY: at or before `at`, and the packet it leaves behind is never read again.
            unsafe { core::ptr::copy(packet, from.add(kept), 1) };
            kept += 1;
            continue;
        };
        let len = packet.len().min(len);
        let list = to[output.0 as usize & mask].as_mut();
        let end = list.len();
        if end == list.capacity() {
            list.reserve(count - at);
        }
        // SAFETY: there is room for one more, which is written before it is counted in; it leaves a packet
        // behind that is never read again.
        let moved = unsafe {
            let place = list.as_mut_ptr().add(end);
            core::ptr::copy_nonoverlapping(packet, place, 1);
            list.set_len(end + 1);
            &mut *place
        };
        moved.output = output;
        moved.len = len as u16;
    }
    // SAFETY: so many packets stand at the front again, each once.
    unsafe { packets.set_len(kept) };
}

/// Free frames shared by all workers; pools exchange whole handfuls with it.
#[derive(Debug, Default)]
pub struct Reserve(Mutex<Vec<Frame>>);

impl Reserve {
    /// A reserve that holds `frames`.
    pub fn new(frames: Vec<Frame>) -> Arc<Reserve> {
        Arc::new(Reserve(Mutex::new(frames)))
    }

    /// A new region, and all its frames in a reserve.
    pub fn allocate(frames: u32) -> (&'static Region, Arc<Reserve>) {
        let region = Region::new(frames);
        // SAFETY: the region is new, this is the only call.
        let tokens = unsafe { region.split() };
        (region, Reserve::new(tokens))
    }

    /// Adds frames, for the next pool that runs short.
    pub fn add(&self, mut frames: Vec<Frame>) {
        self.0.lock().expect("reserve").append(&mut frames);
    }

    /// Number of frames in the reserve.
    pub fn len(&self) -> usize {
        self.0.lock().expect("reserve").len()
    }

    /// Whether the reserve has no frame.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One worker's free frames.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    reserve: Arc<Reserve>,
}

impl Pool {
    /// Frames moved to or from the reserve at a time.
    const HANDFUL: usize = 512;
    /// Frames a pool keeps before it gives a handful back.
    const KEEP_MAX: usize = 2048;

    /// An empty pool that draws on `reserve`.
    pub fn new(reserve: Arc<Reserve>) -> Pool {
        Pool { free: Vec::with_capacity(Self::KEEP_MAX + Self::HANDFUL), reserve }
    }

    /// A pool of its own with `frames` fresh frames, for tests, captures and benchmarks.
    pub fn standalone(frames: u32) -> Pool {
        Pool::new(Reserve::allocate(frames).1)
    }

    /// A free frame, or `None` when pool and reserve are empty.
    #[inline]
    pub fn get(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.refill();
        }
        self.free.pop()
    }

    #[cold]
    fn refill(&mut self) {
        let mut reserve = self.reserve.0.lock().expect("reserve");
        let from = reserve.len().saturating_sub(Self::HANDFUL);
        self.free.extend(reserve.drain(from..));
    }

    /// Takes a frame back.
    #[inline]
    pub fn put(&mut self, frame: Frame) {
        if self.free.len() >= Self::KEEP_MAX {
            self.give_back();
        }
        self.free.push(frame);
    }

    /// Takes every packet's frame back and leaves the batch empty.
    #[inline]
    pub fn put_batch(&mut self, batch: &mut Vec<Packet>) {
        if self.free.len() + batch.len() > Self::KEEP_MAX {
            return batch.drain(..).for_each(|packet| self.put(packet.into_frame()));
        }
        self.free.extend(batch.drain(..).map(Packet::into_frame));
    }

    #[cold]
    fn give_back(&mut self) {
        let from = self.free.len() - Self::HANDFUL;
        self.reserve.0.lock().expect("reserve").extend(self.free.drain(from..));
    }

    /// Frames in this pool alone.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether this pool alone has no frame.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// The reserve behind this pool.
    pub fn reserve(&self) -> &Arc<Reserve> {
        &self.reserve
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.reserve.0.lock().expect("reserve").append(&mut self.free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_grows_shrinks_and_returns_its_frame() {
        let mut pool = Pool::standalone(4);
        let mut packet = pool.get().expect("a frame").fill(b"0123456789");
        packet.pull_front(3);
        assert_eq!(packet.data(), b"3456789");
        packet.push_front(5);
        assert_eq!(&packet.data()[2..], b"0123456789".as_slice());
        packet.set_len(4);
        assert_eq!(&packet.data()[2..], b"01");
        assert_eq!(packet.headroom(), HEADROOM - 2);
        pool.put(packet.into_frame());
        assert_eq!(pool.len(), 4);
    }

    #[test]
    fn pools_share_a_reserve_and_return_everything() {
        let (_, reserve) = Reserve::allocate(8192);
        let mut producer = Pool::new(reserve.clone());
        let mut consumer = Pool::new(reserve.clone());
        for _ in 0..8192 {
            let frame = producer.get().expect("the reserve feeds the pool");
            consumer.put(frame);
        }
        assert!(producer.get().is_some(), "the consumer's surplus came back");
        drop((producer, consumer));
        assert_eq!(reserve.len(), 8191, "all but the frame the last line lost");
    }

    #[test]
    fn packets_leave_in_order_and_others_stay_in_order() {
        let mut pool = Pool::standalone(512);
        // More than a list has room for at first.
        let numbers = 0..400u16;
        let mut packets: Vec<Packet> = numbers
            .clone()
            .map(|number| {
                pool.get().expect("a frame").fill(&[number.to_be_bytes(), [7, 7]].concat())
            })
            .collect();
        let mut lists = [Vec::new(), Vec::new()];
        let number = |packet: &Packet| u16::from_be_bytes([packet.data()[0], packet.data()[1]]);
        move_leaving(&mut packets, &mut lists, usize::MAX, |packet| match number(packet) % 3 {
            0 => Some((PortId(1), 3)),
            1 => Some((PortId(0), 99)),
            _ => None,
        });
        let of = |packets: &[Packet]| packets.iter().map(number).collect::<Vec<_>>();
        let third = |rest: u16| numbers.clone().filter(|at| at % 3 == rest).collect::<Vec<_>>();
        assert_eq!([of(&lists[1]), of(&lists[0]), of(&packets)], [third(0), third(1), third(2)]);
        assert!(lists[1].iter().all(|packet| packet.len() == 3 && packet.output == PortId(1)));
        assert!(lists[0].iter().all(|packet| packet.len() == 4), "cut, never lengthened");
        for list in lists.iter_mut().chain([&mut packets]) {
            pool.put_batch(list);
        }
        assert_eq!(pool.len(), 512);
    }

    #[test]
    #[should_panic(expected = "beyond the headroom")]
    fn headroom_is_a_bound() {
        let mut pool = Pool::standalone(1);
        pool.get().expect("a frame").fill(b"x").push_front(HEADROOM + 1);
    }
}

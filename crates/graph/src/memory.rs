//! Frame memory: one [`Region`] of equal frames, owned tokens for them, and packets in them.
//!
//! Every frame of a region has exactly one owner at any time: a [`Frame`] or [`Packet`] value, or
//! the kernel while its address is in an AF_XDP ring. Tokens are neither `Clone` nor `Copy`; the
//! two ways to make one from an address ([`Region::take`] and [`Region::split`]) state that rule.
//! A token that is dropped loses its frame for good (the memory stays valid), which the workers'
//! frame accounting finds in tests.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

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
        // Miri, which looks at the rest, knows no advice.
        if cfg!(not(miri)) {
            // SAFETY: the range was just allocated; the advice changes no content and may be refused.
            unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Box::leak(Box::new(Region { base, frames }))
    }

    /// A new region and all its frames.
    pub(crate) fn allocate(frames: u32) -> (&'static Region, Vec<Frame>) {
        let region = Region::new(frames);
        // SAFETY: the region is new, this is the only call.
        let tokens = unsafe { region.split() };
        (region, tokens)
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

    /// Whether a packet lies in this region.
    #[inline]
    pub fn holds(&self, packet: &Packet) -> bool {
        (packet.data.as_ptr() as usize).wrapping_sub(self.base.as_ptr() as usize) < self.bytes()
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

/// An owned frame that is longer than others ([`Pool::gather`](crate::Pool::gather)).
#[derive(Debug)]
#[must_use = "a dropped frame is lost to its region"]
pub(crate) struct LongFrame {
    frame: Frame,
    len: usize,
}

/// Where long frames lie.
#[derive(Debug)]
pub(crate) struct LongRegion {
    region: &'static Region,
    len: usize,
}

impl LongRegion {
    /// A new one with frames of `len` bytes, a multiple of [`FRAME_LEN`].
    pub(crate) fn allocate(count: u32, len: usize) -> (LongRegion, Vec<LongFrame>) {
        assert!(len > 0 && len.is_multiple_of(FRAME_LEN), "frames of {len} bytes");
        let region = Region::new(count * (len / FRAME_LEN) as u32);
        // SAFETY: the region is new, and each address is taken once.
        let frame = |index: u32| unsafe { region.take(u64::from(index) * len as u64) };
        let frames = (0..count).map(|index| LongFrame { frame: frame(index), len }).collect();
        (LongRegion { region, len }, frames)
    }

    /// Whether a packet lies in one of its frames.
    pub(crate) fn holds(&self, packet: &Packet) -> bool {
        self.region.holds(packet)
    }

    /// The long frame that a frame is; else the frame.
    #[inline]
    pub(crate) fn take_back(&self, frame: Frame) -> Result<LongFrame, Frame> {
        let start = frame.start.as_ptr() as usize;
        let at = start.wrapping_sub(self.region.base.as_ptr() as usize);
        if at < self.region.bytes() { Ok(LongFrame { frame, len: self.len }) } else { Err(frame) }
    }
}

impl LongFrame {
    /// A packet that holds the bytes of `parts`, one after the other, behind the usual headroom.
    ///
    /// # Panics
    /// When they are more than the frame holds.
    pub(crate) fn fill<'a>(self, parts: impl IntoIterator<Item = &'a [u8]>) -> Packet {
        let mut packet = self.frame.into_packet(HEADROOM, 0);
        let mut end = HEADROOM;
        for part in parts {
            assert!(end + part.len() <= self.len, "bytes beyond a frame of {}", self.len);
            packet.len += part.len() as u16;
            packet.data_mut()[end - HEADROOM..].copy_from_slice(part);
            end += part.len();
        }
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

    /// Most bytes the packet could have without moving its start, in a long frame at least.
    #[inline]
    pub fn capacity(&self) -> usize {
        FRAME_LEN - self.headroom()
    }

    /// Cuts or extends the packet at its end; new bytes hold whatever the frame held.
    ///
    /// # Panics
    /// When `len` exceeds [`Packet::capacity`] and what the packet has.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity().max(self.len()), "length {len} beyond the frame");
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
    /// When the packet is shorter, or would begin where another frame could.
    #[inline]
    pub fn pull_front(&mut self, count: usize) {
        assert!(count <= self.len as usize, "{count} bytes from a packet of {}", self.len);
        assert!(self.headroom() + count < FRAME_LEN, "{count} bytes beyond the first of a frame");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

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

//! The four kinds of ring that an AF_XDP socket shares with the kernel: single-producer,
//! single-consumer, a power of two places, indices that wrap at 2^32.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A descriptor of the RX and TX rings (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) options: u32,
}

impl Descriptor {
    /// Of `options`: the packet goes on in the next one (`XDP_PKT_CONTD`).
    pub(super) const GOES_ON: u32 = 1;

    /// Packets that end in these.
    pub(super) fn packets(descriptors: impl Iterator<Item = Descriptor>) -> u64 {
        descriptors.filter(|one| one.options & Descriptor::GOES_ON == 0).count() as u64
    }

    /// Where a received packet begins in the region. The kernel names it as it stands, or, in memory
    /// registered without places for frames ([`sys::Chunks::Anywhere`](super::sys::Chunks)), the address
    /// that it was given and in the highest 16 bits how far behind that the packet begins.
    #[inline]
    pub(super) fn start(&self) -> u64 {
        const SHIFT: u32 = 48;
        (self.address & ((1 << SHIFT) - 1)) + (self.address >> SHIFT)
    }
}

/// What the kernel writes into a ring's flags when it waits for a system call.
const NEED_WAKEUP: u32 = 1;

/// Memory that is unmapped when the last ring over it is gone.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the owner of the pages, which it does nothing with but unmap them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Ring::map` and the rings over it are gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The indices of a ring, to be looked at from anywhere.
#[derive(Clone, Debug)]
pub(super) struct Indices {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    _mapping: Arc<Mapping>,
}

// SAFETY: the pointers lead to atomics in a mapping that `_mapping` keeps.
unsafe impl Send for Indices {}
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for Indices {}

impl Indices {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping that `self` keeps; only ever accessed atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// Entries between producer and consumer.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        let consumer = self.consumer().load(Ordering::Acquire);
        self.producer().load(Ordering::Acquire).wrapping_sub(consumer)
    }

    /// Whether the kernel waits for a system call.
    #[inline]
    pub(super) fn need_wakeup(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// Where the kernel put a ring's parts (`struct xdp_ring_offset`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offsets {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) entries: u64,
    pub(super) flags: u64,
}

/// One side of a ring: our index, the other side's as last seen, and the places.
#[derive(Debug)]
struct Ring<T> {
    indices: Indices,
    entries: NonNull<T>,
    len: u32,
    ours: u32,
    theirs: u32,
}

// SAFETY: a ring is the only user of its side of the shared memory, from whatever thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(
        fd: BorrowedFd<'_>,
        page: libc::off_t,
        offsets: &Offsets,
        len: u32,
    ) -> io::Result<Ring<T>> {
        assert!(len.is_power_of_two(), "ring of {len} places");
        let bytes = offsets.entries as usize + len as usize * size_of::<T>();
        // SAFETY: a fresh mapping of the socket's ring; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                page,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is not at null");
        let mapping = Arc::new(Mapping { base, len: bytes });
        Ok(Ring::over(mapping, offsets, len))
    }

    fn over(mapping: Arc<Mapping>, offsets: &Offsets, len: u32) -> Ring<T> {
        // SAFETY: the kernel's offsets lie within the mapping, aligned for their types.
        let at = |offset: u64| unsafe { mapping.base.add(offset as usize) };
        let indices = Indices {
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            _mapping: mapping.clone(),
        };
        Ring { indices, entries: at(offsets.entries).cast(), len, ours: 0, theirs: 0 }
    }

    #[inline]
    fn place(&self, index: u32) -> *mut T {
        // SAFETY: masked by the length, hence within the ring's places.
        unsafe { self.entries.add((index & (self.len - 1)) as usize) }.as_ptr()
    }
}

/// A ring we write and the kernel reads: TX and fill.
#[derive(Debug)]
pub(super) struct ProducerRing<T>(Ring<T>);

impl<T: Copy> ProducerRing<T> {
    /// Goes on where the process stopped that wrote the ring so far.
    pub(super) fn resume(&mut self) {
        let ring = &mut self.0;
        ring.ours = ring.indices.producer().load(Ordering::Acquire);
        ring.theirs = ring.indices.consumer().load(Ordering::Acquire);
    }

    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: libc::off_t,
        offsets: &Offsets,
        len: u32,
    ) -> io::Result<ProducerRing<T>> {
        Ring::map(fd, page, offsets, len).map(ProducerRing)
    }

    pub(super) fn indices(&self) -> &Indices {
        &self.0.indices
    }

    /// Places to write to; looks at the kernel's index only when fewer than `wanted` are known.
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let ring = &mut self.0;
        let known = ring.len - ring.ours.wrapping_sub(ring.theirs);
        if known >= wanted {
            return known;
        }
        ring.theirs = ring.indices.consumer().load(Ordering::Acquire);
        ring.len - ring.ours.wrapping_sub(ring.theirs)
    }

    /// Writes an entry that [`ProducerRing::publish`] shows to the kernel.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        let ring = &mut self.0;
        debug_assert!(ring.ours.wrapping_sub(ring.theirs) < ring.len, "pushed into a full ring");
        // SAFETY: the place is ours: the caller has seen it free and it is not yet published.
        unsafe { ring.place(ring.ours).write(entry) };
        ring.ours = ring.ours.wrapping_add(1);
    }

    /// What the kernel has not read.
    pub(super) fn pending(&self) -> impl Iterator<Item = T> {
        let ring = &self.0;
        let first = ring.indices.consumer().load(Ordering::Acquire);
        let count = ring.ours.wrapping_sub(first);
        // SAFETY: we wrote these places, and the kernel writes to none.
        (0..count).map(move |at| unsafe { ring.place(first.wrapping_add(at)).read() })
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        self.0.indices.producer().store(self.0.ours, Ordering::Release);
    }
}

/// A ring the kernel writes and we read: RX and completion.
#[derive(Debug)]
pub(super) struct ConsumerRing<T>(Ring<T>);

impl<T: Copy> ConsumerRing<T> {
    /// Goes on where the process stopped that read the ring so far.
    pub(super) fn resume(&mut self) {
        let ring = &mut self.0;
        ring.ours = ring.indices.consumer().load(Ordering::Acquire);
        ring.theirs = ring.ours;
    }

    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: libc::off_t,
        offsets: &Offsets,
        len: u32,
    ) -> io::Result<ConsumerRing<T>> {
        Ring::map(fd, page, offsets, len).map(ConsumerRing)
    }

    pub(super) fn indices(&self) -> &Indices {
        &self.0.indices
    }

    /// Entries to read; looks at the kernel's index only when none is known.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        let ring = &mut self.0;
        if ring.theirs == ring.ours {
            ring.theirs = ring.indices.producer().load(Ordering::Acquire);
        }
        ring.theirs.wrapping_sub(ring.ours)
    }

    /// Reads an entry; [`ConsumerRing::release`] gives its place back to the kernel.
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        let ring = &mut self.0;
        debug_assert!(ring.theirs != ring.ours, "popped from an empty ring");
        // SAFETY: the kernel has published this place and won't touch it before the release.
        let entry = unsafe { ring.place(ring.ours).read() };
        ring.ours = ring.ours.wrapping_add(1);
        entry
    }

    #[inline]
    pub(super) fn release(&mut self) {
        self.0.indices.consumer().store(self.0.ours, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_named_by_its_place_or_by_its_frame_and_the_way_into_it() {
        let start = |address| Descriptor { address, ..Descriptor::default() }.start();
        assert_eq!(start(7 * 2048 + 256), 7 * 2048 + 256);
        assert_eq!(start((256 << 48) | (7 * 2048)), 7 * 2048 + 256);
    }

    #[test]
    fn a_packet_is_counted_where_it_ends() {
        let of = |options| Descriptor { options, ..Descriptor::default() };
        assert_eq!(Descriptor::packets([1, 1, 0, 0, 3, 2].map(of).into_iter()), 3);
    }

    /// Both ends of one ring over anonymous memory, with indices about to wrap.
    fn pair(len: u32, start: u32) -> (ProducerRing<u64>, ConsumerRing<u64>) {
        let bytes = 192 + len as usize * 8;
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let mapping = Arc::new(Mapping { base: NonNull::new(base.cast()).unwrap(), len: bytes });
        let offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };
        let mut producer = ProducerRing(Ring::over(mapping.clone(), &offsets, len));
        let mut consumer = ConsumerRing(Ring::over(mapping, &offsets, len));
        (producer.0.ours, producer.0.theirs) = (start, start);
        (consumer.0.ours, consumer.0.theirs) = (start, start);
        producer.publish();
        consumer.release();
        (producer, consumer)
    }

    /// The two ends in two threads, as ours and the kernel's are. Under Miri (`make miri`) a place that is read before
    /// it was published, or written before it was given back, is a data race.
    #[test]
    fn ends_in_two_threads_meet_in_no_place() {
        const COUNT: u64 = 24;
        let (mut producer, mut consumer) = pair(4, u32::MAX - 5);
        let writing = std::thread::spawn(move || {
            let mut written = 0;
            while written < COUNT {
                for _ in 0..producer.free(2).min((COUNT - written) as u32) {
                    producer.push(written);
                    written += 1;
                }
                producer.publish();
                std::thread::yield_now();
            }
        });
        let mut read = 0;
        while read < COUNT {
            for _ in 0..consumer.available() {
                assert_eq!(consumer.pop(), read);
                read += 1;
            }
            consumer.release();
            std::thread::yield_now();
        }
        writing.join().expect("it has written all");
    }

    proptest! {
        /// Whatever the batches, entries come out as they went in, also where indices wrap.
        #[test]
        fn entries_keep_their_order_across_the_wrap(
            bits in 0u32..6,
            before_wrap in 0u32..200,
            steps in prop::collection::vec((any::<bool>(), 0u32..70), 1..100),
        ) {
            let len = 1 << bits;
            let (mut producer, mut consumer) = pair(len, 0u32.wrapping_sub(before_wrap));
            let mut turn = 0;
            let (mut written, mut read) = (0u64, 0u64);
            for (write, amount) in steps {
                if write {
                    let count = producer.free(amount).min(amount);
                    prop_assert!(count as u64 <= u64::from(len) - (written - read));
                    for _ in 0..count {
                        producer.push(written);
                        written += 1;
                    }
                    producer.publish();
                } else {
                    let count = consumer.available().min(amount);
                    for _ in 0..count {
                        prop_assert_eq!(consumer.pop(), read);
                        read += 1;
                    }
                    consumer.release();
                }
                // Whoever takes an end over knows as much as who had it.
                turn += 1;
                if turn % 3 == 0 {
                    producer.resume();
                    consumer.resume();
                }
                prop_assert_eq!(u64::from(producer.indices().len()), written - read);
                prop_assert!(producer.pending().eq(read..written));
                prop_assert_eq!(producer.free(u32::MAX), len - (written - read) as u32);
            }
        }
    }
}

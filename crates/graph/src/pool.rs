//! Free frames: a worker's, and those that all share.

use std::sync::{Arc, Mutex};

use crate::memory::{LongFrame, LongRegion};
use crate::{FRAME_LEN, Frame, HEADROOM, Packet, Region};

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
        let (region, tokens) = Region::allocate(frames);
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
    long: Option<Long>,
}

/// A pool's frames for packets that are longer than a frame; no port holds any of them.
#[derive(Debug)]
struct Long {
    region: LongRegion,
    free: Vec<LongFrame>,
}

/// The longest packet of a frame behind the usual headroom.
const SHORT_MAX: usize = FRAME_LEN - HEADROOM;
/// Bytes of a long frame, headroom included.
const LONG_LEN: usize = 10_240;
/// The longest packet of a long frame, link header included.
pub const LONG_MAX: usize = LONG_LEN - HEADROOM;

impl Pool {
    /// Frames moved to or from the reserve at a time.
    const HANDFUL: usize = 512;
    /// Frames a pool keeps before it gives a handful back.
    const KEEP_MAX: usize = 2048;

    /// An empty pool that draws on `reserve`.
    pub fn new(reserve: Arc<Reserve>) -> Pool {
        let free = Vec::with_capacity(Self::KEEP_MAX + Self::HANDFUL);
        Pool { free, reserve, long: None }
    }

    /// The same with `count` frames of its own for packets of up to [`LONG_MAX`] bytes.
    #[must_use]
    pub fn with_long(mut self, count: u32) -> Pool {
        let (region, free) = LongRegion::allocate(count, LONG_LEN);
        self.long = Some(Long { region, free });
        self
    }

    /// A packet that holds a copy of `bytes`, in a long frame if it has to be; `None` when there is none.
    pub fn fill(&mut self, bytes: &[u8]) -> Option<Packet> {
        if bytes.len() <= SHORT_MAX {
            return Some(self.get()?.fill(bytes));
        }
        let frame = self.long.as_mut().filter(|_| bytes.len() <= LONG_MAX)?.free.pop()?;
        Some(frame.fill([bytes]))
    }

    /// One packet of the bytes of several, whose frames it takes back; `None` when they are too many, or no long
    /// frame is free.
    pub fn gather(&mut self, parts: &mut Vec<Packet>) -> Option<Packet> {
        let fits = parts.iter().map(Packet::len).sum::<usize>() <= LONG_MAX;
        let frame = self.long.as_mut().filter(|_| fits).and_then(|long| long.free.pop());
        let whole = frame.map(|frame| frame.fill(parts.iter().map(Packet::data)));
        self.put_batch(parts);
        whole
    }

    /// Whether it has frames for long packets, or gave them away.
    #[inline]
    pub fn has_long(&self) -> bool {
        self.long.is_some()
    }

    /// Whether a packet is in one of its frames for long packets.
    pub fn is_long(&self, packet: &Packet) -> bool {
        self.long.as_ref().is_some_and(|long| long.region.holds(packet))
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
        let frame = match &mut self.long {
            None => frame,
            Some(long) => match long.region.take_back(frame) {
                Ok(frame) => return long.free.push(frame),
                Err(frame) => frame,
            },
        };
        if self.free.len() >= Self::KEEP_MAX {
            self.give_back();
        }
        self.free.push(frame);
    }

    /// Takes every packet's frame back and leaves the batch empty.
    #[inline]
    pub fn put_batch(&mut self, batch: &mut Vec<Packet>) {
        if self.has_long() || self.free.len() + batch.len() > Self::KEEP_MAX {
            return batch.drain(..).for_each(|packet| self.put(packet.into_frame()));
        }
        self.free.extend(batch.drain(..).map(Packet::into_frame));
    }

    #[cold]
    fn give_back(&mut self) {
        let from = self.free.len() - Self::HANDFUL;
        self.reserve.0.lock().expect("reserve").extend(self.free.drain(from..));
    }

    /// Whether so many frames are free.
    pub fn has(&mut self, count: usize) -> bool {
        if self.free.len() < count {
            self.refill();
        }
        self.free.len() >= count
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

// Its long frames are lost with it, like a region.
impl Drop for Pool {
    fn drop(&mut self) {
        self.reserve.0.lock().expect("reserve").append(&mut self.free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_came_in_parts_is_one_packet_and_its_frame_comes_back() {
        let mut pool = Pool::standalone(16).with_long(2);
        for _ in 0..10 {
            let part = |pool: &mut Pool, byte: u8, len: usize| {
                pool.get().expect("a frame").fill(&vec![byte; len])
            };
            let mut parts = vec![part(&mut pool, 1, 1792), part(&mut pool, 2, 1792)];
            parts.push(part(&mut pool, 3, 100));
            let mut packet = pool.gather(&mut parts).expect("a long frame");
            let seen = packet.data().chunk_by(|a, b| a == b).map(<[u8]>::len);
            assert_eq!(seen.collect::<Vec<_>>(), [1792, 1792, 100]);
            assert!(pool.is_long(&packet));
            packet.push_front(8);
            packet.pull_front(40);
            packet.set_len(3000);
            pool.put_batch(&mut vec![packet]);
            assert_eq!(pool.len(), 16);
        }
        let mut long = Vec::new();
        for _ in 0..3 {
            let mut parts = vec![pool.get().expect("a frame").fill(&[7; 1000])];
            long.extend(pool.gather(&mut parts));
        }
        assert_eq!((long.len(), pool.len()), (2, 16), "there are two");
        assert!(pool.fill(&[7; 1792]).map(|packet| pool.put(packet.into_frame())).is_some());
        assert!(pool.fill(&[7; 1793]).is_none(), "all are in use");
        pool.put_batch(&mut long);
        assert_eq!(pool.fill(&[7; 9000]).map(|packet| packet.len()), Some(9000));
        let mut parts: Vec<Packet> =
            (0..6).map(|_| pool.get().expect("a frame").fill(&[7; 1792])).collect();
        assert!(pool.gather(&mut parts).is_none() && pool.len() == 16, "10,752 bytes are too many");
    }
}

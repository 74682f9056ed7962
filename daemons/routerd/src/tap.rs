//! Copies of received packets for `capture`, without holding up a worker: a full queue loses
//! copies, never packets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ebb_graph::Batch;
use ebb_units::Time;

/// Most copies that wait to be fetched.
const WAITING_MAX: usize = 65_536;

/// One packet as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// When the worker took it.
    pub time: Time,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The tap of one router; at most one port is tapped at a time.
#[derive(Debug, Default)]
pub struct Tap {
    /// Number of the tapped port plus one, 0 for none.
    port: AtomicU32,
    wanted: AtomicU32,
    missed: AtomicU64,
    copies: Mutex<Vec<Copied>>,
}

impl Tap {
    /// Whether packets of this port are wanted; all that an untapped router pays.
    #[inline]
    pub fn wants(&self, port: usize) -> bool {
        self.port.load(Relaxed) == port as u32 + 1
    }

    /// Copies a batch, as far as packets are still wanted.
    #[cold]
    pub fn copy(&self, port: usize, now: Time, batch: &Batch) {
        let Ok(mut copies) = self.copies.try_lock() else {
            self.missed.fetch_add(batch.len() as u64, Relaxed);
            return;
        };
        for packet in batch.iter() {
            if self.wanted.load(Relaxed) == 0 || !self.wants(port) {
                self.port.store(0, Relaxed);
                return;
            }
            if copies.len() < WAITING_MAX {
                copies.push(Copied { time: now, frame: packet.data().to_vec() });
                self.wanted.fetch_sub(1, Relaxed);
            } else {
                self.missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Begins to copy the next `count` packets of a port.
    pub fn start(&self, port: usize, count: u32) {
        self.copies.lock().expect("tap").clear();
        self.missed.store(0, Relaxed);
        self.wanted.store(count, Relaxed);
        self.port.store(port as u32 + 1, Relaxed);
    }

    /// The copies made since the last call, and how many packets were missed so far.
    pub fn fetch(&self) -> (Vec<Copied>, u64) {
        (std::mem::take(&mut *self.copies.lock().expect("tap")), self.missed.load(Relaxed))
    }

    /// Ends copying.
    pub fn stop(&self) {
        self.port.store(0, Relaxed);
    }

    /// Whether all wanted packets have been copied, or copying was ended.
    pub fn is_done(&self) -> bool {
        self.port.load(Relaxed) == 0 || self.wanted.load(Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use ebb_graph::Pool;

    use super::*;

    #[test]
    fn the_tap_copies_what_was_asked_for_and_no_more() {
        let mut pool = Pool::standalone(8);
        let mut batch = Batch::new();
        for byte in 0..4u8 {
            batch.push(pool.get().expect("a frame").fill(&[byte; 60]));
        }
        let tap = Tap::default();
        assert!(!tap.wants(1));
        tap.start(1, 3);
        assert!(tap.wants(1) && !tap.wants(0));
        tap.copy(1, Time::from_nanos(7), &batch);
        assert!(tap.is_done());
        let (copies, missed) = tap.fetch();
        let bytes: Vec<u8> = copies.iter().map(|copy| copy.frame[0]).collect();
        assert_eq!((bytes, missed), (vec![0, 1, 2], 0));
        pool.put_batch(&mut batch);
    }
}

//! Copies of packets for `capture`, without holding up a worker: a full queue loses copies, never
//! packets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ebb_capture::Filter;
use ebb_graph::{DropReason, Packet};
use ebb_units::Time;

/// Most copies that wait to be fetched.
const WAITING_MAX: usize = 65_536;

/// Where packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturePoint {
    /// As they are received.
    Received,
    /// As they are handed to the interface.
    Transmitted,
    /// As they are dropped, for whatever reason or for one; by the port they came in through. They
    /// are as far changed as they got.
    Dropped(Option<DropReason>),
}

impl CapturePoint {
    fn number(self) -> u32 {
        match self {
            CapturePoint::Received => 0,
            CapturePoint::Transmitted => 1,
            CapturePoint::Dropped(_) => 2,
        }
    }
}

/// One packet as it was where it was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// When the worker had it.
    pub time: Time,
    /// The whole frame.
    pub frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    copies: Vec<Copied>,
    filter: Option<Filter>,
    reason: Option<DropReason>,
}

/// The tap of one router; at most one port is tapped at a time.
#[derive(Debug, Default)]
pub struct Tap {
    /// Number of the tapped port plus one and, from bit 16 on, the place; 0 for none.
    tapped: AtomicU32,
    wanted: AtomicU32,
    missed: AtomicU64,
    state: Mutex<State>,
}

impl Tap {
    fn key(port: usize, place: CapturePoint) -> u32 {
        place.number() << 16 | (port as u32 + 1)
    }

    /// Whether packets of this port are wanted at this place; all that an untapped router pays.
    #[inline]
    pub fn wants(&self, port: usize, place: CapturePoint) -> bool {
        self.tapped.load(Relaxed) == Tap::key(port, place)
    }

    /// Whether dropped packets are wanted, of whatever port.
    #[inline]
    pub fn wants_dropped(&self) -> bool {
        self.tapped.load(Relaxed) >> 16 == CapturePoint::Dropped(None).number()
    }

    /// Copies packets, as far as they are still wanted.
    #[cold]
    pub fn copy<'a>(
        &self,
        port: usize,
        place: CapturePoint,
        now: Time,
        packets: impl Iterator<Item = &'a Packet>,
    ) {
        let Ok(mut state) = self.state.try_lock() else {
            self.missed.fetch_add(packets.count() as u64, Relaxed);
            return;
        };
        for packet in packets {
            if self.wanted.load(Relaxed) == 0 || !self.wants(port, place) {
                self.tapped.store(0, Relaxed);
                return;
            }
            let dropped = matches!(place, CapturePoint::Dropped(_));
            let other = dropped && state.reason.is_some_and(|reason| reason != packet.reason);
            let matches = |filter: &Filter| filter.matches(packet.data());
            if other || !state.filter.as_ref().is_none_or(matches) {
                continue;
            }
            if state.copies.len() < WAITING_MAX {
                state.copies.push(Copied { time: now, frame: packet.data().to_vec() });
                self.wanted.fetch_sub(1, Relaxed);
            } else {
                self.missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Copies those of dropped packets that came in through the tapped port.
    #[cold]
    pub fn copy_dropped<'a>(&self, now: Time, packets: impl Iterator<Item = &'a Packet>) {
        let place = CapturePoint::Dropped(None);
        for packet in packets {
            let port = usize::from(packet.input.0);
            if self.wants(port, place) {
                self.copy(port, place, now, std::iter::once(packet));
            }
        }
    }

    /// Begins to copy the next `count` packets of a port that `filter` matches.
    pub fn start(&self, port: usize, place: CapturePoint, filter: Option<Filter>, count: u32) {
        let reason = match place {
            CapturePoint::Dropped(reason) => reason,
            CapturePoint::Received | CapturePoint::Transmitted => None,
        };
        *self.state.lock().expect("tap") = State { copies: Vec::new(), filter, reason };
        self.missed.store(0, Relaxed);
        self.wanted.store(count, Relaxed);
        self.tapped.store(Tap::key(port, place), Relaxed);
    }

    /// The copies made since the last call, and how many packets were missed so far.
    pub fn fetch(&self) -> (Vec<Copied>, u64) {
        let copies = std::mem::take(&mut self.state.lock().expect("tap").copies);
        (copies, self.missed.load(Relaxed))
    }

    /// Ends copying.
    pub fn stop(&self) {
        self.tapped.store(0, Relaxed);
    }

    /// Whether all wanted packets have been copied, or copying was ended.
    pub fn is_done(&self) -> bool {
        self.tapped.load(Relaxed) == 0 || self.wanted.load(Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use ebb_capture::Instruction;
    use ebb_graph::{Batch, Pool};

    use super::*;

    #[test]
    fn the_tap_copies_what_was_asked_for_and_no_more() {
        let mut pool = Pool::standalone(8);
        let mut batch = Batch::new();
        for byte in 0..4u8 {
            batch.push(pool.get().expect("a frame").fill(&[byte; 60]));
        }
        let tap = Tap::default();
        assert!(!tap.wants(1, CapturePoint::Received));
        tap.start(1, CapturePoint::Received, None, 3);
        assert!(tap.wants(1, CapturePoint::Received) && !tap.wants(0, CapturePoint::Received));
        assert!(!tap.wants(1, CapturePoint::Transmitted) && !tap.wants_dropped());
        tap.copy(1, CapturePoint::Received, Time::from_nanos(7), batch.iter());
        assert!(tap.is_done());
        let (copies, missed) = tap.fetch();
        let bytes: Vec<u8> = copies.iter().map(|copy| copy.frame[0]).collect();
        assert_eq!((bytes, missed), (vec![0, 1, 2], 0));
        // Load the first byte, return it: 0 is not wanted.
        let line = |code, k| Instruction { code, jump_true: 0, jump_false: 0, k };
        let filter = Filter::new(vec![line(0x30, 0), line(0x16, 0)]).expect("a filter");
        tap.start(0, CapturePoint::Dropped(Some(DropReason::NoRoute)), Some(filter), 9);
        for (packet, reason) in batch.iter_mut().zip([
            DropReason::NoRoute,
            DropReason::NoRoute,
            DropReason::TtlExpired,
            DropReason::NoRoute,
        ]) {
            packet.reason = reason;
        }
        assert!(tap.wants_dropped());
        tap.copy(0, CapturePoint::Dropped(None), Time::from_nanos(8), batch.iter());
        let bytes: Vec<u8> = tap.fetch().0.iter().map(|copy| copy.frame[0]).collect();
        assert_eq!(bytes, [1, 3]);
        pool.put_batch(&mut batch);
    }
}

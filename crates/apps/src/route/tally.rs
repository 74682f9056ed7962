//! Packets and bytes by number, of next hops and of interfaces.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers have 16 bits.
const NUMBERS: usize = 1 << 16;

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames, without checksum.
    pub bytes: u64,
}

impl Volume {
    /// What came since an earlier count.
    pub fn since(self, earlier: Volume) -> Volume {
        Volume {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    /// Adds another's.
    pub fn add(&mut self, other: Volume) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What is counted by number.
#[derive(Clone, Copy)]
pub(super) enum Of {
    NextHop,
    /// In through an interface.
    In,
    /// Out through an interface.
    Out,
}

/// Counters with a single writer, all in one piece: memory comes with the pages that are in use.
#[derive(Debug)]
pub(super) struct Tallies(Box<[[AtomicU64; 2]; 3 * NUMBERS]>);

impl Default for Tallies {
    fn default() -> Tallies {
        let all: Box<[_]> = bytemuck::zeroed_slice_box(3 * NUMBERS);
        Tallies(all.try_into().expect("as many as asked for"))
    }
}

impl Tallies {
    /// Counts packets of `bytes` together; only the owning worker calls this.
    #[inline(always)]
    pub(super) fn count(&self, of: Of, number: u32, packets: u64, bytes: u64) {
        let [all_packets, all_bytes] = self.at(of, number);
        all_packets.store(all_packets.load(Relaxed) + packets, Relaxed);
        all_bytes.store(all_bytes.load(Relaxed) + bytes, Relaxed);
    }

    pub(super) fn get(&self, of: Of, number: u32) -> Volume {
        let [packets, bytes] = self.at(of, number);
        Volume { packets: packets.load(Relaxed), bytes: bytes.load(Relaxed) }
    }

    #[inline(always)]
    fn at(&self, of: Of, number: u32) -> &[AtomicU64; 2] {
        &self.0[of as usize * NUMBERS + number as usize % NUMBERS]
    }
}

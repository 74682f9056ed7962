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

/// Counters with a single writer, all in one piece: memory comes with the pages that are in use.
#[derive(Debug)]
pub(super) struct Tallies(Box<[[AtomicU64; 2]]>);

impl Default for Tallies {
    fn default() -> Tallies {
        Tallies(bytemuck::zeroed_slice_box(NUMBERS))
    }
}

impl Tallies {
    /// Counts packets of `bytes` together; only the owning worker calls this.
    #[inline]
    pub(super) fn count(&self, number: u32, packets: u64, bytes: u64) {
        let [all_packets, all_bytes] = &self.0[number as usize % NUMBERS];
        all_packets.store(all_packets.load(Relaxed) + packets, Relaxed);
        all_bytes.store(all_bytes.load(Relaxed) + bytes, Relaxed);
    }

    pub(super) fn get(&self, number: u32) -> Volume {
        let [packets, bytes] = &self.0[number as usize % NUMBERS];
        Volume { packets: packets.load(Relaxed), bytes: bytes.load(Relaxed) }
    }
}

//! Packets and bytes by number, of next hops and of interfaces.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers have 16 bits, of which few are in use: counters come a chunk at a time.
const CHUNKS: usize = 256;
const CHUNK_LEN: usize = 256;

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

#[derive(Debug, Default)]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
}

type Chunk = Box<[Tally; CHUNK_LEN]>;

/// Counters with a single writer.
#[derive(Debug)]
pub(super) struct Tallies(Box<[OnceLock<Chunk>]>);

impl Default for Tallies {
    fn default() -> Tallies {
        Tallies((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }
}

impl Tallies {
    /// Counts one packet; only the owning worker calls this.
    #[inline]
    pub(super) fn count(&self, number: u32, bytes: usize) {
        let chunk = &self.0[number as usize / CHUNK_LEN % CHUNKS];
        let chunk = chunk.get_or_init(|| Box::new(core::array::from_fn(|_| Tally::default())));
        let tally = &chunk[number as usize % CHUNK_LEN];
        tally.packets.store(tally.packets.load(Relaxed) + 1, Relaxed);
        tally.bytes.store(tally.bytes.load(Relaxed) + bytes as u64, Relaxed);
    }

    pub(super) fn get(&self, number: u32) -> Volume {
        let chunk = self.0[number as usize / CHUNK_LEN % CHUNKS].get();
        chunk.map_or(Volume::default(), |chunk| {
            let tally = &chunk[number as usize % CHUNK_LEN];
            Volume { packets: tally.packets.load(Relaxed), bytes: tally.bytes.load(Relaxed) }
        })
    }
}

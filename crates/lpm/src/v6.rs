//! IPv6: 20 bits, 12 bits, then nodes of 8 or 16 bits, a cache line or less of which is read.
//!
//! * The first 32 bits are two plain tables, 20 bits at the root and 12 in a chunk for each /20 that has
//!   routes (under 700 in the Internet's table), so /29 to /32 need no node.
//! * Below, 16 bits whose addresses fall into few ranges are one cache line, which holds where ranges end and
//!   what they lead to: neighbouring prefixes are searched, as in DXR (Zec, Rizzo and Mikuc, "DXR: towards
//!   a billion routing lookups per second in software", SIGCOMM CCR 42(5), 2012), though all ends at once
//!   by one comparison of vectors. What has more ranges becomes a plain table for the next 8 bits, and each
//!   of its entries is a value or a node again. A /48 costs one to three lines.
//! * Prefixes of up to 16 bits are not pushed into the trie but kept in a table of their own, asked
//!   when the trie finds nothing, so that a change of ::/0 does not touch every node. Only roots without
//!   a chunk hold what they say (a million words for ::/0, half a millisecond), so that an address no longer
//!   prefix is near to costs one load.
//! * Ranges keep prefixes of different length apart, and the writer knows each one's length: a new
//!   prefix finds which it takes over without asking for the prefixes below it.
//! * A batch descends one level at a time, all its lookups side by side, so that their loads overlap.
//! * Ranges are never changed but for single words: a change writes a new line and swings one word.

mod blocks;
mod build;
mod nodes;
mod trial;
mod trie;
#[cfg(target_arch = "x86_64")]
mod vector;
mod walk;
mod writer;

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

use crate::Value;
use crate::generation::Generation;
use crate::pages::Pages;
use crate::simd::with_bmi;

use nodes::{DOWN, LinePages};
use walk::{LANES, Walk, near_table_slot};

pub use writer::Ipv6Writer;

const SHORT_LEN: u8 = 16;
const ROOT_LEN: u8 = 20;
const CHUNK_BITS: u8 = 12;
/// Bits before the first node.
const FIRST_LEN: u8 = ROOT_LEN + CHUNK_BITS;
const ROOTS: usize = 1 << ROOT_LEN;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS_MAX: usize = 1 << 15;

/// The IPv6 table that readers share.
///
/// [`lookup`](Self::lookup) and [`lookup_batch`](Self::lookup_batch) may run on any number of threads
/// while the [`Ipv6Writer`] changes the table. They take no lock and write nothing shared. For every
/// address they return the value from before or from after a concurrent change of one prefix.
#[derive(Debug)]
pub struct Ipv6Lpm {
    generation: Generation,
    short: Pages<AtomicU32, { 1 << SHORT_LEN }>,
    roots: Pages<AtomicU32, ROOTS>,
    chunks: Pages<AtomicU32, { CHUNKS_MAX * CHUNK }>,
    lines: LinePages,
    /// Bytes that the writer has touched.
    bytes: AtomicUsize,
    /// Words are gathered by vector instructions, which the processor has.
    vector: AtomicBool,
}

impl Ipv6Lpm {
    fn new() -> Self {
        Self {
            generation: Generation::default(),
            short: Pages::sparse(),
            roots: Pages::dense(),
            chunks: Pages::dense(),
            lines: Pages::dense(),
            bytes: AtomicUsize::new(0),
            vector: AtomicBool::new(false),
        }
    }

    /// Takes vectors where they are at least as fast on this processor: as with
    /// [`Ipv4Lpm::take_faster`](crate::Ipv4Lpm::take_faster) a trial by `clock` tells, here in a small table
    /// of its own that has nodes of all kinds, whatever this one holds; a millisecond or two. Returns
    /// whether vectors are used.
    pub fn take_faster(&self, clock: impl Fn() -> Duration) -> bool {
        self.use_vector(Self::has_vector() && trial::vectors_pay(clock))
    }

    /// Whether this processor can read the table by vectors (AVX-512F, BW, DQ, VL and BMI).
    pub fn has_vector() -> bool {
        #[cfg(target_arch = "x86_64")]
        return vector::available();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Reads the table by vectors of 16 addresses from now on, or one by one (as at the start). Without
    /// such vectors it stays one by one; returns whether vectors are used.
    pub fn use_vector(&self, wanted: bool) -> bool {
        let used = wanted && Self::has_vector();
        self.vector.store(used, Relaxed);
        used
    }

    /// The value of the longest prefix that covers `address` (host byte order); 0 if none does.
    #[inline]
    pub fn lookup(&self, address: u128) -> Value {
        let mut value = [0];
        self.lookup_batch(&[address], &mut value);
        value[0]
    }

    /// Looks up every address (host byte order), several times faster than one by one.
    ///
    /// # Panics
    /// If `values` is shorter than `addresses`. Values beyond are left alone.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u128], values: &mut [Value]) {
        let values = &mut values[..addresses.len()];
        let chunks = addresses.chunks(LANES).zip(values.chunks_mut(LANES));
        for (addresses, values) in chunks {
            loop {
                let begun = self.generation.begin();
                self.read(addresses, values);
                if self.generation.unchanged(begun) {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn read(&self, addresses: &[u128], values: &mut [Value]) {
        #[cfg(target_arch = "x86_64")]
        let (addresses, values) = if self.vector.load(Relaxed) {
            // SAFETY: `use_vector` asked the processor; `lookup_batch` cut both to one length.
            let read = unsafe { vector::read(self, addresses, values) };
            (&addresses[read..], &mut values[read..])
        } else {
            (addresses, values)
        };
        if !addresses.is_empty() {
            with_bmi(
                #[inline(always)]
                || self.read_singly(addresses, values),
            );
        }
    }

    /// Each kind of word has a pass of its own over the lookups that get there, as in [`Walk`].
    #[inline(always)]
    fn read_singly(&self, addresses: &[u128], values: &mut [Value]) {
        let (roots, chunks) = (&*self.roots, &*self.chunks);
        let mut walk = Walk::new();
        let mut chunked = 0u64;
        for (at, &address) in addresses.iter().take(LANES).enumerate() {
            let root = roots[(address >> (128 - ROOT_LEN)) as usize].load(Acquire);
            walk.words[at] = root;
            chunked |= u64::from(root >> 31) << at;
        }
        let in_chunks = chunked;
        while chunked != 0 {
            let at = chunked.trailing_zeros() as usize % LANES;
            chunked &= chunked - 1;
            let chunk = (walk.words[at] & !DOWN) as usize % CHUNKS_MAX;
            let within = (addresses[at] >> (128 - FIRST_LEN)) as usize % CHUNK;
            let word = chunks[chunk * CHUNK + within].load(Acquire);
            walk.arrive(&self.lines, at, word, near_table_slot(addresses[at], FIRST_LEN));
        }
        walk.descend(&self.lines, addresses);
        let mut none = 0u64;
        for (at, (value, &word)) in values.iter_mut().zip(&walk.words).enumerate() {
            *value = word;
            none |= u64::from(word == 0) << at;
        }
        none &= in_chunks;
        while none != 0 {
            let at = none.trailing_zeros() as usize % LANES;
            none &= none - 1;
            values[at] = self.short_value(addresses[at]);
        }
    }

    /// The value for a word that a lookup came to after `depth` bits.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn value_below(&self, word: u32, address: u128, depth: u8) -> Value {
        match walk::follow(&self.lines, word, address, depth) {
            0 => self.short_value(address),
            value => value,
        }
    }

    /// What prefixes of up to 16 bits say.
    #[inline(always)]
    fn short_value(&self, address: u128) -> Value {
        self.short[(address >> (128 - SHORT_LEN)) as usize].load(Relaxed)
    }

    /// Memory that the table holds, in bytes; the writer's own is [`Ipv6Writer::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An address near one of a few places, which differ in their first, middle or last bits.
    fn near(place: u8, bits: u16, shift: u8) -> u128 {
        let place = u128::from(place % 4) << 104 | 0x2001 << 112;
        place ^ u128::from(bits).wrapping_shl(u32::from(shift))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Roots, chunks, ranges and tables at any depth, short prefixes and holes, in batches of any length.
        #[test]
        fn vectors_find_what_single_reads_find(
            routes in prop::collection::vec((any::<u8>(), any::<u16>(), 0..128u8, 0..=128u8), 1..120),
            probes in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0..128u8), 1..200),
        ) {
            let (mut writer, table) = Ipv6Writer::new();
            let mask = |len: u8| !u128::MAX.checked_shr(u32::from(len)).unwrap_or(0);
            for (&(place, bits, shift, len), value) in routes.iter().zip(1..) {
                writer.insert(near(place, bits, shift) & mask(len), len, value).expect("is valid");
            }
            let addresses: Vec<u128> = probes
                .iter()
                .map(|(at, low, shift)| {
                    let (place, bits, route_shift, _) = *at.get(&routes);
                    near(place, bits, route_shift) ^ u128::from(*low) << shift >> 16
                })
                .collect();
            let (mut singly, mut by_vectors) = (vec![0; 200], vec![0; 200]);
            table.use_vector(false);
            table.lookup_batch(&addresses, &mut singly);
            if table.use_vector(true) {
                table.lookup_batch(&addresses, &mut by_vectors);
                prop_assert_eq!(singly, by_vectors);
            }
        }
    }

    #[test]
    fn a_processor_without_vectors_stays_with_single_reads() {
        let (_writer, table) = Ipv6Writer::new();
        assert_eq!(table.use_vector(true), Ipv6Lpm::has_vector());
        assert!(!table.use_vector(false));
        // A clock that stands still: equally fast.
        assert_eq!(table.take_faster(|| Duration::ZERO), Ipv6Lpm::has_vector());
    }
}

//! IPv6: a table of the first 26 bits, then nodes of 6 bits with counted children.
//!
//! A node is that of poptrie (Asai and Ohara, "Poptrie: a compressed trie with population count for
//! fast and scalable software IP routing table lookup", SIGCOMM 2015, section 3): 64 slots in 24 bytes,
//! one bit map of the slots that have a child and one of the slots where a run of equal leaves begins;
//! counting bits up to a slot gives the place of its child or leaf in a block. What is ours:
//!
//! * 26 bits at once: /29 to /32 end in the first node, /48 in the fourth, and 26 + 17 * 6 = 128 leaves
//!   no odd rest. The table is address space, of which only pages with routes are memory (one page
//!   per /16).
//! * Prefixes of up to 16 bits are not pushed into the trie but kept in a table of their own, asked
//!   when the trie finds nothing, so that a change of ::/0 does not touch every node.
//! * Leaf runs keep prefixes of different length apart, and the writer knows each run's length: a new
//!   prefix finds which leaves it takes over without asking for the prefixes below it.
//! * A batch descends one level at a time, all its lookups side by side, so that their loads overlap.
//! * Blocks are never changed but for single words: a change writes new blocks and swings one word.

mod blocks;
mod trie;
mod writer;

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::Value;
use crate::generation::Generation;
use crate::pages::Pages;

pub use writer::Ipv6Writer;

const SHORT_LEN: u8 = 16;
const ROOT_LEN: u8 = 26;
const STRIDE: u8 = 6;
const ROOTS: usize = 1 << ROOT_LEN;
const NODES_MAX: usize = 1 << 24;
const LEAVES_MAX: usize = 1 << 26;

/// Words of a node: map of children, map of leaf runs, and both blocks (children in the upper half).
const NODE_WORDS: usize = 3;
const CHILDREN: usize = 0;
const RUNS: usize = 1;
const BLOCKS: usize = 2;

/// Set in a root entry that is the number of a node, clear in one that is a value.
const NODE: u32 = 1 << 31;

/// Addresses looked up side by side between two looks at the generation.
const CHUNK_LEN: usize = 64;

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
    nodes: Pages<AtomicU64, { NODES_MAX * NODE_WORDS }>,
    leaves: Pages<AtomicU32, LEAVES_MAX>,
    /// Bytes that the writer has touched.
    bytes: AtomicUsize,
}

/// What a node says about one slot.
#[derive(Clone, Copy)]
struct Step {
    is_node: bool,
    /// Number of the child node, or of the leaf.
    next: u32,
}

impl Ipv6Lpm {
    fn new() -> Self {
        Self {
            generation: Generation::default(),
            short: Pages::sparse(),
            roots: Pages::sparse(),
            nodes: Pages::sparse(),
            leaves: Pages::sparse(),
            bytes: AtomicUsize::new(0),
        }
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
        let chunks = addresses.chunks(CHUNK_LEN).zip(values.chunks_mut(CHUNK_LEN));
        for (addresses, values) in chunks {
            loop {
                let begun = self.generation.begin();
                crate::simd::with_popcount(
                    #[inline(always)]
                    || self.read(addresses, values),
                );
                if self.generation.unchanged(begun) {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn read(&self, addresses: &[u128], values: &mut [Value]) {
        let mut deep = [0u8; CHUNK_LEN];
        let mut deep_len = 0;
        for (at, (value, &address)) in values.iter_mut().zip(addresses).enumerate() {
            *value = self.roots[(address >> (128 - ROOT_LEN)) as usize].load(Acquire);
            deep[deep_len % CHUNK_LEN] = at as u8;
            deep_len += usize::from(*value & NODE != 0);
        }
        let deep = &deep[..deep_len.min(CHUNK_LEN)];
        if !deep.is_empty() {
            self.descend(deep, addresses, values);
            for &at in deep {
                let leaf = values[at as usize] as usize % LEAVES_MAX;
                values[at as usize] = self.leaves[leaf].load(Relaxed);
            }
        }
        for (value, &address) in values.iter_mut().zip(addresses) {
            if *value == 0 {
                *value = self.short[(address >> (128 - SHORT_LEN)) as usize].load(Relaxed);
            }
        }
    }

    /// Replaces node numbers by leaf numbers in the values at `deep`.
    #[inline(always)]
    fn descend(&self, deep: &[u8], addresses: &[u128], values: &mut [Value]) {
        let mut walking = [0u8; CHUNK_LEN];
        let mut walking_len = deep.len();
        walking[..walking_len].copy_from_slice(deep);
        let mut shift = 128 - ROOT_LEN;
        while walking_len > 0 && shift > 0 {
            shift -= STRIDE;
            let mut left = 0;
            for index in 0..walking_len {
                let at = walking[index];
                let slot = (addresses[at as usize] >> shift) as u8 % 64;
                let step = self.step(values[at as usize], slot);
                values[at as usize] = step.next;
                walking[left] = at;
                left += usize::from(step.is_node);
            }
            walking_len = left;
        }
    }

    #[inline(always)]
    fn step(&self, node: u32, slot: u8) -> Step {
        let first = node as usize % NODES_MAX * NODE_WORDS;
        let blocks = self.nodes[first + BLOCKS].load(Acquire);
        let children = self.nodes[first + CHILDREN].load(Relaxed);
        let runs = self.nodes[first + RUNS].load(Relaxed);
        let is_node = children >> slot & 1 != 0;
        let (map, block) =
            if is_node { (children, (blocks >> 32) as u32) } else { (runs, blocks as u32) };
        let upto = (2u64 << slot).wrapping_sub(1);
        Step { is_node, next: block.wrapping_add((map & upto).count_ones()).wrapping_sub(1) }
    }

    /// Memory that the table holds, in bytes; the writer's own is [`Ipv6Writer::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

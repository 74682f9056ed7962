//! IPv6: a table of the first 26 bits, then nodes of 6 bits with counted children.
//!
//! A node is that of poptrie (Asai and Ohara, "Poptrie: a compressed trie with population count for
//! fast and scalable software IP routing table lookup", SIGCOMM 2015, section 3): 64 slots in 24 bytes,
//! one bit map of the slots that have a child and one of the slots where a run of equal leaves ends;
//! counting bits before a slot gives the place of its child or leaf in a block. What is ours:
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

/// Words of a node: map of children, map of ends of leaf runs, and both blocks (children in the upper half).
const NODE_WORDS: usize = 4;
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

type Nodes = [AtomicU64; NODES_MAX * NODE_WORDS];

/// Lookups side by side.
struct Walk {
    /// Upper halves of the addresses.
    upper: [u64; CHUNK_LEN],
    states: [u32; CHUNK_LEN],
    /// Which states are nodes.
    walking: u64,
}

impl Walk {
    /// Takes all lookups to their leaves.
    #[inline(always)]
    fn descend(&mut self, nodes: &Nodes, addresses: &[u128]) {
        let mut shift = 128 - ROOT_LEN;
        while self.walking != 0 && shift >= 64 + STRIDE {
            shift -= STRIDE;
            self.level(nodes, |upper, _| (upper >> (shift - 64)) as u8 % 64);
        }
        while self.walking != 0 && shift > 0 {
            shift -= STRIDE;
            self.level(nodes, |_, at| slot_at(addresses[at], shift));
        }
    }

    #[inline(always)]
    fn level(&mut self, nodes: &Nodes, slot: impl Fn(u64, usize) -> u8) {
        let mut left = self.walking;
        let mut walking = 0;
        while left != 0 {
            let at = left.trailing_zeros() as usize % CHUNK_LEN;
            left &= left - 1;
            let state = step(nodes, self.states[at], slot(self.upper[at], at));
            self.states[at] = state;
            walking |= u64::from(state >> 31) << at;
        }
        self.walking = walking;
    }
}

/// What a node says about one slot: the number of the child node with [`NODE`] set, or of the leaf.
#[inline(always)]
fn step(nodes: &Nodes, node: u32, slot: u8) -> u32 {
    let first = node as usize % NODES_MAX * NODE_WORDS;
    let blocks = nodes[first + BLOCKS].load(Acquire);
    let children = nodes[first + CHILDREN].load(Relaxed);
    let runs = nodes[first + RUNS].load(Relaxed);
    let is_node = (children >> slot) as u32 & 1;
    let map = runs ^ ((children ^ runs) & u64::from(is_node).wrapping_neg());
    let block = (blocks >> (is_node * 32)) as u32;
    let before = (1u64 << slot) - 1;
    block.wrapping_add((map & before).count_ones()) | is_node << 31
}

#[inline(always)]
fn slot_at(address: u128, shift: u8) -> u8 {
    (address >> shift) as u8 % 64
}

impl Ipv6Lpm {
    fn new() -> Self {
        Self {
            generation: Generation::default(),
            short: Pages::sparse(),
            roots: Pages::sparse(),
            nodes: Pages::dense(),
            leaves: Pages::dense(),
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

    /// States are root entries, then nodes while [`NODE`] is set, then numbers of leaves. No branch depends
    /// on a single state, which would have to wait for memory: the lookups at nodes are bits of a mask, and
    /// the processor has the loads of all of them under way.
    #[inline(always)]
    fn read(&self, addresses: &[u128], values: &mut [Value]) {
        let (roots, leaves) = (&*self.roots, &*self.leaves);
        let mut walk = Walk { upper: [0; CHUNK_LEN], states: [0; CHUNK_LEN], walking: 0 };
        for (at, &address) in addresses.iter().take(CHUNK_LEN).enumerate() {
            let upper = (address >> 64) as u64;
            let state = roots[(upper >> (64 - ROOT_LEN)) as usize].load(Acquire);
            walk.upper[at] = upper;
            walk.states[at] = state;
            walk.walking |= u64::from(state >> 31) << at;
        }
        let deep = walk.walking;
        walk.descend(&self.nodes, addresses);
        for (at, value) in values.iter_mut().take(CHUNK_LEN).enumerate() {
            let is_leaf = ((deep >> at) as u32 & 1).wrapping_neg();
            let state = walk.states[at];
            let held = leaves[(state & is_leaf) as usize % LEAVES_MAX].load(Relaxed);
            *value = state ^ ((state ^ held) & is_leaf);
        }
        for (value, &address) in values.iter_mut().zip(addresses) {
            if *value == 0 {
                *value = self.short[(address >> (128 - SHORT_LEN)) as usize].load(Relaxed);
            }
        }
    }

    /// Memory that the table holds, in bytes; the writer's own is [`Ipv6Writer::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

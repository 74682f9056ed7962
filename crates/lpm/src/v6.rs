//! IPv6: 20 bits, 12 bits, then nodes of 6 bits with counted children.
//!
//! A node is that of poptrie (Asai and Ohara, "Poptrie: a compressed trie with population count for
//! fast and scalable software IP routing table lookup", SIGCOMM 2015, section 3): 64 slots in 24 bytes,
//! one bit map of the slots that have a child and one of the slots where a run of equal leaves ends;
//! counting bits before a slot gives the place of its child or leaf in a block. What is ours:
//!
//! * The first 32 bits are two plain tables, 20 bits at the root and 12 in a chunk for each /20 that has
//!   routes (under 700 in the Internet's table), so /29 to /32 need no node, /48 needs three, and
//!   32 + 16 * 6 = 128 leaves no odd rest.
//! * Prefixes of up to 16 bits are not pushed into the trie but kept in a table of their own, asked
//!   when the trie finds nothing, so that a change of ::/0 does not touch every node.
//! * Leaf runs keep prefixes of different length apart, and the writer knows each run's length: a new
//!   prefix finds which leaves it takes over without asking for the prefixes below it.
//! * A batch descends one level at a time, all its lookups side by side, so that their loads overlap.
//! * Blocks are never changed but for single words: a change writes new blocks and swings one word.

mod blocks;
mod trie;
mod writer;

use std::hint::select_unpredictable;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::Value;
use crate::generation::Generation;
use crate::pages::Pages;
use crate::simd::{prefetch, with_popcount};

pub use writer::Ipv6Writer;

const SHORT_LEN: u8 = 16;
const ROOT_LEN: u8 = 20;
const CHUNK_BITS: u8 = 12;
/// Bits before the first node.
const FIRST_LEN: u8 = ROOT_LEN + CHUNK_BITS;
const STRIDE: u8 = 6;
const ROOTS: usize = 1 << ROOT_LEN;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS_MAX: usize = 1 << 15;
const NODES_MAX: usize = 1 << 24;
const LEAVES_MAX: usize = 1 << 26;

/// Words of a node: map of children, map of ends of leaf runs, and both blocks (children in the upper half).
const NODE_WORDS: usize = 3;
const CHILDREN: usize = 0;
const RUNS: usize = 1;
const BLOCKS: usize = 2;

/// Set in an entry that leads further down (from the root to a chunk, from a chunk to a node), clear in
/// one that is a value.
const DOWN: u32 = 1 << 31;

/// Addresses looked up side by side between two looks at the generation.
const LANES: usize = 64;

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
    nodes: Pages<AtomicU64, { NODES_MAX * NODE_WORDS }>,
    leaves: Pages<AtomicU32, LEAVES_MAX>,
    /// Bytes that the writer has touched.
    bytes: AtomicUsize,
}

type Nodes = [AtomicU64; NODES_MAX * NODE_WORDS];

/// Lookups side by side.
struct Walk {
    states: [u32; LANES],
    /// Which states are nodes.
    walking: u64,
}

impl Walk {
    /// Takes all lookups to their leaves.
    #[inline(always)]
    fn descend(&mut self, table: &Ipv6Lpm, addresses: &[u128]) {
        let mut shift = 128 - FIRST_LEN;
        // As long as a slot lies in the upper half, shifts of one word do.
        while self.walking != 0 && shift >= 64 + STRIDE {
            shift -= STRIDE;
            self.level(table, |at| ((addresses[at] >> 64) as u64 >> (shift - 64)) as u8 % 64);
        }
        while self.walking != 0 && shift > 0 {
            shift -= STRIDE;
            self.level(table, |at| slot_at(addresses[at], shift));
        }
    }

    /// One level for all that are at nodes. What each needs next is on its way while the others step.
    #[inline(always)]
    fn level(&mut self, table: &Ipv6Lpm, slot: impl Fn(usize) -> u8) {
        let (nodes, leaves) = (&*table.nodes, &*table.leaves);
        let mut left = self.walking;
        let mut walking = 0;
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES;
            left &= left - 1;
            let step = step(nodes, self.states[at], slot(at));
            self.states[at] = step.next;
            walking |= step.is_node << at;
            let node = (&raw const nodes[first_word(step.next)]).cast::<u8>();
            let leaf = (&raw const leaves[step.next as usize % LEAVES_MAX]).cast::<u8>();
            prefetch(select_unpredictable(step.is_node != 0, node, leaf));
        }
        self.walking = walking;
    }
}

/// What a node says about one slot.
struct Step {
    /// 1 if `next` is a node, 0 if it is a leaf.
    is_node: u64,
    next: u32,
}

#[inline(always)]
fn step(nodes: &Nodes, node: u32, slot: u8) -> Step {
    let first = first_word(node);
    let blocks = nodes[first + BLOCKS].load(Acquire);
    let children = nodes[first + CHILDREN].load(Relaxed);
    let runs = nodes[first + RUNS].load(Relaxed);
    let is_node = children >> slot & 1;
    let map = runs ^ ((children ^ runs) & is_node.wrapping_neg());
    let block = (blocks >> (is_node * 32)) as u32;
    let before = (1u64 << slot) - 1;
    Step { is_node, next: block.wrapping_add((map & before).count_ones()) }
}

#[inline(always)]
fn first_word(node: u32) -> usize {
    node as usize % NODES_MAX * NODE_WORDS
}

/// All ones for 1, 0 for 0: selects without a branch, which would wait for what is loaded.
#[inline(always)]
fn mask_of(bit: u32) -> u32 {
    bit.wrapping_neg()
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
            roots: Pages::dense(),
            chunks: Pages::dense(),
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
        let chunks = addresses.chunks(LANES).zip(values.chunks_mut(LANES));
        for (addresses, values) in chunks {
            loop {
                let begun = self.generation.begin();
                with_popcount(
                    #[inline(always)]
                    || self.read(addresses, values),
                );
                if self.generation.unchanged(begun) {
                    break;
                }
            }
        }
    }

    /// States are entries of the root, then of a chunk, then nodes, then numbers of leaves. Each kind has a
    /// pass of its own over the lookups that get there, which are the bits of a mask: a pass is a few
    /// instructions long, so the processor has the loads of many lookups under way, and no branch depends
    /// on a single state, which would have to wait for memory.
    #[inline(always)]
    fn read(&self, addresses: &[u128], values: &mut [Value]) {
        let (roots, chunks, leaves) = (&*self.roots, &*self.chunks, &*self.leaves);
        let mut walk = Walk { states: [0; LANES], walking: 0 };
        let mut chunked = 0u64;
        for (at, &address) in addresses.iter().take(LANES).enumerate() {
            let root = roots[(address >> (128 - ROOT_LEN)) as usize].load(Acquire);
            walk.states[at] = root;
            chunked |= u64::from(root >> 31) << at;
        }
        while chunked != 0 {
            let at = chunked.trailing_zeros() as usize % LANES;
            chunked &= chunked - 1;
            let chunk = (walk.states[at] & !DOWN) as usize % CHUNKS_MAX;
            let within = (addresses[at] >> (128 - FIRST_LEN)) as usize % CHUNK;
            let state = chunks[chunk * CHUNK + within].load(Acquire);
            walk.states[at] = state;
            walk.walking |= u64::from(state >> 31) << at;
            prefetch(&raw const self.nodes[first_word(state & mask_of(state >> 31))]);
        }
        let mut deep = walk.walking;
        walk.descend(self, addresses);
        while deep != 0 {
            let at = deep.trailing_zeros() as usize % LANES;
            deep &= deep - 1;
            walk.states[at] = leaves[walk.states[at] as usize % LEAVES_MAX].load(Relaxed);
        }
        let mut none = 0u64;
        for (at, (value, &state)) in values.iter_mut().zip(&walk.states).enumerate() {
            *value = state;
            none |= u64::from(state == 0) << at;
        }
        while none != 0 {
            let at = none.trailing_zeros() as usize % LANES;
            none &= none - 1;
            values[at] = self.short[(addresses[at] >> (128 - SHORT_LEN)) as usize].load(Relaxed);
        }
    }

    /// Memory that the table holds, in bytes; the writer's own is [`Ipv6Writer::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

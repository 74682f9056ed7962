//! Changing the trie: nodes are taken apart into 64 slots, changed, and put together in new blocks.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::blocks::Blocks;
use super::{
    BLOCKS, CHILDREN, CHUNK, CHUNKS_MAX, DOWN, FIRST_LEN, Ipv6Lpm, LEAVES_MAX, NODE_WORDS,
    NODES_MAX, ROOT_LEN, ROOTS, RUNS, STRIDE, slot_at, step,
};
use crate::pages::Pages;
use crate::{LpmError, Value};

const SLOTS: usize = 64;
const LEVELS: usize = (128 - FIRST_LEN as usize) / STRIDE as usize;

/// Retired blocks that are worth a new generation.
const RETIRED_ENOUGH: usize = 256;

/// Retired chunks that are.
const RETIRED_CHUNKS_ENOUGH: usize = 8;

/// Length that stands for "a node" among the lengths of a chunk's entries.
const NODE_LEN: u8 = u8::MAX;

/// Elements that insertions leave unused, so that removals find blocks. One insertion takes at most
/// some 200: a block of neighbours, a block of the changed node, and a chain of small ones.
const ROOM: u32 = 1 << 16;

/// The value of a slot and the length of the prefix that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) len: u8,
}

impl Leaf {
    /// No prefix over 16 bits.
    pub(super) const NONE: Self = Self { value: 0, len: 0 };
}

/// The three words of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    children: u64,
    runs: u64,
    child_block: u32,
    leaf_block: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Leaf(Leaf),
    Node(Node),
}

/// What the writer knows about the trie beside what readers see.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Blocks,
    leaves: Blocks,
    leaf_lens: Pages<u8, LEAVES_MAX>,
    root_lens: Pages<u8, ROOTS>,
    chunk_lens: Pages<u8, { CHUNKS_MAX * CHUNK }>,
    /// Entries of each chunk that are nodes or belong to prefixes the root cannot hold.
    chunk_busy: Vec<u16>,
    chunks_free: Vec<u32>,
    chunks_retired: Vec<u32>,
}

/// The way from a chunk to a node.
struct Path {
    /// Index of the chunk's entry among all entries of all chunks.
    entry: usize,
    /// Nodes by number and the slot taken out of each; the last one's slot is where the prefix begins.
    steps: [(u32, u8); LEVELS],
    len: usize,
}

impl Path {
    fn last(&self) -> (u32, u8) {
        self.steps[self.len - 1]
    }

    /// Bits before the last node's slots.
    fn bits_before(&self) -> u8 {
        FIRST_LEN + STRIDE * (self.len as u8 - 1)
    }
}

fn slot_after(prefix: u128, bits_before: u8) -> u8 {
    slot_at(prefix, 128 - STRIDE - bits_before)
}

impl Trie {
    pub(super) fn new() -> Self {
        Self {
            nodes: Blocks::new(NODES_MAX),
            leaves: Blocks::new(LEAVES_MAX),
            leaf_lens: Pages::sparse(),
            root_lens: Pages::sparse(),
            chunk_lens: Pages::sparse(),
            chunk_busy: Vec::new(),
            chunks_free: Vec::new(),
            chunks_retired: Vec::new(),
        }
    }

    /// Whether the next insertion finds all blocks it may need.
    pub(super) fn check_room(&self) -> Result<(), LpmError> {
        let chunks = !self.chunks_free.is_empty()
            || self.chunks_retired.len() >= RETIRED_CHUNKS_ENOUGH
            || self.chunk_busy.len() < CHUNKS_MAX;
        let room = chunks && self.nodes.has_room(ROOM) && self.leaves.has_room(ROOM);
        if room { Ok(()) } else { Err(LpmError::Full) }
    }

    /// Gives the entries of a prefix of up to 32 bits, and all leaves below them, to `leaf` where the
    /// length of the present owner is `taken`.
    pub(super) fn assign(
        &mut self,
        table: &Ipv6Lpm,
        prefix: u128,
        len: u8,
        taken: impl Fn(u8) -> bool,
        leaf: Leaf,
    ) {
        let root = (prefix >> (128 - ROOT_LEN)) as usize;
        if len > ROOT_LEN {
            let start = self.entry_of(table, prefix);
            for entry in start..start + (1 << (FIRST_LEN - len)) {
                self.assign_entry(table, entry, &taken, leaf);
            }
            self.settle(table, root);
            return;
        }
        for root in root..root + (1 << (ROOT_LEN - len)) {
            if let Some(chunk) = chunk_at(table, root) {
                for entry in chunk * CHUNK..(chunk + 1) * CHUNK {
                    self.assign_entry(table, entry, &taken, leaf);
                }
            } else if taken(self.root_lens[root]) {
                self.root_lens[root] = leaf.len;
                table.roots[root].store(leaf.value, Release);
            }
        }
    }

    fn assign_entry(
        &mut self,
        table: &Ipv6Lpm,
        entry: usize,
        taken: &impl Fn(u8) -> bool,
        leaf: Leaf,
    ) {
        let content = table.chunks[entry].load(Relaxed);
        if content & DOWN != 0 {
            self.assign_below(table, read(table, content & !DOWN), taken, leaf);
        } else if taken(self.chunk_lens[entry]) {
            self.set_entry(table, entry, leaf.value, leaf.len);
        }
    }

    fn set_entry(&mut self, table: &Ipv6Lpm, entry: usize, content: u32, len: u8) {
        let busy = &mut self.chunk_busy[entry / CHUNK];
        *busy -= u16::from(self.chunk_lens[entry] > ROOT_LEN);
        *busy += u16::from(len > ROOT_LEN);
        self.chunk_lens[entry] = len;
        table.chunks[entry].store(content, Release);
    }

    /// Index of the first chunk entry of a prefix; makes the chunk if there is none.
    fn entry_of(&mut self, table: &Ipv6Lpm, prefix: u128) -> usize {
        let root = (prefix >> (128 - ROOT_LEN)) as usize;
        let within = (prefix >> (128 - FIRST_LEN)) as usize % CHUNK;
        if let Some(chunk) = chunk_at(table, root) {
            return chunk * CHUNK + within;
        }
        let chunk = self.take_chunk(table);
        let entries = chunk * CHUNK..(chunk + 1) * CHUNK;
        let value = table.roots[root].load(Relaxed);
        self.chunk_lens[entries.clone()].fill(self.root_lens[root]);
        for entry in &table.chunks[entries] {
            entry.store(value, Relaxed);
        }
        table.roots[root].store(chunk as u32 | DOWN, Release);
        chunk * CHUNK + within
    }

    fn take_chunk(&mut self, table: &Ipv6Lpm) -> usize {
        if self.chunks_free.is_empty() && self.chunks_retired.len() >= RETIRED_CHUNKS_ENOUGH {
            self.advance(table);
        }
        if let Some(chunk) = self.chunks_free.pop() {
            return chunk as usize;
        }
        assert!(self.chunk_busy.len() < CHUNKS_MAX, "room was checked");
        self.chunk_busy.push(0);
        self.chunk_busy.len() - 1
    }

    /// Puts the value back into the root and retires the chunk if nothing in it is longer.
    fn settle(&mut self, table: &Ipv6Lpm, root: usize) {
        if let Some(chunk) = chunk_at(table, root)
            && self.chunk_busy[chunk] == 0
        {
            self.root_lens[root] = self.chunk_lens[chunk * CHUNK];
            let value = table.chunks[chunk * CHUNK].load(Relaxed);
            table.roots[root].store(value, Release);
            self.chunks_retired.push(chunk as u32);
        }
    }

    /// The same for all leaves of a node and below.
    fn assign_below(
        &mut self,
        table: &Ipv6Lpm,
        node: Node,
        taken: &impl Fn(u8) -> bool,
        leaf: Leaf,
    ) {
        for index in node.leaf_block..node.leaf_block + node.runs.count_ones() {
            let len = &mut self.leaf_lens[index as usize];
            if taken(*len) {
                *len = leaf.len;
                table.leaves[index as usize].store(leaf.value, Relaxed);
            }
        }
        for index in node.child_block..node.child_block + node.children.count_ones() {
            self.assign_below(table, read(table, index), taken, leaf);
        }
    }

    /// Adds a prefix of over 32 bits.
    pub(super) fn insert(&mut self, table: &Ipv6Lpm, prefix: u128, leaf: Leaf) {
        let entry = self.entry_of(table, prefix);
        let Some(path) = find(table, entry, prefix, leaf.len) else {
            let held =
                Leaf { value: table.chunks[entry].load(Relaxed), len: self.chunk_lens[entry] };
            let node = self.chain(table, prefix, FIRST_LEN, held, leaf);
            self.link(table, entry, node);
            return;
        };
        let node = read(table, path.last().0);
        let mut slots = self.take_apart(table, node);
        let bits_before = path.bits_before();
        if leaf.len <= bits_before + STRIDE {
            self.assign_slots(
                table,
                &mut slots,
                prefix,
                (leaf.len, bits_before),
                &|held| held <= leaf.len,
                leaf,
            );
        } else {
            let slot = &mut slots[usize::from(path.last().1)];
            let Slot::Leaf(held) = *slot else { unreachable!("the path ends where no child is") };
            *slot = Slot::Node(self.chain(table, prefix, bits_before + STRIDE, held, leaf));
        }
        let changed = self.put_together(table, &slots, Some(node));
        self.replace(table, &path, changed);
        self.retire(node, changed);
    }

    /// Takes a prefix of over 32 bits out; `leaf` takes over.
    pub(super) fn remove(&mut self, table: &Ipv6Lpm, prefix: u128, len: u8, leaf: Leaf) {
        let entry = self.entry_of(table, prefix);
        let mut path = find(table, entry, prefix, len).expect("the prefix is in the trie");
        let mut node = read(table, path.last().0);
        let mut slots = self.take_apart(table, node);
        let bits_before = path.bits_before();
        assert!(len <= bits_before + STRIDE, "the prefix has a node");
        self.assign_slots(table, &mut slots, prefix, (len, bits_before), &|held| held == len, leaf);
        let mut gone: Vec<Node> = Vec::new();
        while let Some(leaf) = only_leaf(&slots, path.bits_before()) {
            gone.push(node);
            path.len -= 1;
            if path.len == 0 {
                let number = table.chunks[entry].load(Relaxed) & !DOWN;
                self.set_entry(table, entry, leaf.value, leaf.len);
                self.nodes.retire(number, 1);
                self.settle(table, (prefix >> (128 - ROOT_LEN)) as usize);
                break;
            }
            let (number, slot) = path.last();
            node = read(table, number);
            slots = self.take_apart(table, node);
            slots[usize::from(slot)] = Slot::Leaf(leaf);
        }
        if path.len > 0 {
            let changed = self.put_together(table, &slots, Some(node));
            self.replace(table, &path, changed);
            self.retire(node, changed);
        }
        for node in gone {
            self.leaves.retire(node.leaf_block, node.runs.count_ones());
            self.nodes.retire(node.child_block, node.children.count_ones());
        }
    }

    /// A node, and nodes below it as needed, in which everything is `held` but for the new prefix.
    fn chain(
        &mut self,
        table: &Ipv6Lpm,
        prefix: u128,
        bits_before: u8,
        held: Leaf,
        leaf: Leaf,
    ) -> Node {
        let mut slots = [Slot::Leaf(held); SLOTS];
        if leaf.len <= bits_before + STRIDE {
            self.assign_slots(table, &mut slots, prefix, (leaf.len, bits_before), &|_| true, leaf);
        } else {
            let below = self.chain(table, prefix, bits_before + STRIDE, held, leaf);
            slots[usize::from(slot_after(prefix, bits_before))] = Slot::Node(below);
        }
        self.put_together(table, &slots, None)
    }

    /// Gives the slots of a prefix, and the leaves below them, to `leaf`.
    fn assign_slots(
        &mut self,
        table: &Ipv6Lpm,
        slots: &mut [Slot; SLOTS],
        prefix: u128,
        (len, bits_before): (u8, u8),
        taken: &impl Fn(u8) -> bool,
        leaf: Leaf,
    ) {
        let first = usize::from(slot_after(prefix, bits_before));
        let count = 1 << (bits_before + STRIDE - len);
        for slot in &mut slots[first..first + count] {
            match slot {
                Slot::Node(below) => self.assign_below(table, *below, taken, leaf),
                Slot::Leaf(held) if taken(held.len) => *held = leaf,
                Slot::Leaf(_) => {}
            }
        }
    }

    fn take_apart(&self, table: &Ipv6Lpm, node: Node) -> [Slot; SLOTS] {
        let mut slots = [Slot::Leaf(Leaf::NONE); SLOTS];
        let (mut child, mut leaf) = (node.child_block, node.leaf_block);
        for (at, slot) in slots.iter_mut().enumerate() {
            if node.children >> at & 1 != 0 {
                *slot = Slot::Node(read(table, child));
                child += 1;
                continue;
            }
            *slot = Slot::Leaf(Leaf {
                value: table.leaves[leaf as usize].load(Relaxed),
                len: self.leaf_lens[leaf as usize],
            });
            leaf += (node.runs >> at & 1) as u32;
        }
        slots
    }

    /// Writes the blocks of a node; its children's block stays the old one's if they are the same.
    fn put_together(&mut self, table: &Ipv6Lpm, slots: &[Slot; SLOTS], old: Option<Node>) -> Node {
        let mut node = Node { children: 0, runs: 0, child_block: 0, leaf_block: 0 };
        let (mut leaves, mut leaves_len) = ([Leaf::NONE; SLOTS], 0);
        let mut run_end = 0;
        for (at, slot) in slots.iter().enumerate() {
            match slot {
                Slot::Node(_) => node.children |= 1 << at,
                Slot::Leaf(leaf) => {
                    if leaves_len == 0 || leaves[leaves_len - 1] != *leaf {
                        node.runs |= run_end;
                        leaves[leaves_len] = *leaf;
                        leaves_len += 1;
                    }
                    run_end = 1 << at;
                }
            }
        }
        node.runs |= run_end;
        self.reclaim(table, node.children.count_ones(), leaves_len as u32);
        node.leaf_block = self.leaves.take(leaves_len as u32);
        for (leaf, index) in leaves[..leaves_len].iter().zip(node.leaf_block as usize..) {
            table.leaves[index].store(leaf.value, Relaxed);
            self.leaf_lens[index] = leaf.len;
        }
        match old {
            Some(old) if old.children == node.children => node.child_block = old.child_block,
            _ => {
                node.child_block = self.nodes.take(node.children.count_ones());
                let children = slots.iter().filter_map(|slot| match slot {
                    Slot::Node(child) => Some(*child),
                    Slot::Leaf(_) => None,
                });
                for (child, number) in children.zip(node.child_block..) {
                    write(table, number, child);
                }
            }
        }
        node
    }

    /// Puts a node in the place of the path's last one: its neighbours move to a new block with it, and
    /// the one word that leads there swings.
    fn replace(&mut self, table: &Ipv6Lpm, path: &Path, changed: Node) {
        if path.len == 1 {
            let old = table.chunks[path.entry].load(Relaxed) & !DOWN;
            self.link(table, path.entry, changed);
            self.nodes.retire(old, 1);
            return;
        }
        let (above, _) = path.steps[path.len - 2];
        let parent = read(table, above);
        let count = parent.children.count_ones();
        self.reclaim(table, count, 0);
        let block = self.nodes.take(count);
        for (from, to) in (parent.child_block..parent.child_block + count).zip(block..) {
            let node = if from == path.last().0 { changed } else { read(table, from) };
            write(table, to, node);
        }
        let word = u64::from(block) << 32 | u64::from(parent.leaf_block);
        table.nodes[above as usize * NODE_WORDS + BLOCKS].store(word, Release);
        self.nodes.retire(parent.child_block, count);
    }

    fn link(&mut self, table: &Ipv6Lpm, entry: usize, node: Node) {
        self.reclaim(table, 1, 0);
        let number = self.nodes.take(1);
        write(table, number, node);
        self.set_entry(table, entry, number | DOWN, NODE_LEN);
    }

    /// Retires what a changed node no longer uses.
    fn retire(&mut self, old: Node, changed: Node) {
        self.leaves.retire(old.leaf_block, old.runs.count_ones());
        if old.child_block != changed.child_block || changed.children != old.children {
            self.nodes.retire(old.child_block, old.children.count_ones());
        }
    }

    /// Reuses retired blocks before fresh ones, once there are enough of them to start a generation.
    fn reclaim(&mut self, table: &Ipv6Lpm, nodes_len: u32, leaves_len: u32) {
        let enough = self.nodes.retired_len() + self.leaves.retired_len() >= RETIRED_ENOUGH;
        if enough && (self.nodes.lacks(nodes_len) || self.leaves.lacks(leaves_len)) {
            self.advance(table);
        }
    }

    fn advance(&mut self, table: &Ipv6Lpm) {
        table.generation.advance();
        self.nodes.reclaim();
        self.leaves.reclaim();
        self.chunks_free.append(&mut self.chunks_retired);
    }

    /// Bytes of the readers' part that were ever used.
    pub(super) fn table_bytes(&self, table: &Ipv6Lpm) -> usize {
        size_of_val(&*table.short)
            + size_of_val(&*table.roots)
            + self.chunk_busy.len() * CHUNK * size_of::<u32>()
            + self.nodes.used() * NODE_WORDS * size_of::<u64>()
            + self.leaves.used() * size_of::<u32>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks_free.capacity() + self.chunks_retired.capacity();
        self.root_lens.len()
            + self.chunk_busy.len() * (CHUNK + size_of::<u16>())
            + chunks * size_of::<u32>()
            + self.leaves.used()
            + self.nodes.memory_bytes()
            + self.leaves.memory_bytes()
    }
}

/// The chunk that a root entry leads to.
fn chunk_at(table: &Ipv6Lpm, root: usize) -> Option<usize> {
    let content = table.roots[root].load(Relaxed);
    (content & DOWN != 0).then_some((content & !DOWN) as usize)
}

/// The way to the node whose slots the prefix is made of, or to the last one there is on that way;
/// `None` when the chunk's entry is a leaf.
fn find(table: &Ipv6Lpm, entry: usize, prefix: u128, len: u8) -> Option<Path> {
    let content = table.chunks[entry].load(Relaxed);
    if content & DOWN == 0 {
        return None;
    }
    let mut path = Path { entry, steps: [(0, 0); LEVELS], len: 0 };
    let mut number = content & !DOWN;
    loop {
        let bits_before = FIRST_LEN + STRIDE * path.len as u8;
        let slot = slot_after(prefix, bits_before);
        path.steps[path.len] = (number, slot);
        path.len += 1;
        if len <= bits_before + STRIDE {
            return Some(path);
        }
        let step = step(&table.nodes, number, slot);
        if step.is_node == 0 {
            return Some(path);
        }
        number = step.next;
    }
}

/// The leaf that a node's parent could hold instead of the node.
fn only_leaf(slots: &[Slot; SLOTS], bits_before: u8) -> Option<Leaf> {
    let Slot::Leaf(leaf) = slots[0] else { return None };
    let alike = leaf.len <= bits_before && slots.iter().all(|slot| *slot == slots[0]);
    alike.then_some(leaf)
}

fn read(table: &Ipv6Lpm, number: u32) -> Node {
    let words = &table.nodes[number as usize * NODE_WORDS..][..NODE_WORDS];
    let blocks = words[BLOCKS].load(Relaxed);
    Node {
        children: words[CHILDREN].load(Relaxed),
        runs: words[RUNS].load(Relaxed),
        child_block: (blocks >> 32) as u32,
        leaf_block: blocks as u32,
    }
}

fn write(table: &Ipv6Lpm, number: u32, node: Node) {
    let words = &table.nodes[number as usize * NODE_WORDS..][..NODE_WORDS];
    words[CHILDREN].store(node.children, Relaxed);
    words[RUNS].store(node.runs, Relaxed);
    let blocks = u64::from(node.child_block) << 32 | u64::from(node.leaf_block);
    words[BLOCKS].store(blocks, Relaxed);
}

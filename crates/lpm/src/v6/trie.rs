//! Changing the trie: which words a prefix has, and which a change gives it.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::build::{Entry, Nodes, Ranges};
use super::nodes::{
    DOWN, FIRST_RANGE, LINE, RANGES_BITS, TABLE_BITS, first_word, range_of, range_slot, table_slot,
};
use super::{CHUNK, CHUNKS_MAX, FIRST_LEN, Ipv6Lpm, ROOT_LEN, ROOTS, SHORT_LEN};
use crate::pages::Pages;
use crate::{LpmError, Value};

/// Retired chunks that are worth a new generation.
const RETIRED_CHUNKS_ENOUGH: usize = 8;

/// What the writer knows about the trie beside what readers see.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Nodes,
    root_lens: Pages<u8, ROOTS>,
    chunk_lens: Pages<u8, { CHUNKS_MAX * CHUNK }>,
    /// Entries of each chunk that are nodes or belong to prefixes the root cannot hold.
    chunk_busy: Vec<u16>,
    chunks_free: Vec<u32>,
    chunks_retired: Vec<u32>,
}

/// Where an entry stands.
#[derive(Clone, Copy)]
enum EntryRef {
    /// Among the entries of all chunks.
    Chunk(usize),
    /// Among the words of all lines.
    Line(usize),
}

/// The way from a chunk to the entry that a prefix changes: places, and how many bits lead to each.
type Path = Vec<(EntryRef, u8)>;

/// What a change does: the entries of a prefix, and all values below them, go to `leaf` where the length
/// of the present owner is `taken`.
struct Change<'a, T> {
    prefix: u128,
    len: u8,
    taken: &'a T,
    leaf: Entry,
}

impl<T: Fn(u8) -> bool> Change<'_, T> {
    /// First and last slot of the prefix in ranges after `depth` bits.
    fn slots(&self, depth: u8) -> (u16, u16) {
        let first = range_slot(self.prefix, depth);
        let host = u16::MAX.checked_shr(u32::from(self.len - depth)).unwrap_or(0);
        (first, first | host)
    }
}

impl Trie {
    /// With nodes of at most so many lines.
    pub(super) fn new(lines: usize) -> Self {
        Self {
            nodes: Nodes::new(lines),
            root_lens: Pages::sparse(),
            chunk_lens: Pages::sparse(),
            chunk_busy: Vec::new(),
            chunks_free: Vec::new(),
            chunks_retired: Vec::new(),
        }
    }

    /// Finds all lines and the chunk that the insertion of a prefix may need.
    pub(super) fn make_room(
        &mut self,
        table: &Ipv6Lpm,
        prefix: u128,
        len: u8,
    ) -> Result<(), LpmError> {
        let root = (prefix >> (128 - ROOT_LEN)) as usize;
        let chunks = len <= ROOT_LEN
            || chunk_at(table, root).is_some()
            || self.chunk_busy.len() < CHUNKS_MAX
            || !(self.chunks_free.is_empty() && self.chunks_retired.is_empty());
        let lines = len <= FIRST_LEN || self.nodes.make_room(table);
        if chunks && lines { Ok(()) } else { Err(LpmError::Full) }
    }

    /// Gives the entries of a prefix of over 16 bits, and all values below them, to `leaf` where the
    /// length of the present owner is `taken`.
    pub(super) fn assign(
        &mut self,
        table: &Ipv6Lpm,
        prefix: u128,
        len: u8,
        taken: impl Fn(u8) -> bool,
        leaf: Entry,
    ) {
        let root = (prefix >> (128 - ROOT_LEN)) as usize;
        if len > ROOT_LEN {
            let start = self.entry_of(table, prefix);
            if len > FIRST_LEN {
                self.change(table, start, &Change { prefix, len, taken: &taken, leaf });
            } else {
                for entry in start..start + (1 << (FIRST_LEN - len)) {
                    self.assign_entry(table, entry, &taken, leaf);
                }
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
                self.set_root(table, root, leaf);
            }
        }
    }

    fn assign_entry(
        &mut self,
        table: &Ipv6Lpm,
        at: usize,
        taken: &impl Fn(u8) -> bool,
        leaf: Entry,
    ) {
        let entry = self.entry(table, EntryRef::Chunk(at));
        let assigned = self.nodes.assign(table, entry, taken, leaf);
        if assigned != entry {
            self.set(table, EntryRef::Chunk(at), assigned);
        }
    }

    fn entry(&self, table: &Ipv6Lpm, place: EntryRef) -> Entry {
        match place {
            EntryRef::Chunk(at) => {
                Entry { word: table.chunks[at].load(Relaxed), len: self.chunk_lens[at] }
            }
            EntryRef::Line(at) => self.nodes.entry(table, at),
        }
    }

    fn set(&mut self, table: &Ipv6Lpm, place: EntryRef, entry: Entry) {
        match place {
            EntryRef::Chunk(at) => {
                let busy = &mut self.chunk_busy[at / CHUNK];
                *busy -= u16::from(self.chunk_lens[at] > ROOT_LEN);
                *busy += u16::from(entry.len > ROOT_LEN);
                self.chunk_lens[at] = entry.len;
                table.chunks[at].store(entry.word, Release);
            }
            EntryRef::Line(at) => self.nodes.set(table, at, entry),
        }
    }

    /// Gives a root a value; where no prefix of over 16 bits has one, what shorter ones say.
    fn set_root(&mut self, table: &Ipv6Lpm, root: usize, entry: Entry) {
        self.root_lens[root] = entry.len;
        let short = table.short[root >> (ROOT_LEN - SHORT_LEN)].load(Relaxed);
        let value = if entry.len == 0 { short } else { entry.word };
        table.roots[root].store(value, Release);
    }

    /// Brings an entry of the table of short prefixes to the roots that hold it.
    pub(super) fn spread_short(&self, table: &Ipv6Lpm, short: usize, value: Value) {
        let first = short << (ROOT_LEN - SHORT_LEN);
        for root in first..first + (1 << (ROOT_LEN - SHORT_LEN)) {
            if self.root_lens[root] == 0 && chunk_at(table, root).is_none() {
                table.roots[root].store(value, Release);
            }
        }
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
        let len = self.root_lens[root];
        let value = if len == 0 { 0 } else { table.roots[root].load(Relaxed) };
        self.chunk_lens[entries.clone()].fill(len);
        for entry in &table.chunks[entries] {
            entry.store(value, Relaxed);
        }
        table.roots[root].store(chunk as u32 | DOWN, Release);
        chunk * CHUNK + within
    }

    fn take_chunk(&mut self, table: &Ipv6Lpm) -> usize {
        let used_up = self.chunk_busy.len() == CHUNKS_MAX;
        let enough = if used_up { 1 } else { RETIRED_CHUNKS_ENOUGH };
        if self.chunks_free.is_empty() && self.chunks_retired.len() >= enough {
            self.advance(table);
        }
        if let Some(chunk) = self.chunks_free.pop() {
            return chunk as usize;
        }
        assert!(!used_up, "room was made, and prefixes that are removed have chunks");
        self.chunk_busy.push(0);
        self.chunk_busy.len() - 1
    }

    /// Puts the value back into the root and retires the chunk if nothing in it is longer.
    fn settle(&mut self, table: &Ipv6Lpm, root: usize) {
        if let Some(chunk) = chunk_at(table, root)
            && self.chunk_busy[chunk] == 0
        {
            self.set_root(table, root, self.entry(table, EntryRef::Chunk(chunk * CHUNK)));
            self.chunks_retired.push(chunk as u32);
        }
    }

    /// Changes what lies below an entry of a chunk.
    fn change<T: Fn(u8) -> bool>(&mut self, table: &Ipv6Lpm, entry: usize, change: &Change<'_, T>) {
        let mut path = self.find(table, entry, change);
        let Some(&(place, depth)) = path.last() else { unreachable!("a path begins at the chunk") };
        let mut entry = self.entry(table, place);
        if entry.is_table() {
            let first = first_word(entry.word) + table_slot(change.prefix, depth);
            for at in first..first + (1 << (depth + TABLE_BITS - change.len)) {
                self.nodes.assign_at(table, at, change.taken, change.leaf);
            }
            self.swing_smaller(table, &mut path, change.prefix);
        } else {
            let ranges = match entry.is_node() {
                true => self.nodes.take_apart(table, entry),
                false => Ranges::all(entry),
            };
            self.nodes.give_up(entry);
            entry = self.changed(table, &ranges, depth, change);
            self.swing(table, &mut path, change.prefix, entry);
        }
        self.nodes.retire();
    }

    /// The way to the node whose slots the prefix is made of, or to the value that is in its place.
    fn find<T>(&self, table: &Ipv6Lpm, entry: usize, change: &Change<'_, T>) -> Path {
        let mut path = vec![(EntryRef::Chunk(entry), FIRST_LEN)];
        loop {
            let (place, depth) = path[path.len() - 1];
            let node = self.entry(table, place);
            if !node.is_node() {
                return path;
            }
            let first = first_word(node.word);
            let (at, bits) = if node.is_table() {
                (first + table_slot(change.prefix, depth), TABLE_BITS)
            } else {
                let range = range_of(&table.lines, first, range_slot(change.prefix, depth));
                (first + FIRST_RANGE + range, RANGES_BITS)
            };
            // A value in ranges may be that of many slots, from which one is cut out.
            let cut = !node.is_table() && !self.nodes.entry(table, at).is_node();
            if change.len <= depth + bits || cut {
                return path;
            }
            path.push((EntryRef::Line(at), depth + bits));
        }
    }

    /// An entry for what `ranges` become.
    fn changed<T: Fn(u8) -> bool>(
        &mut self,
        table: &Ipv6Lpm,
        ranges: &Ranges,
        depth: u8,
        change: &Change<'_, T>,
    ) -> Entry {
        let slots = change.slots(depth);
        let changed = ranges.change(slots, |held| {
            if change.len <= depth + RANGES_BITS {
                self.nodes.assign(table, held, change.taken, change.leaf)
            } else {
                self.changed(table, &Ranges::all(held), depth + RANGES_BITS, change)
            }
        });
        self.nodes.put_together(table, &changed)
    }

    /// Puts an entry where the path ends, and what it makes smaller above.
    fn swing(&mut self, table: &Ipv6Lpm, path: &mut Path, prefix: u128, mut entry: Entry) {
        while let Some((place, _)) = path.pop() {
            let above = path.last().map(|&(above, depth)| (self.entry(table, above), depth));
            match above {
                // A value may be that of the ranges beside it.
                Some((node, depth)) if !node.is_table() && !entry.is_node() => {
                    let slot = range_slot(prefix, depth);
                    let ranges = self.nodes.take_apart(table, node);
                    let ranges = ranges.change((slot, slot), |_| entry);
                    self.nodes.give_up(node);
                    entry = self.nodes.put_together(table, &ranges);
                }
                _ => {
                    self.set(table, place, entry);
                    return self.swing_smaller(table, path, prefix);
                }
            }
        }
    }

    /// Puts something smaller in the place of the table where the path ends, if that will do.
    fn swing_smaller(&mut self, table: &Ipv6Lpm, path: &mut Path, prefix: u128) {
        let Some(&(place, depth)) = path.last() else { return };
        let node = self.entry(table, place);
        if node.is_table()
            && let Some(smaller) = self.nodes.smaller(table, node, depth)
        {
            self.nodes.give_up(node);
            self.swing(table, path, prefix, smaller);
        }
    }

    fn advance(&mut self, table: &Ipv6Lpm) {
        table.generation.advance();
        self.nodes.reclaim();
        self.chunks_free.append(&mut self.chunks_retired);
    }

    /// Bytes of the readers' part that were ever used.
    pub(super) fn table_bytes(&self, table: &Ipv6Lpm) -> usize {
        size_of_val(&*table.short)
            + size_of_val(&*table.roots)
            + self.chunk_busy.len() * CHUNK * size_of::<u32>()
            + self.nodes.used() * LINE * size_of::<u32>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks_free.capacity() + self.chunks_retired.capacity();
        self.root_lens.len()
            + self.chunk_busy.len() * (CHUNK + size_of::<u16>())
            + chunks * size_of::<u32>()
            + self.nodes.memory_bytes()
    }
}

/// The chunk that a root entry leads to.
fn chunk_at(table: &Ipv6Lpm, root: usize) -> Option<usize> {
    let content = table.roots[root].load(Relaxed);
    (content & DOWN != 0).then_some((content & !DOWN) as usize)
}

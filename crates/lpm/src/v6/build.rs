//! Nodes as the writer sees them: taken apart, changed, and put together in new lines.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::Ipv6Lpm;
use super::blocks::{BLOCK, Blocks, ROOM};
use super::nodes::{
    DOWN, FIRST_RANGE, LINE, RANGES_MAX, TABLE, TO_TABLE, WORDS, end_at, first_word,
};
use crate::Value;
use crate::pages::Pages;

/// Retired nodes that are worth a new generation.
const RETIRED_ENOUGH: usize = 256;

/// Length that stands for "a node".
const NODE_LEN: u8 = u8::MAX;

/// A table becomes ranges again when its busy entries and they are no more than this, so that a prefix
/// that comes and goes does not change the kind of node each time.
const RANGES_AGAIN: usize = 6;

/// The word of a slot, a value or a node, and the length of the prefix that a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) word: u32,
    pub(super) len: u8,
}

impl Entry {
    /// No prefix over 16 bits.
    pub(super) const NONE: Self = Self { word: 0, len: 0 };

    pub(super) fn leaf(value: Value, len: u8) -> Self {
        Self { word: value, len }
    }

    pub(super) fn is_node(self) -> bool {
        self.word & DOWN != 0
    }

    pub(super) fn is_table(self) -> bool {
        self.word & (DOWN | TO_TABLE) == DOWN | TO_TABLE
    }
}

/// What 16 bits lead to: the last slot of each range and its entry, in order and to the very last slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(u16, Entry)>);

impl Ranges {
    pub(super) fn all(entry: Entry) -> Self {
        Self(vec![(u16::MAX, entry)])
    }

    /// Adds a range behind the last one, or lengthens that if it leads to the same.
    fn push(&mut self, end: u16, entry: Entry) {
        match self.0.last_mut() {
            Some(last) if last.1 == entry => last.0 = end,
            _ => self.0.push((end, entry)),
        }
    }

    /// First and last slot of each range.
    fn iter(&self) -> impl Iterator<Item = (u16, u16, Entry)> + '_ {
        let starts = self.0.iter().map(|(end, _)| end.wrapping_add(1));
        let starts = std::iter::once(0).chain(starts);
        starts.zip(&self.0).map(|(start, &(end, entry))| (start, end, entry))
    }

    /// The same with other entries from slot `first` to `last`.
    pub(super) fn change(
        &self,
        (first, last): (u16, u16),
        mut inside: impl FnMut(Entry) -> Entry,
    ) -> Self {
        let mut changed = Self(Vec::with_capacity(self.0.len() + 2));
        for (start, end, entry) in self.iter() {
            if start < first {
                changed.push(end.min(first - 1), entry);
            }
            if start <= last && end >= first {
                changed.push(end.min(last), inside(entry));
            }
            if end > last {
                changed.push(end, entry);
            }
        }
        changed
    }

    /// What 16 bits lead to after the first 8 are `slot`; a node would have to be one that comes 8 bits
    /// later.
    fn within(&self, slot: usize) -> Self {
        let (first, last) = ((slot as u16) << 8, (slot as u16) << 8 | 0xff);
        let mut inner = Self::default();
        for (start, end, entry) in self.iter() {
            if start <= last && end >= first {
                inner.push(end.min(last) << 8 | 0xff, entry);
            }
        }
        inner
    }

    fn has_node(&self) -> bool {
        self.0.iter().any(|(_, entry)| entry.is_node())
    }

    fn entry(&self, slot: u16) -> Entry {
        self.0[self.0.partition_point(|(end, _)| *end < slot)].1
    }
}

/// The lines of the table and what the writer knows about them beside what readers see.
#[derive(Debug)]
pub(super) struct Nodes {
    lines: Blocks,
    lens: Pages<u8, WORDS>,
    /// Nodes that will be out of reach when the present change is done.
    gone: Vec<u32>,
}

impl Nodes {
    /// Of at most so many lines.
    pub(super) fn new(lines: usize) -> Self {
        Self { lines: Blocks::new(lines), lens: Pages::sparse(), gone: Vec::new() }
    }

    /// Whether the next insertion finds all lines it may need, and removals after it theirs; reuses what
    /// was retired if need be.
    pub(super) fn make_room(&mut self, table: &Ipv6Lpm) -> bool {
        if self.lines.whole_len() < ROOM && self.lines.retired_len() > 0 {
            self.advance(table);
        }
        self.lines.whole_len() >= ROOM
    }

    fn advance(&mut self, table: &Ipv6Lpm) {
        table.generation.advance();
        self.reclaim();
    }

    pub(super) fn entry(&self, table: &Ipv6Lpm, at: usize) -> Entry {
        Entry { word: table.lines[at].load(Relaxed), len: self.lens[at] }
    }

    pub(super) fn set(&mut self, table: &Ipv6Lpm, at: usize, entry: Entry) {
        self.lens[at] = entry.len;
        table.lines[at].store(entry.word, Release);
    }

    /// Gives an entry, or all values below it, to `leaf` where the length of the present owner is
    /// `taken`; returns what the entry is to be.
    pub(super) fn assign(
        &mut self,
        table: &Ipv6Lpm,
        entry: Entry,
        taken: &impl Fn(u8) -> bool,
        leaf: Entry,
    ) -> Entry {
        if !entry.is_node() {
            return if taken(entry.len) { leaf } else { entry };
        }
        let first = first_word(entry.word);
        let words = match entry.is_table() {
            true => first..first + TABLE,
            false => first + FIRST_RANGE..first + FIRST_RANGE + ranges_len(table, first),
        };
        for at in words {
            self.assign_at(table, at, taken, leaf);
        }
        entry
    }

    /// The same for the entry at a place.
    pub(super) fn assign_at(
        &mut self,
        table: &Ipv6Lpm,
        at: usize,
        taken: &impl Fn(u8) -> bool,
        leaf: Entry,
    ) {
        let entry = self.entry(table, at);
        let assigned = self.assign(table, entry, taken, leaf);
        if assigned != entry {
            self.set(table, at, assigned);
        }
    }

    pub(super) fn take_apart(&self, table: &Ipv6Lpm, node: Entry) -> Ranges {
        let first = first_word(node.word);
        let len = ranges_len(table, first);
        let end = |at| if at + 1 < len { end_at(&table.lines, first, at) } else { u16::MAX };
        Ranges((0..len).map(|at| (end(at), self.entry(table, first + FIRST_RANGE + at))).collect())
    }

    /// An entry for ranges: what they all lead to, one line, or a table where there are too many.
    pub(super) fn put_together(&mut self, table: &Ipv6Lpm, ranges: &Ranges) -> Entry {
        match ranges.0.len() {
            1 if !ranges.has_node() => ranges.0[0].1,
            1..=RANGES_MAX => self.line(table, ranges),
            _ => {
                let entries = std::array::from_fn(|slot| {
                    let inner = ranges.within(slot);
                    if inner.has_node() {
                        let at = |slot| inner.entry((slot as u16) << 8);
                        self.table(table, &std::array::from_fn(at))
                    } else {
                        self.put_together(table, &inner)
                    }
                });
                self.table(table, &entries)
            }
        }
    }

    fn line(&mut self, table: &Ipv6Lpm, ranges: &Ranges) -> Entry {
        let line = self.take(table, 1);
        let first = first_word(line);
        let mut ends = [u16::MAX; 2 * FIRST_RANGE];
        for (at, &(end, entry)) in ranges.0.iter().enumerate() {
            if at < ends.len() {
                ends[at] = end;
            }
            self.set(table, first + FIRST_RANGE + at, entry);
        }
        for (at, pair) in ends.as_chunks::<2>().0.iter().enumerate() {
            let word = u32::from(pair[0]) | u32::from(pair[1]) << 16;
            table.lines[first + at].store(word, Relaxed);
        }
        Entry { word: line | DOWN, len: NODE_LEN }
    }

    fn table(&mut self, table: &Ipv6Lpm, entries: &[Entry; TABLE]) -> Entry {
        let line = self.take(table, BLOCK);
        for (at, &entry) in (first_word(line)..).zip(entries) {
            self.set(table, at, entry);
        }
        Entry { word: line | DOWN | TO_TABLE, len: NODE_LEN }
    }

    /// What a table after `depth` bits may be instead: the value of a prefix that covers it, or ranges
    /// where they have become few.
    pub(super) fn smaller(&mut self, table: &Ipv6Lpm, node: Entry, depth: u8) -> Option<Entry> {
        let first = first_word(node.word);
        let lens = &self.lens[first..first + TABLE];
        match lens.iter().filter(|len| **len > depth).count() {
            0 => return Some(self.entry(table, first)),
            1..=RANGES_AGAIN => {}
            _ => return None,
        }
        let ranges = self.ranges_of(table, first)?;
        for at in first..first + TABLE {
            self.give_up(self.entry(table, at));
        }
        Some(self.put_together(table, &ranges))
    }

    /// The ranges of a table with few nodes, if they are few and lie in these 16 bits.
    fn ranges_of(&self, table: &Ipv6Lpm, first: usize) -> Option<Ranges> {
        let mut nodes = (first..first + TABLE).filter(|&at| self.lens[at] == NODE_LEN);
        if !nodes.all(|at| self.is_told_apart_early(table, self.entry(table, at))) {
            return None;
        }
        let mut ranges = Ranges::default();
        for slot in 0..TABLE {
            let (entry, before) = (self.entry(table, first + slot), (slot as u16) << 8);
            if entry.is_node() {
                let inner = self.take_apart(table, entry).0;
                inner.iter().for_each(|&(end, leaf)| ranges.push(before | end >> 8, leaf));
            } else {
                ranges.push(before | 0xff, entry);
            }
            if ranges.0.len() > RANGES_AGAIN {
                return None;
            }
        }
        Some(ranges)
    }

    /// Whether a node is ranges that all end with their first 8 bits and are values.
    fn is_told_apart_early(&self, table: &Ipv6Lpm, node: Entry) -> bool {
        let first = first_word(node.word);
        let words = first + FIRST_RANGE..first + FIRST_RANGE + ranges_len(table, first);
        !node.is_table()
            && (0..RANGES_MAX - 1).all(|at| end_at(&table.lines, first, at) & 0xff == 0xff)
            && self.lens[words].iter().all(|&len| len != NODE_LEN)
    }

    /// Notes a node that no word will lead to when the present change is done.
    pub(super) fn give_up(&mut self, entry: Entry) {
        if entry.is_node() {
            self.gone.push(entry.word);
        }
    }

    /// The present change is done.
    pub(super) fn retire(&mut self) {
        for word in self.gone.drain(..) {
            let len = if word & TO_TABLE != 0 { BLOCK } else { 1 };
            self.lines.retire(word & !(DOWN | TO_TABLE), len);
        }
    }

    /// Reuses retired lines before others, once there are enough of them to start a generation or nothing
    /// else is left.
    fn take(&mut self, table: &Ipv6Lpm, len: u32) -> u32 {
        let enough = if self.lines.is_used_up() { 1 } else { RETIRED_ENOUGH };
        if self.lines.retired_len() >= enough && self.lines.lacks(len) {
            self.advance(table);
        }
        self.lines.take(len)
    }

    /// Makes retired lines free; the generation must have advanced since the last of them retired.
    pub(super) fn reclaim(&mut self) {
        self.lines.reclaim();
    }

    /// Lines in use now or before.
    pub(super) fn used(&self) -> usize {
        self.lines.used()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.used() * LINE + self.lines.memory_bytes()
    }
}

/// How many ranges a line has: those that end before the last slot, and the one that ends with it.
fn ranges_len(table: &Ipv6Lpm, first: usize) -> usize {
    (0..RANGES_MAX - 1).take_while(|&at| end_at(&table.lines, first, at) < u16::MAX).count() + 1
}

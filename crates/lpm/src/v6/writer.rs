//! The one writer of an IPv6 table: which prefixes there are and how a change becomes new blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::build::Entry;
use super::nodes::LINES_MAX;
use super::trie::Trie;
use super::{Ipv6Lpm, SHORT_LEN};
use crate::store::Store;
use crate::{LpmError, Value};

/// The one writer of an [`Ipv6Lpm`].
///
/// Each change is visible to readers as soon as the call returns. A prefix of over 32 bits costs a line of
/// ranges or entries of a table in place, plus in place the values that change hands below; now and then
/// ranges become a table (1 KiB, and a node for each of its slots within which ranges end) or a table
/// ranges. One of 17 to 32 bits costs the chunk entries or roots that it covers, up to 4,096 entries for
/// each root with a chunk, and a chunk of 16 KiB where it is the first over 20 bits of its /20. One of up
/// to 16 bits costs the entries of the table of short prefixes that it owns and, for each whose value
/// changes, those of its 16 roots that have no chunk: up to a million words for ::/0.
#[derive(Debug)]
pub struct Ipv6Writer {
    table: Arc<Ipv6Lpm>,
    store: Store<u128>,
    trie: Trie,
    /// Length of the prefix that owns an entry of the table of short prefixes, plus 1; 0 for none.
    short_lens: Vec<u8>,
}

impl Ipv6Writer {
    /// An empty table: its writer and the part that readers share.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Self, Arc<Ipv6Lpm>) {
        Self::with_lines(LINES_MAX)
    }

    fn with_lines(lines: usize) -> (Self, Arc<Ipv6Lpm>) {
        let table = Arc::new(Ipv6Lpm::new());
        let writer = Self {
            table: Arc::clone(&table),
            store: Store::new(),
            trie: Trie::new(lines),
            short_lens: vec![0; 1 << SHORT_LEN],
        };
        writer.count_bytes();
        (writer, table)
    }

    /// Sets the value of a prefix (host byte order) and returns the value it had.
    ///
    /// # Errors
    /// [`LpmError`] if length, prefix or value is out of range or the table is full; nothing has
    /// changed then.
    pub fn insert(
        &mut self,
        prefix: u128,
        len: u8,
        value: Value,
    ) -> Result<Option<Value>, LpmError> {
        Store::check(prefix, len, value)?;
        if len <= SHORT_LEN {
            self.assign_short(prefix, len, |held| held <= len + 1, value, len + 1);
        } else {
            self.trie.make_room(&self.table, prefix, len)?;
            let leaf = Entry::leaf(value, len);
            self.trie.assign(&self.table, prefix, len, |held| held <= len, leaf);
            self.count_bytes();
        }
        Ok(self.store.insert(prefix, len, value))
    }

    /// Removes a prefix and returns the value it had; the next shorter one takes over.
    ///
    /// # Panics
    /// If it needs memory and there is none: where neighbours of one length and value, which lie in one
    /// range, come apart, more nodes may be needed than before. After every insertion of a prefix of over
    /// 32 bits at least 1,000 removals find what they need, whatever they are; nearly all take nothing that
    /// they do not give back.
    pub fn remove(&mut self, prefix: u128, len: u8) -> Option<Value> {
        let removed = self.store.remove(prefix, len)?;
        let cover = self.store.cover(prefix, len);
        if len <= SHORT_LEN {
            let (value, held_len) = cover.map_or((0, 0), |(len, value)| (value, len + 1));
            self.assign_short(prefix, len, |held| held == len + 1, value, held_len);
            return Some(removed);
        }
        let leaf = match cover {
            Some((len, value)) if len > SHORT_LEN => Entry::leaf(value, len),
            _ => Entry::NONE,
        };
        self.trie.assign(&self.table, prefix, len, |held| held == len, leaf);
        self.count_bytes();
        Some(removed)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: u128, len: u8) -> Option<Value> {
        self.store.get(prefix, len)
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All prefixes in prefix order, the shorter first: (prefix, length, value).
    pub fn iter(&self) -> impl Iterator<Item = (u128, u8, Value)> + '_ {
        self.store.iter()
    }

    /// Memory that the writer holds beside the table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.trie.memory_bytes() + self.short_lens.len() + self.store.memory_bytes()
    }

    fn assign_short(
        &mut self,
        prefix: u128,
        len: u8,
        taken: impl Fn(u8) -> bool,
        value: Value,
        held_len: u8,
    ) {
        let start = (prefix >> (128 - SHORT_LEN)) as usize;
        let range = start..start + (1 << (SHORT_LEN - len));
        let (table, lens) = (&self.table, &mut self.short_lens[range.clone()]);
        table.generation.alone(|| {
            for (short, held) in range.zip(lens).filter(|(_, held)| taken(**held)) {
                *held = held_len;
                // What stays the same is not stored, which would take it from readers' caches.
                if table.short[short].load(Relaxed) != value {
                    table.short[short].store(value, Relaxed);
                    self.trie.spread_short(table, short, value);
                }
            }
        });
    }

    fn count_bytes(&self) {
        self.table.bytes.store(self.trie.table_bytes(&self.table), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{BLOCK, ROOM};
    use super::super::nodes::{DOWN, TO_TABLE};
    use super::super::{CHUNK, FIRST_LEN, ROOT_LEN};
    use super::*;

    /// A /32 under 2001::/16 that counts, and the `slot`th /48 in it.
    fn crowd(network: u128, slot: u128) -> u128 {
        0x2001 << 112 | network << 96 | slot << 80
    }

    /// What a chunk says of an address.
    fn word_of(table: &Ipv6Lpm, address: u128) -> u32 {
        let root = table.roots[(address >> (128 - ROOT_LEN)) as usize].load(Relaxed);
        let within = (address >> (128 - FIRST_LEN)) as usize % CHUNK;
        table.chunks[(root & !DOWN) as usize * CHUNK + within].load(Relaxed)
    }

    #[test]
    fn a_table_comes_with_the_twelfth_range_goes_with_the_sixth_and_is_used_again() {
        let (mut writer, table) = Ipv6Writer::new();
        let is_table = || word_of(&table, crowd(1, 0)) >= DOWN | TO_TABLE;
        let mut bytes = 0;
        for round in 0..2000 {
            // One range before them all, then two for each.
            for count in 1..=6u32 {
                writer.insert(crowd(1, 2 * u128::from(count)), 48, count).expect("is valid");
                assert_eq!(is_table(), 1 + 2 * count >= 12, "{count} inserted");
            }
            for count in (0..6u32).rev() {
                writer.remove(crowd(1, 2 * u128::from(count + 1)), 48).expect("was inserted");
                assert_eq!(is_table(), 1 + 2 * count > 6, "{count} left");
            }
            if round == 1000 {
                bytes = table.memory_bytes();
            }
        }
        assert_eq!(table.memory_bytes(), bytes);
    }

    #[test]
    fn a_table_that_was_full_of_lines_takes_tables_after_removals() {
        const SPARE: usize = 20;
        let (mut writer, table) = Ipv6Writer::with_lines((ROOM + SPARE) * BLOCK as usize);
        let fill = |writer: &mut Ipv6Writer, place: fn(u128) -> u128| {
            let refused = |at: &u128| writer.insert(place(*at), 48, *at as u32 + 1).is_err();
            (0..).find(refused).expect("lines end")
        };
        let strewn = |at| crowd(at, 1);
        let crowded = |at| crowd(at / 8, at % 8 * 2);
        let count = fill(&mut writer, strewn);
        assert_eq!(writer.insert(strewn(count), 48, 1), Err(LpmError::Full));
        assert!(count >= (SPARE * BLOCK as usize) as u128);
        // What needs no line is taken.
        assert_eq!(writer.insert(crowd(count, 0), 32, 1), Ok(None));
        assert_eq!(writer.remove(crowd(count, 0), 32), Some(1));
        for at in 0..count {
            assert_eq!(table.lookup(strewn(at)), at as u32 + 1);
            assert_eq!(writer.remove(strewn(at), 48), Some(at as u32 + 1));
        }
        let count = fill(&mut writer, crowded);
        assert!(count > 8 && word_of(&table, crowded(0)) >= DOWN | TO_TABLE, "{count}");
        for at in 0..count {
            assert_eq!(table.lookup(crowded(at)), at as u32 + 1);
            assert_eq!(writer.remove(crowded(at), 48), Some(at as u32 + 1));
        }
        assert_eq!(fill(&mut writer, crowded), count);
    }
}

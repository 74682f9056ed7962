//! The one writer of an IPv6 table: which prefixes there are and how a change becomes new blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::build::Entry;
use super::trie::Trie;
use super::{Ipv6Lpm, SHORT_LEN};
use crate::store::Store;
use crate::{LpmError, Value};

/// The one writer of an [`Ipv6Lpm`].
///
/// Each change is visible to readers as soon as the call returns. It writes one line of ranges anew, or
/// entries of a table in place, plus in place the values that change hands below.
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
        let table = Arc::new(Ipv6Lpm::new());
        let writer = Self {
            table: Arc::clone(&table),
            store: Store::new(),
            trie: Trie::new(),
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
            self.trie.check_room()?;
            let leaf = Entry::leaf(value, len);
            self.trie.assign(&self.table, prefix, len, |held| held <= len, leaf);
            self.count_bytes();
        }
        Ok(self.store.insert(prefix, len, value))
    }

    /// Removes a prefix and returns the value it had; the next shorter one takes over.
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

//! The writer's own record of the prefixes: what was inserted, and what lies behind a removal.
//!
//! The lookup structures only know which value an address has now. When a prefix goes, the next
//! shorter one that covers it must come back, and that is asked here.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::{LpmError, MAX_VALUE, Value};

/// Prefixes and their values in prefix order: by first address, then the shorter prefix first.
///
/// IPv4 prefixes of 16 bits and more are spread over one small tree per /16, most of which are a single
/// node: half the cache misses of one large tree.
#[derive(Debug)]
pub(crate) struct Store<A: Address> {
    /// Prefixes too short for a bucket.
    short: BTreeMap<A::Key, Value>,
    buckets: Vec<BTreeMap<A::Key, Value>>,
    len: usize,
}

impl<A: Address> Store<A> {
    pub(crate) fn new() -> Self {
        let buckets = vec![BTreeMap::new(); 1 << A::BUCKET_LEN];
        Self { short: BTreeMap::new(), buckets, len: 0 }
    }

    /// Refuses what no table may hold.
    pub(crate) fn check(prefix: A, len: u8, value: Value) -> Result<(), LpmError> {
        if len > A::BITS {
            return Err(LpmError::Length { len, len_max: A::BITS });
        }
        if prefix.network(len) != prefix {
            return Err(LpmError::HostBits { len });
        }
        if value == 0 || value > MAX_VALUE {
            return Err(LpmError::Value { value });
        }
        Ok(())
    }

    fn tree(&self, prefix: A, len: u8) -> &BTreeMap<A::Key, Value> {
        if len < A::BUCKET_LEN { &self.short } else { &self.buckets[prefix.bucket()] }
    }

    fn tree_mut(&mut self, prefix: A, len: u8) -> &mut BTreeMap<A::Key, Value> {
        if len < A::BUCKET_LEN { &mut self.short } else { &mut self.buckets[prefix.bucket()] }
    }

    pub(crate) fn insert(&mut self, prefix: A, len: u8, value: Value) -> Option<Value> {
        let before = self.tree_mut(prefix, len).insert(prefix.key(len), value);
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, prefix: A, len: u8) -> Option<Value> {
        let removed = self.tree_mut(prefix, len).remove(&prefix.key(len))?;
        self.len -= 1;
        Some(removed)
    }

    pub(crate) fn get(&self, prefix: A, len: u8) -> Option<Value> {
        self.tree(prefix, len).get(&prefix.key(len)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, u8, Value)> + '_ {
        let mut short = self.short.iter().peekable();
        let mut long = self.buckets.iter().flatten().peekable();
        let merged = std::iter::from_fn(move || match (short.peek(), long.peek()) {
            (Some((key, _)), Some((other, _))) if key > other => long.next(),
            (Some(_), _) => short.next(),
            (None, _) => long.next(),
        });
        merged.map(|(&key, &value)| {
            let (prefix, len) = A::of_key(key);
            (prefix, len, value)
        })
    }

    /// An estimate: a full-grown ordered map is two thirds to three quarters full.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.len * (size_of::<A::Key>() + size_of::<Value>()) * 3 / 2
            + self.buckets.len() * size_of::<BTreeMap<A::Key, Value>>()
    }

    /// The longest stored prefix shorter than `len` that covers `prefix`, with its length.
    pub(crate) fn cover(&self, prefix: A, len: u8) -> Option<(u8, Value)> {
        let long = (len > A::BUCKET_LEN).then(|| cover_in(self.tree(prefix, len), prefix, len));
        long.flatten().or_else(|| cover_in(&self.short, prefix, len))
    }
}

/// The longest prefix of a tree that is shorter than `len` and covers `prefix`.
///
/// Looks at the predecessor in prefix order. A cover sorts at or before it and both lie between
/// the cover's first address and `prefix`, so the predecessor shares with `prefix` at least the
/// cover's length: no cover is longer than what they share. Either the predecessor is the cover,
/// or the search goes on below the shared bits.
fn cover_in<A: Address>(tree: &BTreeMap<A::Key, Value>, prefix: A, len: u8) -> Option<(u8, Value)> {
    let mut bound = prefix.key(len);
    loop {
        let (&key, &value) = tree.range(..bound).next_back()?;
        let (found, found_len) = A::of_key(key);
        let shared = found.common_len(prefix).min(len);
        if found_len <= shared {
            return Some((found_len, value));
        }
        bound = prefix.network(shared).key(shared + 1);
    }
}

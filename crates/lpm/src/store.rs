//! The writer's own record of the prefixes: what was inserted, and what lies behind a removal.
//!
//! The lookup structures only know which value an address has now. When a prefix goes, the next
//! shorter one that covers it must come back, and that is asked here.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::{LpmError, MAX_VALUE, Value};

/// Prefixes and their values in prefix order: by first address, then the shorter prefix first.
#[derive(Debug)]
pub(crate) struct Store<A: Address> {
    routes: BTreeMap<A::Key, Value>,
}

impl<A: Address> Store<A> {
    pub(crate) fn new() -> Self {
        Self { routes: BTreeMap::new() }
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

    pub(crate) fn insert(&mut self, prefix: A, len: u8, value: Value) -> Option<Value> {
        self.routes.insert(prefix.key(len), value)
    }

    pub(crate) fn remove(&mut self, prefix: A, len: u8) -> Option<Value> {
        self.routes.remove(&prefix.key(len))
    }

    pub(crate) fn get(&self, prefix: A, len: u8) -> Option<Value> {
        self.routes.get(&prefix.key(len)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, u8, Value)> + '_ {
        self.routes.iter().map(|(&key, &value)| {
            let (prefix, len) = A::of_key(key);
            (prefix, len, value)
        })
    }

    /// An estimate: a full-grown ordered map is two thirds to three quarters full.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.len() * (size_of::<A::Key>() + size_of::<Value>()) * 3 / 2
    }

    /// The longest stored prefix shorter than `len` that covers `prefix`, with its length.
    ///
    /// Looks at the predecessor in prefix order. A cover sorts at or before it and both lie between
    /// the cover's first address and `prefix`, so the predecessor shares with `prefix` at least the
    /// cover's length: no cover is longer than what they share. Either the predecessor is the cover,
    /// or the search goes on below the shared bits.
    pub(crate) fn cover(&self, prefix: A, len: u8) -> Option<(u8, Value)> {
        let mut bound = prefix.key(len);
        loop {
            let (&key, &value) = self.routes.range(..bound).next_back()?;
            let (found, found_len) = A::of_key(key);
            let shared = found.common_len(prefix).min(len);
            if found_len <= shared {
                return Some((found_len, value));
            }
            bound = prefix.network(shared).key(shared + 1);
        }
    }
}

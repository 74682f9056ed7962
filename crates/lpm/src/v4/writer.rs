//! The one writer of an IPv4 table: which prefix owns each entry, and the life of groups.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Entry, FIRST_LEN, GROUP_LEN, GROUPS_MAX, Ipv4Lpm};
use crate::pages::Pages;
use crate::store::Store;
use crate::{LpmError, Value};

/// Retired groups that are worth a new generation.
const RETIRED_ENOUGH: usize = 64;

/// What an entry is to become: the value and the length of the prefix that owns it.
#[derive(Clone, Copy)]
struct Owner {
    value: Value,
    len: u8,
}

/// The one writer of an [`Ipv4Lpm`].
///
/// Each change is visible to readers as soon as the call returns. A prefix of up to 24 bits costs one
/// entry per /24 it covers, a longer one at most 256.
#[derive(Debug)]
pub struct Ipv4Writer {
    table: Arc<Ipv4Lpm>,
    store: Store<u32>,
    /// Length of the prefix of up to 24 bits that owns an entry of the first table; 0 for none.
    first_lens: Pages<u8, FIRST_LEN>,
    /// The same for the members of each group, up to 32 bits. No group has number 0.
    group_lens: Vec<[u8; GROUP_LEN]>,
    free: Vec<u32>,
    retired: Vec<u32>,
}

impl Ipv4Writer {
    /// An empty table: its writer and the part that readers share.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Self, Arc<Ipv4Lpm>) {
        let table = Arc::new(Ipv4Lpm::new());
        let writer = Self {
            table: Arc::clone(&table),
            store: Store::new(),
            first_lens: Pages::dense(),
            group_lens: vec![[0; GROUP_LEN]],
            free: Vec::new(),
            retired: Vec::new(),
        };
        (writer, table)
    }

    /// Sets the value of a prefix (host byte order) and returns the value it had.
    ///
    /// # Errors
    /// [`LpmError`] if length, prefix or value is out of range or the table is full; nothing has
    /// changed then.
    pub fn insert(
        &mut self,
        prefix: u32,
        len: u8,
        value: Value,
    ) -> Result<Option<Value>, LpmError> {
        Store::check(prefix, len, value)?;
        let group = if len > 24 { Some(self.group_for(prefix)?) } else { None };
        self.fit(value, group.unwrap_or(0));
        let owner = Owner { value, len };
        match group {
            None if len == 0 => self.set_default(value),
            None => self.assign(prefix, len, |held| held <= len, owner),
            Some(group) => {
                self.assign_members(group, prefix, len, |held| held <= len, owner);
                self.set_entry(prefix >> 8, group, true);
            }
        }
        Ok(self.store.insert(prefix, len, value))
    }

    /// Removes a prefix and returns the value it had; the next shorter one takes over.
    pub fn remove(&mut self, prefix: u32, len: u8) -> Option<Value> {
        let removed = self.store.remove(prefix, len)?;
        if len == 0 {
            self.set_default(0);
            return Some(removed);
        }
        let owner = match self.store.cover(prefix, len) {
            Some((len, value)) if len > 0 => Owner { value, len },
            _ => Owner { value: 0, len: 0 },
        };
        if len <= 24 {
            self.assign(prefix, len, |held| held == len, owner);
        } else {
            let index = prefix >> 8;
            let group = self.group_at(index).expect("a prefix over 24 bits lives in a group");
            self.assign_members(group, prefix, len, |held| held == len, owner);
            self.collapse(index, group);
        }
        Some(removed)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: u32, len: u8) -> Option<Value> {
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
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8, Value)> + '_ {
        self.store.iter()
    }

    /// Memory that the writer holds beside the table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.first_lens)
            + self.group_lens.capacity() * GROUP_LEN
            + (self.free.capacity() + self.retired.capacity()) * size_of::<u32>()
            + self.store.memory_bytes()
    }

    fn set_default(&mut self, value: Value) {
        let table = &self.table;
        table.generation.alone(|| table.default.store(value, Relaxed));
    }

    /// Gives the entries of a prefix of 1 to 24 bits, and members behind them, to `owner` where the
    /// length of the present owner is `taken`.
    fn assign(&mut self, prefix: u32, len: u8, taken: impl Fn(u8) -> bool, owner: Owner) {
        let start = prefix >> 8;
        for index in start..start + (1 << (24 - len)) {
            let held = &mut self.first_lens[index as usize];
            if !taken(*held) {
                continue;
            }
            *held = owner.len;
            match self.group_at(index) {
                None => self.set_entry(index, owner.value, false),
                Some(group) => self.assign_members(group, index << 8, 24, &taken, owner),
            }
        }
    }

    fn assign_members(
        &mut self,
        group: u32,
        prefix: u32,
        len: u8,
        taken: impl Fn(u8) -> bool,
        owner: Owner,
    ) {
        let start = (prefix & 255) as usize;
        let lens = &mut self.group_lens[group as usize];
        let members = &self.table.groups[group as usize * GROUP_LEN..][..GROUP_LEN];
        for member in start..start + (1 << (32 - len)) {
            if taken(lens[member]) {
                lens[member] = owner.len;
                members[member].store(owner.value, Relaxed);
            }
        }
    }

    /// What an entry holds: a value, or a group's number and `true`.
    fn entry_at(&self, index: u32) -> (u32, bool) {
        fn split<E: Entry>(entry: &E) -> (u32, bool) {
            let entry = entry.load();
            (entry & !E::GROUP, entry & E::GROUP != 0)
        }
        match self.table.wide.get() {
            None => split(&self.table.narrow[index as usize]),
            Some(wide) => split(&wide[index as usize]),
        }
    }

    fn group_at(&self, index: u32) -> Option<u32> {
        let (group, is_group) = self.entry_at(index);
        is_group.then_some(group)
    }

    fn set_entry(&mut self, index: u32, content: u32, is_group: bool) {
        fn set<E: Entry>(entry: &E, content: u32, is_group: bool) {
            assert!(content < E::GROUP, "the table was widened for this");
            entry.store(if is_group { content | E::GROUP } else { content });
        }
        match self.table.wide.get() {
            None => set(&self.table.narrow[index as usize], content, is_group),
            Some(wide) => set(&wide[index as usize], content, is_group),
        }
    }

    /// The group of the /24 that `prefix` is in; a new one repeats what the /24 has now and is not yet
    /// linked.
    fn group_for(&mut self, prefix: u32) -> Result<u32, LpmError> {
        let index = prefix >> 8;
        let (content, is_group) = self.entry_at(index);
        if is_group {
            return Ok(content);
        }
        let group = self.take_group()?;
        self.group_lens[group as usize] = [self.first_lens[index as usize]; GROUP_LEN];
        for member in &self.table.groups[group as usize * GROUP_LEN..][..GROUP_LEN] {
            member.store(content, Relaxed);
        }
        Ok(group)
    }

    fn take_group(&mut self) -> Result<u32, LpmError> {
        if self.free.is_empty() && self.retired.len() >= RETIRED_ENOUGH {
            self.table.generation.advance();
            self.free.append(&mut self.retired);
        }
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        let group = self.group_lens.len();
        if group == GROUPS_MAX {
            return Err(LpmError::Full);
        }
        self.group_lens.push([0; GROUP_LEN]);
        self.table.groups_used.store(group + 1, Relaxed);
        Ok(group as u32)
    }

    /// Puts the value back into the first table if no member belongs to a prefix over 24 bits.
    fn collapse(&mut self, index: u32, group: u32) {
        if self.group_lens[group as usize].iter().all(|&len| len <= 24) {
            let value = self.table.groups[group as usize * GROUP_LEN].load(Relaxed);
            self.set_entry(index, value, false);
            self.retired.push(group);
        }
    }

    /// Switches to entries of 32 bits if one of 16 cannot hold what comes.
    fn fit(&mut self, value: Value, group: u32) {
        use std::sync::atomic::{AtomicU16, AtomicU32};
        let table = &self.table;
        if table.wide.get().is_some() || value.max(group) < <AtomicU16 as Entry>::GROUP {
            return;
        }
        let wide: Pages<AtomicU32, FIRST_LEN> = Pages::dense();
        for (wide, narrow) in wide.iter().zip(table.narrow.iter()) {
            let entry = Entry::load(narrow);
            let entry = if entry & <AtomicU16 as Entry>::GROUP == 0 {
                entry
            } else {
                entry ^ <AtomicU16 as Entry>::GROUP | <AtomicU32 as Entry>::GROUP
            };
            wide.store(entry, Relaxed);
        }
        table.generation.alone(|| assert!(table.wide.set(wide).is_ok(), "one writer"));
    }
}

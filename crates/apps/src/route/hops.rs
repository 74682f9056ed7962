//! The writer's book of next hops: which exist, what they mean, how many routes use them.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use super::table::{BUCKETS, GROUPS, Kind, NEXT_HOPS, NextHop};
use super::{Fib, FibError, InterfaceId};

/// What makes two next hops the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// One of the kinds that need no interface; their number is the kind's.
    Fixed(Kind),
    OnLink(InterfaceId),
    Neighbour(InterfaceId, IpAddr),
    /// The same for packets of at most so many bytes.
    Limited(InterfaceId, IpAddr, u16),
    /// Members and their weights, in the order given.
    Group(Vec<(u32, u16)>),
}

#[derive(Debug)]
struct Entry {
    key: Key,
    /// Routes, host entries and groups that use it.
    users: u32,
    group: u16,
}

/// All next hops in use.
#[derive(Debug)]
pub(super) struct Hops {
    fib: Arc<Fib>,
    entries: Vec<Option<Entry>>,
    by_key: HashMap<Key, u32>,
    free: Vec<u32>,
    groups_free: Vec<u16>,
    groups_used: u16,
    freed: u64,
    renumbered: Vec<u32>,
    /// Numbers that readers may still hold, with the epoch in which they went out of use.
    resting: VecDeque<(u64, u32, Option<u16>)>,
}

/// The kinds with a number of their own, never freed.
const FIXED: [Kind; 6] =
    [Kind::NoRoute, Kind::Kernel, Kind::Blackhole, Kind::Unreachable, Kind::Prohibit, Kind::Down];

impl Hops {
    pub(super) fn new(fib: &Arc<Fib>) -> Hops {
        let mut hops = Hops {
            fib: fib.clone(),
            entries: Vec::new(),
            by_key: HashMap::new(),
            free: Vec::new(),
            groups_free: Vec::new(),
            groups_used: 0,
            freed: 0,
            renumbered: Vec::new(),
            resting: VecDeque::new(),
        };
        for kind in FIXED {
            let index = hops.entries.len() as u32;
            fib.table.write(index, NextHop::plain(kind));
            hops.entries.push(Some(Entry { key: Key::Fixed(kind), users: 1, group: 0 }));
            hops.by_key.insert(Key::Fixed(kind), index);
        }
        hops
    }

    /// All next hops by number.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Key)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, &entry.as_ref()?.key)))
    }

    pub(super) fn take_renumbered(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.renumbered)
    }

    pub(super) fn key(&self, index: u32) -> &Key {
        &self.entry(index).key
    }

    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// How many next hops have gone out of use so far.
    pub(super) fn freed(&self) -> u64 {
        self.freed
    }

    pub(super) fn group_number(&self, index: u32) -> u16 {
        self.entry(index).group
    }

    fn entry(&self, index: u32) -> &Entry {
        self.entries[index as usize].as_ref().expect("a next hop in use")
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry {
        self.entries[index as usize].as_mut().expect("a next hop in use")
    }

    /// The next hops that lead through an interface.
    pub(super) fn on_interface(&self, id: InterfaceId) -> Vec<u32> {
        self.matching(|key| match key {
            Key::OnLink(own) | Key::Neighbour(own, _) | Key::Limited(own, ..) => *own == id,
            Key::Fixed(_) | Key::Group(_) => false,
        })
    }

    /// All multipath groups.
    pub(super) fn groups(&self) -> Vec<u32> {
        self.matching(|key| matches!(key, Key::Group(_)))
    }

    fn matching(&self, wanted: impl Fn(&Key) -> bool) -> Vec<u32> {
        let indices = 0..self.entries.len() as u32;
        indices
            .filter(|index| {
                self.entries[*index as usize].as_ref().is_some_and(|entry| wanted(&entry.key))
            })
            .collect()
    }

    /// The next hop of `key` and whether it is new. A new one must be written to the shared table
    /// before any route uses it, and be held.
    pub(super) fn intern(&mut self, key: Key) -> Result<(u32, bool), FibError> {
        if let Some(index) = self.find(&key) {
            return Ok((index, false));
        }
        let group = match &key {
            Key::Group(_) => self.new_group()?,
            _ => 0,
        };
        let index = match self.new_index() {
            Ok(index) => index,
            Err(full) => {
                if matches!(key, Key::Group(_)) {
                    self.groups_free.push(group);
                }
                return Err(full);
            }
        };
        if let Key::Group(members) = &key {
            for (member, _) in members {
                self.hold(*member);
            }
        }
        self.by_key.insert(key.clone(), index);
        if !matches!(key, Key::Group(_)) {
            self.renumbered.push(index);
        }
        self.entries[index as usize] = Some(Entry { key, users: 0, group });
        Ok((index, true))
    }

    fn new_index(&mut self) -> Result<u32, FibError> {
        if self.free.is_empty() && self.entries.len() >= NEXT_HOPS.min(1024) {
            self.reclaim();
        }
        if let Some(index) = self.free.pop() {
            return Ok(index);
        }
        if self.entries.len() == NEXT_HOPS {
            return Err(FibError::NextHopsExhausted(NEXT_HOPS));
        }
        self.entries.push(None);
        Ok(self.entries.len() as u32 - 1)
    }

    fn new_group(&mut self) -> Result<u16, FibError> {
        if self.groups_free.is_empty() {
            self.reclaim();
        }
        if let Some(group) = self.groups_free.pop() {
            return Ok(group);
        }
        if usize::from(self.groups_used) == GROUPS {
            return Err(FibError::GroupsExhausted(GROUPS));
        }
        self.groups_used += 1;
        Ok(self.groups_used - 1)
    }

    /// Takes numbers back into use that no reader can hold any more.
    fn reclaim(&mut self) {
        while let Some(&(epoch, index, group)) = self.resting.front() {
            if !self.fib.quiet_since(epoch) {
                return;
            }
            self.resting.pop_front();
            self.free.push(index);
            self.groups_free.extend(group);
        }
    }

    /// Counts one more user.
    pub(super) fn hold(&mut self, index: u32) {
        self.entry_mut(index).users += 1;
    }

    /// Counts one user less, which no longer shows in the prefix tables; without users the next
    /// hop goes out of use.
    pub(super) fn release(&mut self, index: u32) {
        let entry = self.entry_mut(index);
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        let Entry { key, group, .. } = self.entries[index as usize].take().expect("just seen");
        self.by_key.remove(&key);
        self.freed += 1;
        let group = matches!(key, Key::Group(_)).then_some(group);
        self.resting.push_back((self.fib.retire(), index, group));
        if let Key::Group(members) = key {
            for (member, _) in members {
                self.release(member);
            }
        }
    }

    /// Shares a group's buckets among its members by weight. The share of a member that is not
    /// `up` falls to the others in turn, so flows of members that are up stay where they are;
    /// with all down the flows lead to [`Kind::Down`].
    pub(super) fn buckets(&self, index: u32, up: impl Fn(&Key) -> bool) -> [u32; BUCKETS] {
        let Key::Group(members) = self.key(index) else { unreachable!("only groups have buckets") };
        let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut buckets = [Kind::Down as u32; BUCKETS];
        let alive: Vec<u32> = members
            .iter()
            .map(|(member, _)| *member)
            .filter(|member| up(self.key(*member)))
            .collect();
        let (mut start, mut before, mut turn) = (0, 0, 0);
        for (member, weight) in members {
            before += u64::from(*weight);
            let end = ((before * BUCKETS as u64 + total / 2) / total) as usize;
            for bucket in &mut buckets[start..end] {
                if up(self.key(*member)) {
                    *bucket = *member;
                } else if !alive.is_empty() {
                    *bucket = alive[turn % alive.len()];
                    turn += 1;
                }
            }
            start = end;
        }
        buckets
    }
}

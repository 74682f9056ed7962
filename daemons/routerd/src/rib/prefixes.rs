//! Every prefix with its candidates, four bytes for the usual single one.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ebb_apps::route::Target;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::candidate::Slots;
use super::lifetimes::Lifetimes;
use super::order;

/// Destinations that are the kernel's whatever its routes say: loopback (RFC 1122 section
/// 3.2.1.3, RFC 4291 section 2.5.3), multicast and the reserved space with the limited broadcast
/// (RFC 1112 section 4), IPv6 link-local (RFC 4291 section 2.5.6).
pub(super) fn kernel_prefixes() -> [IpNet; 6] {
    let v4 = |a, len| IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, 0, 0, 0), len));
    let v6 = |head, tail, len| {
        IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(head, 0, 0, 0, 0, 0, 0, tail), len))
    };
    let broadcast = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32));
    [v4(127, 8), v4(224, 4), broadcast, v6(0, 1, 128), v6(0xff00, 0, 8), v6(0xfe80, 0, 10)]
}

/// Whether a prefix lies within [`kernel_prefixes`].
pub(crate) fn is_kernels(prefix: IpNet) -> bool {
    let first = match prefix.addr() {
        IpAddr::V4(address) => address.octets()[0],
        IpAddr::V6(address) => address.octets()[0],
    };
    // Most prefixes differ from all of these in their first byte already.
    matches!(first, 0 | 127 | 224..=255) && kernel_prefixes().iter().any(|k| k.contains(&prefix))
}

/// A prefix in 17 bytes: the address, and the length, for IPv4 with its highest bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key([u8; 17]);

impl From<IpNet> for Key {
    fn from(prefix: IpNet) -> Key {
        let mut key = [0; 17];
        match prefix {
            IpNet::V4(prefix) => {
                key[..4].copy_from_slice(&prefix.network().octets());
                key[16] = V4 + prefix.prefix_len();
            }
            IpNet::V6(prefix) => {
                key[..16].copy_from_slice(&prefix.network().octets());
                key[16] = prefix.prefix_len();
            }
        }
        Key(key)
    }
}

/// Above every IPv6 prefix length.
const V4: u8 = 192;

impl Key {
    pub(super) fn is_v4(self) -> bool {
        self.0[16] >= V4
    }

    pub(super) fn prefix(self) -> IpNet {
        if self.is_v4() {
            let bytes: [u8; 4] = self.0[..4].try_into().expect("four bytes");
            IpNet::V4(Ipv4Net::new_assert(bytes.into(), self.0[16] - V4))
        } else {
            let bytes: [u8; 16] = self.0[..16].try_into().expect("sixteen bytes");
            IpNet::V6(Ipv6Net::new_assert(bytes.into(), self.0[16]))
        }
    }

    fn in_part(self, routes: Routes) -> bool {
        if self.is_v4() { routes.v4 } else { routes.v6 }
    }
}

/// Which families a dump covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Routes {
    pub(super) v4: bool,
    pub(super) v6: bool,
}

/// One candidate of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) slot: u32,
    /// Seen since the last dump of its family began.
    pub(super) confirmed: bool,
}

/// An [`Entry`] in four bytes, or the number of a list.
#[derive(Clone, Copy, Debug)]
struct Packed(u32);

const MANY: u32 = 1 << 31;
const CONFIRMED: u32 = 1 << 30;

impl Packed {
    fn one(entry: Entry) -> Packed {
        // Memory ends long before so many candidates.
        assert!(entry.slot < CONFIRMED, "more candidates than prefixes can exist");
        Packed(entry.slot | if entry.confirmed { CONFIRMED } else { 0 })
    }

    fn many(self) -> Option<usize> {
        (self.0 & MANY != 0).then_some((self.0 & !MANY) as usize)
    }

    fn entry(self) -> Entry {
        Entry { slot: self.0 & (CONFIRMED - 1), confirmed: self.0 & CONFIRMED != 0 }
    }
}

/// What a prefix comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Winner {
    Nobody,
    Kernel,
    Slot(u32),
}

impl Winner {
    pub(super) fn target(self, slots: &Slots) -> Option<&Target> {
        match self {
            Winner::Nobody => None,
            Winner::Kernel => Some(&Target::Kernel),
            Winner::Slot(slot) => Some(slots.target(slot)),
        }
    }
}

/// Whether a prefix can hide others: whether tables `local` and `main` have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide {
    pub(super) local: bool,
    main: bool,
}

/// The prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    map: HashMap<Key, Packed>,
    lists: Vec<Vec<Entry>>,
    free: Vec<usize>,
    /// Prefixes of table `local` that are no host addresses: they hide other tables' longer ones.
    wide_local: BTreeSet<Key>,
    /// Prefixes of table `default`: hidden by any covering one of `main`.
    fallback: BTreeSet<Key>,
    /// When candidates end by themselves.
    pub(super) lifetimes: Lifetimes,
    /// Prefixes of which there may be more than is known, until all has been asked for: the kernel's.
    pub(super) unsure: BTreeSet<Key>,
    /// Prefixes that found no place in the forwarding tables.
    pub(super) unheld: BTreeSet<Key>,
}

impl Prefixes {
    fn unpack(&self, packed: Packed, into: &mut Vec<Entry>) {
        match packed.many() {
            Some(list) => into.extend_from_slice(&self.lists[list]),
            None => into.push(packed.entry()),
        }
    }

    /// A prefix's candidates, best first.
    pub(super) fn list(&self, key: Key) -> Vec<Entry> {
        let mut list = Vec::new();
        if let Some(packed) = self.map.get(&key) {
            self.unpack(*packed, &mut list);
        }
        list
    }

    /// Takes a prefix's candidates out, to be changed and put back.
    pub(super) fn take(&mut self, key: Key) -> Vec<Entry> {
        match self.map.get(&key) {
            None => Vec::new(),
            Some(packed) => match packed.many() {
                Some(list) => std::mem::take(&mut self.lists[list]),
                None => vec![packed.entry()],
            },
        }
    }

    pub(super) fn put_back(&mut self, key: Key, list: Vec<Entry>) {
        let place = self.map.get(&key).and_then(|packed| packed.many());
        if let (Some(place), 0 | 1) = (place, list.len()) {
            self.lists[place] = Vec::new();
            self.free.push(place);
        }
        match list[..] {
            [] => {
                self.map.remove(&key);
            }
            [entry] => {
                self.map.insert(key, Packed::one(entry));
            }
            _ => {
                let free = place.or_else(|| self.free.pop());
                let place = free.unwrap_or_else(|| {
                    self.lists.push(Vec::new());
                    self.lists.len() - 1
                });
                self.lists[place] = list;
                self.map.insert(key, Packed(place as u32 | MANY));
            }
        }
    }

    /// What a prefix with these candidates comes to.
    pub(super) fn winner(&self, key: Key, list: &[Entry], slots: &Slots) -> Winner {
        if !self.unsure.is_empty() && self.unsure.contains(&key) {
            return Winner::Kernel;
        }
        if !self.unheld.is_empty() && self.is_around_unheld(key) {
            return Winner::Kernel;
        }
        let Some(first) = order::best(list, slots) else { return Winner::Nobody };
        let best = slots.candidate(first);
        if order::is_undecided(list, best, slots) {
            return Winner::Kernel;
        }
        if best.rank > 0 && !self.wide_local.is_empty() && self.hidden_by_local(key) {
            return Winner::Kernel;
        }
        if best.rank > 1 && self.hidden_by_main(key, slots) {
            return Winner::Nobody;
        }
        let of_table = list.iter().map(|entry| slots.candidate(entry.slot));
        if of_table.take_while(|c| c.rank == best.rank).any(|c| c.conditional()) {
            return Winner::Kernel;
        }
        if !self.lifetimes.is_empty() && self.lifetimes.has_ended(key) {
            return Winner::Kernel;
        }
        Winner::Slot(first)
    }

    /// Whether there is any candidate for a prefix.
    pub(super) fn has(&self, key: Key) -> bool {
        self.map.contains_key(&key)
    }

    fn is_around_unheld(&self, key: Key) -> bool {
        let prefix = key.prefix();
        let inside = |other: &Key| *other != key && prefix.contains(&other.prefix());
        self.unheld.iter().any(inside)
    }

    fn hidden_by_local(&self, key: Key) -> bool {
        let prefix = key.prefix();
        self.wide_local.iter().any(|wide| wide.prefix().contains(&prefix))
    }

    fn hidden_by_main(&self, key: Key, slots: &Slots) -> bool {
        let mut cover = key.prefix().supernet();
        while let Some(prefix) = cover {
            let list = self.list(Key::from(prefix));
            if list.iter().any(|entry| slots.candidate(entry.slot).rank == 1) {
                return true;
            }
            cover = prefix.supernet();
        }
        false
    }

    /// Brings the sets of hiding and hidden prefixes up to date with a list.
    pub(super) fn note_wide(&mut self, key: Key, list: &[Entry], slots: &Slots) -> Wide {
        let has = |rank| list.iter().any(|entry| slots.candidate(entry.slot).rank == rank);
        let host = matches!(key.0[16], 128 | 224);
        let set = |set: &mut BTreeSet<Key>, member: bool| {
            // Looking up is cheaper than a change that changes nothing.
            if member {
                set.insert(key);
            } else if !set.is_empty() {
                set.remove(&key);
            }
        };
        let wide = Wide { local: !host && has(0), main: has(1) };
        set(&mut self.wide_local, wide.local);
        set(&mut self.fallback, has(2));
        wide
    }

    /// Prefixes of table `local` that are neither host addresses nor reserved, IPv4's.
    pub(super) fn local_networks(&self) -> Vec<IpNet> {
        let of_v4 = self.wide_local.iter().filter(|key| key.is_v4()).map(|key| key.prefix());
        of_v4.filter(|prefix| !is_kernels(*prefix)).collect()
    }

    /// Prefixes strictly inside `prefix` that a change at `prefix` may hide or uncover: of all
    /// tables, or of `default` only.
    pub(super) fn within(&self, prefix: IpNet, all_tables: bool) -> Vec<Key> {
        let inside = |key: &&Key| prefix.contains(&key.prefix()) && key.prefix() != prefix;
        if all_tables {
            self.map.keys().filter(inside).copied().collect()
        } else {
            self.fallback.iter().filter(inside).copied().collect()
        }
    }

    fn select(&self, test: impl Fn(&[Entry]) -> bool) -> Vec<Key> {
        let mut list = Vec::new();
        let mut keys = Vec::new();
        for (key, packed) in &self.map {
            list.clear();
            self.unpack(*packed, &mut list);
            if test(&list) {
                keys.push(*key);
            }
        }
        keys
    }

    /// Prefixes with one of these slots (sorted) among their candidates.
    pub(super) fn containing(&self, wanted: &[u32]) -> Vec<Key> {
        self.select(|list| list.iter().any(|entry| wanted.binary_search(&entry.slot).is_ok()))
    }

    /// Prefixes that come to one of these slots (sorted).
    pub(super) fn won_by(&self, wanted: &[u32], slots: &Slots) -> Vec<Key> {
        let best = |list: &[Entry]| order::best(list, slots);
        self.select(|list| best(list).is_some_and(|slot| wanted.binary_search(&slot).is_ok()))
    }

    /// Marks every candidate of these families as not yet seen.
    pub(super) fn unconfirm(&mut self, routes: Routes) {
        if routes == Routes::default() {
            return;
        }
        for (key, packed) in &mut self.map {
            if !key.in_part(routes) {
                continue;
            }
            match packed.many() {
                Some(list) => self.lists[list].iter_mut().for_each(|e| e.confirmed = false),
                None => packed.0 &= !CONFIRMED,
            }
        }
    }

    /// Prefixes of these families with candidates that were not seen.
    pub(super) fn unconfirmed(&self, routes: Routes) -> Vec<Key> {
        if routes == Routes::default() {
            return Vec::new();
        }
        let mut keys = self.select(|list| list.iter().any(|entry| !entry.confirmed));
        keys.retain(|key| key.in_part(routes));
        keys
    }
}

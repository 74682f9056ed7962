//! Which of several routes to one prefix comes first, as the kernel orders them.

use super::candidate::{Candidate, Slots};
use super::prefixes::Entry;

/// How a route came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) replace: bool,
    pub(super) append: bool,
    /// A dump of its part is running: routes come in the kernel's own order.
    pub(super) dump: bool,
}

/// What happened to a list.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub(super) added: Option<u32>,
    pub(super) removed: Vec<Entry>,
    /// The place among rivals is a guess: during a dump, a new IPv4 route may have been listed,
    /// which puts it behind the others, or announced, which puts it before them.
    pub(super) guessed: bool,
}

/// Enters `slot`. IPv4 puts a new route before its rivals unless it is appended
/// (`fib_table_insert`); IPv6 after them, or merges it (`fib6_add_rt2node`).
pub(super) fn insert(list: &mut Vec<Entry>, slot: u32, slots: &Slots, mode: Mode) -> Edit {
    let new = slots.candidate(slot);
    let entry = Entry { slot, confirmed: true };
    let rival = |entry: &Entry| slots.candidate(entry.slot).rivals(new);
    if let Some(at) = list.iter().position(|entry| entry.slot == slot) {
        // Known: confirmed, and in a dump moved behind the rivals confirmed before it.
        list.remove(at);
        let behind = |entry: &Entry| rival(entry) && (!mode.dump || entry.confirmed);
        let first_rival = list.iter().position(rival).unwrap_or(at);
        let place = match (mode.dump, mode.replace) {
            (true, _) => list.iter().rposition(behind).map_or(first_rival, |last| last + 1),
            (false, true) => first_rival,
            (false, false) => at,
        };
        list.insert(place, entry);
        if mode.replace && !mode.dump && place < at {
            // It took the place of its first rival.
            let removed = list.remove(place + 1);
            return Edit { removed: vec![removed], ..Edit::default() };
        }
        return Edit::default();
    }
    let alike = |entry: &Entry| slots.candidate(entry.slot).mergeable() == new.mergeable();
    let replaced = if mode.replace {
        let same = list.iter().position(|entry| rival(entry) && (!new.v6 || alike(entry)));
        same.or_else(|| list.iter().position(rival))
    } else if new.mergeable() {
        list.iter().position(|entry| rival(entry) && slots.candidate(entry.slot).mergeable())
    } else {
        None
    };
    if let Some(at) = replaced {
        let removed = std::mem::replace(&mut list[at], entry);
        return Edit { added: Some(slot), removed: vec![removed], guessed: false };
    }
    let guessed = mode.dump && !mode.append && !new.v6 && list.iter().any(rival);
    let key = |candidate: &Candidate| (candidate.rank, u8::MAX - candidate.tos, candidate.metric);
    let last = mode.append || mode.dump || new.v6;
    let place = list.partition_point(|entry| {
        let other = key(slots.candidate(entry.slot));
        other < key(new) || (last && other == key(new))
    });
    list.insert(place, entry);
    Edit { added: Some(slot), removed: Vec::new(), guessed }
}

/// What is left of a route when part of its hops is removed.
pub(super) enum Rest {
    /// There is no such route.
    Unknown,
    /// It goes.
    Nothing,
    /// These hops stay (IPv6).
    Hops(Candidate),
}

/// What removing `gone` leaves; see [`find`].
pub(super) fn remainder(gone: &Candidate, list: Vec<Entry>, slots: &Slots) -> Rest {
    let Some(at) = find(gone, &list, slots) else { return Rest::Unknown };
    let found = slots.candidate(list[at].slot);
    let stays = |hop: &&_| !gone.hops.iter().any(|other| other.same_way(hop));
    let rest: Vec<_> = found.hops.iter().filter(stays).copied().collect();
    if rest.is_empty() || rest.len() == found.hops.len() {
        return Rest::Nothing;
    }
    Rest::Hops(found.with_hops(rest))
}

/// Removes `gone`, putting `rest` in its place if there is one.
pub(super) fn remove(
    list: &mut Vec<Entry>,
    gone: &Candidate,
    rest: Option<u32>,
    slots: &Slots,
) -> Edit {
    let Some(at) = find(gone, list, slots) else { return Edit::default() };
    match rest {
        Some(slot) if list.iter().any(|entry| entry.slot == slot) => {
            Edit { removed: vec![list.remove(at)], ..Edit::default() }
        }
        Some(slot) => {
            let entry = Entry { slot, confirmed: true };
            let removed = std::mem::replace(&mut list[at], entry);
            Edit { added: Some(slot), removed: vec![removed], guessed: false }
        }
        None => Edit { removed: vec![list.remove(at)], ..Edit::default() },
    }
}

/// The first route with the same attributes and hops; for a mergeable one, the first that has all
/// the hops.
fn find(gone: &Candidate, list: &[Entry], slots: &Slots) -> Option<usize> {
    let has = |candidate: &Candidate| {
        gone.hops.iter().all(|hop| candidate.hops.iter().any(|other| other.same_way(hop)))
    };
    let same = |candidate: &Candidate| {
        candidate.same_but_hops(gone)
            && has(candidate)
            && (candidate.hops.len() == gone.hops.len() || candidate.mergeable())
    };
    list.iter().position(|entry| same(slots.candidate(entry.slot)))
}

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

impl Mode {
    /// Whether it may have come out of a dump.
    fn listed(self) -> bool {
        self.dump && !self.replace && !self.append
    }
}

/// What happened to a list.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub(super) added: Option<u32>,
    pub(super) removed: Vec<Entry>,
    /// The outcome is a guess: during a dump, a new IPv4 route may have been listed, which puts it
    /// behind its rivals, or announced, which puts it before them; and what a route replaced may
    /// not be what is remembered from before the dump.
    pub(super) guessed: bool,
}

/// Enters `slot`. IPv4 puts a new route before its rivals unless it is appended
/// (`fib_table_insert`); IPv6 after them, or merges it (`fib6_add_rt2node`).
pub(super) fn insert(list: &mut Vec<Entry>, slot: u32, slots: &Slots, mode: Mode) -> Edit {
    let new = slots.candidate(slot);
    let entry = Entry { slot, confirmed: true };
    let rival = |entry: &Entry| slots.candidate(entry.slot).rivals(new);
    let alike = |entry: &Entry| slots.candidate(entry.slot).mergeable() == new.mergeable();
    let replaced = if mode.replace {
        let same = list.iter().position(|entry| rival(entry) && (!new.v6 || alike(entry)));
        same.or_else(|| list.iter().position(rival))
    } else if new.mergeable() {
        list.iter().position(|entry| rival(entry) && slots.candidate(entry.slot).mergeable())
    } else {
        None
    };
    let unsure = |entry: &Entry| rival(entry) && !entry.confirmed;
    let guessed = mode.dump && mode.replace && list.iter().any(unsure);
    if let Some(at) = list.iter().position(|entry| entry.slot == slot) {
        return Edit { guessed, ..again(list, at, replaced, rival, mode) };
    }
    if let Some(at) = replaced {
        let removed = std::mem::replace(&mut list[at], entry);
        if mode.listed() && !removed.confirmed {
            move_behind_listed(list, at, rival);
        }
        return Edit { added: Some(slot), removed: vec![removed], guessed };
    }
    let guessed = mode.listed() && !new.v6 && list.iter().any(rival);
    let key = |candidate: &Candidate| (candidate.rank, u8::MAX - candidate.tos, candidate.metric);
    let last = mode.append || mode.dump || new.v6;
    let place = list.partition_point(|entry| {
        let other = key(slots.candidate(entry.slot));
        other < key(new) || (last && other == key(new))
    });
    list.insert(place, entry);
    Edit { added: Some(slot), removed: Vec::new(), guessed }
}

/// A route that is known at `at` came again: in the place of another, in a dump, or as it was.
fn again(
    list: &mut Vec<Entry>,
    at: usize,
    replaced: Option<usize>,
    rival: impl Fn(&Entry) -> bool,
    mode: Mode,
) -> Edit {
    list[at].confirmed = true;
    if let Some(other) = replaced.filter(|other| *other != at) {
        list.swap(at, other);
        return Edit { removed: vec![list.remove(at)], ..Edit::default() };
    }
    if mode.listed() {
        move_behind_listed(list, at, rival);
    }
    Edit::default()
}

/// A dump lists rivals in the kernel's order: the entry at `at` goes behind those listed before.
fn move_behind_listed(list: &mut Vec<Entry>, at: usize, rival: impl Fn(&Entry) -> bool) {
    let entry = list.remove(at);
    let first = list.iter().position(&rival).unwrap_or(at);
    let listed = list.iter().rposition(|entry| rival(entry) && entry.confirmed);
    list.insert(listed.map_or(first, |last| last + 1), entry);
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
            // That part of it went proves nothing about the rest.
            let entry = Entry { slot, confirmed: list[at].confirmed };
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
    let exact = |entry: &Entry| slots.candidate(entry.slot) == gone;
    let alike = |entry: &Entry| same(slots.candidate(entry.slot));
    list.iter().position(exact).or_else(|| list.iter().position(alike))
}

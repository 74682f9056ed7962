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
    /// It is known not to have come out of that dump: another part is being read.
    pub(super) announced: bool,
}

impl Mode {
    /// Whether it may have come out of a dump.
    fn listed(self) -> bool {
        self.dump && !self.replace && !self.append
    }

    /// Whether the kernel has just made it, plainly, while a dump of its part runs.
    fn is_made(self) -> bool {
        self.dump && !self.replace && !self.append && self.announced
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
    if new.v6 && !mode.replace {
        return insert_v6(list, slot, slots, mode);
    }
    let rival = |entry: &Entry| slots.candidate(entry.slot).rivals(new);
    let replaced = if mode.replace { replaced(list, new, slots) } else { None };
    let unsure = |entry: &Entry| {
        rival(entry) && (!entry.confirmed || slots.candidate(entry.slot).may_be_advertised())
    };
    // Whether it is merged with others decides which of several it replaces.
    let either = new.may_be_advertised() && list.iter().filter(|entry| rival(entry)).count() > 1;
    let guessed = mode.replace && (either || (mode.dump || new.v6) && list.iter().any(unsure));
    if let Some(at) = list.iter().position(|entry| entry.slot == slot) {
        let edit = again(list, at, replaced, rival, mode);
        return Edit { guessed: guessed || edit.guessed, ..edit };
    }
    if let Some(at) = replaced {
        let entry = Entry { slot, confirmed: true };
        let removed = std::mem::replace(&mut list[at], entry);
        return Edit { added: Some(slot), removed: vec![removed], guessed };
    }
    let guessed = guessed || (mode.listed() && list.iter().any(rival));
    Edit { guessed, ..enter(list, slot, slots, mode) }
}

/// The route whose place one that replaces takes: in IPv6 the first that is merged with others as it is, or
/// not as it is not.
fn replaced(list: &[Entry], new: &Candidate, slots: &Slots) -> Option<usize> {
    let rival = |entry: &Entry| slots.candidate(entry.slot).rivals(new);
    let alike = |entry: &Entry| {
        let other = slots.candidate(entry.slot);
        let advertised = other.may_be_advertised() && !other.overlaps(new);
        (other.mergeable() && !advertised) == new.mergeable()
    };
    let same = list.iter().position(|entry| rival(entry) && (!new.v6 || alike(entry)));
    same.or_else(|| list.iter().position(rival))
}

/// Enters an IPv6 route that replaces none. The kernel says of each with which others it is merged: those of
/// its ways that are known were this route, or grew into it.
fn insert_v6(list: &mut Vec<Entry>, slot: u32, slots: &Slots, mode: Mode) -> Edit {
    let new = slots.candidate(slot);
    let rival = |entry: &Entry| slots.candidate(entry.slot).rivals(new);
    let same = |entry: &Entry| rival(entry) && slots.candidate(entry.slot).overlaps(new);
    let Some(at) = list.iter().position(same) else { return enter(list, slot, slots, mode) };
    let several = list.iter().filter(|entry| rival(entry)).count() > 1;
    // Listed and announced in one dump: which of both came last, and its place, nobody can tell.
    let guessed = mode.listed() && list[at].confirmed && several;
    let former = std::mem::replace(&mut list[at], Entry { slot, confirmed: true });
    let mut removed: Vec<Entry> = list.extract_if(at + 1.., |entry| same(entry)).collect();
    if mode.listed() && !former.confirmed {
        move_behind_listed(list, at, rival);
    }
    if former.slot == slot {
        return Edit { added: None, removed, guessed };
    }
    removed.push(former);
    Edit { added: Some(slot), removed, guessed }
}

/// Enters a route that none is the same as.
fn enter(list: &mut Vec<Entry>, slot: u32, slots: &Slots, mode: Mode) -> Edit {
    let new = slots.candidate(slot);
    let key = |candidate: &Candidate| (candidate.rank, u8::MAX - candidate.tos, candidate.metric);
    let last = mode.append || mode.dump || new.v6;
    let place = list.partition_point(|entry| {
        let other = key(slots.candidate(entry.slot));
        other < key(new) || (last && other == key(new))
    });
    list.insert(place, Entry { slot, confirmed: true });
    Edit { added: Some(slot), ..Edit::default() }
}

/// What the route `new` is known as: of an IPv6 one that grew out of another, with the ways in that one's
/// order. What is remembered from before a `dump` that has not shown it yet may be another route's.
pub(super) fn known_as(new: Candidate, list: &[Entry], slots: &Slots, dump: bool) -> Candidate {
    let of = |entry: &Entry| slots.candidate(entry.slot);
    let former = list.iter().find(|entry| of(entry).rivals(&new) && of(entry).overlaps(&new));
    match former {
        Some(former) if new.v6 && new.hops.len() > 1 && (former.confirmed || !dump) => {
            new.grown_from(of(former))
        }
        _ => new,
    }
}

/// The candidate that packets take: the first of the best table and metric; in IPv6 the first with the
/// highest preference (`find_rr_leaf` of a router that forwards, which asks nobody for reachability).
pub(super) fn best(list: &[Entry], slots: &Slots) -> Option<u32> {
    let first = list.first()?;
    let candidate = slots.candidate(first.slot);
    if !candidate.v6 || list.len() == 1 {
        return Some(first.slot);
    }
    let rivals =
        list.iter().map(|entry| entry.slot).filter(|slot| slots.candidate(*slot).rivals(candidate));
    rivals.reduce(|best, slot| {
        let better = slots.candidate(slot).preference > slots.candidate(best).preference;
        if better { slot } else { best }
    })
}

/// Whether only the kernel can tell which of several comes first: of routes that are merged with each other it
/// tells one preference and goes by all (`rt6_qualify_for_ecmp` does not ask for theirs to be the same).
pub(super) fn is_undecided(list: &[Entry], best: &Candidate, slots: &Slots) -> bool {
    if !best.v6 || list.len() == 1 {
        return false;
    }
    let candidates = list.iter().map(|entry| slots.candidate(entry.slot));
    let rivals: Vec<_> = candidates.filter(|candidate| candidate.rivals(best)).collect();
    let merged = rivals.iter().any(|candidate| candidate.hops.len() > 1);
    let preferred = |candidate: &&Candidate| candidate.mixed || candidate.preference != 0;
    rivals.len() > 1 && merged && rivals.iter().any(preferred)
}

/// Whether the kernel's lists may leave this entry out although it is there: between routes that are merged
/// with each other it lists none (`fib6_dump_node`).
pub(super) fn may_hide(list: &[Entry], entry: &Entry, slots: &Slots) -> bool {
    let own = slots.candidate(entry.slot);
    let merged = |other: &Entry| {
        let candidate = slots.candidate(other.slot);
        other.confirmed && candidate.rivals(own) && candidate.hops.len() > 1
    };
    own.v6 && list.iter().take_while(|other| other.slot != entry.slot).any(merged)
}

/// A route that is known at `at` came again: in the place of another, in a dump, or as it was.
fn again(
    list: &mut Vec<Entry>,
    at: usize,
    replaced: Option<usize>,
    rival: impl Fn(&Entry) -> bool,
    mode: Mode,
) -> Edit {
    let was_confirmed = std::mem::replace(&mut list[at].confirmed, true);
    if let Some(other) = replaced.filter(|other| *other != at) {
        list.swap(at, other);
        return Edit { removed: vec![list.remove(at)], ..Edit::default() };
    }
    if mode.listed() {
        move_behind_listed(list, at, rival);
    }
    // It was deleted unheard and made anew, before its rivals: the list is to be read again.
    Edit { guessed: mode.is_made() && !was_confirmed, ..Edit::default() }
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
pub(super) fn remainder(gone: &Candidate, list: &[Entry], slots: &Slots) -> Rest {
    let Some(at) = find(gone, list, slots) else { return Rest::Unknown };
    let found = slots.candidate(list[at].slot);
    let rest = found.hops_without(&gone.hops);
    if rest.is_empty() || rest.len() == found.hops.len() {
        return Rest::Nothing;
    }
    Rest::Hops(found.with_hops(rest))
}

/// Whether removing `gone`, of which `rest` stays, may uncover routes that no list has shown: see
/// [`may_hide`]. Of the metrics that are chosen by people only the one that they and advertised routes have
/// by default is looked at: daemons, whose routes come and go, have others.
pub(super) fn uncovers(gone: &Candidate, list: &[Entry], rest: Option<u32>, slots: &Slots) -> bool {
    const METRIC_DEFAULT: u32 = 1024; // IP6_RT_PRIO_USER
    let Some(at) = find(gone, list, slots).filter(|_| gone.v6) else { return false };
    let left = rest.map_or(0, |rest| slots.candidate(rest).hops.len());
    // What stays of merged routes may have another preference than they had, which matters beside others.
    let beside = |entry: &Entry| slots.candidate(entry.slot).rivals(gone);
    slots.candidate(list[at].slot).hops.len() > 1
        && left <= 1
        && (gone.metric == METRIC_DEFAULT || list.iter().filter(|entry| beside(entry)).count() > 1)
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

/// In IPv4 the first route with the same attributes and hops. In IPv6 the one that has its ways, whoever
/// made it: routes of several protocols are merged into one, and go hop by hop.
pub(super) fn find(gone: &Candidate, list: &[Entry], slots: &Slots) -> Option<usize> {
    let exact = |entry: &Entry| slots.candidate(entry.slot) == gone;
    let alike = |entry: &Entry| {
        let candidate = slots.candidate(entry.slot);
        if gone.v6 {
            return candidate.rivals(gone) && candidate.overlaps(gone);
        }
        candidate.same_but_hops(gone)
            && candidate.hops.len() == gone.hops.len()
            && candidate.hops_without(&gone.hops).is_empty()
    };
    list.iter().position(exact).or_else(|| list.iter().position(alike))
}

//! Allocators: who gets which virtual channel, and who crosses the switch.
//!
//! Requests are bit sets ([`Set`]), so an allocation is a few machine words. The two kinds and their
//! pointers follow the descriptions by McKeown (1999, iSLIP) and by Becker and Dally (2009,
//! separable input-first); with round-robin pointers that move only on a grant that was used.

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not};

/// How requests are matched with grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// Resources pick a requester, requesters pick among the grants.
    Islip,
    /// Requesters pick a resource, resources pick among the requesters.
    SeparableInputFirst,
}

/// A set of small numbers in a machine word, or in two.
pub(super) trait Set:
    Copy
    + Send
    + Sync
    + std::fmt::Debug
    + Eq
    + Default
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Not<Output = Self>
    + BitAndAssign
    + BitOrAssign
{
    /// How many numbers it can hold, from 0.
    const SIZE: usize;
    /// The set of `member` alone.
    fn only(member: u8) -> Self;
    /// The set of the first `count` numbers.
    fn first(count: usize) -> Self;
    /// The numbers of `few`, each `by` larger.
    fn shifted(few: u64, by: usize) -> Self;
    /// Whether it has no members.
    fn is_empty(self) -> bool;
    /// Its least member; [`Set::SIZE`] of an empty set.
    fn least(self) -> u8;
    /// Its members at or after `from`.
    fn ahead(self, from: u8) -> Self;
    /// The same without its least member.
    fn rest(self) -> Self;
}

macro_rules! set {
    ($word:ty) => {
        impl Set for $word {
            const SIZE: usize = <$word>::BITS as usize;
            #[inline]
            fn only(member: u8) -> $word {
                1 << member
            }
            fn first(count: usize) -> $word {
                <$word>::MAX >> (Self::SIZE - count)
            }
            #[inline]
            fn shifted(few: u64, by: usize) -> $word {
                <$word>::from(few) << by
            }
            #[inline]
            fn is_empty(self) -> bool {
                self == 0
            }
            #[inline]
            fn least(self) -> u8 {
                self.trailing_zeros() as u8
            }
            #[inline]
            fn ahead(self, from: u8) -> $word {
                self & (<$word>::MAX << from)
            }
            #[inline]
            fn rest(self) -> $word {
                self & (self - 1)
            }
        }
    };
}
set!(u64);
set!(u128);

/// The first member of a non-empty set at or after `from`, around the end.
#[inline]
pub(super) fn pick<S: Set>(set: S, from: u8) -> u8 {
    let ahead = set.ahead(from);
    if ahead.is_empty() { set.least() } else { ahead.least() }
}

/// The members of a set, ascending.
pub(super) struct Members<S: Set>(pub(super) S);

impl<S: Set> Iterator for Members<S> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        if self.0.is_empty() {
            return None;
        }
        let member = self.0.least();
        self.0 = self.0.rest();
        Some(member)
    }
}

/// Round-robin pointers of the `N` requesters and `N` resources of one allocator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointers<const N: usize> {
    pub(super) of_resource: [u8; N],
    pub(super) of_requester: [u8; N],
}

impl<const N: usize> Pointers<N> {
    pub(super) const START: Pointers<N> = Pointers { of_resource: [0; N], of_requester: [0; N] };
}

/// Requests by requester, as sets of resources, with room to work in. Empty between allocations.
#[derive(Clone)]
pub(super) struct Requests<S, const N: usize> {
    requesters: S,
    wants: [S; N],
    resources: S,
    asked_by: [S; N],
    /// In a round, what each requester was granted or each resource was asked by; empty between rounds.
    held: [S; N],
}

/// Which round of an allocation it is, of how many requesters and resources.
#[derive(Clone, Copy)]
struct Turn {
    first: bool,
    last: bool,
    size: u8,
}

impl<S: Set, const N: usize> Requests<S, N> {
    pub(super) fn new() -> Requests<S, N> {
        let (none, each) = (S::default(), [S::default(); N]);
        Requests { requesters: none, wants: each, resources: none, asked_by: each, held: each }
    }

    /// Lets `requester` ask for every resource of `set`.
    #[inline]
    pub(super) fn ask(&mut self, requester: u8, set: S) {
        if set.is_empty() {
            return;
        }
        self.requesters |= S::only(requester);
        self.wants[requester as usize] |= set;
        self.resources |= set;
        for resource in Members(set) {
            self.asked_by[resource as usize] |= S::only(requester);
        }
    }

    /// Matches in up to `rounds` rounds, tells each match (requester, resource), and empties
    /// itself. `size` is the number of requesters and of resources.
    #[inline]
    pub(super) fn allocate(
        &mut self,
        kind: Allocator,
        rounds: u8,
        size: u8,
        pointers: &mut Pointers<N>,
        mut matched: impl FnMut(u8, u8),
    ) {
        for round in 0..rounds {
            let turn = Turn { first: round == 0, last: round + 1 == rounds, size };
            match kind {
                Allocator::Islip => self.islip_round(turn, pointers, &mut matched),
                Allocator::SeparableInputFirst => {
                    self.input_first_round(turn, pointers, &mut matched)
                }
            };
            if self.requesters.is_empty() {
                break;
            }
        }
        for requester in Members(self.requesters) {
            self.wants[requester as usize] = S::default();
        }
        for resource in Members(self.resources) {
            self.asked_by[resource as usize] = S::default();
        }
        self.requesters = S::default();
        self.resources = S::default();
    }

    #[inline]
    fn islip_round(
        &mut self,
        turn: Turn,
        pointers: &mut Pointers<N>,
        matched: &mut impl FnMut(u8, u8),
    ) {
        let mut holders = S::default();
        for resource in Members(self.resources) {
            let who =
                pick(self.asked_by[resource as usize], pointers.of_resource[resource as usize]);
            self.held[who as usize] |= S::only(resource);
            holders |= S::only(who);
        }
        for who in Members(holders) {
            let what = pick(
                std::mem::take(&mut self.held[who as usize]),
                pointers.of_requester[who as usize],
            );
            self.settle(who, what, turn, pointers);
            matched(who, what);
        }
    }

    #[inline]
    fn input_first_round(
        &mut self,
        turn: Turn,
        pointers: &mut Pointers<N>,
        matched: &mut impl FnMut(u8, u8),
    ) {
        let mut resources = S::default();
        for who in Members(self.requesters) {
            let what = pick(self.wants[who as usize], pointers.of_requester[who as usize]);
            self.held[what as usize] |= S::only(who);
            resources |= S::only(what);
        }
        for what in Members(resources) {
            let who = pick(
                std::mem::take(&mut self.held[what as usize]),
                pointers.of_resource[what as usize],
            );
            self.settle(who, what, turn, pointers);
            matched(who, what);
        }
    }

    #[inline]
    fn settle(&mut self, who: u8, what: u8, turn: Turn, pointers: &mut Pointers<N>) {
        if turn.first {
            pointers.of_resource[what as usize] = if who + 1 == turn.size { 0 } else { who + 1 };
            pointers.of_requester[who as usize] = if what + 1 == turn.size { 0 } else { what + 1 };
        }
        if !turn.last {
            self.withdraw(who, what);
        }
    }

    #[inline]
    fn withdraw(&mut self, who: u8, what: u8) {
        for resource in Members(self.wants[who as usize]) {
            self.drop_request(who, resource);
        }
        self.wants[who as usize] = S::default();
        self.requesters &= !S::only(who);
        for requester in Members(self.asked_by[what as usize]) {
            let wants = &mut self.wants[requester as usize];
            *wants &= !S::only(what);
            if wants.is_empty() {
                self.requesters &= !S::only(requester);
            }
        }
        self.asked_by[what as usize] = S::default();
        self.resources &= !S::only(what);
    }

    #[inline]
    fn drop_request(&mut self, who: u8, resource: u8) {
        let asked_by = &mut self.asked_by[resource as usize];
        *asked_by &= !S::only(who);
        if asked_by.is_empty() {
            self.resources &= !S::only(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        kind: Allocator,
        rounds: u8,
        asks: &[(u8, u64)],
        pointers: &mut Pointers<5>,
    ) -> Vec<(u8, u8)> {
        let mut requests = Requests::<u64, 5>::new();
        asks.iter().for_each(|&(who, set)| requests.ask(who, set));
        let mut matches = Vec::new();
        requests.allocate(kind, rounds, 5, pointers, |who, what| matches.push((who, what)));
        assert_eq!(requests.requesters | requests.resources, 0);
        assert!(requests.wants.iter().chain(&requests.asked_by).all(|&set| set == 0));
        matches
    }

    #[test]
    fn islip_pointers_take_turns() {
        let mut pointers = Pointers::START;
        let asks = [(0, 0b1), (3, 0b1)];
        assert_eq!(run(Allocator::Islip, 1, &asks, &mut pointers), [(0, 0)]);
        assert_eq!(run(Allocator::Islip, 1, &asks, &mut pointers), [(3, 0)]);
        assert_eq!(run(Allocator::Islip, 1, &asks, &mut pointers), [(0, 0)]);
    }

    #[test]
    fn further_rounds_fill_what_the_first_left() {
        let asks = [(0, 0b11), (1, 0b01)];
        for kind in [Allocator::Islip, Allocator::SeparableInputFirst] {
            let mut pointers = Pointers::START;
            assert_eq!(run(kind, 1, &asks, &mut pointers).len(), 1);
        }
        let mut pointers = Pointers::START;
        pointers.of_resource[0] = 1;
        let mut matches = run(Allocator::Islip, 2, &asks, &mut pointers);
        matches.sort_unstable();
        assert_eq!(matches, [(0, 1), (1, 0)]);
    }
}

//! Allocators: who gets which virtual channel, and who crosses the switch.
//!
//! Requests are bit sets, so an allocation is a few machine words. The two kinds and their
//! pointers follow the descriptions by McKeown (1999, iSLIP) and by Becker and Dally (2009,
//! separable input-first); with round-robin pointers that move only on a grant that was used.

/// How requests are matched with grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// Resources pick a requester, requesters pick among the grants.
    Islip,
    /// Requesters pick a resource, resources pick among the requesters.
    SeparableInputFirst,
}

/// The first member of a non-empty set at or after `from`, around the end.
#[inline]
pub(super) fn pick(set: u64, from: u8) -> u8 {
    let ahead = set & (u64::MAX << from);
    let set = if ahead != 0 { ahead } else { set };
    set.trailing_zeros() as u8
}

/// The members of a set, ascending.
pub(super) struct Members(pub(super) u64);

impl Iterator for Members {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        if self.0 == 0 {
            return None;
        }
        let member = self.0.trailing_zeros() as u8;
        self.0 &= self.0 - 1;
        Some(member)
    }
}

/// Most requesters, and most resources.
pub(super) const SIZE_MAX: usize = 64;

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
pub(super) struct Requests {
    requesters: u64,
    wants: [u64; SIZE_MAX],
    resources: u64,
    asked_by: [u64; SIZE_MAX],
}

/// Which round of an allocation it is, of how many requesters and resources.
#[derive(Clone, Copy)]
struct Turn {
    first: bool,
    last: bool,
    size: u8,
}

impl Requests {
    pub(super) fn new() -> Requests {
        Requests { requesters: 0, wants: [0; SIZE_MAX], resources: 0, asked_by: [0; SIZE_MAX] }
    }

    /// Lets `requester` ask for every resource of `set`.
    #[inline]
    pub(super) fn ask(&mut self, requester: u8, set: u64) {
        if set == 0 {
            return;
        }
        self.requesters |= 1 << requester;
        self.wants[requester as usize] |= set;
        self.resources |= set;
        for resource in Members(set) {
            self.asked_by[resource as usize] |= 1 << requester;
        }
    }

    /// Matches in up to `rounds` rounds, tells each match (requester, resource), and empties
    /// itself. `size` is the number of requesters and of resources.
    #[inline]
    pub(super) fn allocate<const N: usize>(
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
            if self.requesters == 0 {
                break;
            }
        }
        for requester in Members(self.requesters) {
            self.wants[requester as usize] = 0;
        }
        for resource in Members(self.resources) {
            self.asked_by[resource as usize] = 0;
        }
        self.requesters = 0;
        self.resources = 0;
    }

    #[inline]
    fn islip_round<const N: usize>(
        &mut self,
        turn: Turn,
        pointers: &mut Pointers<N>,
        matched: &mut impl FnMut(u8, u8),
    ) {
        let mut granted = [0u64; N];
        let mut holders = 0u64;
        for resource in Members(self.resources) {
            let who =
                pick(self.asked_by[resource as usize], pointers.of_resource[resource as usize]);
            granted[who as usize] |= 1 << resource;
            holders |= 1 << who;
        }
        for who in Members(holders) {
            let what = pick(granted[who as usize], pointers.of_requester[who as usize]);
            self.settle(who, what, turn, pointers);
            matched(who, what);
        }
    }

    #[inline]
    fn input_first_round<const N: usize>(
        &mut self,
        turn: Turn,
        pointers: &mut Pointers<N>,
        matched: &mut impl FnMut(u8, u8),
    ) {
        let mut asked = [0u64; N];
        let mut resources = 0u64;
        for who in Members(self.requesters) {
            let what = pick(self.wants[who as usize], pointers.of_requester[who as usize]);
            asked[what as usize] |= 1 << who;
            resources |= 1 << what;
        }
        for what in Members(resources) {
            let who = pick(asked[what as usize], pointers.of_resource[what as usize]);
            self.settle(who, what, turn, pointers);
            matched(who, what);
        }
    }

    #[inline]
    fn settle<const N: usize>(
        &mut self,
        who: u8,
        what: u8,
        turn: Turn,
        pointers: &mut Pointers<N>,
    ) {
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
        self.wants[who as usize] = 0;
        self.requesters &= !(1 << who);
        for requester in Members(self.asked_by[what as usize]) {
            let wants = &mut self.wants[requester as usize];
            *wants &= !(1 << what);
            if *wants == 0 {
                self.requesters &= !(1 << requester);
            }
        }
        self.asked_by[what as usize] = 0;
        self.resources &= !(1 << what);
    }

    #[inline]
    fn drop_request(&mut self, who: u8, resource: u8) {
        let asked_by = &mut self.asked_by[resource as usize];
        *asked_by &= !(1 << who);
        if *asked_by == 0 {
            self.resources &= !(1 << resource);
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
        let mut requests = Requests::new();
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

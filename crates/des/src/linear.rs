//! Whether a recorded history of concurrent operations is one that a sequential object could have given: whether
//! each operation can have taken place at one instant between its call and its answer (Herlihy and Wing, TOPLAS 1990).
//!
//! The search is Wing and Gong's (JPDC 1993): of the operations that were called before any other that is left was
//! answered, one is first. Configurations that were tried, the set of operations and the state that they lead to, are
//! not tried again (Lowe, CPE 2017), as in Porcupine. What only looks stays where it first can be: later it could be no
//! better.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use ebb_units::Time;

/// One operation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<D> {
    /// Those of one session that were answered took place in the order in which they stand in the history, whenever
    /// they were called. A session whose operations all are called at the beginning is thus looked at for sequential
    /// consistency.
    pub session: Option<usize>,
    /// It took place at this instant or later.
    pub called: Time,
    /// It took place at this instant or earlier, if it did: when it was answered, or could take place no more. None: no
    /// bound.
    pub until: Option<Time>,
    /// Whether it was answered, and thus took place.
    pub answered: bool,
    /// What was asked, and what was answered.
    pub deed: D,
}

/// Why there is no order that explains a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// There is none.
    Stuck {
        /// The longest that was found, as places in the history.
        order: Vec<usize>,
        /// What then would have had to follow, and could not.
        blocked: usize,
    },
    /// More configurations than [`MOST`] would have to be tried.
    Undecided,
}

/// Configurations that are tried.
pub const MOST: usize = 50_000;

/// An order of the history's operations, as places in it, that explains all their answers; those without one may be
/// left out. `step` is the object: the state after an operation, none where it cannot be answered so. `looks` tells
/// operations that change no state.
///
/// # Errors
/// When there is none, or none is found in time.
pub fn linearize<D, S: Clone + Eq + Hash>(
    start: S,
    history: &[Operation<D>],
    step: impl Fn(&S, &D) -> Option<S>,
    looks: impl Fn(&D) -> bool,
) -> Result<Vec<usize>, Unexplained> {
    let mut search = Search::new(history);
    let mut state = start;
    let mut seen: HashSet<(Box<[u64]>, S)> = HashSet::new();
    let mut taken: Vec<(usize, S, Turn)> = Vec::new();
    let mut longest = (Vec::new(), 0);
    // What looks comes first.
    let (mut at, mut looking) = (search.first(), true);
    while search.unanswered > 0 {
        let (operation, is_call) = (at / 2, at % 2 == 0 && at != search.end());
        if is_call {
            let next = if search.may_come(operation) {
                step(&state, &history[operation].deed)
            } else {
                None
            };
            let stays = next.as_ref() == Some(&state) && looks(&history[operation].deed);
            let Some(next) = next.filter(|_| stays == looking) else {
                at = search.next[at];
                continue;
            };
            search.take(operation);
            let turn = if stays { Turn::Looks } else { Turn::Changes };
            taken.push((operation, std::mem::replace(&mut state, next), turn));
            (at, looking) = (search.first(), true);
            continue;
        }
        // What changes something comes then, unless all this has been tried before.
        let known = looking && !seen.insert((search.done.clone(), state.clone()));
        if std::mem::take(&mut looking) && !known {
            at = search.first();
            continue;
        }
        if !search.answered[operation] && !known {
            search.take(operation);
            taken.push((operation, state.clone(), Turn::Never));
            (at, looking) = (search.first(), true);
            continue;
        }
        if seen.len() > MOST {
            return Err(Unexplained::Undecided);
        }
        let order = in_order(&taken);
        if longest.0.len() <= order.len() {
            longest = (order, operation);
        }
        loop {
            let Some((operation, before, turn)) = taken.pop() else {
                let (order, blocked) = longest;
                return Err(Unexplained::Stuck { order, blocked });
            };
            search.put_back(operation);
            state = before;
            if turn == Turn::Changes {
                at = search.next[2 * operation];
                break;
            }
        }
    }
    Ok(in_order(&taken))
}

/// What becomes of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Changes,
    Looks,
    /// It did not take place.
    Never,
}

fn in_order<S>(taken: &[(usize, S, Turn)]) -> Vec<usize> {
    let placed = taken.iter().filter(|(.., turn)| *turn != Turn::Never);
    placed.map(|(operation, ..)| *operation).collect()
}

/// The calls (twice an operation's place) and answers (one more) that are left, in order of time.
struct Search {
    next: Vec<usize>,
    before: Vec<usize>,
    /// Which operations have taken place.
    done: Box<[u64]>,
    /// The operation of the same session that has to come before.
    former: Vec<Option<usize>>,
    bounded: Vec<bool>,
    answered: Vec<bool>,
    /// Answers that are left.
    unanswered: usize,
}

impl Search {
    fn new<D>(history: &[Operation<D>]) -> Search {
        let count = history.len();
        let mut times = Vec::with_capacity(2 * count);
        let mut last = BTreeMap::new();
        let mut former = vec![None; count];
        for (place, operation) in history.iter().enumerate() {
            times.push((operation.called, 0, 2 * place));
            if let Some(until) = operation.until {
                // In one instant calls are first: what touches may have overlapped.
                times.push((until.max(operation.called), 1, 2 * place + 1));
            }
            if let Some(session) = operation.session.filter(|_| operation.answered) {
                former[place] = last.insert(session, place);
            }
        }
        times.sort_unstable();
        let end = 2 * count;
        let (mut next, mut before) = (vec![end; end + 1], vec![end; end + 1]);
        let mut at = end;
        for (.., entry) in times {
            (next[at], before[entry]) = (entry, at);
            at = entry;
        }
        (next[at], before[end]) = (end, at);
        let bounded = history.iter().map(|one| one.until.is_some()).collect();
        let answered: Vec<bool> =
            history.iter().map(|one| one.answered && one.until.is_some()).collect();
        let unanswered = answered.iter().filter(|answered| **answered).count();
        let done = vec![0; count.div_ceil(64)].into();
        Search { next, before, done, former, bounded, answered, unanswered }
    }

    fn end(&self) -> usize {
        self.next.len() - 1
    }

    fn first(&self) -> usize {
        self.next[self.end()]
    }

    fn may_come(&self, operation: usize) -> bool {
        self.former[operation].is_none_or(|former| self.done[former / 64] >> (former % 64) & 1 == 1)
    }

    fn take(&mut self, operation: usize) {
        self.done[operation / 64] ^= 1 << (operation % 64);
        self.unlink(2 * operation);
        if self.bounded[operation] {
            self.unlink(2 * operation + 1);
        }
        self.unanswered -= usize::from(self.answered[operation]);
    }

    /// The last that was taken.
    fn put_back(&mut self, operation: usize) {
        self.done[operation / 64] ^= 1 << (operation % 64);
        if self.bounded[operation] {
            self.link(2 * operation + 1);
        }
        self.unanswered += usize::from(self.answered[operation]);
        self.link(2 * operation);
    }

    fn unlink(&mut self, entry: usize) {
        let (before, next) = (self.before[entry], self.next[entry]);
        (self.next[before], self.before[next]) = (next, before);
    }

    fn link(&mut self, entry: usize) {
        let (before, next) = (self.before[entry], self.next[entry]);
        (self.next[before], self.before[next]) = (entry, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of a register that holds 0 at first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Deed {
        Write(u8),
        Read(u8),
        /// From, to, and whether it was made.
        Swap(u8, u8, bool),
    }

    fn register(state: &u8, deed: &Deed) -> Option<u8> {
        match *deed {
            Deed::Write(value) => Some(value),
            Deed::Read(value) => (*state == value).then_some(*state),
            Deed::Swap(from, to, made) => {
                (made == (*state == from)).then_some(if made { to } else { *state })
            }
        }
    }

    fn looks(deed: &Deed) -> bool {
        matches!(deed, Deed::Read(_))
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn one(called: u64, answered: impl Into<Option<u64>>, deed: Deed) -> Operation<Deed> {
        let until = answered.into().map(at);
        Operation { session: None, called: at(called), until, answered: until.is_some(), deed }
    }

    fn holds(history: &[Operation<Deed>]) -> bool {
        linearize(0, history, register, looks).is_ok()
    }

    #[test]
    fn known_histories() {
        use Deed::{Read, Swap, Write};
        let write = one(0, 10, Write(1));
        assert!(holds(&[]));
        assert!(holds(&[write.clone(), one(2, 4, Read(0)), one(5, 6, Read(1))]), "in between");
        assert!(!holds(&[write.clone(), one(2, 4, Read(1)), one(5, 6, Read(0))]), "and back");
        assert!(!holds(&[write.clone(), one(11, 12, Read(0))]), "it was made by then");
        assert!(holds(&[write.clone(), one(10, 12, Read(0))]), "they touch");
        assert!(!holds(&[one(5, 6, Write(1)), one(1, 2, Read(1))]), "the future");
        let lost = one(0, None, Write(1));
        assert!(holds(&[lost.clone(), one(20, 21, Read(0))]), "never");
        assert!(holds(&[lost.clone(), one(20, 21, Read(0)), one(22, 23, Read(1))]), "late");
        let expired = Operation { answered: false, ..one(0, 10, Write(1)) };
        assert!(holds(&[expired.clone(), one(20, 21, Read(0))]), "it need not");
        assert!(holds(&[expired.clone(), one(20, 21, Read(1))]), "by then");
        assert!(!holds(&[expired, one(20, 21, Read(0)), one(22, 23, Read(1))]), "too late");
        assert!(!holds(&[lost, one(20, 21, Read(1)), one(22, 23, Read(0))]), "once");
        assert!(!holds(&[one(0, 9, Swap(0, 1, true)), one(0, 9, Swap(0, 2, true))]), "both");
        assert!(holds(&[one(0, 9, Swap(0, 1, true)), one(0, 9, Swap(0, 2, false))]));
        let refused = [one(0, 9, Swap(0, 2, false)), one(0, None, Swap(0, 1, true))];
        assert!(holds(&refused), "by one that was not answered");
    }

    #[test]
    fn a_session_may_see_what_is_old_but_not_what_is_older() {
        let read =
            |answered, value| Operation { session: Some(0), ..one(0, answered, Deed::Read(value)) };
        let writes = [one(1, 2, Deed::Write(1)), one(3, 4, Deed::Write(2))];
        let history = |reads: &[Operation<Deed>]| [&writes[..], reads].concat();
        assert!(holds(&history(&[read(10, 0), read(11, 1), read(12, 2)])));
        assert!(!holds(&history(&[read(10, 1), read(11, 0)])));
        assert!(!holds(&history(&[read(2, 2)])), "not written yet");
    }

    #[test]
    fn it_says_what_could_not_follow() {
        let history =
            [one(0, 1, Deed::Write(1)), one(2, 3, Deed::Read(1)), one(4, 5, Deed::Read(0))];
        let stuck = linearize(0, &history, register, looks).expect_err("no order");
        assert_eq!(stuck, Unexplained::Stuck { order: vec![0, 1], blocked: 2 });
    }

    /// All orders are tried.
    fn tried(history: &[Operation<Deed>], left: &[usize], state: u8) -> bool {
        if left.iter().all(|place| !history[*place].answered) {
            return true;
        }
        left.iter().any(|place| {
            let own = &history[*place];
            let before =
                |other: &usize| history[*other].until.is_some_and(|until| until < own.called);
            let comes_before = |other: &usize| {
                let first = &history[*other];
                let same = own.session.is_some() && own.session == first.session && own.answered;
                first.answered && other != place && (before(other) || same && other < place)
            };
            // What was not answered may be too late then.
            let rest = left.iter().filter(|other| *other != place && !before(other));
            let rest: Vec<usize> = rest.copied().collect();
            !left.iter().any(comes_before)
                && register(&state, &own.deed).is_some_and(|next| tried(history, &rest, next))
        })
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let value = 0..3_u8;
        prop_oneof![
            value.clone().prop_map(Deed::Write),
            value.clone().prop_map(Deed::Read),
            (value.clone(), value, any::<bool>())
                .prop_map(|(from, to, made)| Deed::Swap(from, to, made)),
        ]
    }

    fn operation() -> impl Strategy<Value = Operation<Deed>> {
        let session = proptest::option::of(0..2_usize);
        let lasts = proptest::option::weighted(0.9, (0..6_u64, proptest::bool::weighted(0.8)));
        (session, 0..12_u64, lasts, deed()).prop_map(|(session, called, lasts, deed)| Operation {
            session,
            answered: lasts.is_some_and(|(_, answered)| answered),
            ..one(called, lasts.map(|(lasts, _)| called + lasts), deed)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// It finds an order exactly where one of all orders is right, and the one that it finds is.
        #[test]
        fn as_all_orders_that_there_are(history in proptest::collection::vec(operation(), 0..7)) {
            let left: Vec<usize> = (0..history.len()).collect();
            let found = linearize(0, &history, register, looks);
            prop_assert_eq!(found.is_ok(), tried(&history, &left, 0));
            let mut state = 0;
            for (number, place) in found.iter().flatten().enumerate() {
                state = register(&state, &history[*place].deed).expect("as answered");
                let later = &found.as_ref().expect("an order")[number..];
                let own = history[*place].called;
                prop_assert!(later.iter().all(|other| history[*other].until.is_none_or(|until| until >= own)));
            }
        }

        /// What took place at instants is found to have, whoever was not answered; one answer changed to what was
        /// never written is found, too.
        #[test]
        fn what_took_place_is_explained(
            deeds in proptest::collection::vec((0..8_u64, 0..8_u64, deed()), 1..60),
            unheard in proptest::collection::btree_set(0..60_usize, 0..4),
            wrong in any::<prop::sample::Index>(),
        ) {
            let (mut state, mut history) = (0, Vec::new());
            for (number, (early, late, deed)) in deeds.into_iter().enumerate() {
                let instant = 100 + 3 * number as u64;
                let deed = match deed {
                    Deed::Read(_) => Deed::Read(state),
                    Deed::Swap(from, to, _) => Deed::Swap(from, to, from == state),
                    write => write,
                };
                state = register(&state, &deed).expect("as it is");
                // Who does not hear whether it was made may have made it.
                let heard = !unheard.contains(&number) || !matches!(deed, Deed::Write(_));
                history.push(one(instant - early, heard.then_some(instant + late), deed));
            }
            prop_assert!(holds(&history));
            history.reverse();
            prop_assert!(holds(&history), "the order in which they stand says nothing");
            let place = wrong.index(history.len());
            history[place] = one(0, 10_000, Deed::Read(77));
            prop_assert!(!holds(&history));
        }
    }
}

//! What is told of a stall, to whom, and what controllers may want: the words between the machine, who
//! switches and who decides.
//!
//! Room: knows none of them.

use crate::memory::Ps;

/// What a controller hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The core has nothing left to do.
    Stalled,
    /// A token of an upper cache: if the next one has the line, it answers at `bound`.
    Hint {
        /// Which miss.
        id: u16,
        /// The earliest answer.
        bound: Ps,
        /// Whether the core goes on with it.
        blocking: bool,
    },
    /// A token of the last cache: a miss is on its way to memory, nobody knows for how long.
    Missed {
        /// Which.
        id: u16,
        /// Whether the core goes on with its answer.
        blocking: bool,
    },
    /// A token of the memory controller: a bank has admitted it (section 2.3.4).
    Told {
        /// Of which miss.
        id: u16,
        /// The earliest the answer can be.
        bound: Ps,
        /// Whether the core goes on with it.
        blocking: bool,
    },
    /// A second token of the memory controller, which the source does not have: it was decided on.
    Decided {
        /// Which miss.
        id: u16,
        /// The earliest the answer can be.
        bound: Ps,
        /// Whether the core goes on with it.
        blocking: bool,
    },
    /// An answer that the core does not go on with.
    Answered {
        /// Of which miss.
        id: u16,
    },
    /// The time asked for.
    Timer,
}

impl Event {
    /// The order of what happens at the same time.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Event::Stalled => 0,
            Event::Told { .. } => 1,
            Event::Decided { .. } => 2,
            Event::Hint { .. } => 3,
            Event::Missed { .. } => 4,
            Event::Answered { .. } => 5,
            Event::Timer => 6,
        }
    }
}

/// What a controller sees when it hears of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What happened.
    pub event: Event,
    /// Whether nothing more happens at the same time: who decides earlier has not seen all.
    pub settled: bool,
    /// Whether its switch is on, and not just turning on.
    pub on: bool,
    /// Whether it is off.
    pub off: bool,
    /// When the stall began, ps.
    pub since: Ps,
    /// When it ends; only for who foresees.
    pub until: Option<Ps>,
    /// A wake-up takes so long, ps.
    pub wake: Ps,
    /// Off for so long, a wake-up pays, ps.
    pub break_even: Ps,
}

/// What a controller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Off, if it is on; and on again by then, if that is known.
    Off {
        /// When the core is to work again.
        up_by: Option<Ps>,
    },
    /// If it is off, on again by then.
    UpBy(Ps),
}

/// What is known of a miss of the first cache that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// When the core hears from the caches above those that could answer next, the second and the
    /// third, and when those would.
    pub hints: [(Ps, Ps); 2],
    /// When the core hears that the last cache misses, and nothing else: `UNKNOWN`.
    pub missed: Option<Ps>,
    /// When the core hears from the memory controller, and the earliest the answer can be.
    pub told: Option<(Ps, Ps)>,
    /// When it hears from it once more, that the miss was decided on, and the earliest the answer can be then.
    pub decided: Option<(Ps, Ps)>,
    /// When the answer is there.
    pub answered: Option<Ps>,
    /// Whether the core goes on with this answer.
    pub blocking: bool,
}

/// Nothing goes on in a core from one time until another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall<'a> {
    /// Its begin, ps.
    pub from: Ps,
    /// Its end if the core is on by then, ps.
    pub until: Ps,
    /// The misses of the last cache that are under way.
    pub tokens: &'a [Token],
}

impl Stall<'_> {
    /// What happens in it, in order of time.
    pub fn events(&self, into: &mut Vec<(Ps, Event)>) {
        into.clear();
        into.push((self.from, Event::Stalled));
        for (id, token) in self.tokens.iter().enumerate() {
            let (blocking, id) = (token.blocking, id as u16);
            // Of what was told before the stall only the last counts.
            let old = |at: Option<Ps>| at.is_some_and(|at| at <= self.from);
            let later = [Some(token.hints[1].0), token.missed];
            for ((told, bound), later) in token.hints.into_iter().zip(later) {
                if told < bound && !old(later) {
                    self.push(told, Event::Hint { id, bound, blocking }, into);
                }
            }
            if let Some(missed) = token.missed.filter(|_| !old(token.told.map(|(told, _)| told))) {
                self.push(missed, Event::Missed { id, blocking }, into);
            }
            if let Some((told, bound)) = token.told {
                self.push(told, Event::Told { id, bound, blocking }, into);
            }
            if let Some((told, bound)) = token.decided {
                self.push(told, Event::Decided { id, bound, blocking }, into);
            }
            if let Some(answered) = token.answered.filter(|_| !blocking) {
                self.push(answered, Event::Answered { id }, into);
            }
        }
        into[1..].sort_by_key(|(at, event)| (*at, event.rank()));
    }

    fn push(&self, at: Ps, event: Event, into: &mut Vec<(Ps, Event)>) {
        if at < self.until {
            into.push((at.max(self.from), event));
        }
    }
}

/// Who hears of stalls.
pub trait Stalls {
    /// A stall of `core`, with all that was told meanwhile. Answers how much later than its end the
    /// core goes on.
    fn stalled(&mut self, core: usize, stall: &Stall<'_>) -> Ps;

    /// Whether it looks at what was told meanwhile.
    fn listens(&self) -> bool {
        true
    }
}

/// Nobody.
impl Stalls for () {
    fn stalled(&mut self, _core: usize, _stall: &Stall<'_>) -> Ps {
        0
    }

    fn listens(&self) -> bool {
        false
    }
}

//! The switch of one core under one controller: what it is told during a stall, when it turns off,
//! when it turns on again, and how late that is.

use crate::controllers::{Action, Controller, Event, Seen};
use crate::keeper::{Asked, Keeper, Wake};
use crate::machine::Stalls;
use crate::memory::Ps;
use crate::power::{Island, Spent};

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

/// Where a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    On,
    Off { since: Ps, wake: Option<Wake> },
    Waking { until: Ps },
}

/// A switch, and what became of the time since it was made.
#[derive(Clone, Debug)]
pub struct Switch {
    core: usize,
    /// From a charged core to one that works, ps.
    refill: Ps,
    state: State,
    gated: Ps,
    waking: Ps,
    wakeups: u64,
    late: Ps,
    /// Every wake-up, if someone looks: begin and end.
    pub wakes: Option<Vec<(Ps, Ps)>>,
}

impl Switch {
    /// The switch of a core, which is on, and works `refill` after it is charged.
    pub fn new(core: usize, refill: Ps) -> Switch {
        let (gated, waking, wakeups, late) = (0, 0, 0, 0);
        Switch { core, refill, state: State::On, gated, waking, wakeups, late, wakes: None }
    }

    /// Time off, ps, wake-ups and lateness, ps, since this was last asked.
    pub fn take(&mut self) -> (Ps, u64, Ps) {
        let sums = (self.gated, self.wakeups, self.late);
        (self.gated, self.waking, self.wakeups, self.late) = (0, 0, 0, 0);
        sums
    }

    /// Whether it is on, and whether it is off; neither while it wakes.
    pub fn is(&self) -> (bool, bool) {
        (self.state == State::On, matches!(self.state, State::Off { .. }))
    }

    /// What it does by itself up to `now`.
    pub fn pass(&mut self, now: Ps, keeper: &mut Keeper) {
        if let State::Off { since, wake: Some(wake) } = self.state
            && wake.at <= now
        {
            self.begin(since, wake, keeper);
        }
        if matches!(self.state, State::Waking { until } if until <= now) {
            self.state = State::On;
        }
    }

    fn begin(&mut self, since: Ps, wake: Wake, keeper: &mut Keeper) {
        let takes = wake.charge + self.refill;
        let until = wake.at + takes;
        self.gated += wake.at - since;
        self.waking += takes;
        self.wakeups += 1;
        keeper.begins(self.core, wake);
        if let Some(wakes) = &mut self.wakes {
            wakes.push((wake.at, until));
        }
        self.state = State::Waking { until };
    }

    /// Carries out what a controller wants at `now`.
    pub fn act(&mut self, now: Ps, action: Action, keeper: &mut Keeper) {
        match (self.state, action) {
            (State::On, Action::Off { up_by }) => {
                let wake = up_by.map(|up| self.plan(up, now, now, keeper));
                self.state = State::Off { since: now, wake };
            }
            (State::Off { since, .. }, Action::Off { up_by: Some(up) } | Action::UpBy(up)) => {
                let wake = Some(self.plan(up, since, now, keeper));
                self.state = State::Off { since, wake };
                self.pass(now, keeper);
            }
            _ => {}
        }
    }

    fn plan(&self, up: Ps, since: Ps, now: Ps, keeper: &Keeper) -> Wake {
        let charged_by = up.saturating_sub(self.refill);
        keeper.plan(Asked { core: self.core, charged_by, since, now })
    }

    /// The answer is there at `until`: what is off begins to wake then at the latest. How much later
    /// the core goes on.
    pub fn end(&mut self, until: Ps, keeper: &mut Keeper) -> Ps {
        if let State::Off { since, wake } = self.state {
            let planned = wake.filter(|wake| wake.at <= until);
            let wake = planned.unwrap_or_else(|| self.plan(until, since, until, keeper));
            self.begin(since, wake, keeper);
        }
        let late = match self.state {
            State::Waking { until: up } => up.saturating_sub(until),
            _ => 0,
        };
        self.state = State::On;
        self.late += late;
        late
    }
}

/// The switch of a core with its controller.
pub struct Gate {
    controller: Box<dyn Controller>,
    island: Island,
    /// The switch.
    pub switch: Switch,
}

impl Gate {
    /// A switch of `island` of a core.
    pub fn new(core: usize, controller: Box<dyn Controller>, island: Island) -> Gate {
        Gate { controller, island, switch: Switch::new(core, island.refill) }
    }

    /// How much later than without gating the core went on, in all, ps.
    pub fn late(&self) -> Ps {
        self.switch.late
    }

    /// What it switches.
    pub fn island(&self) -> &Island {
        &self.island
    }

    /// Where the time of a run went that took `time` without gating, `stalled` of it waiting.
    pub fn spent(&self, time: Ps, stalled: Ps) -> Spent {
        let Switch { gated, waking, wakeups, late, .. } = self.switch;
        let waited = stalled + late;
        Spent { active: time - stalled, stalled: waited - gated - waking, gated, waking, wakeups }
    }

    /// Goes through a stall; how much later than its end the core goes on.
    pub fn stall(&mut self, stall: &Stall<'_>, events: &[(Ps, Event)], keeper: &mut Keeper) -> Ps {
        let wake = keeper.expected() + self.island.refill;
        let break_even = (self.island.break_even_ns() * 1000.0) as Ps;
        let until = self.controller.foresees().then_some(stall.until);
        let mut next = 0;
        loop {
            let timer = self.controller.next_at().filter(|at| *at < stall.until);
            let (at, event) = match (events.get(next).copied(), timer) {
                (Some((at, event)), Some(timer)) if timer >= at => (at, event),
                (_, Some(timer)) => (timer.max(stall.from), Event::Timer),
                (Some((at, event)), None) => (at, event),
                (None, None) => break,
            };
            next += usize::from(event != Event::Timer);
            self.switch.pass(at, keeper);
            let (on, off) = self.switch.is();
            let settled = events.get(next).is_none_or(|(then, _)| *then > at);
            let seen = Seen { event, settled, on, off, since: stall.from, until, wake, break_even };
            let action = self.controller.decide(at, &seen);
            self.switch.act(at, action, keeper);
        }
        let late = self.switch.end(stall.until, keeper);
        self.controller.resumed(stall.until, late);
        late
    }
}

/// A controller with a switch for every core.
pub struct Row {
    /// By core; none where the clock is scaled instead.
    pub gates: Vec<Gate>,
    /// Who keeps their wake-ups apart.
    pub keeper: Keeper,
    /// What the oracle switches beside: functional units, which nobody keeps apart.
    pub beside: Vec<Gate>,
    alone: Keeper,
}

impl Row {
    /// Gates of all cores.
    pub fn new(gates: Vec<Gate>, keeper: Keeper) -> Row {
        Row { gates, keeper, beside: Vec::new(), alone: Keeper::lone(0) }
    }

    /// With others beside, of which only one is off at a time.
    #[must_use]
    pub fn beside(mut self, gates: Vec<Gate>) -> Row {
        self.alone = Keeper::lone(gates.first().map_or(0, |gate| gate.island.wake));
        self.beside = gates;
        self
    }

    /// How much later than without gating all cores went on, ps.
    pub fn late(&self) -> Ps {
        self.gates.iter().map(Gate::late).sum()
    }
}

/// The controllers that are compared. They all watch the same run; the core waits for the one that
/// leads, if there is one.
pub struct Bench {
    /// By controller.
    pub rows: Vec<Row>,
    /// Whose lateness holds the cores up.
    pub lead: Option<usize>,
    events: Vec<(Ps, Event)>,
    /// Lengths of stalls in ns, for a distribution: counts by whole ns up to the last.
    pub lengths: Vec<u64>,
}

/// The longest stall told apart, ns.
const LENGTHS: usize = 4096;

impl Bench {
    /// Of rows by controller.
    pub fn new(rows: Vec<Row>, lead: Option<usize>) -> Bench {
        Bench { rows, lead, events: Vec::new(), lengths: vec![0; LENGTHS] }
    }
}

impl Stalls for Bench {
    fn listens(&self) -> bool {
        !self.rows.is_empty()
    }

    fn stalled(&mut self, core: usize, stall: &Stall<'_>) -> Ps {
        let length = ((stall.until - stall.from) / 1000) as usize;
        self.lengths[length.min(LENGTHS - 1)] += 1;
        if self.rows.is_empty() {
            return 0;
        }
        stall.events(&mut self.events);
        let mut late = 0;
        for (index, row) in self.rows.iter_mut().enumerate() {
            // Controllers that scale the clock have no switch.
            let Some(gate) = row.gates.get_mut(core) else { continue };
            let own = gate.stall(stall, &self.events, &mut row.keeper);
            if let Some(gate) = row.beside.get_mut(core) {
                gate.stall(stall, &self.events, &mut row.alone);
            }
            if self.lead == Some(index) {
                late = own;
            }
        }
        late
    }
}

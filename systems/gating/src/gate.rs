//! The switch of one core under one controller: what it is told during a stall, when it turns off,
//! when it turns on again, and how late that is.

use crate::controllers::Controller;
use crate::keeper::Keeper;
use crate::memory::Ps;
use crate::power::{Island, Spent};
use crate::stall::{Event, Seen, Stall, Stalls};
use crate::switch::Switch;

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

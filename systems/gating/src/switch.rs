//! The switch of a core: on, off or waking, and what became of the time.

use crate::keeper::{Asked, Keeper, Wake};
use crate::memory::Ps;
use crate::stall::Action;

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
    pub(crate) gated: Ps,
    pub(crate) waking: Ps,
    pub(crate) wakeups: u64,
    pub(crate) late: Ps,
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

//! What a core draws: at work, waiting, gated, waking up; and when gating pays.

use serde::{Deserialize, Serialize};

use crate::memory::{Ps, ps};
use crate::settings::CoreSettings;

/// What a switch turns off, and what it takes to turn it on again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Island {
    /// Leakage that gating saves, W.
    pub saved_w: f64,
    /// Energy of a wake-up, J.
    pub wake_j: f64,
    /// Time from the switch to work: charging, restoring, refilling; ps.
    pub wake: Ps,
    /// The part of that after charging, ps.
    pub refill: Ps,
}

impl Island {
    /// The whole core, with the wake-up time of the settings.
    pub fn core(core: &CoreSettings) -> Island {
        Island {
            saved_w: core.leakage_w * core.saved_share(),
            wake_j: core.wake_nj * 1e-9,
            wake: ps(core.wake_ns) + ps(core.refill_ns),
            refill: ps(core.refill_ns),
        }
    }

    /// The functional units alone; nothing has to be restored.
    pub fn units(core: &CoreSettings) -> Island {
        Island {
            saved_w: core.leakage_w * core.gating_saves * core.units_share,
            wake_j: core.units_wake_nj * 1e-9,
            wake: ps(core.units_wake_ns),
            refill: 0,
        }
    }

    /// Off for so long, a wake-up pays: wake-up energy over the power saved (section 2.3.3); ns.
    ///
    /// ```
    /// use ebb_system_gating::{CoreSettings, Island};
    /// let ev6 = Island::core(&CoreSettings::ev6()).break_even_ns();
    /// let io = Island::core(&CoreSettings::in_order()).break_even_ns();
    /// assert_eq!((format!("{ev6:.2}"), format!("{io:.2}")), ("17.17".into(), "8.46".into()));
    /// ```
    pub fn break_even_ns(&self) -> f64 {
        self.wake_j / self.saved_w * 1e9
    }
}

/// What a core does while there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ebb_scenario::Described)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// It polls, at full power.
    #[default]
    Poll,
    /// Its clock is stopped: it leaks.
    Halt,
    /// It sleeps, gated by its owner, not by a controller: it leaks what a gated core does.
    Sleep,
}

impl Idle {
    /// How the time of nothing to do counts.
    pub fn spent(self, time: Ps) -> Spent {
        match self {
            Idle::Poll => Spent { active: time, ..Spent::default() },
            Idle::Halt => Spent { stalled: time, ..Spent::default() },
            Idle::Sleep => Spent { gated: time, ..Spent::default() },
        }
    }
}

/// The power of a core in its states, W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// It leaks whenever it is on.
    pub leakage_w: f64,
    /// On top of that while it works.
    pub dynamic_w: f64,
    /// Retention cells add this part to all of it, gated or not, whoever controls.
    pub retention: f64,
}

impl Power {
    /// A core whose leakage is `share` of its power at work.
    pub fn of(core: &CoreSettings, share: f64, retention: f64) -> Power {
        let leakage_w = core.leakage_w;
        Power { leakage_w, dynamic_w: leakage_w * (1.0 - share) / share, retention }
    }

    /// Energy of a run.
    pub fn energy(&self, spent: &Spent, island: &Island) -> Energy {
        let seconds = |span: Ps| span as f64 * 1e-12;
        let kept = 1.0 + self.retention;
        let off = self.leakage_w - island.saved_w;
        Energy {
            active: (self.leakage_w + self.dynamic_w) * kept * seconds(spent.active),
            stalled: self.leakage_w * kept * seconds(spent.stalled),
            gated: off * kept * seconds(spent.gated),
            waking: self.leakage_w * kept * seconds(spent.waking)
                + spent.wakeups as f64 * island.wake_j,
        }
    }
}

/// Where the time of a run went, ps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// At work.
    pub active: Ps,
    /// Waiting, switched on.
    pub stalled: Ps,
    /// Waiting, switched off.
    pub gated: Ps,
    /// Being switched on.
    pub waking: Ps,
    /// How often.
    pub wakeups: u64,
}

impl Spent {
    /// All of it.
    pub fn total(&self) -> Ps {
        self.active + self.stalled + self.gated + self.waking
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            active: self.active + other.active,
            stalled: self.stalled + other.stalled,
            gated: self.gated + other.gated,
            waking: self.waking + other.waking,
            wakeups: self.wakeups + other.wakeups,
        }
    }
}

/// Energy by what the core did, J.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// At work.
    pub active: f64,
    /// Waiting, switched on.
    pub stalled: f64,
    /// Switched off.
    pub gated: f64,
    /// Being switched on, charge included.
    pub waking: f64,
}

impl Energy {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Energy) -> Energy {
        Energy {
            active: self.active + other.active,
            stalled: self.stalled + other.stalled,
            gated: self.gated + other.gated,
            waking: self.waking + other.waking,
        }
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.active + self.stalled + self.gated + self.waking
    }
}

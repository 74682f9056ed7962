//! Who turns a core off and on while it waits: one file each, one line in the registry.
//!
//! A controller is a policy that hears events of one core in order of time and answers with an
//! action. It decides within a fraction of a nanosecond, so time is in picoseconds here. None but the
//! oracle knows more than hardware could.

mod bandit;
mod counter;
mod cyclic;
mod oracle;
mod tap;
mod together;
mod units;

use crate::memory::{Ps, ps};
use crate::power::Island;
use crate::settings::MachineSettings;
pub use crate::stall::{Action, Event, Seen};

/// Decides for one core.
pub trait Controller: Send {
    /// Decides on what it sees at `now`.
    fn decide(&mut self, now: Ps, seen: &Seen) -> Action;

    /// When to decide again even if nothing happens.
    fn next_at(&self) -> Option<Ps> {
        None
    }

    /// The stall ended at `until`, and the core was on again `late` after that.
    fn resumed(&mut self, _until: Ps, _late: Ps) {}

    /// Whether it is told when a stall ends. Hardware is not.
    fn foresees(&self) -> bool {
        false
    }
}

/// What a controller may know of the machine it is built for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// From the core to an answer of the last cache, ps (22 ns in section 2.3.3 with the core's own
    /// time): who waits longer waits for memory.
    pub last_cache: Ps,
    /// From the begin of a stall to the answer of memory if another row has to be closed, ps.
    pub row_miss: Ps,
    /// The least time from the token of the memory controller to the answer, ps.
    pub warning: Ps,
    /// What can be switched: the core, and its functional units.
    pub islands: [Island; 2],
}

impl Facts {
    /// Of a machine.
    pub fn of(machine: &MachineSettings) -> Facts {
        Facts {
            last_cache: ps(machine.path_ns() + 4.5),
            row_miss: ps(machine.memory.row_conflict_ns() + machine.memory.return_ns),
            warning: ps(machine.memory.row_hit_ns() + machine.memory.return_ns),
            islands: [Island::core(&machine.core), Island::units(&machine.core)],
        }
    }
}

/// What a controller switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// The core.
    Core,
    /// Its functional units.
    Units,
}

/// A controller by name.
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What it switches.
    pub switches: Switches,
    /// Makes one for a core.
    pub make: fn(&Facts) -> Box<dyn Controller>,
}

/// Every controller that gates. Those that scale the clock are in [`crate::dvfs`].
pub const CONTROLLERS: [Entry; 7] = [
    Entry {
        name: "none",
        about: "never gates",
        switches: Switches::Core,
        make: |_| Box::new(Never),
    },
    Entry {
        name: "oracle",
        about: "knows when every stall ends, and whether gating pays off",
        switches: Switches::Core,
        make: |facts| Box::new(oracle::Oracle::core(facts)),
    },
    Entry {
        name: "counter",
        about: "MAPG-Counter: counts the stall and expects the length of recent stalls",
        switches: Switches::Core,
        make: |facts| Box::new(counter::Counter::new(facts)),
    },
    Entry {
        name: "tap",
        about: "TAP: tokens of the caches and of the memory controller",
        switches: Switches::Core,
        make: |facts| Box::new(tap::Tap::new(facts)),
    },
    Entry {
        name: "fupg",
        about: "functional units only, after 5 ns, at most 2 % slower",
        switches: Switches::Units,
        make: |_| Box::new(units::Units::default()),
    },
    Entry {
        name: "cyclic",
        about: "off for a part of every period, by the share of stalls",
        switches: Switches::Core,
        make: |_| Box::new(cyclic::Cyclic::default()),
    },
    Entry {
        name: "hybrid",
        about: "ours: switches between TAP, the counter, both and none, by which would have saved \
            most",
        switches: Switches::Core,
        make: |facts| Box::new(bandit::Bandit::new(facts)),
    },
];

/// The oracle's other hand, which gates functional units where that saves more than the core.
pub fn oracle_of_units(facts: &Facts) -> Box<dyn Controller> {
    Box::new(oracle::Oracle::units(facts))
}

/// The entry of a name.
pub fn named(name: &str) -> Option<&'static Entry> {
    CONTROLLERS.iter().find(|entry| entry.name == name)
}

/// Never gates.
struct Never;

impl Controller for Never {
    fn decide(&mut self, _now: Ps, _seen: &Seen) -> Action {
        Action::Keep
    }
}

//! That the router gets on: its own signs of life, what the service manager hears of them, and what the
//! guard did while there were none.

use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_host::journal::Brake;
use ebb_host::pulse::{LOOK_EVERY, Pulse, Pulses, Watcher};
use ebb_host::service;
use ebb_units::Time;

/// The control thread reads whole tables in one turn.
const CONTROL_PATIENCE: Duration = Duration::from_secs(10);

/// How the warning begins that it did not.
pub(super) const STOOD_STILL: &str = "the router stalled";

/// How the guard process sees the router.
pub(super) struct Watch {
    /// Its threads' signs of life.
    pub(super) pulses: Pulses,
    /// What the guard holds while there are none.
    pub(super) brake: Brake,
}

/// The control thread's part.
pub(super) struct Vigil {
    pulse: Pulse,
    pulses: Pulses,
    /// What the manager wants to hear, if it does.
    manager: Option<Manager>,
    halts: u64,
}

struct Manager {
    /// How often it hears that the router lives: thrice in its patience.
    every: Duration,
    told: Time,
    watcher: Watcher,
}

impl Vigil {
    pub(super) fn new(pulses: &Pulses) -> Vigil {
        let manager = service::watchdog().map(|patience| Manager {
            every: (patience / 3).max(LOOK_EVERY),
            told: monotonic(),
            watcher: Watcher::new(pulses.clone(), std::process::id()),
        });
        Vigil { pulse: pulses.of(0), pulses: pulses.clone(), manager, halts: 0 }
    }

    /// The calling thread is the control thread from now on.
    pub(super) fn begin(&mut self) {
        self.pulse.begin(CONTROL_PATIENCE);
    }

    pub(super) fn end(&self) {
        self.pulse.end();
    }

    /// How long the control thread may sleep.
    pub(super) fn patience(&self, other: Duration) -> Duration {
        let due = |manager: &Manager| manager.every.saturating_sub(monotonic().since(manager.told));
        self.manager.as_ref().map_or(other, |manager| other.min(due(manager)))
    }

    pub(super) fn sleep(&mut self, sleep: impl FnOnce()) {
        self.pulse.beat();
        self.pulse.sleeps(true);
        sleep();
        self.pulse.sleeps(false);
        self.pulse.beat();
    }

    /// How often the router stood still.
    pub(super) fn stalls(&self) -> u64 {
        self.halts
    }

    /// Tells the manager that the router lives, if each worker does; and what the guard did, in words.
    pub(super) fn turn(&mut self) -> Option<String> {
        if let Some(manager) =
            self.manager.as_mut().filter(|it| monotonic().since(it.told) >= it.every)
        {
            manager.told = monotonic();
            if manager.watcher.all_live(1, manager.told) {
                service::alive();
            }
        }
        let before = std::mem::replace(&mut self.halts, self.pulses.halts());
        (self.halts > before).then(|| {
            format!(
                "{STOOD_STILL} and its packets were left to the kernel meanwhile: {} times since \
                the start",
                self.halts
            )
        })
    }
}

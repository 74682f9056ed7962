//! One server of the simulated cluster.

use ebb_control::cluster::ServerState;

use crate::catalogue::Group;

/// What a server does, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) state: ServerState,
    /// When the present state ends by itself, in seconds; infinite where it does not.
    pub(super) until: f64,
    /// When it fails next if it stays on, in seconds of the simulation.
    pub(super) fails_at: f64,
    /// A failed server that the balancers have not noticed yet.
    pub(super) unnoticed: bool,
}

impl Machine {
    pub(super) fn on() -> Machine {
        Machine {
            state: ServerState::On,
            until: f64::INFINITY,
            fails_at: f64::INFINITY,
            unnoticed: false,
        }
    }

    /// Whether the balancers send it packets.
    pub(super) fn listed(&self) -> bool {
        self.state == ServerState::On || self.unnoticed
    }

    /// What it draws, in watts, while `mbps` arrive for it.
    pub(super) fn watts(&self, group: &Group, mbps: f64) -> f64 {
        match self.state {
            ServerState::On => group.watts(mbps),
            ServerState::Draining => group.idle_w,
            // The energy of waking, where it is known, is inputs as a whole.
            ServerState::Waking if group.wake_j == 0.0 => group.idle_w,
            ServerState::Waking | ServerState::Off | ServerState::Failed => 0.0,
        }
    }

    /// What it carries of `mbps`.
    pub(super) fn carries(&self, group: &Group, mbps: f64) -> f64 {
        if self.state == ServerState::On { mbps.min(group.capacity_mbps) } else { 0.0 }
    }

    pub(super) fn enter(&mut self, state: ServerState, until: f64) {
        (self.state, self.until) = (state, until);
    }
}

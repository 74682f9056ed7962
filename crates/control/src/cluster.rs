//! What policies of clusters see and order: which of many servers are on.

use core::time::Duration;

use ebb_scenario::{Check, Described};
use ebb_units::{Time, Watts};
use serde::{Deserialize, Serialize};

use crate::Policy;

/// A server of a cluster, as policies know it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// What it carries, above 0, in the unit in which loads are given.
    pub capacity: f64,
    /// What it draws at full load.
    pub full: Watts,
    /// What it draws while it is on without load.
    pub idle: Watts,
    /// From the order to wake until it forwards.
    pub wake: Duration,
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Nothing.
    Off,
    /// It comes up.
    Waking,
    /// It forwards.
    On,
    /// It forwards what is on its way, and goes off.
    Draining,
    /// It should forward and does not.
    Failed,
}

/// What a cluster reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSeen {
    /// What is asked of it now, in the unit of the capacities.
    pub load: f64,
    /// Each server's state.
    pub servers: Vec<ServerState>,
}

/// Which servers are to be on, one for each.
pub type ClusterAction = Vec<bool>;

/// A policy for clusters, as an object.
pub type ClusterPolicy = dyn Policy<Observation = ClusterSeen, Action = ClusterAction> + Send;

/// What all policies of clusters heed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSettings {
    /// Share of the capacity that is kept free.
    #[schema(least = 0, below = 1)]
    pub headroom: f64,
    /// Servers that are on beyond the need of the load, so that this many may fail.
    pub spares: u32,
    /// Least time that a server stays on.
    #[schema(least = 0)]
    pub on_min_s: f64,
    /// Servers are switched off only after the load has been lower for this long.
    #[schema(least = 0)]
    pub patience_s: f64,
    /// How often to decide.
    #[schema(above = 0)]
    pub every_s: f64,
    /// Length of a day, for the profile that is learnt.
    #[schema(above = 0)]
    pub day_s: f64,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            headroom: 0.2,
            spares: 0,
            on_min_s: 600.0,
            patience_s: 300.0,
            every_s: 10.0,
            day_s: 86_400.0,
        }
    }
}

impl ClusterSettings {
    /// The same for a day that passes `factor` times as fast.
    #[must_use]
    pub fn compressed(self, factor: f64) -> ClusterSettings {
        ClusterSettings {
            on_min_s: self.on_min_s / factor,
            patience_s: self.patience_s / factor,
            every_s: self.every_s / factor,
            day_s: self.day_s / factor,
            ..self
        }
    }

    pub(crate) fn every(&self) -> Duration {
        Duration::from_secs_f64(self.every_s)
    }
}

/// The declared ranges say all.
impl Check for ClusterSettings {}

/// When a decision that was made at `now` is due again.
pub(crate) fn due(now: Time, settings: &ClusterSettings) -> Time {
    now + settings.every()
}

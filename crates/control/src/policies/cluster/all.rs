//! The cluster policy `all`: every server is on.

use ebb_units::Time;

use crate::Policy;
use crate::cluster::{ClusterAction, ClusterSeen, ClusterSettings, Server, due};

pub(super) const NAME: &str = "all";
pub(super) const HELP: &str = "all servers are always on: the reference for other policies";

/// Every server is on.
#[derive(Clone, Debug)]
pub struct All {
    servers: usize,
    settings: ClusterSettings,
    next: Time,
}

impl All {
    /// For these servers.
    pub fn new(servers: &[Server], settings: ClusterSettings) -> All {
        All { servers: servers.len(), settings, next: Time::ZERO }
    }
}

impl Policy for All {
    type Observation = ClusterSeen;
    type Action = ClusterAction;

    fn decide(&mut self, now: Time, _seen: &ClusterSeen) -> ClusterAction {
        self.next = due(now, &self.settings);
        vec![true; self.servers]
    }

    fn next_at(&self) -> Option<Time> {
        Some(self.next)
    }
}

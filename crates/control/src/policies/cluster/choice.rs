//! What policies of clusters have in common: what a load needs, and how long servers must stay on.

use core::time::Duration;

use ebb_units::Time;

use crate::cluster::{ClusterSeen, ClusterSettings, Server, ServerState};

/// Servers with what was ordered of them and when.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) servers: Vec<Server>,
    pub(super) settings: ClusterSettings,
    /// What was ordered last.
    pub(super) on: Vec<bool>,
    /// When each was last ordered on.
    since: Vec<Time>,
    /// Since when less would do.
    less_since: Option<Time>,
}

impl Row {
    pub(super) fn new(servers: &[Server], settings: ClusterSettings) -> Row {
        Row {
            servers: servers.to_vec(),
            settings,
            on: vec![false; servers.len()],
            since: vec![Time::ZERO; servers.len()],
            less_since: None,
        }
    }

    /// Capacity that a load asks for, one server at least.
    pub(super) fn need(&self, load: f64) -> f64 {
        load / (1.0 - self.settings.headroom)
    }

    /// Whether so many carry `need` even when the largest `spares` of them fail.
    pub(super) fn enough(&self, on: &[bool], need: f64) -> bool {
        let mut capacities: Vec<f64> = self.chosen(on).map(|server| server.capacity).collect();
        let spares = self.settings.spares as usize;
        if capacities.len() < spares + 1 {
            return false;
        }
        capacities.sort_by(f64::total_cmp);
        capacities.truncate(capacities.len() - spares);
        capacities.iter().sum::<f64>() >= need
    }

    fn chosen<'a>(&'a self, on: &'a [bool]) -> impl Iterator<Item = &'a Server> {
        self.servers.iter().zip(on).filter(|(_, on)| **on).map(|(server, _)| server)
    }

    /// Servers that may be chosen: those that have failed are not.
    pub(super) fn fit(&self, seen: &ClusterSeen) -> Vec<bool> {
        seen.servers.iter().map(|state| *state != ServerState::Failed).collect()
    }

    /// What was ordered, without those that failed.
    pub(super) fn kept(&self, seen: &ClusterSeen) -> Vec<bool> {
        self.on.iter().zip(self.fit(seen)).map(|(on, fit)| *on && fit).collect()
    }

    /// Whether less has sufficed for long enough at `now`; `less`: whether it suffices now.
    pub(super) fn patient(&mut self, now: Time, less: bool) -> bool {
        if !less {
            self.less_since = None;
            return false;
        }
        let since = *self.less_since.get_or_insert(now);
        now.since(since) >= Duration::from_secs_f64(self.settings.patience_s)
    }

    /// Whether a server has been on for as long as it must.
    pub(super) fn may_go(&self, server: usize, now: Time) -> bool {
        now.since(self.since[server]) >= Duration::from_secs_f64(self.settings.on_min_s)
    }

    /// Orders what is to be on. Those that failed are left on: they may come back, and whoever is off
    /// cannot. And nobody who forwards goes before all that are to take over have come up.
    pub(super) fn order(&mut self, now: Time, on: &[bool], seen: &ClusterSeen) -> Vec<bool> {
        for (server, on) in on.iter().enumerate() {
            if *on && !self.on[server] {
                self.since[server] = now;
            }
        }
        let pairs = || on.iter().copied().zip(seen.servers.iter().copied());
        let ready = |(on, state): (bool, ServerState)| {
            !on || matches!(state, ServerState::On | ServerState::Failed)
        };
        let all_ready = pairs().all(ready);
        let order = |(on, state): (bool, ServerState)| match state {
            ServerState::Failed => true,
            ServerState::On => on || !all_ready,
            ServerState::Off | ServerState::Waking | ServerState::Draining => on,
        };
        self.on = pairs().map(order).collect();
        self.on.clone()
    }
}

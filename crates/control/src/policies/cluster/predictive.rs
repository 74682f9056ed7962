//! The cluster policy `predictive`: servers are on before the load of the same time on former days comes.

use core::time::Duration;

use ebb_units::Time;

use super::differential::Differential;
use crate::Policy;
use crate::cluster::{ClusterAction, ClusterSeen, ClusterSettings, Server, due};

pub(super) const NAME: &str = "predictive";
pub(super) const HELP: &str =
    "as differential, for the load predicted from the same hour of earlier days";

/// Parts of the day whose load is remembered.
const PARTS: usize = 288;
/// Weight of the newest day.
const NEWEST: f64 = 0.3;

/// Wakes servers before the load comes, by the profile of the days that it has seen: the largest load in
/// each part of a day, the newest day counting most. On the first day it is [`Differential`].
#[derive(Clone, Debug)]
pub struct Predictive {
    inner: Differential,
    day: Duration,
    ahead: Duration,
    /// What is expected in each part.
    profile: Vec<Option<f64>>,
    /// The part that is being seen, and the largest load in it so far.
    present: Option<(u64, f64)>,
    next: Time,
}

impl Predictive {
    /// For these servers. It looks as far ahead as the slowest takes to wake, and one decision more.
    pub fn new(servers: &[Server], settings: ClusterSettings) -> Predictive {
        let slowest = servers.iter().map(|server| server.wake).max().unwrap_or_default();
        Predictive {
            inner: Differential::new(servers, settings),
            day: Duration::from_secs_f64(settings.day_s),
            ahead: slowest + settings.every(),
            profile: vec![None; PARTS],
            present: None,
            next: Time::ZERO,
        }
    }

    /// Which part, counted from the epoch.
    fn part(&self, at: Time) -> u64 {
        let length = (self.day.as_nanos() as u64 / PARTS as u64).max(1);
        at.as_nanos() / length
    }

    fn learn(&mut self, now: Time, load: f64) {
        let part = self.part(now);
        match &mut self.present {
            Some((present, most)) if *present == part => *most = most.max(load),
            present => {
                if let Some((past, most)) = present.replace((part, load)) {
                    let place = &mut self.profile[(past % PARTS as u64) as usize];
                    *place = Some(place.map_or(most, |old| old + NEWEST * (most - old)));
                }
            }
        }
    }

    /// The largest load that is expected until `until`, the part that is being seen left out.
    fn expected(&self, now: Time, until: Time) -> f64 {
        let parts = self.part(now) + 1..=self.part(until).min(self.part(now) + PARTS as u64);
        let known = parts.filter_map(|part| self.profile[(part % PARTS as u64) as usize]);
        known.fold(0.0, f64::max)
    }
}

impl Policy for Predictive {
    type Observation = ClusterSeen;
    type Action = ClusterAction;

    fn decide(&mut self, now: Time, seen: &ClusterSeen) -> ClusterAction {
        self.next = due(now, &self.inner.row.settings);
        self.learn(now, seen.load);
        let load = seen.load.max(self.expected(now, now + self.ahead));
        self.inner.follow(now, load, seen)
    }

    fn next_at(&self) -> Option<Time> {
        Some(self.next)
    }
}

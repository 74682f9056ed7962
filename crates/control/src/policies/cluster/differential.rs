//! The cluster policy `differential` (Li 2012, section 8.1).

use ebb_units::Time;

use super::choice::Row;
use crate::Policy;
use crate::cluster::{ClusterAction, ClusterSeen, ClusterSettings, Server, due};

pub(super) const NAME: &str = "differential";
pub(super) const HELP: &str = "switches as few servers on or off as the load requires";

/// Changes what is on as little as the load asks for (the on-line scheme that Li 2012, section 8.1,
/// describes): the best server more while it is too little, the worst one less once it has been too much
/// for long enough.
#[derive(Clone, Debug)]
pub struct Differential {
    pub(super) row: Row,
    next: Time,
}

impl Differential {
    /// For these servers.
    pub fn new(servers: &[Server], settings: ClusterSettings) -> Differential {
        Differential { row: Row::new(servers, settings), next: Time::ZERO }
    }

    /// Servers in the order in which they go on: the most capacity for the power first, and of equals
    /// the first; they go off the other way round.
    fn order(&self) -> Vec<usize> {
        let merit = |at: &usize| {
            let server = &self.row.servers[*at];
            server.capacity / server.full.0.max(f64::MIN_POSITIVE)
        };
        let mut order: Vec<usize> = (0..self.row.servers.len()).collect();
        order.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
        order
    }

    /// What is to be on for a load of `load`, whatever is asked of the servers at the moment.
    pub(super) fn follow(&mut self, now: Time, load: f64, seen: &ClusterSeen) -> ClusterAction {
        let need = self.row.need(load);
        let fit = self.row.fit(seen);
        let mut on = self.row.kept(seen);
        let order = self.order();
        let mut more = order.iter().copied().filter(|at| fit[*at]);
        while !self.row.enough(&on, need) {
            let Some(at) = more.find(|at| !on[*at]) else { break };
            on[at] = true;
        }
        let spare = |on: &[bool], at: usize| {
            let mut less = on.to_vec();
            less[at] = false;
            self.row.enough(&less, need).then_some(less)
        };
        let may = |at: &usize| on[*at] && self.row.may_go(*at, now);
        let fewer = order.iter().rev().filter(|at| may(at)).find_map(|at| spare(&on, *at));
        if self.row.patient(now, fewer.is_some())
            && let Some(fewer) = fewer
        {
            on = fewer;
        }
        self.row.order(now, &on, seen)
    }
}

impl Policy for Differential {
    type Observation = ClusterSeen;
    type Action = ClusterAction;

    fn decide(&mut self, now: Time, seen: &ClusterSeen) -> ClusterAction {
        self.next = due(now, &self.row.settings);
        self.follow(now, seen.load, seen)
    }

    fn next_at(&self) -> Option<Time> {
        Some(self.next)
    }
}

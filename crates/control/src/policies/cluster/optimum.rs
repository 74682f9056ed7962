//! The cluster policy `optimum`: the servers that draw least (Li 2012, section 8.1).

use ebb_units::Time;

use super::choice::Row;
use crate::Policy;
use crate::cluster::{ClusterAction, ClusterSeen, ClusterSettings, Server, due};

pub(super) const NAME: &str = "optimum";
pub(super) const HELP: &str =
    "the set of servers that uses the least power for the load, regardless of how many change";

/// Sets that the search keeps; beyond them it is no longer exact.
const SETS_MAX: usize = 4096;

/// Whatever set draws least carries the load (the off-line scheme that Li 2012, section 8.1, describes):
/// the next may be a wholly different one.
#[derive(Clone, Debug)]
pub struct Optimum {
    row: Row,
    next: Time,
}

/// A set of servers that is on.
#[derive(Clone, Debug)]
struct Set {
    /// What it carries without its spares.
    capacity: f64,
    /// What it draws at full load.
    power: f64,
    on: Vec<bool>,
    spares: u32,
}

impl Optimum {
    /// For these servers.
    pub fn new(servers: &[Server], settings: ClusterSettings) -> Optimum {
        Optimum { row: Row::new(servers, settings), next: Time::ZERO }
    }

    /// The set of least power that carries `need`; all that are fit where none does. Of sets that draw
    /// the same, the one with more of what is on already.
    ///
    /// The spares are the largest of the set, and are chosen first: servers are gone through from the
    /// largest to the smallest.
    fn best(&self, need: f64, fit: &[bool]) -> Vec<bool> {
        let mut order: Vec<usize> = (0..fit.len()).filter(|at| fit[*at]).collect();
        let capacity = |at: &usize| self.row.servers[*at].capacity;
        order.sort_by(|a, b| {
            let already = |at: &usize| self.row.on[*at];
            capacity(b).total_cmp(&capacity(a)).then(already(b).cmp(&already(a))).then(a.cmp(b))
        });
        let spares = self.row.settings.spares;
        let none = vec![false; fit.len()];
        let mut sets = vec![Set { capacity: 0.0, power: 0.0, on: none, spares: 0 }];
        for at in order {
            let server = &self.row.servers[at];
            let with = |set: &Set| {
                let mut set = set.clone();
                set.on[at] = true;
                set.power += server.full.0;
                if set.spares < spares {
                    set.spares += 1;
                } else {
                    set.capacity += server.capacity;
                }
                set
            };
            let few = |set: &Set| set.on.iter().filter(|on| **on).count() <= spares as usize;
            let open = |set: &&Set| set.capacity < need || few(set);
            let more: Vec<Set> = sets.iter().filter(open).map(with).collect();
            sets.extend(more);
            sets = undominated(sets);
        }
        let fits = |set: &&Set| self.row.enough(&set.on, need);
        let best = sets.iter().filter(fits).min_by(|a, b| a.power.total_cmp(&b.power));
        best.map_or_else(|| fit.to_vec(), |set| set.on.clone())
    }
}

/// Without sets than which another has as many spares, carries as much and draws no more.
fn undominated(mut sets: Vec<Set>) -> Vec<Set> {
    sets.sort_by(|a, b| {
        b.spares
            .cmp(&a.spares)
            .then(b.capacity.total_cmp(&a.capacity))
            .then(a.power.total_cmp(&b.power))
    });
    let mut least = (u32::MAX, f64::INFINITY);
    sets.retain(|set| {
        if set.spares != least.0 {
            least = (set.spares, f64::INFINITY);
        }
        let keep = set.power < least.1 - 1e-12;
        if keep {
            least.1 = set.power;
        }
        keep
    });
    sets.truncate(SETS_MAX);
    sets
}

impl Policy for Optimum {
    type Observation = ClusterSeen;
    type Action = ClusterAction;

    fn decide(&mut self, now: Time, seen: &ClusterSeen) -> ClusterAction {
        self.next = due(now, &self.row.settings);
        let need = self.row.need(seen.load);
        let fit = self.row.fit(seen);
        let best = self.best(need, &fit);
        let kept = self.row.kept(seen);
        let too_little = !self.row.enough(&kept, need);
        let differs = best != kept;
        if !(too_little || self.row.patient(now, differs)) {
            return self.row.order(now, &kept, seen);
        }
        // Whoever must stay on does.
        let stays = |at: usize| kept[at] && !self.row.may_go(at, now);
        let on: Vec<bool> = (0..best.len()).map(|at| best[at] || stays(at)).collect();
        self.row.order(now, &on, seen)
    }

    fn next_at(&self) -> Option<Time> {
        Some(self.next)
    }
}

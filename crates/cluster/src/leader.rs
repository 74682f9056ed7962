//! What a member that may lead does, and when: keeps its lease, believes balancers, decides, writes.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use ebb_control::Policy;
use ebb_control::cluster::{ClusterPolicy, ClusterSeen, Server, ServerState};
use ebb_units::Time;

use crate::election::Candidate;
use crate::every::Every;
use crate::plan::{Acknowledgement, Power, Snapshot, Write};

/// Beyond what a server is said to take to wake, this long until it counts as failed.
const WAKE_GRACE: Duration = Duration::from_secs(5);
/// A balancer that has said nothing new for so long is not believed any more.
const STALE: Duration = Duration::from_secs(3);

/// What changes with every word of a balancer, without the names in it, which would be held by every member once more.
type Word = (u64, u64, f64, Option<u64>, usize);

fn word(said: &Acknowledgement) -> Word {
    (said.version, said.beat, said.load_pps, said.milliwatts, said.dead.len())
}

/// Back-ends as the policy knows them, by name.
pub type Servers = BTreeMap<String, Server>;

/// What a leader decides with.
pub struct LeaderInputs {
    /// The back-ends.
    pub servers: Servers,
    /// Which of them are on.
    pub policy: Box<ClusterPolicy>,
}

/// One that may be the leader.
pub struct Leader {
    candidate: Candidate,
    renewals: Every,
    leads: bool,
    wanted: BTreeMap<String, bool>,
    /// When it decided last.
    decided: Time,
    /// Since when, on this clock, a back-end has been waking in which version.
    waking: BTreeMap<String, (u64, Time)>,
    /// By balancer: by what its last word is known, and when that was new.
    said: BTreeMap<String, (Word, Time)>,
}

impl Leader {
    /// For the member `name` whose lease lasts `lease` after each renewal.
    pub fn new(name: impl Into<String>, lease: Duration) -> Leader {
        Leader {
            candidate: Candidate::new(name, lease),
            renewals: Every::new(lease / 4),
            leads: false,
            wanted: BTreeMap::new(),
            decided: Time::ZERO,
            waking: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// The member.
    pub fn name(&self) -> &str {
        self.candidate.name()
    }

    /// Whether to prolong the lease now. Whoever neither is the leader nor can become it needs none.
    pub fn renews(&self, now: Time, seen: &Snapshot) -> bool {
        let concerned = seen.leader.as_ref().is_none_or(|(owner, _)| owner == self.name());
        concerned && self.renewals.is_due(now)
    }

    /// The store has prolonged the lease, which it was asked for at `asked`, on this node's clock; whether it is
    /// the `same` as before.
    pub fn renewed(&mut self, asked: Time, same: bool) {
        if !same {
            self.candidate.lost();
        }
        self.candidate.renewed(asked);
        self.renewals.done(asked);
    }

    /// Whether it is the leader, by a snapshot and its own clock.
    pub fn is_leader(&self, now: Time, seen: &Snapshot) -> bool {
        self.candidate.is_leader(now, seen)
    }

    /// Whether it was the leader when it last looked for what to write.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// What to write now.
    pub fn decide(
        &mut self,
        now: Time,
        seen: &Snapshot,
        inputs: &mut LeaderInputs,
    ) -> Option<Write> {
        let LeaderInputs { servers, policy } = inputs;
        let is_leader = self.is_leader(now, seen);
        self.hear(now, seen);
        if is_leader && !self.leads {
            // A new leader goes on with what is on.
            let on = |name: &String| matches!(seen.power(name), Power::On | Power::Waking);
            self.wanted = servers.keys().map(|name| (name.clone(), on(name))).collect();
        }
        self.leads = is_leader;
        // A clock that has gone back would let a policy wait for a time that has been.
        let due = now < self.decided || policy.next_at().is_none_or(|due| due <= now);
        if is_leader && due {
            let stuck = self.stuck(now, seen, servers);
            let living = self.living(now, seen);
            let on = policy.decide(now, &observed(seen, &living, servers, &stuck));
            self.wanted = servers.keys().cloned().zip(on).collect();
            self.decided = now;
        }
        self.candidate.decide(now, seen, &without_held(&self.wanted, seen))
    }

    /// Back-ends that have been waking for too long.
    fn stuck(&mut self, now: Time, seen: &Snapshot, servers: &Servers) -> BTreeSet<String> {
        let entries = seen.plan.iter().flat_map(|(plan, _)| &plan.entries);
        let waking = entries.filter(|(_, entry)| entry.power == Power::Waking);
        let waking: BTreeMap<&String, u64> =
            waking.map(|(name, entry)| (name, entry.since)).collect();
        self.waking.retain(|name, (since, _)| waking.get(name) == Some(since));
        for (name, since) in waking {
            self.waking.entry(name.clone()).or_insert((since, now));
        }
        let late = |(name, (_, begun)): (&String, &(u64, Time))| {
            let wake = servers.get(name).map_or(Duration::ZERO, |server| server.wake);
            (now.since(*begun) > wake + WAKE_GRACE).then(|| name.clone())
        };
        self.waking.iter().filter_map(late).collect()
    }

    /// Remembers when each balancer said something new.
    fn hear(&mut self, now: Time, seen: &Snapshot) {
        self.said.retain(|name, _| seen.balancers.contains_key(name));
        for (name, said) in &seen.balancers {
            let word = word(said);
            match self.said.get_mut(name) {
                Some((before, _)) if *before == word => {}
                Some(known) => *known = (word, now),
                None => _ = self.said.insert(name.clone(), (word, now)),
            }
        }
    }

    /// What balancers say that live; all, when none seems to.
    fn living<'a>(&self, now: Time, seen: &'a Snapshot) -> Vec<&'a Acknowledgement> {
        let lives =
            |name: &String| self.said.get(name).is_some_and(|(_, at)| now.since(*at) < STALE);
        let fresh = seen.balancers.iter().filter(|(name, _)| lives(name));
        let fresh: Vec<_> = fresh.map(|(_, said)| said).collect();
        if fresh.is_empty() { seen.balancers.values().collect() } else { fresh }
    }
}

/// What the policy sees in a snapshot: a back-end that should be on and that no balancer reaches has
/// failed, and so has one of `stuck`, which take too long to wake, and one that an operator holds.
/// `balancers` are those that live.
fn observed(
    seen: &Snapshot,
    balancers: &[&Acknowledgement],
    servers: &Servers,
    stuck: &BTreeSet<String>,
) -> ClusterSeen {
    let dead =
        |name: &str| !balancers.is_empty() && balancers.iter().all(|said| said.dead.contains(name));
    let state = |name: &String| match seen.power(name) {
        _ if seen.held.contains(name) => ServerState::Failed,
        Power::Off => ServerState::Off,
        Power::Waking if stuck.contains(name) => ServerState::Failed,
        Power::Waking => ServerState::Waking,
        Power::Draining => ServerState::Draining,
        Power::On if dead(name) => ServerState::Failed,
        Power::On => ServerState::On,
    };
    ClusterSeen {
        load: balancers.iter().map(|said| said.load_pps).sum(),
        servers: servers.keys().map(state).collect(),
    }
}

/// What is wanted when an operator holds some off: those go once all others that are wanted are on, so
/// that nobody is left with their load.
fn without_held(wanted: &BTreeMap<String, bool>, seen: &Snapshot) -> BTreeMap<String, bool> {
    let others = |name: &&String| wanted[*name] && !seen.held.contains(*name);
    let ready = wanted.keys().filter(others).all(|name| seen.power(name) == Power::On)
        && wanted.keys().any(|name| others(&name));
    let one = |(name, wanted): (&String, &bool)| {
        let held = seen.held.contains(name);
        let stays = held && seen.power(name) == Power::On && !ready;
        (name.clone(), stays || *wanted && !held)
    };
    wanted.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ClusterPlan, Entry};

    fn at(tenths: u64) -> Time {
        Time::from_nanos(tenths * 100_000_000)
    }

    fn planned(entries: &[(&str, Power)]) -> Snapshot {
        let entry =
            |(name, power): &(&str, Power)| ((*name).to_owned(), Entry { power: *power, since: 1 });
        let entries = entries.iter().map(entry).collect();
        let plan = ClusterPlan { version: 1, entries, speaker: None };
        Snapshot { plan: Some((plan, 1)), ..Snapshot::default() }
    }

    /// What an operator takes out goes off once the others that are wanted are on.
    #[test]
    fn a_held_back_end_waits_for_the_others() {
        let snapshot = |second: Power| {
            let held = ["r0".to_owned()].into();
            Snapshot { held, ..planned(&[("r0", Power::On), ("r1", second)]) }
        };
        let wanted = BTreeMap::from([("r0".to_owned(), false), ("r1".to_owned(), true)]);
        let on = |second| without_held(&wanted, &snapshot(second))["r0"];
        assert!(on(Power::Waking), "the other is not there yet");
        assert!(!on(Power::On));
        let alone = BTreeMap::from([("r0".to_owned(), true), ("r1".to_owned(), false)]);
        assert!(without_held(&alone, &snapshot(Power::Off))["r0"], "nobody would be left");
    }

    #[test]
    fn whoever_leads_or_could_keeps_its_lease() {
        let mut leader = Leader::new("a", Duration::from_secs(2));
        let led = |owner: &str| Snapshot { leader: Some((owner.into(), 1)), ..Snapshot::default() };
        assert!(leader.renews(at(0), &Snapshot::default()));
        assert!(!leader.renews(at(0), &led("b")));
        leader.renewed(at(10), false);
        assert!(!leader.renews(at(14), &led("a")));
        assert!(leader.renews(at(15), &led("a")));
        assert!(leader.renews(at(9), &led("a")), "its clock has gone back");
        assert!(leader.is_leader(at(29), &led("a")) && !leader.is_leader(at(30), &led("a")));
    }

    /// A policy sees as failed what takes too long, and no load of a balancer that has ended.
    #[test]
    fn what_takes_too_long_has_failed_and_whoever_is_silent_says_nothing() {
        let mut leader = Leader::new("a", Duration::from_secs(2));
        let wake = Duration::from_secs(1);
        let watts = ebb_units::Watts(1.0);
        let server = Server { capacity: 1.0, full: watts, idle: watts, wake };
        let servers = Servers::from([("r0".to_owned(), server)]);
        let mut seen = planned(&[("r0", Power::Waking)]);
        let said = |beat| Acknowledgement { load_pps: 7.0, beat, ..Acknowledgement::default() };
        for second in 0..8 {
            seen.balancers = [("b0".into(), said(0)), ("b1".into(), said(second))].into();
            let now = at(second * 10);
            leader.hear(now, &seen);
            let (stuck, living) = (leader.stuck(now, &seen, &servers), leader.living(now, &seen));
            let observed = observed(&seen, &living, &servers, &stuck);
            assert_eq!(observed.load, if second < 3 { 14.0 } else { 7.0 });
            let failed = observed.servers == [ServerState::Failed];
            assert_eq!(failed, second > 6, "in second {second}");
        }
    }
}

//! One that may lead: reads loads and health, writes what is to be on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Acknowledgement, Candidate, Power, Snapshot, Write};
use ebb_control::Policy;
use ebb_control::cluster::ClusterPolicy;
use ebb_host::clock::monotonic;
use ebb_units::Time;

use super::{LOOK_EVERY, Member, Record, Servers, What, note, note_store, seen};
use crate::store::{Store, StoreError};

/// Beyond what a server is said to take to wake, this long until it counts as failed.
const WAKE_GRACE: Duration = Duration::from_secs(5);
/// A balancer that has said nothing new for so long is not believed any more.
const STALE: Duration = Duration::from_secs(3);

/// What a leader decides with; a reload replaces it.
pub struct LeaderInputs {
    /// The back-ends.
    pub servers: Servers,
    /// Which of them are on.
    pub policy: Box<ClusterPolicy>,
}

/// One that may be the leader.
pub struct LeaderMember {
    candidate: Candidate,
    store: Box<dyn Store>,
    inputs: Arc<Mutex<LeaderInputs>>,
    wanted: BTreeMap<String, bool>,
    /// Since when, on this clock, a back-end has been waking in which version.
    waking: BTreeMap<String, (u64, Time)>,
    /// What balancers said last, and when that was new.
    said: BTreeMap<String, (Acknowledgement, Time)>,
    record: Record,
    renew_every: Duration,
    renewed: Time,
    was_leader: bool,
    store_failed: bool,
}

impl LeaderMember {
    /// For the member `name`; `lease` is the store's.
    pub fn new(
        name: &str,
        lease: Duration,
        store: Box<dyn Store>,
        inputs: Arc<Mutex<LeaderInputs>>,
        record: Record,
    ) -> LeaderMember {
        LeaderMember {
            candidate: Candidate::new(name, lease),
            store,
            inputs,
            wanted: BTreeMap::new(),
            waking: BTreeMap::new(),
            said: BTreeMap::new(),
            record,
            renew_every: lease / 4,
            renewed: Time::ZERO,
            was_leader: false,
            store_failed: false,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn("ebb-leader", move || {
            self.turn();
            self.store.wait(LOOK_EVERY);
        })
    }

    /// Looks at the store once.
    pub fn turn(&mut self) {
        let result = self.step();
        note_store(&self.record, self.candidate.name(), &mut self.store_failed, result);
    }

    fn say(&self, what: What) {
        note(&self.record, self.candidate.name(), what);
    }

    fn step(&mut self) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot()?;
        // Whoever neither is the leader nor can become it needs no lease.
        let concerned = match &snapshot.leader {
            Some((owner, _)) => owner == self.candidate.name(),
            None => true,
        };
        let asked = monotonic();
        if concerned && asked.since(self.renewed) >= self.renew_every {
            if !self.store.renew()? {
                self.candidate.lost();
            }
            self.candidate.renewed(asked);
            self.renewed = asked;
        }
        self.lead(&snapshot)
    }

    /// Back-ends that have been waking for too long.
    fn stuck(&mut self, now: Time, snapshot: &Snapshot, servers: &Servers) -> BTreeSet<String> {
        let entries = snapshot.plan.iter().flat_map(|(plan, _)| &plan.entries);
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

    /// What balancers say that live; all, when none seems to.
    fn living(&mut self, now: Time, snapshot: &Snapshot) -> BTreeMap<String, Acknowledgement> {
        self.said.retain(|name, _| snapshot.balancers.contains_key(name));
        for (name, said) in &snapshot.balancers {
            match self.said.get_mut(name) {
                Some((before, _)) if before == said => {}
                _ => _ = self.said.insert(name.clone(), (said.clone(), now)),
            }
        }
        let fresh = self.said.iter().filter(|(_, (_, at))| now.since(*at) < STALE);
        let fresh: BTreeMap<_, _> =
            fresh.map(|(name, (said, _))| (name.clone(), said.clone())).collect();
        if fresh.is_empty() { snapshot.balancers.clone() } else { fresh }
    }

    /// Decides, while it is the leader.
    fn lead(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let now = monotonic();
        let is_leader = self.candidate.is_leader(now, snapshot);
        let living = self.living(now, snapshot);
        let inputs = self.inputs.clone();
        let mut inputs = inputs.lock().expect("inputs");
        let LeaderInputs { servers, policy } = &mut *inputs;
        if is_leader && !self.was_leader {
            self.say(What::Leader);
            // A new leader goes on with what is on.
            self.wanted = wanted_now(snapshot, servers);
        }
        self.was_leader = is_leader;
        if is_leader && policy.next_at().is_none_or(|due| due <= now) {
            let stuck = self.stuck(now, snapshot, servers);
            let on = policy.decide(now, &seen(snapshot, &living, servers, &stuck));
            self.wanted = servers.keys().cloned().zip(on).collect();
        }
        drop(inputs);
        let wanted = without_held(&self.wanted, snapshot);
        let Some(write) = self.candidate.decide(now, snapshot, &wanted) else {
            return Ok(());
        };
        if self.store.write(&write)?
            && let Write::ClusterPlan { plan, .. } = write
        {
            let on = plan.entries.values().filter(|entry| entry.power == Power::On).count();
            self.say(What::ClusterPlan { version: plan.version, on });
        }
        Ok(())
    }
}

/// What is wanted when an operator holds some off: those go once all others that are wanted are on, so
/// that nobody is left with their load.
fn without_held(wanted: &BTreeMap<String, bool>, snapshot: &Snapshot) -> BTreeMap<String, bool> {
    let power = |name: &String| {
        let entry = snapshot.plan.as_ref().and_then(|(plan, _)| plan.entries.get(name));
        entry.map_or(Power::Off, |entry| entry.power)
    };
    let others = |name: &&String| wanted[*name] && !snapshot.held.contains(*name);
    let ready = wanted.keys().filter(others).all(|name| power(name) == Power::On)
        && wanted.keys().any(|name| others(&name));
    let one = |(name, wanted): (&String, &bool)| {
        let held = snapshot.held.contains(name);
        let stays = held && power(name) == Power::On && !ready;
        (name.clone(), stays || *wanted && !held)
    };
    wanted.iter().map(one).collect()
}

fn wanted_now(snapshot: &Snapshot, servers: &Servers) -> BTreeMap<String, bool> {
    let plan = snapshot.plan.as_ref().map(|(plan, _)| plan);
    let on = |name: &String| {
        let entry = plan.and_then(|plan| plan.entries.get(name));
        entry.is_some_and(|entry| matches!(entry.power, Power::On | Power::Waking))
    };
    servers.keys().map(|name| (name.clone(), on(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_cluster::{ClusterPlan, Entry};

    /// What an operator takes out goes off once the others that are wanted are on.
    #[test]
    fn a_held_back_end_waits_for_the_others() {
        let snapshot = |second: Power| {
            let entry = |power| Entry { power, since: 1 };
            let entries = [("r0", Power::On), ("r1", second)];
            let entries = entries.map(|(name, power)| (name.to_owned(), entry(power)));
            let plan = ClusterPlan { version: 1, entries: entries.into(), speaker: None };
            Snapshot {
                plan: Some((plan, 1)),
                held: ["r0".to_owned()].into(),
                ..Snapshot::default()
            }
        };
        let wanted = BTreeMap::from([("r0".to_owned(), false), ("r1".to_owned(), true)]);
        let on = |second| without_held(&wanted, &snapshot(second))["r0"];
        assert!(on(Power::Waking), "the other is not there yet");
        assert!(!on(Power::On));
        let alone = BTreeMap::from([("r0".to_owned(), true), ("r1".to_owned(), false)]);
        assert!(without_held(&alone, &snapshot(Power::Off))["r0"], "nobody would be left");
    }
}

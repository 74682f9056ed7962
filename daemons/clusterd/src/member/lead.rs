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

/// What a head decides with; a reload replaces it.
pub struct Charged {
    /// The back-ends.
    pub servers: Servers,
    /// Which of them are on.
    pub policy: Box<ClusterPolicy>,
}

/// One that may be the head.
pub struct HeadMember {
    candidate: Candidate,
    store: Box<dyn Store>,
    charged: Arc<Mutex<Charged>>,
    wanted: BTreeMap<String, bool>,
    /// Since when, on this clock, a back-end has been waking in which version.
    waking: BTreeMap<String, (u64, Time)>,
    /// What balancers said last, and when that was new.
    said: BTreeMap<String, (Acknowledgement, Time)>,
    record: Record,
    renew_every: Duration,
    renewed: Time,
    was_head: bool,
    store_failed: bool,
}

impl HeadMember {
    /// For the member `name`; `lease` is the store's.
    pub fn new(
        name: &str,
        lease: Duration,
        store: Box<dyn Store>,
        charged: Arc<Mutex<Charged>>,
        record: Record,
    ) -> HeadMember {
        HeadMember {
            candidate: Candidate::new(name, lease),
            store,
            charged,
            wanted: BTreeMap::new(),
            waking: BTreeMap::new(),
            said: BTreeMap::new(),
            record,
            renew_every: lease / 4,
            renewed: Time::ZERO,
            was_head: false,
            store_failed: false,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn("ebb-head", move || {
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
        // Whoever neither is the head nor can become it needs no lease.
        let concerned = match &snapshot.head {
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
        let entries = snapshot.book.iter().flat_map(|(book, _)| &book.entries);
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

    /// Decides, while it is the head.
    fn lead(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let now = monotonic();
        let is_head = self.candidate.is_head(now, snapshot);
        let living = self.living(now, snapshot);
        let charged = self.charged.clone();
        let mut charged = charged.lock().expect("charged");
        let Charged { servers, policy } = &mut *charged;
        if is_head && !self.was_head {
            self.say(What::Head);
            // A new head goes on with what is on.
            self.wanted = wanted_now(snapshot, servers);
        }
        self.was_head = is_head;
        if is_head && policy.next_at().is_none_or(|due| due <= now) {
            let stuck = self.stuck(now, snapshot, servers);
            let on = policy.decide(now, &seen(snapshot, &living, servers, &stuck));
            self.wanted = servers.keys().cloned().zip(on).collect();
        }
        drop(charged);
        let wanted = without_held(&self.wanted, snapshot);
        let Some(write) = self.candidate.decide(now, snapshot, &wanted) else {
            return Ok(());
        };
        if self.store.write(&write)?
            && let Write::Book { book, .. } = write
        {
            let on = book.entries.values().filter(|entry| entry.power == Power::On).count();
            self.say(What::Book { version: book.version, on });
        }
        Ok(())
    }
}

/// What is wanted when an operator holds some off: those go once all others that are wanted are on, so
/// that nobody is left with their load.
fn without_held(wanted: &BTreeMap<String, bool>, snapshot: &Snapshot) -> BTreeMap<String, bool> {
    let power = |name: &String| {
        let entry = snapshot.book.as_ref().and_then(|(book, _)| book.entries.get(name));
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
    let book = snapshot.book.as_ref().map(|(book, _)| book);
    let on = |name: &String| {
        let entry = book.and_then(|book| book.entries.get(name));
        entry.is_some_and(|entry| matches!(entry.power, Power::On | Power::Waking))
    };
    servers.keys().map(|name| (name.clone(), on(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_cluster::{Book, Entry};

    /// What an operator takes out goes off once the others that are wanted are on.
    #[test]
    fn a_held_back_end_waits_for_the_others() {
        let snapshot = |second: Power| {
            let entry = |power| Entry { power, since: 1 };
            let entries = [("r0", Power::On), ("r1", second)];
            let entries = entries.map(|(name, power)| (name.to_owned(), entry(power)));
            let book = Book { version: 1, entries: entries.into(), voice: None };
            Snapshot {
                book: Some((book, 1)),
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

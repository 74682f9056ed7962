//! Members: whoever keeps a back-end, may become the head, or forwards as a balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Acknowledgement, Agent, Candidate, Order, Power, Snapshot, Write};
use ebb_control::Policy;
use ebb_control::cluster::{ClusterPolicy, ClusterSeen, Server, ServerState};
use ebb_host::clock::monotonic;
use ebb_units::Time;

use crate::balancer::BalancerHandle;
use crate::store::Store;

/// Beyond what a server is said to take to wake, this long until it counts as failed.
const WAKE_GRACE: Duration = Duration::from_secs(5);
/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Gives a back-end power and takes it.
pub trait Keeper: Send {
    /// Starts it. It forwards when this returns.
    ///
    /// # Errors
    /// When it does not come up.
    fn wake(&mut self) -> Result<()>;

    /// Ends it.
    ///
    /// # Errors
    /// When it does not go off.
    fn sleep(&mut self) -> Result<()>;
}

/// Back-ends as the policy knows them, by name.
pub type Servers = BTreeMap<String, Server>;

/// What the policy sees in a snapshot: a back-end that should be on and that no balancer reaches has
/// failed, and so has one of `stuck`, which take too long to wake.
pub fn seen(snapshot: &Snapshot, servers: &Servers, stuck: &BTreeSet<String>) -> ClusterSeen {
    let balancers = &snapshot.balancers;
    let dead = |name: &str| {
        !balancers.is_empty() && balancers.values().all(|said| said.dead.contains(name))
    };
    let book = snapshot.book.as_ref().map(|(book, _)| book);
    let state = |name: &String| {
        let power = book.and_then(|book| book.entries.get(name)).map_or(Power::Off, |e| e.power);
        match power {
            Power::Off => ServerState::Off,
            Power::Waking if stuck.contains(name) => ServerState::Failed,
            Power::Waking => ServerState::Waking,
            Power::Draining => ServerState::Draining,
            Power::On if dead(name) => ServerState::Failed,
            Power::On => ServerState::On,
        }
    };
    ClusterSeen {
        load: balancers.values().map(|said| said.load_pps).sum(),
        servers: servers.keys().map(state).collect(),
    }
}

/// Something that a member did, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Who.
    pub member: String,
    /// What.
    pub what: What,
}

/// What a member did.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It became the head.
    Head,
    /// It wrote a book in which so many are on.
    Book {
        /// The book's version.
        version: u64,
        /// Back-ends that are on in it.
        on: usize,
    },
    /// Its back-end came up.
    Woke,
    /// Its back-end went off.
    Slept,
    /// Its keeper failed.
    Failed(String),
}

/// The record that members of one process share.
pub type Record = Arc<Mutex<Vec<Event>>>;

/// A running member. Dropping it ends it without a word, as a crash would.
pub struct Member {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn spawn(name: &str, mut step: impl FnMut() + Send + 'static) -> Result<Member> {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let run = move || {
            while !end.load(Relaxed) {
                step();
                std::thread::sleep(LOOK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Member { stop, thread: Some(thread) })
    }

    /// Ends it.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a member panicked");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.finish();
    }
}

/// One that keeps a back-end and may be the head.
pub struct BackEndMember {
    agent: Agent,
    candidate: Candidate,
    store: Box<dyn Store>,
    keeper: Box<dyn Keeper>,
    servers: Servers,
    policy: Box<ClusterPolicy>,
    wanted: BTreeMap<String, bool>,
    /// Since when, on this clock, a back-end has been waking in which version.
    waking: BTreeMap<String, (u64, Time)>,
    record: Record,
    renew_every: Duration,
    renewed: Time,
    was_head: bool,
}

impl BackEndMember {
    /// For the back-end `name`, which is off; `lease` is the store's.
    pub fn new(
        name: &str,
        lease: Duration,
        store: Box<dyn Store>,
        keeper: Box<dyn Keeper>,
        (servers, policy): (Servers, Box<ClusterPolicy>),
        record: Record,
    ) -> BackEndMember {
        BackEndMember {
            agent: Agent::new(name, false),
            candidate: Candidate::new(name, lease),
            store,
            keeper,
            servers,
            policy,
            wanted: BTreeMap::new(),
            waking: BTreeMap::new(),
            record,
            renew_every: lease / 4,
            renewed: Time::ZERO,
            was_head: false,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        let name = format!("ebb-{}", self.agent.name());
        Member::spawn(&name, move || {
            if let Err(error) = self.step() {
                tracing::debug!(member = self.agent.name(), %error, "the store does not answer");
            }
        })
    }

    fn say(&self, what: What) {
        let event = Event { at: monotonic(), member: self.agent.name().to_owned(), what };
        self.record.lock().expect("record").push(event);
    }

    fn step(&mut self) -> Result<(), crate::store::StoreError> {
        let asked = monotonic();
        if asked.since(self.renewed) >= self.renew_every {
            if !self.store.renew()? {
                self.candidate.lost();
            }
            self.candidate.renewed(asked);
            self.renewed = asked;
        }
        let snapshot = self.store.snapshot()?;
        self.keep(&snapshot)?;
        self.lead(&snapshot)
    }

    /// Gives and takes its back-end's power.
    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), crate::store::StoreError> {
        if let Some((book, _)) = &snapshot.book {
            let (order, what) = match self.agent.follow(book) {
                Some(Order::Wake) => (self.keeper.wake(), What::Woke),
                Some(Order::Sleep) => (self.keeper.sleep(), What::Slept),
                None => (Ok(()), What::Head),
            };
            match (order, what) {
                (Ok(()), What::Head) => {}
                (Ok(()), what) => {
                    self.agent.is_up(what == What::Woke);
                    self.say(what);
                }
                (Err(error), _) => self.say(What::Failed(format!("{error:#}"))),
            }
        }
        let report = self.agent.report();
        let name = self.agent.name();
        if snapshot.members.get(name) != Some(&report) {
            self.store.write(&Write::Report { member: name.to_owned(), report })?;
        }
        Ok(())
    }

    /// Back-ends that have been waking for too long.
    fn stuck(&mut self, now: Time, snapshot: &Snapshot) -> BTreeSet<String> {
        let entries = snapshot.book.iter().flat_map(|(book, _)| &book.entries);
        let waking = entries.filter(|(_, entry)| entry.power == Power::Waking);
        let waking: BTreeMap<&String, u64> =
            waking.map(|(name, entry)| (name, entry.since)).collect();
        self.waking.retain(|name, (since, _)| waking.get(name) == Some(since));
        for (name, since) in waking {
            self.waking.entry(name.clone()).or_insert((since, now));
        }
        let late = |(name, (_, begun)): (&String, &(u64, Time))| {
            let wake = self.servers.get(name).map_or(Duration::ZERO, |server| server.wake);
            (now.since(*begun) > wake + WAKE_GRACE).then(|| name.clone())
        };
        self.waking.iter().filter_map(late).collect()
    }

    /// Decides, while it is the head.
    fn lead(&mut self, snapshot: &Snapshot) -> Result<(), crate::store::StoreError> {
        let now = monotonic();
        let is_head = self.candidate.is_head(now, snapshot);
        if is_head && !self.was_head {
            self.say(What::Head);
            // A new head goes on with what is on.
            self.wanted = wanted_now(snapshot, &self.servers);
        }
        self.was_head = is_head;
        if is_head && self.policy.next_at().is_none_or(|due| due <= now) {
            let stuck = self.stuck(now, snapshot);
            let on = self.policy.decide(now, &seen(snapshot, &self.servers, &stuck));
            self.wanted = self.servers.keys().cloned().zip(on).collect();
        }
        let Some(write) = self.candidate.decide(now, snapshot, &self.wanted) else {
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

fn wanted_now(snapshot: &Snapshot, servers: &Servers) -> BTreeMap<String, bool> {
    let book = snapshot.book.as_ref().map(|(book, _)| book);
    let on = |name: &String| {
        let entry = book.and_then(|book| book.entries.get(name));
        entry.is_some_and(|entry| matches!(entry.power, Power::On | Power::Waking))
    };
    servers.keys().map(|name| (name.clone(), on(name))).collect()
}

/// Carries books from the store to a balancer and what it says back.
pub struct BalancerMember {
    name: String,
    store: Box<dyn Store>,
    balancer: Arc<BalancerHandle>,
    registered: bool,
    said: Option<Acknowledgement>,
    version: u64,
    counted: (Time, u64),
    load_pps: f64,
}

/// Over how long a load is measured.
const LOAD_OVER: Duration = Duration::from_millis(100);

impl BalancerMember {
    /// For the balancer called `name`.
    pub fn new(name: &str, store: Box<dyn Store>, balancer: Arc<BalancerHandle>) -> BalancerMember {
        BalancerMember {
            name: name.to_owned(),
            store,
            balancer,
            registered: false,
            said: None,
            version: 0,
            counted: (monotonic(), 0),
            load_pps: 0.0,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn(&format!("ebb-{}", self.name.clone()), move || {
            if let Err(error) = self.step() {
                tracing::debug!(balancer = self.name, %error, "the store does not answer");
            }
        })
    }

    fn step(&mut self) -> Result<(), crate::store::StoreError> {
        let status = self.balancer.status();
        self.measure(status.counters.balanced + status.counters.homeless);
        let mut acknowledgement = status.acknowledgement;
        acknowledgement.load_pps = self.load_pps;
        // It registers before it first reads a book: from then on every drain waits for it.
        if self.said.as_ref() != Some(&acknowledgement) {
            let (balancer, said) = (self.name.clone(), acknowledgement.clone());
            self.store.write(&Write::Acknowledge { balancer, acknowledgement })?;
            self.said = Some(said);
        }
        if !self.registered {
            self.registered = true;
            return Ok(());
        }
        if let Some((book, _)) = self.store.snapshot()?.book
            && book.version > self.version
        {
            self.version = book.version;
            self.balancer.follow(&book);
        }
        Ok(())
    }

    fn measure(&mut self, packets: u64) {
        let now = monotonic();
        let (since, before) = self.counted;
        let span = now.since(since);
        if span >= LOAD_OVER {
            self.load_pps = (packets - before) as f64 / span.as_secs_f64();
            self.counted = (now, packets);
        }
    }
}

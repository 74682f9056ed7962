//! What members of a live cluster ask etcd and are answered, while its three members are cut off, deaf, killed and
//! stopped, and those of the cluster are, too: whether [`Owners`] explains it. Observers ask a majority of etcd
//! meanwhile, whose answers must be as of the time at which they ask; what members know may be old, but not older than
//! what they knew, wrote or were refused by before. That a lease was renewed says nothing of the keys: whoever is cut
//! off from what it hears changes by renews for some seconds what it holds, and knows what it knew.
//!
//! `EBB_SCHEDULES=N` plays so many rounds of a quarter of a minute each, from that of `EBB_SEED` on; each is a history
//! of its own. How long things take is the machine's: a seed draws the same faults again, not the same history.

mod trio;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_cluster::{Owned, OwnerDeed, Owners, Renewal, Snapshot, Write, lease_ends};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::named;
use ebb_des::{Operation, Rng, Seed, Unexplained, linearize};
use ebb_host::clock::monotonic;
use ebb_units::{Time, Watts};
use rand::Rng as _;

use super::super::watch::Watch;
use super::super::{Etcd, Seal, prefix};
use crate::member::{BackEndMember, Keeper, Member, Record, Servers};
use crate::routes::{Published, Routes};
use crate::store::{EtcdServer, Store, StoreError};
use trio::{EACH, Trio};

const LEASE: Duration = Duration::from_secs(2);
/// What was asked and not answered may come about until then: nobody is cut off or stopped for longer than five
/// seconds.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// Faults come for so long.
const TROUBLE: Duration = Duration::from_secs(12);

/// All that was asked, in the order of the answers.
type History = Arc<Mutex<Vec<Operation<OwnerDeed>>>>;

/// A member's access to etcd, which writes down what it asks.
struct Recorded {
    store: Etcd,
    /// Whose lease it is: a name, and which life of it.
    owner: String,
    session: usize,
    history: History,
    /// Milliseconds that it stands still before it writes the next time.
    stall: Arc<AtomicU64>,
}

impl Recorded {
    fn note(&self, called: Time, answered: bool, deed: OwnerDeed) {
        let now = monotonic();
        let until = Some(if answered { now } else { called + UNDER_WAY });
        let session = Some(self.session).filter(|_| !matches!(deed, OwnerDeed::Renew { .. }));
        let operation = Operation { session, called, until, answered, deed };
        self.history.lock().expect("history").push(operation);
    }
}

impl Store for Recorded {
    fn renew(&mut self) -> Result<bool, StoreError> {
        let called = monotonic();
        let result = self.store.renew();
        let same = result.as_ref().ok().copied();
        self.note(called, same.is_some(), OwnerDeed::Renew { owner: self.owner.clone(), same });
        result
    }

    fn snapshot(&mut self) -> Result<Arc<Snapshot>, StoreError> {
        let result = self.store.snapshot();
        if let Ok(seen) = &result {
            // As old as may be: what this one has asked before, and was told, says more than the time.
            self.note(Time::ZERO, true, OwnerDeed::read(seen));
        }
        result
    }

    fn wait(&mut self, patience: Duration) {
        self.store.wait(patience);
    }

    fn write(&mut self, write: &Write) -> Result<bool, StoreError> {
        std::thread::sleep(Duration::from_millis(self.stall.swap(0, Relaxed)));
        let called = monotonic();
        let result = self.store.write(write);
        let made = result.as_ref().ok().copied();
        let deed = match write {
            Write::Leader { .. } => OwnerDeed::Claim { owner: self.owner.clone(), made },
            Write::ClusterPlan { plan, term, after } => {
                let plan = Owned { version: plan.version, speaker: plan.speaker.clone() };
                OwnerDeed::Plan { term: *term, after: *after, plan, made }
            }
            _ => return result,
        };
        self.note(called, made.is_some(), deed);
        result
    }

    fn routes(&mut self) -> Result<Arc<Published>, StoreError> {
        self.store.routes()
    }

    fn publish(
        &mut self,
        chunks: &[(usize, Arc<Routes>)],
        writes: u64,
    ) -> Result<bool, StoreError> {
        self.store.publish(chunks, writes)
    }
}

/// Whether what was recorded can have come about: how many answers were compared, none where too many orders would
/// have to be tried.
fn check(history: &[Operation<OwnerDeed>]) -> Result<Option<usize>, String> {
    let counts = |one: &&Operation<OwnerDeed>| one.answered || !one.deed.looks();
    let mut all: Vec<_> = history.iter().filter(counts).cloned().collect();
    let renewals = history.iter().filter_map(|one| match &one.deed {
        OwnerDeed::Renew { owner, same } => {
            Some(Renewal { owner, called: one.called, until: one.until, same: *same })
        }
        _ => None,
    });
    all.extend(lease_ends(renewals, LEASE).into_iter().map(|end| Operation {
        session: None,
        called: end.called,
        until: end.until,
        answered: false,
        deed: OwnerDeed::End { owner: end.owner },
    }));
    let answers = all.iter().filter(|one| one.answered).count();
    match linearize(Owners::default(), &all, Owners::after, OwnerDeed::looks) {
        Ok(_) => Ok(Some(answers)),
        Err(Unexplained::Undecided) => Ok(None),
        Err(Unexplained::Stuck { order, blocked }) => {
            let before: Vec<_> = order.iter().rev().take(8).rev().map(|at| &all[*at]).collect();
            let last = &all[blocked];
            // What the same one knew before: it is not to know less.
            let same = |one: &&Operation<OwnerDeed>| one.session == last.session && one.answered;
            let own: Vec<_> = all[..blocked].iter().filter(same).rev().take(4).collect();
            let lines = [before, own]
                .map(|all| all.iter().map(|one| format!("{one:?}\n")).collect::<String>());
            Err(format!(
                "after\n{}and of its own, backwards\n{}cannot follow {last:?}",
                lines[0], lines[1]
            ))
        }
    }
}

/// A keeper of nothing.
struct Nothing;

impl Keeper for Nothing {
    fn wake(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn sleep(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

fn member_name(client: usize) -> String {
    format!("r{client:03}")
}

/// The members of a cluster, one in each place, and their history.
struct Round<'a> {
    trio: &'a mut Trio,
    cluster: String,
    members: Vec<Option<Member>>,
    stalls: Vec<Arc<AtomicU64>>,
    history: History,
    /// Sessions and lives that have begun.
    sessions: usize,
    rng: Rng,
    faults: usize,
}

impl<'a> Round<'a> {
    fn new(trio: &'a mut Trio, seed: u64) -> Round<'a> {
        let cluster = format!("round-{seed}-{}", monotonic().as_nanos());
        let stalls = (0..EACH).map(|_| Arc::default()).collect();
        let (members, history) = ((0..EACH).map(|_| None).collect(), History::default());
        let rng = Seed(seed).stream("faults");
        Round { trio, cluster, members, stalls, history, sessions: 0, rng, faults: 0 }
    }

    /// Begins a member, or begins it anew as a process that was killed does.
    fn begin(&mut self, client: usize) {
        let watts = Watts(1.0);
        let wake = Duration::from_millis(400);
        let server = Server { capacity: 1e3, full: watts, idle: watts, wake };
        let servers: Servers = (0..EACH).map(|one| (member_name(one), server)).collect();
        let policy = named("all", &[server; EACH], ClusterSettings::default()).expect("a policy");
        let options = self.trio.options(client);
        let one = Etcd::new(&options, &self.cluster, LEASE).expect("options");
        let owner = format!("{}#{}", member_name(client), self.sessions);
        let recorded = |store: Etcd, session: usize| -> Box<dyn Store> {
            let (history, stall) = (self.history.clone(), self.stalls[client].clone());
            Box::new(Recorded { store, owner: owner.clone(), session, history, stall })
        };
        let stores = [recorded(one.another(), self.sessions), recorded(one, self.sessions + 1)];
        self.sessions += 2;
        let (name, parts) = (member_name(client), (servers, policy));
        let keeper = Box::new(Nothing);
        let member = BackEndMember::new(&name, LEASE, stores, keeper, parts, Record::default());
        self.members[client] = Some(self.trio.at(client, || member.start()).expect("a thread"));
    }

    /// A fault, some time, its end.
    fn fault(&mut self) {
        self.faults += 1;
        let server = self.rng.random_range(0..EACH);
        let other = (server + self.rng.random_range(1..EACH)) % EACH;
        let client = self.rng.random_range(0..EACH);
        let span = Duration::from_millis(self.rng.random_range(300..4000));
        match self.rng.random_range(0..10) {
            0 => (0..EACH).filter(|one| *one != server).for_each(|one| self.trio.cut(server, one)),
            1 => self.trio.cut(server, other),
            2 => self.trio.deafen(server, other),
            3 => (0..EACH).for_each(|one| self.trio.cut(EACH + client, one)),
            4 => self.trio.deafen(EACH + client, server),
            5 => {
                self.trio.kill(server);
                std::thread::sleep(span / 2);
                self.trio.begin(server);
            }
            6 => {
                self.trio.pause(server, true);
                std::thread::sleep(span);
                self.trio.pause(server, false);
            }
            7 => {
                self.members[client] = None;
                std::thread::sleep(span / 2);
                self.begin(client);
            }
            8 => self.stalls[client].store(span.as_millis() as u64, Relaxed),
            _ => self.hold(client, span),
        }
        std::thread::sleep(span / 2);
        self.trio.heal();
        std::thread::sleep(Duration::from_millis(self.rng.random_range(0..1500)));
    }

    /// An operator wants a back-end off for a while: plans follow, and others speak.
    fn hold(&mut self, client: usize, span: Duration) {
        let options = self.trio.options(client);
        let mut store = Etcd::new(&options, &self.cluster, LEASE).expect("options");
        for hold in [true, false] {
            let write = Write::Hold { member: member_name(client), hold };
            // Nobody may answer.
            _ = self.trio.at(client, || store.write(&write));
            std::thread::sleep(span / 2);
        }
    }

    /// An observer in a client's place, until it is told to end.
    fn observe(&mut self, client: usize, ends: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
        let (history, ends) = (self.history.clone(), ends.clone());
        let before = prefix(&self.cluster);
        let store = Etcd::new(&self.trio.options(client), &self.cluster, LEASE).expect("options");
        let look = move || {
            while !ends.load(Relaxed) {
                let called = monotonic();
                let watch =
                    Watch::new(store.client.clone(), before.clone(), Seal::new(None, &before));
                if watch.ask_all().is_ok() {
                    let seen = watch.snapshot(0).expect("just asked for").0;
                    let deed = OwnerDeed::read(&seen);
                    let until = Some(monotonic());
                    let one = Operation { session: None, called, until, answered: true, deed };
                    history.lock().expect("history").push(one);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        self.trio.at(client, || std::thread::spawn(look))
    }

    /// Plays it; what was recorded, and how many faults there were.
    fn play(mut self) -> (Vec<Operation<OwnerDeed>>, usize) {
        (0..EACH).for_each(|client| self.begin(client));
        let ends = Arc::new(AtomicBool::new(false));
        let observers: Vec<_> = (0..2).map(|client| self.observe(client, &ends)).collect();
        let begun = monotonic();
        while monotonic().since(begun) < TROUBLE {
            self.fault();
        }
        // Once nothing fails any more somebody leads, and has said who speaks.
        let calm = monotonic();
        let settled = ebb_lab::test::until(Duration::from_secs(30), || {
            let history = self.history.lock().expect("history");
            history.iter().any(|one| {
                matches!(&one.deed, OwnerDeed::Read { leader: Some(_), plan: Some((plan, _)) }
                    if one.session.is_none() && one.called > calm && plan.speaker.is_some())
            })
        });
        ends.store(true, Relaxed);
        observers.into_iter().for_each(|observer| observer.join().expect("no panic"));
        self.members.clear();
        assert!(settled, "nobody leads half a minute after the last fault: {}", self.trio.words());
        let history = std::mem::take(&mut *self.history.lock().expect("history"));
        (history, self.faults)
    }
}

/// Who has led in terms that were seen.
fn terms(history: &[Operation<OwnerDeed>]) -> usize {
    let seen = history.iter().filter_map(|one| match &one.deed {
        OwnerDeed::Read { leader: Some((_, term)), .. } => Some(*term),
        _ => None,
    });
    seen.collect::<std::collections::BTreeSet<u64>>().len()
}

#[test]
fn what_etcd_says_of_owners_has_one_order_whatever_fails() {
    if !EtcdServer::installed() {
        assert!(std::env::var_os("CI").is_none(), "CI must have etcd (Debian: etcd-server)");
        eprintln!("skipped: etcd is not installed");
        return;
    }
    let Some(mut trio) = Trio::start() else { return };
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let (first, count) = (number("EBB_SEED").unwrap_or(1), number("EBB_SCHEDULES").unwrap_or(2));
    let (mut answers, mut faults, mut led, mut undecided) = (0, 0, 0, 0);
    for seed in first..first + count {
        let (history, drawn) = Round::new(&mut trio, seed).play();
        (faults, led) = (faults + drawn, led + terms(&history));
        match check(&history).unwrap_or_else(|broken| panic!("EBB_SEED={seed}: {broken}")) {
            Some(compared) => answers += compared,
            None => undecided += 1,
        }
        found_out(&history);
        println!("{seed}: {drawn} faults, {answers} answers, {led} terms, {undecided} undecided");
    }
    assert!(undecided <= count / 5 && answers > 100 && faults > 0 && led as u64 >= count);
}

/// The same history is refused where one who looked says that somebody else led.
fn found_out(history: &[Operation<OwnerDeed>]) {
    let mut other = history.to_vec();
    let led = other.iter_mut().rev().filter(|one| one.session.is_none());
    let mut leader = led.filter_map(|one| match &mut one.deed {
        OwnerDeed::Read { leader: Some((owner, _)), .. } => Some(owner),
        _ => None,
    });
    let owner = leader.next().expect("somebody led");
    *owner = if owner == "r000" { "r001" } else { "r000" }.to_owned();
    assert!(!matches!(check(&other), Ok(Some(_))), "two led in one term");
}

//! `ebb cluster run`: the roles of one member, until it is told to stop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ebb_cluster::{LeaderInputs, Power, Write};
use ebb_control::policies::cluster as policies;
use ebb_host::clock::monotonic;
use ebb_host::journal::{Guard, Journal};
use ebb_host::namespace::Namespace;
use ebb_host::netlink::Requests;
use ebb_host::process;
use ebb_host::service::{self, Heartbeat};
use ebb_host::signals::{Signal, Signals};
use ebb_service::{Daemon, Doors, Options};
use ebb_telemetry::Snapshot;
use ebb_units::Time;
use ring::rand;
use serde_json::{Map, Value};
use tracing::{info, warn};

use crate::api::Command;
use crate::balancer::{BalancerHandle, PeerAuthentication, RunnerOptions};
use crate::config::{
    ClusterConfig, How, KeepConfig, MemberConfig, SideConfig, StoreKind, wake_mac,
};
use crate::keepers::{
    CommandKeeper, GuestKeeper, NamespaceRouter, PatientKeeper, ProcessKeeper, RouterPlan,
    WakeOnLanKeeper,
};
use crate::kept::{Kept, space_of};
use crate::member::{
    BalancerMember, Keeper, KeeperMember, LeaderMember, Member, Record, RouterMember, What,
};
use crate::power::{EnergyView, Machine, Metered, Ratings};
use crate::routes::Routing;
use crate::status::ClusterStatus;
use crate::store::{Embedded, Etcd, Store};
use crate::threads::named;

/// Where what is to be undone is written down.
const JOURNALS: &str = "/run/ebb";
/// Between two looks at signals and the store.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A start and an order wait so long for a store that does not answer, which is less than who gave it waits.
const ELECTION: Duration = Duration::from_secs(5);
/// Back-ends that end with this process have so long to drain first.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// What is on its way to a balancer that ends is taken for so long.
const LEAVE: Duration = Duration::from_millis(60);
/// Events that are shown.
const EVENTS: usize = 20;

/// Where members get their access to the store.
enum Stores {
    Embedded(Embedded),
    Etcd(Box<Etcd>),
}

impl Stores {
    fn open(config: &ClusterConfig) -> Result<Stores> {
        let lease = config.store.lease();
        if config.store.kind == StoreKind::Embedded {
            return Ok(Stores::Embedded(Embedded::new(lease)));
        }
        let (name, token) = (&config.cluster.name, config.token()?);
        let mut etcd = Etcd::new(&config.store, name, lease)?.with_token(token.as_deref());
        // Whoever cannot join is told so at once; etcd may have begun just now, too.
        let begun = monotonic();
        while let Err(error) = etcd.snapshot() {
            if !error.is_silence() || monotonic().since(begun) > ELECTION {
                return Err(error.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        etcd.admitted()?;
        Ok(Stores::Etcd(Box::new(etcd)))
    }

    fn access(&self) -> Box<dyn Store> {
        match self {
            Stores::Embedded(store) => Box::new(store.another()),
            Stores::Etcd(etcd) => Box::new(etcd.another()),
        }
    }
}

/// What the socket answers from.
struct Desk {
    path: PathBuf,
    /// As it was at the start.
    config: ClusterConfig,
    status: Mutex<ClusterStatus>,
    store: Mutex<Box<dyn Store>>,
    stop: AtomicBool,
    /// Of a member that may be the leader.
    inputs: Option<Arc<Mutex<LeaderInputs>>>,
    /// Of a member that is a balancer.
    balancer: Option<Weak<BalancerHandle>>,
    reloaded: Mutex<Reloaded>,
    ratings: Mutex<Ratings>,
}

/// What reading the file again has changed.
struct Reloaded {
    policy: String,
    times: u64,
}

impl Daemon for Desk {
    fn status(&self) -> Result<Value, String> {
        serde_json::to_value(self.seen()).map_err(|error| error.to_string())
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        Ok(Snapshot::of(&self.seen()))
    }

    fn command(&self, command: Map<String, Value>) -> Result<Value, String> {
        let command = serde_json::from_value(Value::Object(command));
        let done = command.map_err(Into::into).and_then(|command| self.order(command));
        done.map(|()| Value::from("asked")).map_err(|error| format!("{error:#}"))
    }
}

impl Desk {
    fn seen(&self) -> ClusterStatus {
        self.status.lock().expect("status").clone()
    }

    fn order(&self, command: Command) -> Result<()> {
        match command {
            Command::Drain(name) => self.hold(name, true),
            Command::Undrain(name) => self.hold(name, false),
            Command::Forget(balancer) => {
                let snapshot = self.store.lock().expect("store").snapshot()?;
                let names: Vec<&String> = snapshot.balancers.keys().collect();
                let known = names.contains(&&balancer);
                ensure!(known, "there is no registered balancer `{balancer}`; known: {names:?}");
                self.write(&Write::Leave { balancer })
            }
            Command::Reload {} => self.reload(),
            Command::Stop {} => {
                self.stop.store(true, Relaxed);
                Ok(())
            }
        }
    }

    fn hold(&self, member: String, hold: bool) -> Result<()> {
        let names: Vec<&str> = self.config.back_end.iter().map(|one| one.name.as_str()).collect();
        let known = names.contains(&member.as_str());
        ensure!(known, "there is no back-end `{member}`; known: {}", names.join(", "));
        self.write(&Write::Hold { member, hold })
    }

    /// Takes over what can change while packets flow: the policy, and what back-ends carry and draw. All
    /// or nothing.
    fn reload(&self) -> Result<()> {
        let config = ClusterConfig::load(&self.path)?;
        if let Some(field) = config.beyond_reload(&self.config) {
            bail!(
                "{}: field `{field}` changed, which needs a restart; the old configuration stays",
                self.path.display()
            );
        }
        let taken = inputs(&config)?;
        if let Some(balancer) = self.balancer.as_ref().and_then(Weak::upgrade) {
            balancer.weigh(config.capacities());
        }
        if let Some(ours) = &self.inputs {
            *ours.lock().expect("inputs") = taken;
        }
        *self.ratings.lock().expect("ratings") = Ratings::of(&config);
        let mut reloaded = self.reloaded.lock().expect("reloaded");
        *reloaded = Reloaded { policy: config.policy.name, times: reloaded.times + 1 };
        info!(policy = reloaded.policy, code = "EBB-C008", "configuration reloaded");
        Ok(())
    }

    /// What an operator orders, again while the store elects its leader: doing it twice changes nothing.
    fn write(&self, write: &Write) -> Result<()> {
        let mut store = self.store.lock().expect("store");
        let begun = monotonic();
        let done = loop {
            match store.write(write) {
                Err(_) if monotonic().since(begun) < ELECTION => std::thread::sleep(LOOK_EVERY),
                done => break done?,
            }
        };
        ensure!(done, "the store rejected the change; try again");
        Ok(())
    }
}

/// Runs a member until it is told to stop. Without `member` the host's name says which.
///
/// # Errors
/// When the configuration is wrong, the store does not answer or refuses, an interface is missing, or
/// rights are.
pub fn run(path: &Path, member: Option<&str>) -> Result<()> {
    let config = ClusterConfig::load(path)?;
    let name = member.map_or_else(host_name, |name| Ok(name.to_owned()))?;
    let member = config.member(&name).with_context(|| path.display().to_string())?.clone();
    let mut signals = Signals::open(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    Journal::recover_stale(JOURNALS);
    let journal =
        Journal::open(JOURNALS).with_context(|| format!("cannot write a journal in {JOURNALS}"))?;
    let guard = Guard::spawn(&journal).context("cannot start the guard process")?;
    _ = process::lift_memory_lock_limit();
    let stores = Stores::open(&config).with_context(|| path.display().to_string())?;
    let socket = member.socket.clone().unwrap_or(config.cluster.socket.clone());
    let metrics = member.metrics.or(config.cluster.metrics);
    // Where this member runs already, nothing of its is touched.
    let (listener, bound) = ebb_service::bind(socket.clone())?;
    let kept = Kept::of(&config, &member, Path::new(JOURNALS));
    let starting = Arc::new(AtomicBool::new(true));
    let mut node = Node::start(path, config, member, stores, (&journal, &kept, &starting))?;
    let options = Options { socket: Some(socket.clone()), metrics };
    let listening = Doors { socket: Some(listener.into()), metrics: None };
    let doors = ebb_service::serve_at(options, listening, node.desk.clone())?;
    starting.store(false, Relaxed);
    info!(member = name, socket = %socket.display(), code = "EBB-C009", "serving");
    let result = node.serve(&mut signals);
    service::stopping();
    node.end();
    drop((doors, bound));
    let forgotten = kept.forget();
    journal.finish();
    drop(guard);
    result.and(forgotten)
}

fn host_name() -> Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(text.trim().to_owned())
}

struct Node {
    member: MemberConfig,
    desk: Arc<Desk>,
    store: Box<dyn Store>,
    /// Routes that all back-ends have.
    routes: usize,
    /// What is in the store and not believed.
    refused: Vec<String>,
    record: Record,
    machine: Arc<Machine>,
    energy: EnergyView,
    begun: Time,
    said: usize,
    balancer: Option<Arc<BalancerHandle>>,
    front: Option<Member>,
    keepers: Vec<Member>,
    /// Of a machine that is a back-end.
    router: Option<Member>,
    leader: Option<Member>,
}

impl Node {
    fn start(
        path: &Path,
        config: ClusterConfig,
        member: MemberConfig,
        stores: Stores,
        (journal, kept, starting): (&Journal, &Kept, &Arc<AtomicBool>),
    ) -> Result<Node> {
        let record = Record::default();
        let machine = Machine::open(&config, &member)?;
        let (mut balancer, mut front) = (None, None);
        if let Some(options) = &member.balancer {
            let authentication = PeerAuthentication {
                cluster: config.cluster.name.clone(),
                token: config.token()?,
                session: session()?,
            };
            let threads = &options.threads;
            let (workers, cpu, probing) = (options.workers, options.cpu, config.probing());
            let options = RunnerOptions { workers, cpu, probing, authentication };
            let here = Namespace::current()?;
            let handle = BalancerHandle::start(&here, config.topology(&member), options);
            let handle = Arc::new(handle.with_context(|| path.display().to_string())?);
            if !threads.is_free() {
                let ours = handle.thread_names().map(named).collect::<Result<Vec<u32>>>();
                let placed = ours.and_then(|ours| threads.apply(&ours));
                placed.with_context(|| path.display().to_string())?;
            }
            let access = stores.access();
            let carrier = BalancerMember::new(&member.name, access, handle.clone(), record.clone());
            front = Some(carrier.on(machine.clone()).start()?);
            balancer = Some(handle);
        }
        kept.renew(config.side.len(), &record)?;
        let mut keepers = Vec::new();
        for keep in &member.keep {
            let keeper = keeper(&config, keep, journal, starting);
            let access = stores.access();
            let keeper = KeeperMember::new(&keep.back_end, access, keeper, record.clone())
                .metered(Metered::of(keep, &machine)?);
            keepers.push(keeper.start()?);
        }
        let mut router = None;
        if let (Some(own), Some(plan)) = (&member.router, config.routing.plan()) {
            let links = own.interfaces.iter().map(|name| link(name)).collect::<Result<_>>();
            let links = links.with_context(|| path.display().to_string())?;
            let routing = Routing::new(plan, None, links, journal)?;
            let access = stores.access();
            let routes = RouterMember::new(&own.back_end, access, routing, record.clone());
            router = Some(routes.start()?);
        }
        let inputs = Arc::new(Mutex::new(inputs(&config)?));
        let mut leader = None;
        if member.leader {
            let (access, lease) = (stores.access(), config.store.lease());
            let candidate =
                LeaderMember::new(&member.name, lease, access, inputs.clone(), record.clone());
            leader = Some(candidate.start()?);
        }
        let reloaded = Reloaded { policy: config.policy.name.clone(), times: 0 };
        let desk = Arc::new(Desk {
            path: path.to_owned(),
            status: Mutex::new(ClusterStatus::default()),
            store: Mutex::new(stores.access()),
            ratings: Mutex::new(Ratings::of(&config)),
            config,
            stop: AtomicBool::new(false),
            inputs: member.leader.then_some(inputs),
            balancer: balancer.as_ref().map(Arc::downgrade),
            reloaded: Mutex::new(reloaded),
        });
        let mut node = Node {
            desk,
            store: stores.access(),
            routes: 0,
            refused: Vec::new(),
            record,
            machine,
            energy: EnergyView::open(),
            begun: monotonic(),
            said: 0,
            balancer,
            front,
            keepers,
            router,
            leader,
            member,
        };
        node.look();
        Ok(node)
    }

    fn serve(&mut self, signals: &mut Signals) -> Result<()> {
        let mut heartbeat = Heartbeat::new();
        while !self.desk.stop.load(Relaxed) {
            while let Some(signal) = signals.take()? {
                match signal {
                    Signal::SIGHUP => {
                        if let Err(error) = self.desk.reload() {
                            warn!(code = "EBB-C010", "{error:#}");
                        }
                    }
                    _ => self.desk.stop.store(true, Relaxed),
                }
            }
            self.look();
            let running = self.balancer.as_ref().is_none_or(|balancer| balancer.is_running());
            ensure!(running, "the balancer failed; see the log");
            if self.balancer.as_ref().is_none_or(|balancer| balancer.gets_on()) {
                heartbeat.beat(monotonic());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Brings what is shown up to date, and says what happened.
    fn look(&mut self) {
        let config = &self.desk.config;
        let (policy, reloads) = {
            let reloaded = self.desk.reloaded.lock().expect("reloaded");
            (reloaded.policy.clone(), reloaded.times)
        };
        let mut status = ClusterStatus {
            cluster: config.cluster.name.clone(),
            member: self.member.name.clone(),
            uptime_seconds: monotonic().since(self.begun).as_secs_f64(),
            store: format!("{:?}", config.store.kind).to_lowercase(),
            policy,
            reloads,
            ..ClusterStatus::default()
        };
        let names: Vec<String> = config.back_end.iter().map(|one| one.name.clone()).collect();
        match self.store.snapshot() {
            Ok(snapshot) => {
                status.see(&snapshot, &names);
                let ratings = self.desk.ratings.lock().expect("ratings");
                status.energy = self.energy.see(&snapshot, &ratings);
            }
            Err(error) => {
                status.see(&ebb_cluster::Snapshot::default(), &names);
                status.store_failed = Some(error.to_string());
            }
        }
        status.store_refused = self.store.refused();
        for why in &status.store_refused {
            if !self.refused.contains(why) {
                warn!(code = "EBB-C011", "{why}");
            }
        }
        self.refused.clone_from(&status.store_refused);
        // A store that is gone has been said to be.
        if config.routing.plan().is_some()
            && let Ok(routes) = self.store.routes()
        {
            self.routes = routes.len();
        }
        status.routes = self.routes;
        if let Some(balancer) = &self.balancer {
            status.see_balancer(&balancer.status(), &config.balancers());
        }
        status.meter_failed = self.machine.fault();
        status.events = self.tell();
        *self.desk.status.lock().expect("status") = status;
    }

    /// Writes into the log what happened since, and returns the latest.
    fn tell(&mut self) -> Vec<String> {
        let mut record = self.record.lock().expect("record");
        for event in record.iter().skip(self.said) {
            match &event.what {
                What::Failed(_) | What::Ended | What::Mended | What::Store(Some(_)) => {
                    warn!(member = event.member, code = "EBB-C012", "{}", event.what);
                }
                what => info!(member = event.member, code = "EBB-C013", "{what}"),
            }
        }
        let excess = record.len().saturating_sub(EVENTS);
        record.drain(..excess);
        self.said = record.len();
        let line = |event: &crate::member::Event| {
            let at = event.at.since(self.begun).as_secs_f64();
            format!("{at:.1} s: {} {}", event.member, event.what)
        };
        record.iter().map(line).collect()
    }

    /// Ends in order: back-ends that end with this process drain first, if others can take over; the
    /// balancer leaves its addresses to the others.
    fn end(&mut self) {
        let ours: Vec<String> = (self.member.keep.iter())
            .filter(|keep| matches!(keep.how, How::Process | How::Namespace))
            .map(|keep| keep.back_end.clone())
            .collect();
        let all = self.desk.config.back_end.len();
        if !ours.is_empty() && ours.len() < all {
            self.drain(&ours);
        }
        if let Some(balancer) = &self.balancer {
            balancer.leave();
            std::thread::sleep(LEAVE);
        }
        self.leader = None;
        self.front = None;
        if let Some(balancer) = self.balancer.take().and_then(Arc::into_inner) {
            balancer.end();
            let balancer = self.member.name.clone();
            if let Err(error) = self.store.write(&Write::Leave { balancer }) {
                warn!(%error, code = "EBB-C014", "still registered in the store; remove it with `ebb cluster forget`");
            }
        }
        self.keepers.clear();
        self.router = None;
    }

    fn drain(&mut self, ours: &[String]) {
        let hold = |store: &mut Box<dyn Store>, hold| {
            for member in ours {
                let member = member.clone();
                // A store that is gone keeps nobody from ending.
                _ = store.write(&Write::Hold { member, hold });
            }
        };
        hold(&mut self.store, true);
        let begun = monotonic();
        while monotonic().since(begun) < DRAIN_MAX {
            let Ok(snapshot) = self.store.snapshot() else { break };
            if ours.iter().all(|name| snapshot.power(name) == Power::Off) {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        hold(&mut self.store, false);
    }
}

/// Tells this process from those before it.
fn session() -> Result<u64> {
    let random = rand::generate::<[u8; 8]>(&rand::SystemRandom::new());
    let random = random.map_err(|_| anyhow!("cannot get random bytes"))?;
    Ok(u64::from_be_bytes(random.expose()).max(1))
}

fn link(name: &str) -> Result<u32> {
    let found = Requests::open()?.link_by_name(name)?;
    let what = || format!("field `member.router.interfaces`: there is no interface {name}");
    Ok(found.with_context(what)?.index)
}

fn inputs(config: &ClusterConfig) -> Result<LeaderInputs> {
    let servers = config.servers();
    let known: Vec<_> = servers.values().copied().collect();
    let policy = policies::named(&config.policy.name, &known, config.policy.settings())?;
    Ok(LeaderInputs { servers, policy })
}

fn keeper(
    config: &ClusterConfig,
    keep: &KeepConfig,
    journal: &Journal,
    starting: &Arc<AtomicBool>,
) -> Box<dyn Keeper> {
    let keeper: Box<dyn Keeper> = match keep.how {
        How::Process => Box::new(ProcessKeeper::new(&keep.run, journal)),
        How::Command => {
            Box::new(CommandKeeper { wake: keep.wake.clone(), sleep: keep.sleep.clone() })
        }
        How::Guest => {
            let monitor = keep.monitor.clone().unwrap_or_default();
            Box::new(GuestKeeper::new(monitor, keep.wake.clone(), keep.sleep.clone()))
        }
        How::WakeOnLan => Box::new(WakeOnLanKeeper {
            interface: keep.interface.clone().unwrap_or_default(),
            mac: wake_mac(keep),
            sleep: keep.sleep.clone(),
        }),
        How::Namespace => {
            let route = |route: &crate::config::RouteConfig| {
                (route.to, config.side_of(route.via).expect("checked"), route.via)
            };
            let name = space_of(config, keep);
            let sides = 0..config.side.len();
            let plan = RouterPlan {
                ports: sides.map(|side| NamespaceRouter::port_of(&name, side)).collect(),
                name,
                outlives: true,
                bridges: keep.bridges.clone(),
                macs: config.macs_of(&keep.back_end),
                addresses: config.side.iter().map(SideConfig::all_addresses).collect(),
                mtus: config.side.iter().map(|side| side.mtu).collect(),
                probes: config.probes(),
                routes: keep.routes.iter().map(route).collect(),
                threads: keep.threads.clone(),
                run: keep.run.clone(),
                routing: config.routing.plan(),
            };
            Box::new(NamespaceRouter::new(plan, journal).starting(starting))
        }
    };
    if keep.ready.is_empty() {
        return keeper;
    }
    Box::new(PatientKeeper { inner: keeper, ready: keep.ready.clone() })
}

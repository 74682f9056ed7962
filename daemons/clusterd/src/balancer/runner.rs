//! The balancer's threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Acknowledgement, ClusterPlan};
use ebb_graph::{Pool, Reserve};
use ebb_host::clock::monotonic;
use ebb_host::namespace::Namespace;
use ebb_host::process;
use ebb_host::wait::WaitSet;
use ebb_ports::afxdp::Umem;
use ebb_units::Time;

use super::links::{self, Board, Closed, LinkStatus, Links, Order};
use super::plane::{Counters, Found, Plane, Probing};
use super::probe::Seal;
use super::topology::Topology;
use super::words::PeerAuthentication;
use super::workers::Worker;

/// Frames beyond the rings': what drains hold back, and what is being made.
const FRAMES_SPARE: u32 = 16_384;
/// Turns without a frame before it sleeps.
const IDLE_TURNS: u32 = 64;
/// Longest sleep: probes go on.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// Most workers of a balancer.
pub const WORKERS_MAX: usize = 32;

/// How the threads run.
#[derive(Clone, Debug)]
pub struct RunnerOptions {
    /// Threads that forward, 1 to [`WORKERS_MAX`].
    pub workers: usize,
    /// The CPU that the first one is bound to, and the others to those after it.
    pub cpu: Option<usize>,
    /// How back-ends, and other balancers, are probed.
    pub probing: Probing,
    /// What it has in common with other balancers.
    pub authentication: PeerAuthentication,
}

impl Default for RunnerOptions {
    fn default() -> RunnerOptions {
        let (probing, authentication) = Default::default();
        RunnerOptions { workers: 1, cpu: None, probing, authentication }
    }
}

/// What the balancer says of itself, or a worker of its part.
#[derive(Clone, Debug, Default)]
pub struct BalancerStatus {
    /// For the store; its load is 0 here.
    pub acknowledgement: Acknowledgement,
    /// What it counted.
    pub counters: Counters,
    /// Deaths and returns, all of them.
    pub found: Vec<Found>,
    /// Back-ends that get flows.
    pub usable: Vec<String>,
    /// Part of the steering tables by back-end, 0 to 1.
    pub shares: BTreeMap<String, f64>,
    /// Packets that were sent to each back-end by their flow, in ascending order of names.
    pub carried: Vec<u64>,
    /// Numbers of the balancers whose addresses it is responsible for.
    pub accepted: Vec<usize>,
    /// Numbers of the other balancers that live.
    pub peers: Vec<usize>,
    /// How often it took the address of one that fell silent.
    pub takeovers: u64,
    /// Frames of balancers whose seal was wrong.
    pub forged: u64,
    /// Frames of balancers that were not said just now, or on another link.
    pub stale: u64,
    /// Its links: outside and inside of each side, in turn.
    pub links: Vec<LinkStatus>,
}

impl BalancerStatus {
    /// Adds what another worker says; shares are summed.
    fn add(&mut self, other: &BalancerStatus) {
        // A plan is followed once all follow it.
        let version = &mut self.acknowledgement.version;
        *version = (*version).min(other.acknowledgement.version);
        self.counters += other.counters;
        self.usable.retain(|name| other.usable.contains(name));
        for (name, share) in &other.shares {
            *self.shares.entry(name.clone()).or_default() += share;
        }
        self.carried.resize(self.carried.len().max(other.carried.len()), 0);
        self.carried.iter_mut().zip(&other.carried).for_each(|(sum, count)| *sum += count);
    }
}

/// What a running balancer is told.
#[derive(Clone)]
pub(super) enum Told {
    /// A plan to follow.
    Plan(ClusterPlan),
    /// Weights and capacities of back-ends by name.
    Capacities(BTreeMap<String, (u32, f64)>),
}

/// What a thread that forwards has in common with others.
pub(super) struct Desk {
    pub(super) told: Receiver<Told>,
    pub(super) orders: Receiver<Order>,
    pub(super) closed: Sender<Closed>,
    pub(super) board: Arc<Board>,
    pub(super) leave: Arc<AtomicBool>,
    /// It has done what is due since it was last asked.
    pub(super) turned: Arc<AtomicBool>,
    pub(super) status: Arc<Mutex<BalancerStatus>>,
}

/// What others have of a thread that forwards.
struct Forwarder {
    name: String,
    tell: Sender<Told>,
    turned: Arc<AtomicBool>,
    status: Arc<Mutex<BalancerStatus>>,
}

/// A running balancer. Dropping it ends it.
pub struct BalancerHandle {
    /// By worker.
    forwarders: Vec<Forwarder>,
    links: Arc<Mutex<Vec<LinkStatus>>>,
    leave: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BalancerHandle {
    /// Starts a balancer whose interfaces are in `namespace`. Those that are not there, or set down, are
    /// waited for.
    ///
    /// # Errors
    /// When AF_XDP or a raw socket cannot be opened on one that is there.
    pub fn start(
        namespace: &Namespace,
        topology: Topology,
        options: RunnerOptions,
    ) -> Result<BalancerHandle> {
        let workers = options.workers;
        assert!((1..=WORKERS_MAX).contains(&workers), "{workers} workers");
        let frames = namespace.run(|| links::frames(&topology, workers))?;
        let (region, reserve) = Reserve::allocate(frames.iter().sum::<u32>() + FRAMES_SPARE);
        let umem = Umem::new(region);
        _ = process::lift_memory_lock_limit();
        let board = Arc::new(Board::new(frames.len()));
        let (order, orders): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
        let (closed, closings) = channel();
        let open = || Links::open(&topology, &frames, &umem, &board, order);
        let mut links = namespace.run(open)??;
        let (shown, stop, leave) = <(Arc<Mutex<_>>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let seal = Seal::random()?;
        let (mut forwarders, mut threads) = (Vec::new(), Vec::new());
        for (worker, orders) in Worker::several(workers, &topology).into_iter().zip(orders) {
            let (number, pool) = (worker.number(), Pool::new(reserve.clone()));
            let how = (options.probing, &options.authentication);
            let now = monotonic();
            let plane = Plane::new(topology.clone(), worker, pool, how, seal.clone(), now);
            let (tell, told) = channel();
            let (turned, status) = <(Arc<AtomicBool>, Arc<Mutex<BalancerStatus>>)>::default();
            let desk = Desk {
                told,
                orders,
                closed: closed.clone(),
                board: board.clone(),
                leave: leave.clone(),
                turned: turned.clone(),
                status: status.clone(),
            };
            let (end, cpu) = (stop.clone(), options.cpu.map(|first| first + number));
            let name = thread_name(number);
            let run = move || {
                if let Some(cpu) = cpu
                    && let Err(error) = process::pin_to(cpu)
                {
                    tracing::warn!(cpu, %error, code = "EBB-C005", "cannot bind the balancer to its CPU");
                }
                forward(plane, &desk, &end);
            };
            threads.push(std::thread::Builder::new().name(name.clone()).spawn(run)?);
            forwarders.push(Forwarder { name, tell, turned, status });
        }
        let (end, shared) = (stop.clone(), shown.clone());
        let watch = move || {
            let show = |links| *shared.lock().expect("links") = links;
            links.watch(&closings, &end, show);
        };
        let keeper = std::thread::Builder::new().name("ebb-links".into());
        threads.push(namespace.run(|| keeper.spawn(watch))??);
        Ok(BalancerHandle { forwarders, links: shown, leave, stop, threads })
    }

    /// Whether it forwards; it does until it is ended, unless a fault of its own ended it.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Whether all its workers have got on since this was last true.
    pub fn gets_on(&self) -> bool {
        let all = self.forwarders.iter().all(|one| one.turned.load(Relaxed));
        if all {
            self.forwarders.iter().for_each(|one| one.turned.store(false, Relaxed));
        }
        all
    }

    /// Names of its threads that forward.
    pub fn thread_names(&self) -> impl Iterator<Item = &str> {
        self.forwarders.iter().map(|one| one.name.as_str())
    }

    /// Makes it follow a plan.
    pub fn follow(&self, plan: &ClusterPlan) {
        self.tell(Told::Plan(plan.clone()));
    }

    /// Makes it take over each back-end's weight and capacity in packets per second, by name; those that it does
    /// not know are passed over.
    pub fn weigh(&self, capacities: BTreeMap<String, (u32, f64)>) {
        self.tell(Told::Capacities(capacities));
    }

    fn tell(&self, told: Told) {
        // One that has ended needs none.
        self.forwarders.iter().for_each(|one| _ = one.tell.send(told.clone()));
    }

    /// What it says.
    pub fn status(&self) -> BalancerStatus {
        let said = |one: &Forwarder| one.status.lock().expect("status").clone();
        let mut whole = said(&self.forwarders[0]);
        self.forwarders[1..].iter().for_each(|one| whole.add(&said(one)));
        let workers = self.forwarders.len() as f64;
        whole.shares.values_mut().for_each(|share| *share /= workers);
        whole.links = self.links.lock().expect("links").clone();
        whole
    }

    /// Makes it leave its addresses to the other balancers; it takes what is on its way for some time.
    pub fn leave(&self) {
        self.leave.store(true, Relaxed);
    }

    /// Ends it and returns its last words.
    pub fn end(mut self) -> BalancerStatus {
        self.finish();
        self.status()
    }

    fn finish(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the balancer does not panic");
        }
    }
}

impl Drop for BalancerHandle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

/// The name of a worker's thread.
fn thread_name(number: usize) -> String {
    if number == 0 { "ebb-balancer".to_owned() } else { format!("ebb-balancer{number}") }
}

fn forward(mut plane: Plane, desk: &Desk, end: &AtomicBool) {
    let (mut wait, mut fds) = (WaitSet::new(), Vec::new());
    let (mut idle, mut tended) = (0, Time::ZERO);
    while !end.load(Relaxed) {
        let now = monotonic();
        if plane.turn(now) == 0 {
            idle += 1;
        } else {
            idle = 0;
        }
        if now.since(tended) >= SLEEP_MAX {
            tended = now;
            tick(&mut plane, desk, now);
        }
        if idle > IDLE_TURNS && plane.prepare_wait(&mut fds) {
            wait.clear();
            fds.iter().for_each(|fd| wait.add(*fd));
            wait.wait(Some(SLEEP_MAX));
        }
    }
    plane.close();
}

/// What is done every millisecond or so.
pub(super) fn tick(plane: &mut Plane, desk: &Desk, now: Time) {
    desk.turned.store(true, Relaxed);
    // Before it says that a link is closed: later it would be the next one that is lost.
    for number in plane.take_lost() {
        _ = desk.closed.send(Closed::Lost(number));
    }
    for order in desk.orders.try_iter() {
        match order {
            Order::Attach(number, link) => plane.attach(number, link),
            Order::Detach(number) => {
                plane.detach(number);
                _ = desk.closed.send(Closed::Ordered(number));
            }
        }
    }
    for number in 0..plane.links() {
        plane.set_state(number, desk.board.state(number));
    }
    for told in desk.told.try_iter() {
        match told {
            Told::Plan(plan) => plane.follow(&plan, now),
            Told::Capacities(capacities) => plane.weigh(&capacities, now),
        }
    }
    plane.peers().set_fit(!desk.board.is_unfit());
    if desk.leave.load(Relaxed) {
        plane.peers().leave();
    }
    plane.tick(now);
    publish(plane, &desk.status);
}

fn publish(plane: &mut Plane, shared: &Mutex<BalancerStatus>) {
    let Ok(mut status) = shared.try_lock() else { return };
    let before = std::mem::replace(&mut status.counters, plane.counters());
    // Slots that waited for what was on its way have their new owners since.
    let done = |counters: Counters| counters.drains + counters.drains_cut;
    let settled = done(before) != done(status.counters);
    let relieved = before.relieved != status.counters.relieved;
    status.carried.clear();
    status.carried.extend_from_slice(plane.carried());
    let peers = plane.peers();
    let accepted = peers.accepted();
    status.accepted = (0..64).filter(|address| accepted >> address & 1 == 1).collect();
    (status.takeovers, status.forged) = (peers.takeovers(), peers.forged());
    status.stale = peers.stale();
    if peers.several() {
        status.peers = peers.alive();
    }
    let found = plane.take_found();
    let said = plane.logic().acknowledgement();
    if settled || relieved || !found.is_empty() || said != status.acknowledgement {
        let logic = plane.logic();
        let rows = 0..logic.table().rows() as u16;
        let usable = rows.clone().filter(|row| logic.usable(*row));
        status.usable = usable.map(|row| logic.name(row).to_owned()).collect();
        let slots = logic.table().len() as f64;
        let share = |row| (logic.name(row).to_owned(), logic.table().share(row) as f64 / slots);
        status.shares = rows.map(share).collect();
        status.acknowledgement = said;
        status.found.extend(found);
    }
}

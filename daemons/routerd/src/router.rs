//! The running router: workers, governor and what others may see and change of them.
//!
//! Knows ports only as [`Port`]s: the live router hands in AF_XDP, the unprivileged demonstration
//! and the tests memory. The control thread around it is the caller's.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_apps::meter::Meters;
use ebb_apps::route::{Builder, Fib, InterfaceId, Requests, RouteLimits, Volume, WorkerGraph};
use ebb_control::redirect::Table;
use ebb_control::{Limits, Observation, OperatingPoint, RouterPolicy};
use ebb_graph::{Pool, PortId, Reserve};
use ebb_host::pulse::Pulses;
use ebb_host::{Doorbell, clock};
use ebb_ports::{Port, PortCounters, RedirectTable};
use ebb_units::{Hertz, Time};
use tracing::warn;

use crate::applications::Applications;
use crate::energy::{EnergyAccount, Meter};
use crate::governor::{Governor, GovernorState, Knobs, NoKnobs, SharedKnobs};
use crate::handover::{Held, RedirectTables, Redirects, drain_all};
use crate::knobs::modelled;
use crate::shared::{KernelPacket, Order, PORTS_MAX, Shared, WorkerShared};
use crate::worker::Worker;

/// How long a worker gets to answer a stop before its thread is given up.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// One interface, opened for every worker.
pub struct OpenPort {
    /// Its name.
    pub name: String,
    /// One port per worker.
    pub workers: Vec<Box<dyn Port>>,
    /// Its redirect table; `None` where only one worker can be fed.
    pub redirect: Option<Box<dyn RedirectTable>>,
}

impl OpenPort {
    /// A port whose interface is not to be had yet: it keeps its number and its name.
    pub fn absent(name: &str) -> OpenPort {
        OpenPort { name: name.to_owned(), workers: Vec::new(), redirect: None }
    }
}

/// What a router is made of.
pub struct Parts {
    /// CPU of each worker; its length is the number of workers. `None`: not pinned.
    pub cpus: Vec<Option<usize>>,
    /// The interfaces, in port order; absent ones have no workers.
    pub ports: Vec<OpenPort>,
    /// Free frames.
    pub reserve: Arc<Reserve>,
    /// The tables.
    pub fib: Arc<Fib>,
    /// Where workers ask for neighbours.
    pub requests: Arc<Requests>,
    /// Bounds of the routing nodes.
    pub route_limits: RouteLimits,
    /// What stands around them, in this order.
    pub applications: Applications,
    /// Where workers say that they live.
    pub pulses: Pulses,
    /// Frames in all.
    pub frames_total: u32,
    /// The policy's name, one of [`ebb_control::policies::NAMES`].
    pub mode: String,
    /// The policy.
    pub policy: Box<RouterPolicy>,
    /// What the policy was made for.
    pub limits: Limits,
    /// Frequencies by index, empty where they are not known.
    pub levels: Vec<Hertz>,
    /// Packets a worker takes at once.
    pub batch_max: usize,
    /// Packets that the smallest receive ring holds.
    pub room: u32,
    /// How long a packet may wait for the sake of energy.
    pub latency_budget: Duration,
    /// The machine's knobs.
    pub knobs: Box<dyn Knobs>,
    /// What measures or models the energy.
    pub meter: Meter,
    /// Rung when the control thread has something to do.
    pub control: Arc<Doorbell>,
    /// The workers hold, and no governor runs, until [`Router::resume`]: another process has the
    /// rings of the ports so far.
    pub held: bool,
}

impl Parts {
    /// A router that turns no knobs and models what it draws, with a policy under its name. Nobody listens at the
    /// control thread's doorbell yet.
    ///
    /// # Errors
    /// When the system has no memory or descriptor left.
    pub fn plain(
        cpus: Vec<Option<usize>>,
        ports: Vec<OpenPort>,
        (reserve, frames_total): (Arc<Reserve>, u32),
        fib: Arc<Fib>,
        (mode, policy): (&str, Box<RouterPolicy>),
    ) -> Result<Parts> {
        let control = Arc::new(Doorbell::new()?);
        let bell = control.clone();
        Ok(Parts {
            requests: Requests::new(1024, Arc::new(move || bell.ring())),
            route_limits: RouteLimits::default(),
            applications: Vec::new(),
            pulses: Pulses::new()?,
            frames_total,
            mode: mode.to_owned(),
            limits: limits(cpus.len(), 1),
            levels: Vec::new(),
            batch_max: 64,
            room: 0,
            latency_budget: Duration::ZERO,
            knobs: Box::new(NoKnobs),
            meter: modelled(cpus.len(), &[]),
            held: false,
            cpus,
            ports,
            reserve,
            fib,
            policy,
            control,
        })
    }
}

/// Where another process's router stopped.
pub struct Stopped {
    /// Its operating point.
    pub point: OperatingPoint,
    /// Its redirect table.
    pub table: Table,
    /// What each port holds of it, by number; none where there is no table.
    pub present: Vec<Option<Table>>,
}

/// A router whose redirect tables nobody changes.
pub struct Frozen<'a> {
    shared: &'a Shared,
    redirects: MutexGuard<'a, Redirects>,
    point: OperatingPoint,
}

impl Frozen<'_> {
    /// Where it stands.
    pub fn stopped(&self) -> Stopped {
        let (table, present) = (*self.redirects.table(), self.redirects.present());
        Stopped { point: self.point, table, present }
    }

    /// See [`Held::all`].
    ///
    /// # Errors
    /// The workers that did not answer in time.
    pub fn hold(&self) -> Result<Held, Vec<usize>> {
        Held::all(self.shared)
    }
}

struct Threads {
    workers: Vec<JoinHandle<()>>,
    governor: Option<JoinHandle<()>>,
    /// The governor of workers that hold.
    waiting: Option<Governor>,
}

/// Whether packets come to a worker by any of the tables.
fn runs(stopped: &Stopped, worker: usize) -> bool {
    let mut tables = stopped.present.iter().flatten().chain([&stopped.table]);
    tables.any(|table| table.iter().any(|owner| usize::from(*owner) == worker))
}

/// A router whose threads run.
pub struct Router {
    shared: Arc<Shared>,
    applications: Applications,
    redirects: RedirectTables,
    governor_state: Arc<Mutex<GovernorState>>,
    energy: Arc<EnergyAccount>,
    names: Mutex<Vec<Option<String>>>,
    cpus: Vec<Option<usize>>,
    started: Time,
    mode: Mutex<String>,
    range: Mutex<(Limits, Vec<Hertz>)>,
    knobs: SharedKnobs,
    reserve: Arc<Reserve>,
    frames_total: u32,
    threads: Mutex<Threads>,
}

impl Router {
    /// Starts workers and governor.
    ///
    /// # Errors
    /// When threads or descriptors are not to be had.
    pub fn start(parts: Parts) -> Result<Router> {
        let workers = parts.cpus.len();
        anyhow::ensure!(workers > 0, "a router needs at least one worker");
        anyhow::ensure!(parts.ports.len() <= PORTS_MAX, "at most {PORTS_MAX} ports");
        let mut policy = parts.policy;
        let now = clock::monotonic();
        let first = policy.decide(now, &Observation::default());
        let builder = Builder::new(&parts.fib, parts.requests.clone()).limits(&parts.route_limits);
        let meters = Meters::new(clock::thread_cpu);
        let builder = builder.applications(&parts.applications).metered(&meters);
        let graphs: Vec<WorkerGraph> = (0..workers).map(|worker| builder.worker(worker)).collect();
        let counters = graphs.iter().map(|graph| graph.counters.clone()).collect();
        let order = if parts.held { Order::Hold } else { Order::Park };
        let shared =
            Shared::new(counters, policy, first.point, parts.control, order, parts.pulses)?;
        let mut names = Vec::new();
        let mut redirects = Vec::new();
        let mut by_worker: Vec<Vec<Option<Box<dyn Port>>>> =
            (0..workers).map(|_| Vec::new()).collect();
        for port in parts.ports {
            let (opened, absent) = (port.workers.len(), port.workers.is_empty());
            anyhow::ensure!(
                absent || opened == workers,
                "port {} has too few queues for the workers",
                port.name
            );
            names.push(Some(port.name));
            redirects.push(port.redirect);
            let mut opened = port.workers.into_iter();
            by_worker.iter_mut().for_each(|mine| mine.push(opened.next()));
        }
        names.resize(PORTS_MAX, None);
        let redirects = Arc::new(Mutex::new(Redirects::new(redirects)));
        let (meter, seen) = ((parts.meter, parts.latency_budget), (shared.clone(), meters));
        let energy = Arc::new(EnergyAccount::new(meter, seen, first.point, now));
        shared.set_latency_budget(parts.latency_budget);
        let mut threads = Vec::new();
        for (index, (ports, graph)) in by_worker.into_iter().zip(graphs).enumerate() {
            let pool = Pool::new(parts.reserve.clone());
            let worker = Worker::new(
                index,
                shared.clone(),
                ports,
                (graph.graph, graph.entry),
                pool,
                (parts.batch_max, parts.room),
            );
            threads.push(spawn(format!("ebb-worker-{index}"), parts.cpus[index], move || {
                worker.run(parts.held)
            })?);
        }
        let knobs: SharedKnobs = Arc::new(Mutex::new(parts.knobs));
        let (seen, tables) = (shared.clone(), redirects.clone());
        let governor = Governor::new(seen, tables, knobs.clone(), energy.clone(), first.point);
        let governor_state = governor.state();
        let router = Router {
            shared,
            applications: parts.applications,
            redirects,
            governor_state,
            energy,
            names: Mutex::new(names),
            cpus: parts.cpus,
            started: now,
            mode: Mutex::new(parts.mode),
            range: Mutex::new((parts.limits, parts.levels)),
            knobs,
            reserve: parts.reserve,
            frames_total: parts.frames_total,
            threads: Mutex::new(Threads { workers: threads, governor: None, waiting: None }),
        };
        match parts.held {
            true => router.threads.lock().expect("threads").waiting = Some(governor),
            false => router.govern(governor)?,
        }
        Ok(router)
    }

    fn govern(&self, governor: Governor) -> Result<()> {
        let governor = spawn("ebb-governor".into(), None, move || governor.run())?;
        self.threads.lock().expect("threads").governor = Some(governor);
        Ok(())
    }

    /// Starts what holds ([`Parts::held`]) where another process's router has stopped, under
    /// `policy`. The rings and all free frames are this router's by now.
    ///
    /// # Errors
    /// When there is no thread for the governor; the workers run all the same.
    pub fn resume(&self, stopped: &Stopped, policy: Box<RouterPolicy>) -> Result<()> {
        let mode = self.mode();
        self.redirects.lock().expect("redirect tables").resume(&stopped.table, &stopped.present);
        for (worker, state) in self.shared.workers.iter().enumerate() {
            let order = if runs(stopped, worker) { Order::Run } else { Order::Park };
            state.mailbox.give(order);
        }
        self.set_policy(&mode, policy);
        let governor = self.threads.lock().expect("threads").waiting.take();
        let Some(mut governor) = governor else { return Ok(()) };
        governor.begin_at(stopped.point);
        self.govern(governor)
    }

    /// Keeps the redirect tables as they are, and so the operating point.
    pub fn freeze(&self) -> Frozen<'_> {
        let redirects = self.redirects.lock().expect("redirect tables");
        Frozen { shared: &self.shared, redirects, point: self.governor_state().point }
    }

    /// What packets pass beside routing.
    pub fn applications(&self) -> &[Arc<dyn ebb_apps::Application>] {
        &self.applications
    }

    /// What workers and governor share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What the governor has done.
    pub fn governor_state(&self) -> GovernorState {
        self.governor_state.lock().expect("governor state").clone()
    }

    /// Active cores.
    pub fn cores(&self) -> u16 {
        self.governor_state.lock().expect("governor state").point.cores
    }

    /// The energy account.
    pub fn energy(&self) -> &EnergyAccount {
        &self.energy
    }

    /// Names by port number; `None` where there is no port.
    pub fn names(&self) -> Vec<Option<String>> {
        self.names.lock().expect("names").clone()
    }

    /// CPU of each worker.
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// When it was started.
    pub fn started(&self) -> Time {
        self.started
    }

    /// The policy in force.
    pub fn mode(&self) -> String {
        self.mode.lock().expect("mode").clone()
    }

    /// What may be powered.
    pub fn limits(&self) -> Limits {
        self.range.lock().expect("range").0
    }

    /// Frequencies by index, empty where they are not known.
    pub fn levels(&self) -> Vec<Hertz> {
        self.range.lock().expect("range").1.clone()
    }

    /// See [`Knobs::set_kernel_path`].
    ///
    /// # Errors
    /// What a knob answered.
    pub fn set_kernel_path(&self, some: bool, all: bool) -> Result<(), String> {
        self.knobs.lock().expect("knobs").set_kernel_path(some, all)
    }

    /// Puts the machine's knobs back where they were found and takes those that `open` returns. A
    /// new policy sets them ([`Router::set_policy`]).
    pub fn exchange_knobs(&self, open: impl FnOnce() -> Box<dyn Knobs>) {
        let mut knobs = self.knobs.lock().expect("knobs");
        knobs.restore();
        *knobs = open();
        self.shared.knobs_changed.store(true, SeqCst);
    }

    /// Goes on with other operating points, and with the meter that knows them.
    pub fn set_range(&self, limits: Limits, levels: Vec<Hertz>, meter: Meter) {
        *self.range.lock().expect("range") = (limits, levels);
        self.energy.set_meter(meter);
    }

    /// Exchanges the bounds of every worker's routing nodes.
    pub fn set_route_limits(&self, limits: &RouteLimits) {
        self.shared.workers.iter().for_each(|worker| worker.route.set_limits(limits));
    }

    /// The frequency with this index, where it is known.
    pub fn frequency(&self, index: u16) -> Option<Hertz> {
        self.range.lock().expect("range").1.get(usize::from(index)).copied()
    }

    /// Frames in all.
    pub fn frames_total(&self) -> u64 {
        u64::from(self.frames_total)
    }

    /// Frames that nobody holds: in the reserve, and in the workers' pools when they last slept.
    pub fn frames_free(&self) -> u64 {
        let pooled = |worker: &WorkerShared| worker.frames_free.load(Relaxed);
        self.reserve.len() as u64 + self.shared.workers.iter().map(pooled).sum::<u64>()
    }

    /// What happened below one port, over all workers.
    pub fn port_counters(&self, slot: usize) -> PortCounters {
        let mut sum = PortCounters::default();
        self.shared.workers.iter().for_each(|worker| worker.ports[slot].add_to(&mut sum));
        sum
    }

    /// Bytes of the frames received by and handed to one port, over all workers.
    pub fn port_bytes(&self, slot: usize) -> [u64; 2] {
        let of = |way: usize| {
            self.shared.workers.iter().map(|worker| worker.ports[slot].bytes[way].get()).sum()
        };
        [of(0), of(1)]
    }

    /// What arrived on and left through an interface, over all workers.
    pub fn interface_volumes(&self, id: InterfaceId) -> [Volume; 2] {
        let mut sum = [Volume::default(); 2];
        for worker in &self.shared.workers {
            let volumes = worker.route.interface(id);
            sum.iter_mut().zip(volumes).for_each(|(sum, volume)| sum.add(volume));
        }
        sum
    }

    /// What left under one next hop's number, over all workers, since the start.
    pub fn next_hop_volume(&self, number: u32) -> Volume {
        let mut sum = Volume::default();
        self.shared.workers.iter().for_each(|worker| sum.add(worker.route.next_hop(number)));
        sum
    }

    /// Puts another policy in charge; the governor moves to its first operating point.
    pub fn set_policy(&self, mode: &str, mut policy: Box<RouterPolicy>) {
        mode.clone_into(&mut self.mode.lock().expect("mode"));
        self.shared.changing.store(true, SeqCst);
        let mut policy_state = self.shared.policy_state.lock().expect("policy");
        let seen = Observation::default();
        policy_state.wanted = policy.decide(clock::monotonic(), &seen).point;
        policy_state.policy = policy;
        self.shared.policies.fetch_add(1, SeqCst);
        drop(policy_state);
        self.shared.governor.ring();
    }

    /// Adds a port, or replaces the one with this number, while packets flow through the others.
    pub fn attach(&self, id: PortId, port: OpenPort) -> Result<()> {
        let slot = usize::from(id.0);
        anyhow::ensure!(slot < PORTS_MAX, "at most {PORTS_MAX} ports");
        let mut redirects = self.redirects.lock().expect("redirect tables");
        redirects
            .attach(slot, port.redirect)
            .with_context(|| format!("redirect table of {}", port.name))?;
        drop(redirects);
        self.names.lock().expect("names")[slot] = Some(port.name);
        for (worker, opened) in port.workers.into_iter().enumerate() {
            self.post(worker, id, Some(opened));
        }
        self.shared.faults.fetch_and(!(1 << slot), SeqCst);
        Ok(())
    }

    /// Takes a port away that is not expected back.
    pub fn detach(&self, id: PortId) {
        self.names.lock().expect("names")[usize::from(id.0)] = None;
        self.detach_for_now(id);
    }

    /// Takes a port away until it is attached again; its name stays.
    pub fn detach_for_now(&self, id: PortId) {
        let slot = usize::from(id.0);
        self.redirects.lock().expect("redirect tables").detach(slot);
        for worker in 0..self.shared.workers.len() {
            self.post(worker, id, None);
        }
        self.shared.faults.fetch_and(!(1 << slot), SeqCst);
    }

    /// Gives a number to a port whose interface is not to be had yet.
    pub fn name(&self, id: PortId, name: &str) {
        self.names.lock().expect("names")[usize::from(id.0)] = Some(name.to_owned());
    }

    /// Has every worker receive and send what waits now; the workers that did not do so in time.
    pub fn drain(&self) -> Vec<usize> {
        let _tables = self.redirects.lock().expect("redirect tables");
        drain_all(&self.shared)
    }

    /// Waits until every worker has closed what was detached from it; false after `patience`.
    pub fn wait_detached(&self, patience: Duration) -> bool {
        let begun = clock::monotonic();
        // A worker empties its inbox and closes the ports under the inbox's lock.
        let closed = |worker: &WorkerShared| worker.inbox.lock().expect("inbox").is_empty();
        while !self.shared.workers.iter().all(closed) {
            if clock::monotonic().since(begun) > patience {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    fn post(&self, worker: usize, id: PortId, port: Option<Box<dyn Port>>) {
        let worker = &self.shared.workers[worker];
        worker.inbox.lock().expect("inbox").push((id, port));
        worker.inbox_full.store(true, SeqCst);
        worker.mailbox.bell().ring();
    }

    /// The next packet that a worker left for the kernel. Its frame goes back to a pool of the
    /// same reserve.
    pub fn kernel_packet(&self) -> Option<KernelPacket> {
        self.shared.kernel.pop()
    }

    /// Ports whose descriptor or transmission failed since the last call, as a bit each.
    pub fn take_faults(&self) -> u64 {
        self.shared.faults.swap(0, SeqCst)
    }

    /// Stops all threads; knobs are back where they were and every frame is back in the reserve
    /// when this returns. The returned state still answers for its counters.
    pub fn stop(&self) {
        let mut threads = self.threads.lock().expect("threads");
        self.shared.stop.store(true, SeqCst);
        self.shared.governor.ring();
        if let Some(governor) = threads.governor.take() {
            _ = governor.join();
        }
        for (index, thread) in threads.workers.drain(..).enumerate() {
            let mailbox = &self.shared.workers[index].mailbox;
            let serial = mailbox.give(Order::Stop);
            if mailbox.wait(serial, STOP_PATIENCE) {
                _ = thread.join();
            } else {
                warn!(worker = index, code = "EBB-R072", "a worker did not stop; its thread stays");
            }
        }
    }

    /// Packets received so far by all workers.
    pub fn received(&self) -> u64 {
        self.shared.workers.iter().map(|worker| worker.counters.received.get()).sum()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Packets that the smallest receive ring of these ports holds.
pub fn smallest_ring(ports: &[crate::config::Port]) -> u32 {
    ports.iter().map(|port| port.ring).min().unwrap_or(0)
}

/// The limits that policies get on a machine with these workers and frequencies.
pub fn limits(workers: usize, frequencies: usize) -> Limits {
    let clamp = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX);
    Limits { cores: clamp(workers), frequencies: clamp(frequencies) }
}

fn spawn(
    name: String,
    cpu: Option<usize>,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.clone());
    thread
        .spawn(move || {
            if let Some(cpu) = cpu
                && let Err(error) = ebb_host::process::pin_to(cpu)
            {
                warn!(cpu, %error, code = "EBB-R073", "cannot bind {} to its CPU", std::thread::current().name().unwrap_or("thread"));
            }
            ebb_host::process::precise_timers();
            // A dead worker would leave its queues to nobody; a dead process leaves them to the
            // kernel, which goes on forwarding, and its knobs to the guard.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                std::process::abort();
            }
        })
        .with_context(|| format!("cannot start thread {name}"))
}

//! What workers, governor and control thread share: orders, answers, counters, the policy.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_apps::route::RouteCounters;
use ebb_control::{OperatingPoint, RouterPolicy};
use ebb_graph::{Packet, PortId};
use ebb_host::Doorbell;
use ebb_host::pulse::Pulses;
use ebb_ports::Port;
use ebb_units::Time;
use hdrhistogram::Histogram;

use crate::counters::{PortTally, WorkerCounters};
pub use crate::mailbox::{Mailbox, Order};
use crate::moderation::{Moderation, Wish};
use crate::tap::Tap;

/// Ports a router can have.
pub const PORTS_MAX: usize = 32;

/// A port to take over, or to give up.
pub type PortChange = (PortId, Option<Box<dyn Port>>);

/// One worker as others see it.
pub struct WorkerShared {
    /// Its counters.
    pub counters: WorkerCounters,
    /// Counters of the routing application in its graph.
    pub route: Arc<RouteCounters>,
    /// Its orders.
    pub mailbox: Mailbox,
    /// Forwarding latency of sampled packets in nanoseconds, by input port.
    pub latency: Vec<Mutex<Histogram<u64>>>,
    /// How long it received nothing for each hand-over that brought it flows, nanoseconds.
    pub interruption: Mutex<Histogram<u64>>,
    /// Its share of every port.
    pub ports: Vec<PortTally>,
    /// Ports to take over (`Some`) or give up (`None`) at the next round.
    pub inbox: Mutex<Vec<PortChange>>,
    /// Whether `inbox` holds something.
    pub inbox_full: AtomicBool,
    /// Frames in the worker's own pool.
    pub frames_free: AtomicU64,
    /// How long it would have packets gather in the ports' queues.
    pub wish: Wish,
}

/// The policy with the operating point it asked for last.
pub struct PolicyState {
    /// The policy.
    pub policy: Box<RouterPolicy>,
    /// What it asked for last.
    pub wanted: OperatingPoint,
    /// Packets received by all workers when it was last consulted.
    pub reported: u64,
}

/// Which worker consults the policy: the one with the longest queue when it was last consulted.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Observer {
    worker: AtomicUsize,
    at_nanos: AtomicU64,
}

impl Observer {
    /// How long the others wait for it: it may sleep, be parked, or not be scheduled.
    const PATIENCE: Duration = Duration::from_micros(200);

    /// Whether `worker` may consult the policy.
    #[inline]
    pub fn is(&self, worker: usize, now: Time) -> bool {
        self.worker.load(Ordering::Relaxed) == worker
            || now.since(Time::from_nanos(self.at_nanos.load(Ordering::Relaxed))) > Self::PATIENCE
    }

    /// Passes the task on to the worker with the longest queue, which is `own` where no other's is
    /// longer; returns that length.
    pub fn elect(&self, workers: &[WorkerShared], own: usize, now: Time) -> u32 {
        let len = |worker: usize| workers[worker].counters.queue_len.load(Ordering::Relaxed);
        let (mut longest, mut queue_len) = (own, len(own));
        for worker in 0..workers.len() {
            if len(worker) > queue_len {
                (longest, queue_len) = (worker, len(worker));
            }
        }
        self.worker.store(longest, Ordering::Relaxed);
        self.at_nanos.store(now.as_nanos(), Ordering::Relaxed);
        queue_len
    }
}

/// A packet on its way to the kernel's stack.
#[derive(Debug)]
pub struct KernelPacket {
    /// Where it arrived.
    pub input: PortId,
    /// The whole frame.
    pub packet: Packet,
}

/// Shared by all threads of one router.
pub struct Shared {
    /// By worker number.
    pub workers: Vec<WorkerShared>,
    /// Locked by the worker that consults the policy; nobody waits for it.
    pub policy_state: Mutex<PolicyState>,
    /// Who locks it.
    pub observer: Observer,
    /// Counts the policies so far.
    pub policies: AtomicU64,
    /// The governor is changing the operating point: no decisions meanwhile.
    pub changing: AtomicBool,
    /// Wakes the governor.
    pub governor: Doorbell,
    /// Wakes the control thread: neighbours to resolve, ports at fault.
    pub control: Arc<Doorbell>,
    /// Wakes whoever hands packets to the kernel.
    pub injection: Doorbell,
    /// Packets for the kernel.
    pub kernel: crossbeam_queue::ArrayQueue<KernelPacket>,
    /// Copies of packets for `capture`.
    pub tap: Tap,
    /// Ports whose descriptor reported an error, as a bit each.
    pub faults: AtomicU64,
    /// The machine's knobs were exchanged: what they are to say has to be set again.
    pub knobs_changed: AtomicBool,
    /// The control thread wants to hear of changes of the operating point.
    pub announce_changes: AtomicBool,
    /// The router is ending.
    pub stop: AtomicBool,
    /// How long packets gather in the ports' queues.
    pub moderation: Moderation,
    /// Signs of life: the control thread's, then the workers'.
    pub pulses: Pulses,
    /// How long a packet may wait for the sake of energy, nanoseconds.
    budget_nanos: AtomicU64,
}

impl Shared {
    /// State for workers with these route counters, under `policy` starting at `wanted`; they
    /// begin with `order`.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(
        routes: Vec<Arc<RouteCounters>>,
        policy: Box<RouterPolicy>,
        wanted: OperatingPoint,
        control: Arc<Doorbell>,
        order: Order,
        pulses: Pulses,
    ) -> std::io::Result<Arc<Shared>> {
        let worker = |route| WorkerShared::new(route, order);
        let workers = routes.into_iter().map(worker).collect::<Result<_, _>>()?;
        Ok(Arc::new(Shared {
            workers,
            policy_state: Mutex::new(PolicyState { policy, wanted, reported: 0 }),
            observer: Observer::default(),
            policies: AtomicU64::new(0),
            changing: AtomicBool::new(true),
            governor: Doorbell::new()?,
            control,
            injection: Doorbell::new()?,
            kernel: crossbeam_queue::ArrayQueue::new(1024),
            tap: Tap::default(),
            faults: AtomicU64::new(0),
            knobs_changed: AtomicBool::new(false),
            announce_changes: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            moderation: Moderation::default(),
            pulses,
            budget_nanos: AtomicU64::new(0),
        }))
    }
}

impl Shared {
    /// How long a packet may wait for the sake of energy.
    pub fn latency_budget(&self) -> Duration {
        Duration::from_nanos(self.budget_nanos.load(Ordering::Relaxed))
    }

    /// Workers keep to it from their next round on.
    pub fn set_latency_budget(&self, budget: Duration) {
        self.budget_nanos.store(budget.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl WorkerShared {
    fn new(route: Arc<RouteCounters>, order: Order) -> std::io::Result<WorkerShared> {
        let histogram =
            || Mutex::new(Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("bounds"));
        Ok(WorkerShared {
            counters: WorkerCounters::default(),
            route,
            mailbox: Mailbox::new(order)?,
            latency: (0..PORTS_MAX).map(|_| histogram()).collect(),
            interruption: histogram(),
            ports: (0..PORTS_MAX).map(|_| PortTally::default()).collect(),
            inbox: Mutex::new(Vec::new()),
            inbox_full: AtomicBool::new(false),
            frames_free: AtomicU64::new(0),
            wish: Wish::default(),
        })
    }
}

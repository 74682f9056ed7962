//! A router over memory ports with hosts on both sides, for tests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use ebb_apps::Application;
use ebb_apps::route::{FibWriter, Interface, InterfaceId, Target};
use ebb_control::{Action, Idle, IdleDepth, Observation, OperatingPoint, Policy, RouterPolicy};
use ebb_graph::{PortId, Reserve};
use ebb_host::clock;
use ebb_ports::memory::{self, FarEnd, LinkOptions};
use ebb_routerd::router::{OpenPort, Parts, Router};
use ebb_traffic::{
    Flow, FlowSpec, SizeMix, Start, Stream, StreamSpec, Summary, Tracker, draw_flows, read_probe,
};
use ebb_units::Time;

/// Flows of each direction.
pub const FLOWS: u32 = 64;
const FRAMES: u32 = 32_768;
const QUEUE_LEN: usize = 4096;
/// Fewer than a receive queue holds, so that a paused worker loses nothing.
const IN_FLIGHT_MAX: u64 = 1_024;

/// The router's own MAC address on a port.
pub fn router_mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, port]
}

/// The host's MAC address on a port.
pub fn host_mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, port]
}

/// The host's address on a port, the next hop of what lies behind it.
fn host(port: u8) -> IpAddr {
    format!("192.168.{port}.2").parse().expect("an address")
}

/// A policy that does as it is told.
pub struct Scripted(Arc<AtomicU16>);

impl Scripted {
    /// Begins with one core of `cores`.
    pub fn new(_cores: u16) -> Scripted {
        Scripted(Arc::new(AtomicU16::new(1)))
    }
    /// Asks for a number of cores.
    pub fn want(&self, cores: u16) {
        self.0.store(cores, Ordering::SeqCst);
    }
    /// The policy itself.
    pub fn policy(&self) -> impl Policy<Observation = Observation, Action = Action> + Send + use<> {
        ScriptedPolicy(self.0.clone())
    }
}

struct ScriptedPolicy(Arc<AtomicU16>);

impl Policy for ScriptedPolicy {
    type Observation = Observation;
    type Action = Action;
    fn decide(&mut self, _: Time, seen: &Observation) -> Action {
        let cores = self.0.load(Ordering::SeqCst);
        let idle =
            if seen.received == 0 && seen.own_queue_len == 0 { Idle::Halt } else { Idle::Poll };
        Action { point: OperatingPoint { cores, frequency: 0, depth: IdleDepth::Shallow }, idle }
    }
    fn next_at(&self) -> Option<Time> {
        None
    }
}

/// A router with two memory ports: 10.0.0.0/16 behind port 0, 10.1.0.0/16 behind port 1.
pub struct MemoryRouter {
    router: Router,
    reserve: Arc<Reserve>,
    far: std::sync::Mutex<Vec<FarEnd>>,
    fib: FibWriter,
}

impl MemoryRouter {
    /// Starts it.
    pub fn start(workers: usize, policy: Box<RouterPolicy>) -> MemoryRouter {
        Self::around(workers, policy, Vec::new())
    }

    /// Starts it with applications.
    pub fn around(
        workers: usize,
        policy: Box<RouterPolicy>,
        applications: Vec<Arc<dyn Application>>,
    ) -> MemoryRouter {
        let (_, reserve) = Reserve::allocate(FRAMES);
        let (mut fib, shared_fib) = FibWriter::new();
        let (mut ports, mut far) = (Vec::new(), Vec::new());
        for port in 0..2u8 {
            let options =
                LinkOptions { name: format!("m{port}"), queues: workers, queue_len: QUEUE_LEN };
            let link = memory::link(&options).expect("a memory link");
            far.push(link.far);
            ports.push(OpenPort {
                name: options.name,
                workers: link.ports.into_iter().map(|port| Box::new(port) as _).collect(),
                redirect: Some(Box::new(link.redirect)),
            });
            let id = InterfaceId(u16::from(port));
            let host = host(port);
            let net = format!("192.168.{port}.1/24").parse().expect("a prefix");
            fib.set_interface(
                id,
                Interface {
                    port: PortId(port),
                    vlan: 0,
                    mac: router_mac(port),
                    mtu: 1500,
                    up: true,
                    addresses: vec![net],
                },
            );
            let behind = format!("10.{port}.0.0/16").parse().expect("a prefix");
            fib.set_route(behind, &Target::via(id, host)).expect("a route");
            fib.set_neighbour(id, host, host_mac(port));
        }
        fib.publish();
        let parts = Parts::plain(
            vec![None; workers],
            ports,
            (reserve.clone(), FRAMES),
            shared_fib,
            ("scripted", policy),
        );
        let parts = Parts { applications, ..parts.expect("parts") };
        let router = Router::start(parts).expect("a router");
        // What comes before a worker's thread has begun finds no frame.
        let posted = 2 * workers * QUEUE_LEN;
        let begun = Instant::now();
        while reserve.len() + posted > FRAMES as usize {
            assert!(begun.elapsed() < Duration::from_secs(10), "the workers do not start");
            std::thread::yield_now();
        }
        MemoryRouter { router, reserve, far: std::sync::Mutex::new(far), fib }
    }

    /// The hosts' ends of the links, once.
    pub fn far_ends(&self) -> Vec<FarEnd> {
        std::mem::take(&mut *self.far.lock().expect("far ends"))
    }

    /// Forgets the hosts' MAC addresses, or learns them again.
    pub fn know_hosts(&mut self, known: bool) {
        for port in 0..2u8 {
            let id = InterfaceId(u16::from(port));
            match known {
                true => self.fib.set_neighbour(id, host(port), host_mac(port)),
                false => self.fib.remove_neighbour(id, host(port)),
            }
        }
        self.fib.publish();
    }

    /// Packets that each worker holds for want of a MAC address.
    pub fn held(&self) -> Vec<u64> {
        self.router.shared().workers.iter().map(|worker| worker.route.held()).collect()
    }

    /// The router itself.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Cores in force.
    pub fn cores(&self) -> u16 {
        self.router.governor_state().point.cores
    }

    /// Redirect-table entries moved so far.
    pub fn entries_moved(&self) -> u64 {
        self.router.governor_state().entries_moved
    }

    /// Stops it and checks that every packet was counted once and every frame came back.
    pub fn stop_and_check(self) {
        self.router.stop();
        let (mut received, mut left) = (0, 0);
        for worker in &self.router.shared().workers {
            let counters = &worker.counters;
            received += counters.received.get();
            left += counters.forwarded.get() + counters.to_kernel.get() + worker.route.held();
            left += counters.dropped.iter().map(|counter| counter.get()).sum::<u64>();
            left += worker.route.dropped_in_place().iter().sum::<u64>();
        }
        assert_eq!(received, left, "every received packet is counted exactly once");
        assert_eq!(self.reserve.len(), FRAMES as usize, "every frame came back");
        assert_eq!(self.router.governor_state().late, 0, "every worker answered in time");
    }
}

/// The hosts on both sides: they send to each other and track what arrives.
pub struct Hosts {
    far: Vec<FarEnd>,
    streams: Vec<Stream>,
    trackers: Vec<Tracker>,
    sent: u64,
    buffers: Vec<Vec<u8>>,
}

impl Hosts {
    /// Hosts at the far ends.
    pub fn new(far: Vec<FarEnd>) -> Hosts {
        let nets = ["10.0.0.0/16", "10.1.0.0/16"].map(|net| vec![net.parse().expect("a prefix")]);
        let mut streams = Vec::new();
        for port in 0..2u8 {
            let (from, to) = (&nets[usize::from(port)], &nets[1 - usize::from(port)]);
            let spec = FlowSpec {
                count: FLOWS,
                sources: from,
                destinations: to,
                ipv6_share: 0.0,
                tcp_share: 0.3,
            };
            let flows: Vec<Flow> = draw_flows(&spec, u64::from(port));
            let sizes = SizeMix::fixed(64);
            let (from, to) = (host_mac(port), router_mac(port));
            let spec =
                StreamSpec { first_flow: 0, from, to, sizes: &sizes, popularity: 0.0, seed: 1 };
            streams.push(Stream::new(&flows, &spec));
        }
        let trackers = vec![Tracker::new(FLOWS, Start::Zero); 2];
        Hosts { far, streams, trackers, sent: 0, buffers: vec![vec![0; 2048]; 64] }
    }

    /// Sends up to `count` packets from each side, as long as not too many are under way, and
    /// receives what has come.
    pub fn exchange(&mut self, count: usize) {
        let now = clock::monotonic();
        for port in 0..2 {
            let under_way =
                self.streams[port].sent().saturating_sub(self.trackers[1 - port].received());
            if under_way + count as u64 > IN_FLIGHT_MAX {
                continue;
            }
            let mut lens = [0; 64];
            for (buffer, len) in self.buffers.iter_mut().zip(&mut lens).take(count) {
                *len = self.streams[port].write_next(now, buffer);
            }
            let frames =
                self.buffers.iter().zip(lens).take(count).map(|(buffer, len)| &buffer[..len]);
            self.sent += count as u64;
            self.far[port].send_at(now, frames);
        }
        self.receive();
    }

    fn receive(&mut self) -> usize {
        let mut count = 0;
        for port in 0..2 {
            let tracker = &mut self.trackers[port];
            count += self.far[port].receive(|frame| {
                if let Some(probe) = read_probe(frame) {
                    tracker.record(&probe, clock::monotonic());
                }
            });
        }
        count
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Receives until everything sent has come or nothing came for a second.
    pub fn settle(&mut self) {
        let mut quiet = Instant::now();
        while self.trackers.iter().map(Tracker::received).sum::<u64>() < self.sent
            && quiet.elapsed() < Duration::from_secs(1)
        {
            if self.receive() > 0 {
                quiet = Instant::now();
            }
        }
    }

    /// Both directions together.
    pub fn result(&self) -> Summary {
        let mut total = Summary::default();
        for (port, tracker) in self.trackers.iter().enumerate() {
            let summary = tracker.summary(Some(self.streams[1 - port].sent()));
            total.sent += summary.sent;
            total.received += summary.received;
            total.lost += summary.lost;
            total.reordered += summary.reordered;
        }
        total
    }
}

//! Forced changes of the redirect table under load over AF_XDP: no flow is reordered, nothing lost.
//!
//! The router runs inside the test, in a thread's namespace, under a policy that does as it is told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use ebb_apps::route::{FibWriter, Interface as RouteInterface, InterfaceId, Target};
use ebb_control::{Action, Idle, IdleDepth, Observation, OperatingPoint, Policy};
use ebb_graph::{Batch, HEADROOM, Pool, PortId, Reserve};
use ebb_host::{clock, process};
use ebb_ports::afxdp::{AfXdpPort, Form, Indirection, Interface, InterfaceOptions, Umem};
use ebb_ports::{PacketSocket, Port as _};
use ebb_routerd::router::{OpenPort, Parts, Router};
use ebb_routerd::shared::WorkerShared;
use ebb_traffic::{Flow, FrameTemplate, Protocol, Start, Summary, Tracker, read_probe};
use ebb_units::Time;

use crate::common::lab::{Lab, Wiring, host_mac, router_mac, within};
use crate::common::router::{PATIENCE, STARTED, until};
use crate::common::traffic::{Traffic, Way, way};

const WORKERS: u16 = 2;
const FLOWS: u8 = 64;
const FRAMES: u32 = 32_768;

struct Told(Arc<AtomicU16>);

impl Policy for Told {
    type Observation = Observation;
    type Action = Action;
    fn decide(&mut self, _: Time, seen: &Observation) -> Action {
        let cores = self.0.load(Relaxed);
        let idle = if seen.received == 0 { Idle::Halt } else { Idle::Poll };
        Action { point: OperatingPoint { cores, frequency: 0, depth: IdleDepth::Shallow }, idle }
    }
    fn next_at(&self) -> Option<Time> {
        None
    }
}

/// A router over the lab's ports 0 and 1, with the tables of [`Lab::routes`].
struct InProcess {
    router: Router,
    cores: Arc<AtomicU16>,
    _interfaces: Vec<Interface>,
    _fib: FibWriter,
}

impl InProcess {
    /// `indirection` stands for the hardware table of port 0; without it both ports steer.
    fn start(lab: &Lab, mut indirection: Option<Box<dyn Indirection>>) -> InProcess {
        _ = process::lift_memory_lock_limit();
        let (region, reserve) = Reserve::allocate(FRAMES);
        let umem = Umem::new(region);
        let (mut fib, shared) = FibWriter::new();
        let (mut ports, mut interfaces) = (Vec::new(), Vec::new());
        for port in 0..2u8 {
            let name = format!("p{port}");
            let form = if indirection.is_some() && port == 0 { Form::Rss } else { Form::Steer };
            let options = InterfaceOptions::new(&name, u32::from(WORKERS), form);
            let opened = lab.in_router(|| Interface::open(&umem, &options));
            let mut interface = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
            let redirect = match form {
                Form::Rss => {
                    let table = indirection.take().expect("one table");
                    Some(interface.rss_table(table, Duration::from_micros(200)))
                }
                Form::Steer => interface.steer_table(),
            };
            let workers = interface.take_ports().into_iter().map(|port| Box::new(port) as _);
            ports.push(OpenPort { name, workers: workers.collect(), redirect });
            interfaces.push(interface);
            let id = InterfaceId(u16::from(port));
            let net = |text: String| text.parse().expect("a prefix");
            fib.set_interface(
                id,
                RouteInterface {
                    port: PortId(port),
                    vlan: 0,
                    mac: router_mac(usize::from(port)),
                    mtu: 1500,
                    up: true,
                    addresses: vec![net(format!("10.0.{port}.1/24"))],
                },
            );
            let host = format!("10.0.{port}.2").parse().expect("an address");
            let behind = net(format!("10.{}.0.0/16", 100 + port));
            fib.set_route(behind, &Target::via(id, host)).expect("a route");
            fib.set_neighbour(id, host, host_mac(usize::from(port)));
        }
        fib.publish();
        let cores = Arc::new(AtomicU16::new(WORKERS));
        let parts = Parts::plain(
            vec![None; usize::from(WORKERS)],
            ports,
            (reserve, FRAMES),
            shared,
            ("told", Box::new(Told(cores.clone()))),
        );
        let router = Router::start(parts.expect("parts")).expect("a router");
        let asleep = |worker: &WorkerShared| worker.counters.asleep_until(u64::MAX) > 0;
        let started = until(PATIENCE, || {
            router.governor_state().changes > 0 && router.shared().workers.iter().all(asleep)
        });
        assert!(started, "the workers do not start");
        std::thread::sleep(STARTED);
        InProcess { router, cores, _interfaces: interfaces, _fib: fib }
    }

    /// Between one and two cores and back, until `changes` changes were made.
    fn force(&self, changes: u64) {
        for change in 0..changes {
            let wanted = 1 + (change % 2) as u16;
            self.cores.store(wanted, Relaxed);
            let begun = Instant::now();
            while self.router.governor_state().point.cores != wanted {
                assert!(begun.elapsed() < PATIENCE, "change {change} of the table is not made");
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Where packets may have gone.
    fn print_losses(&self, lab: &Lab) {
        self.router.stop();
        println!("interfaces dropped {}", lab.interfaces_dropped());
        for slot in 0..2 {
            println!("port {slot}: {:?}", self.router.port_counters(slot));
        }
        for worker in &self.router.shared().workers {
            println!("{:?}", ebb_routerd::snapshot::packets(worker));
        }
        println!("late {}", self.router.governor_state().late);
    }

    fn check_and_stop(self, changes: u64) {
        let state = self.router.governor_state();
        assert_eq!((state.late, state.refusals), (0, 0), "{:?}", state.last_refusal);
        assert!(state.entries_moved >= changes * 64, "{} entries moved", state.entries_moved);
        self.router.stop();
        for slot in 0..2 {
            assert_eq!(self.router.port_counters(slot).receive_dropped, 0, "a ring overflowed");
        }
    }
}

#[test]
fn a_thousand_changes_of_the_steering_table_keep_order() {
    let changes = 1000;
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    let inside = InProcess::start(&lab, None);
    let ways: Vec<Way> = (0..FLOWS)
        .map(|flow| way(usize::from(flow % 2), usize::from(1 - flow % 2), flow))
        .collect();
    let traffic = Traffic::start(&lab, &ways, 10_000);
    assert!(until(PATIENCE, || traffic.arrived() > 1000), "nothing arrives");
    let begun = Instant::now();
    inside.force(changes);
    let took = begun.elapsed();
    let books = traffic.stop();
    println!("steer: {changes} changes in {:.2} s: {:?}", took.as_secs_f64(), books.total);
    println!("the sender's interface refused {} more", books.refused);
    if books.total.lost > 0 {
        inside.print_losses(&lab);
    }
    books.assert_perfect("steer", |flow| 1 - flow % 2);
    inside.check_and_stop(changes);
}

/// The table by which the sending side chooses the queue, as a network card would.
struct CardTable {
    entries: Vec<AtomicU32>,
    /// Counts writes; the sender repeats it once nothing chosen by an older table is on its way.
    version: AtomicU64,
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

struct Card(Arc<CardTable>);

impl Indirection for Card {
    fn read(&mut self) -> io::Result<Vec<u32>> {
        Ok(self.0.entries.iter().map(|entry| entry.load(Relaxed)).collect())
    }

    fn write(&mut self, table: &[u32]) -> io::Result<()> {
        for (entry, queue) in self.0.entries.iter().zip(table) {
            entry.store(*queue, Relaxed);
        }
        let version = self.0.version.fetch_add(1, Release) + 1;
        let begun = Instant::now();
        while self.0.acknowledged.load(Acquire) < version {
            if begun.elapsed() > PATIENCE || self.0.stop.load(Relaxed) {
                return Err(io::Error::other("the sender does not answer"));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

/// Ends the sender also when the test fails.
struct Ended<'a>(&'a CardTable);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

/// Sends on the queue of `h0` that the table names for each flow: veth delivers what leaves by
/// queue i in queue i of the other end.
struct CardSender {
    table: Arc<CardTable>,
    _interface: Interface,
    queues: Vec<AfXdpPort>,
    pool: Pool,
    sink: PacketSocket,
    templates: Vec<FrameTemplate>,
    sequences: Vec<u32>,
    tracker: Tracker,
    returned: Batch,
    sent: u64,
    received_before: u64,
    missing: u64,
    /// Packets on their way at most; `None`: 5,000 a second, however many that are.
    window: Option<u64>,
}

impl CardSender {
    fn new(lab: &Lab, table: Arc<CardTable>, queues: u32, window: Option<u64>) -> CardSender {
        let (region, reserve) = Reserve::allocate(FRAMES);
        let umem = Umem::new(region);
        let options = InterfaceOptions::new("h0", queues, Form::Rss);
        let opened = within(lab.host(0), || Interface::open(&umem, &options));
        let mut interface = opened.unwrap_or_else(|error| panic!("h0: {error}"));
        let sink = within(lab.host(1), || PacketSocket::open("h1")).expect("a packet socket");
        let template = |flow: u8| {
            let ends = Flow {
                source: [10, 100, flow, 1].into(),
                destination: [10, 101, flow, 7].into(),
                protocol: Protocol::Udp,
                source_port: 10_000 + u16::from(flow),
                destination_port: 9,
            };
            FrameTemplate::new(&ends, u32::from(flow), host_mac(0), router_mac(0))
        };
        CardSender {
            table,
            queues: interface.take_ports(),
            _interface: interface,
            pool: Pool::new(reserve),
            sink,
            templates: (0..FLOWS).map(template).collect(),
            sequences: vec![0; usize::from(FLOWS)],
            tracker: Tracker::new(u32::from(FLOWS), Start::Zero),
            returned: Batch::new(),
            sent: 0,
            received_before: received_by("p0"),
            missing: 0,
            window,
        }
    }

    /// Sends at its pace, or as fast as the window allows, until told to stop, in the router's
    /// namespace, where it sees what has come to the other end's driver.
    fn run(mut self) -> Tracker {
        let gap = Duration::from_micros(200);
        let mut due_at = Instant::now();
        let mut batches: Vec<Batch> = self.queues.iter().map(|_| Batch::new()).collect();
        let mut flow = 0;
        while !self.table.stop.load(Relaxed) {
            self.acknowledge();
            let now = Instant::now();
            due_at = due_at.max(now.checked_sub(Duration::from_millis(5)).unwrap_or(now));
            let mut staged = 0;
            while staged < 32 && self.may_send(staged, due_at <= now) {
                // As many entries as flows, twice over: flow i goes by entry 2 i.
                let queue = self.table.entries[2 * flow].load(Relaxed) as usize;
                let frame = self.pool.get().expect("a free frame");
                let mut packet = frame.into_packet(HEADROOM, 1514);
                let sequence = self.sequences[flow];
                self.sequences[flow] += 1;
                let template = &self.templates[flow];
                let len = template.write(100, sequence, clock::monotonic(), packet.data_mut());
                packet.set_len(len);
                batches[queue].push(packet);
                flow = (flow + 1) % usize::from(FLOWS);
                staged += 1;
                due_at += gap;
            }
            for (batch, queue) in batches.iter_mut().zip(&mut self.queues) {
                if !batch.is_empty() {
                    queue.transmit(&mut self.pool, batch);
                    assert!(batch.is_empty(), "the sender's ring is full");
                }
                if queue.transmit_pending() > 0 {
                    _ = queue.flush();
                }
            }
            self.sent += staged as u64;
            self.take();
            if staged == 0 && self.window.is_none() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let begun = Instant::now();
        while self.tracker.received() < self.sent && begun.elapsed() < Duration::from_secs(2) {
            self.take();
            std::thread::sleep(Duration::from_millis(1));
        }
        let CardSender { mut queues, mut pool, tracker, .. } = self;
        queues.iter_mut().for_each(|queue| queue.close(&mut pool));
        tracker
    }

    fn may_send(&self, staged: usize, due: bool) -> bool {
        let under_way = || self.sent + staged as u64 - self.tracker.received();
        self.window.map_or(due, |window| under_way() < window)
    }

    /// Answers a rewritten table once the other end's driver has taken what was sent before: a
    /// card, too, has finished with an old table when its packets are in the queues.
    fn acknowledge(&mut self) {
        let version = self.table.version.load(Acquire);
        if self.table.acknowledged.load(Relaxed) == version {
            return;
        }
        let begun = Instant::now();
        while received_by("p0") - self.received_before < self.sent - self.missing {
            self.queues.iter_mut().for_each(|queue| _ = queue.flush());
            // What the driver had no room for never comes.
            if begun.elapsed() > Duration::from_millis(200) {
                self.missing = self.sent - (received_by("p0") - self.received_before);
            }
        }
        self.table.acknowledged.store(version, Release);
    }

    fn take(&mut self) {
        // Nothing comes back, but frames that were sent have to be taken from the rings.
        for queue in &mut self.queues {
            queue.receive(&mut self.pool, &mut self.returned, 64);
            self.pool.put_batch(&mut self.returned);
        }
        let tracker = &mut self.tracker;
        let result = self.sink.receive(|frame| {
            if let Some(probe) = read_probe(frame) {
                tracker.record(&probe, clock::monotonic());
            }
        });
        result.expect("h1 is up");
    }
}

/// Packets that the driver of an interface of the calling thread's namespace has received.
fn received_by(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("interfaces");
    let prefix = format!("{name}:");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&prefix)).expect(name);
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a count")
}

/// Forces `changes` while a [`CardSender`] sends by a table over `queues`; `hardware`: the table is
/// the router's own of port 0. What arrived, and the seconds that it took.
fn card_changes(
    lab: &Lab,
    changes: u64,
    queues: u32,
    window: Option<u64>,
    hardware: bool,
) -> (Summary, f64) {
    let table = Arc::new(CardTable {
        entries: (0..128).map(|entry| AtomicU32::new(entry / 2 % queues)).collect(),
        version: AtomicU64::new(0),
        // As long as nothing is sent every table holds at once.
        acknowledged: AtomicU64::new(if hardware { u64::MAX } else { 0 }),
        stop: AtomicBool::new(false),
    });
    std::thread::scope(|scope| {
        let _ended = Ended(&table);
        let inside = InProcess::start(lab, hardware.then(|| Box::new(Card(table.clone())) as _));
        let run = || lab.in_router(|| CardSender::new(lab, table.clone(), queues, window).run());
        let sending = scope.spawn(run);
        let begun = Instant::now();
        inside.force(changes);
        let took = begun.elapsed().as_secs_f64();
        table.stop.store(true, Relaxed);
        let tracker = sending.join().expect("the sender");
        inside.check_and_stop(changes);
        (tracker.summary(None), took)
    })
}

#[test]
fn a_thousand_changes_of_a_cards_table_keep_order() {
    let (changes, queues) = (1000, u32::from(WORKERS));
    let Some(lab) = Lab::build(Wiring { queues, ..Wiring::plain(2) }) else { return };
    let (total, seconds) = card_changes(&lab, changes, queues, None, true);
    let dropped = lab.interfaces_dropped();
    println!(
        "rss: {changes} changes in {seconds:.2} s, {dropped} lost before the router: {total:?}"
    );
    assert!(total.received > 1000, "{total:?}");
    assert!(total.lost <= dropped, "the router lost packets: {total:?}");
    assert_eq!((total.reordered, total.duplicated), (0, 0), "{total:?}");
}

/// Two workers have four queues of each port, and packets come as fast as they are forwarded:
/// never more than a queue of the wire holds, so not one may be lost.
#[test]
fn changes_with_several_queues_per_worker_keep_order_at_full_load() {
    let (changes, queues) = (300, 4);
    let Some(lab) = Lab::build(Wiring { queues, ..Wiring::plain(2) }) else { return };
    let (total, seconds) = card_changes(&lab, changes, queues, Some(192), false);
    println!(
        "{queues} queues, {WORKERS} workers: {changes} changes in {seconds:.2} s at {:.0} packets/s: {total:?}",
        total.received as f64 / seconds
    );
    assert!(total.received > 10_000, "{total:?}");
    assert_eq!((total.lost, total.reordered, total.duplicated), (0, 0, 0), "{total:?}");
}

//! The forwarding over links in memory, before back-ends that take their time.

mod breaks;
mod neighbours;
mod probes;
mod segment;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use ebb_cluster::{ClusterPlan, Entry, Power};
use ebb_graph::{Pool, Reserve};
use ebb_ports::RedirectTable as _;
use ebb_ports::memory::{FarEnd, LinkOptions, link};
use ebb_units::Time;
use ebb_wire::Template;

use super::frame::{Verdict, from_inside, from_outside};
use super::plane::{Counters, Link, Plane, Probing};
use super::probe::Seal;
use super::topology::{BackEnd, Side, Topology};
use super::words::PeerAuthentication;
use super::workers::Worker;
use Power::{Draining, Off, On};

fn side(number: u8) -> Side {
    Side {
        outside: format!("out{number}"),
        inside: format!("in{number}"),
        macs: vec![[2, 0, 0, 0, 0, number]],
        addresses: vec![
            format!("10.0.{number}.1/24").parse().expect("a subnet"),
            format!("2001:db8:{number}::1/64").parse().expect("a subnet"),
        ],
        probes: vec![format!("10.0.{number}.254").parse().expect("an address")],
        probe_macs: vec![[2, 0, 0, 0, 2, number]],
    }
}

fn topology() -> Topology {
    let back_end = |row: u8| BackEnd {
        name: format!("r{row}"),
        macs: (0..2).map(|side| [2, 0, 0, 1, row, side]).collect(),
        weight: 1,
        capacity_pps: 1e9,
    };
    Topology::new(vec![side(0), side(1)], (0..3).map(back_end).collect(), 0)
}

/// A back-end that hands frames on after its delay, in order.
struct Router {
    delay: Duration,
    alive: bool,
    queue: VecDeque<(Time, usize, Vec<u8>)>,
}

struct World {
    /// The first worker's.
    plane: Plane,
    /// The other workers'.
    others: Vec<Plane>,
    far: Vec<FarEnd>,
    topology: Topology,
    routers: Vec<Router>,
    now: Time,
    /// By flow, what came out on side 1.
    arrived: BTreeMap<u16, Vec<u32>>,
    version: u64,
    sent: u32,
    /// What back-ends were sent to route, with the side, as long as it is kept.
    routed: Vec<(usize, Vec<u8>)>,
    /// What the world was told on each side besides packets of flows.
    told: [Vec<Vec<u8>>; 2],
}

const FLOWS: u16 = 50;

impl World {
    fn new(delays_ms: [u64; 3], workers: usize) -> World {
        let topology = topology();
        let (_, reserve) = Reserve::allocate(16_384 * workers as u32);
        let how = (Probing::default(), &PeerAuthentication::default());
        let seal = Seal::random().expect("random bytes");
        let plane = |worker| {
            let pool = Pool::new(reserve.clone());
            Plane::new(topology.clone(), worker, pool, how, seal.clone(), Time::ZERO)
        };
        let mut others: Vec<Plane> =
            Worker::several(workers, &topology).into_iter().map(plane).collect();
        let mut far = Vec::new();
        for number in 0..4 {
            let options =
                LinkOptions { name: format!("m{number}"), queues: workers, queue_len: 1024 };
            let mut made = link(&options).expect("a link in memory");
            let table = std::array::from_fn(|entry| (entry % workers) as u8);
            made.redirect.rewrite(&table).expect("workers that are there");
            for (plane, port) in others.iter_mut().zip(made.ports) {
                plane.attach(number, Link { port: Box::new(port), rest: None });
            }
            far.push(made.far);
        }
        let plane = others.remove(0);
        let router = |delay| Router {
            delay: Duration::from_millis(delay),
            alive: true,
            queue: VecDeque::new(),
        };
        let (routers, now) = (delays_ms.map(router).into(), Time::from_nanos(1_000_000));
        let arrived = BTreeMap::new();
        let told = [Vec::new(), Vec::new()];
        World {
            plane,
            others,
            far,
            topology,
            routers,
            now,
            arrived,
            version: 0,
            sent: 0,
            routed: Vec::new(),
            told,
        }
    }

    fn plan(&mut self, powers: [Power; 3]) {
        self.version += 1;
        let entry = |(row, power)| {
            let before = self.plane.logic().plan().entries.get(&format!("r{row}"));
            let kept = before.filter(|entry| entry.power == power).map(|entry| entry.since);
            (format!("r{row}"), Entry { power, since: kept.unwrap_or(self.version) })
        };
        let entries = powers.into_iter().enumerate().map(entry).collect();
        let plan = ClusterPlan { version: self.version, entries, speaker: None };
        let now = self.now;
        self.workers().for_each(|plane| plane.follow(&plan, now));
    }

    /// A millisecond, in which every flow sends a packet if `sending`.
    fn step(&mut self, sending: bool) {
        self.now += Duration::from_millis(1);
        if sending {
            let frames: Vec<Vec<u8>> = (0..FLOWS).map(|flow| data(flow, self.sent)).collect();
            self.sent += 1;
            self.far[0].send(frames.iter().map(Vec::as_slice));
        }
        let now = self.now;
        for _ in 0..4 {
            self.workers().for_each(|plane| _ = plane.turn(now));
            self.route();
        }
        self.workers().for_each(|plane| plane.tick(now));
        self.workers().for_each(|plane| _ = plane.turn(now));
        let (arrived, [near, far]) = (&mut self.arrived, &mut self.told);
        self.far[2].receive(|frame| {
            assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 1], "it comes from the cluster");
            if frame[12..14] == [8, 0] {
                let (flow, sequence) = read(frame);
                arrived.entry(flow).or_default().push(sequence);
            } else {
                far.push(frame.to_vec());
            }
        });
        self.far[0].receive(|frame| near.push(frame.to_vec()));
    }

    /// The back-ends' turn.
    fn route(&mut self) {
        for side in 0..2 {
            let (mut got, topology) = (Vec::new(), &self.topology);
            let routed = &mut self.routed;
            self.far[2 * side + 1].receive(|frame| {
                routed.push((side, frame.to_vec()));
                let to: [u8; 6] = frame[..6].try_into().expect("six bytes");
                if to[0] & 1 == 0 && frame[12..14] == [8, 0] {
                    let row = topology.row_of(&to).expect("a back-end's");
                    got.push((usize::from(row), frame.to_vec()));
                }
            });
            for (row, frame) in got {
                let due = self.now + self.routers[row].delay;
                self.routers[row].queue.push_back((due, side, frame));
            }
        }
        for row in 0..3 {
            while self.routers[row].queue.front().is_some_and(|front| front.0 <= self.now) {
                let (_, side, mut frame) = self.routers[row].queue.pop_front().expect("seen");
                if !self.routers[row].alive {
                    continue;
                }
                let probe = frame[30..33] == [10, 0, frame[32]] && frame[33] == 254;
                let to = if probe { usize::from(frame[32]) } else { 1 - side };
                let mac = if probe { self.topology.probe_mac(to) } else { [2, 9, 9, 9, 9, 9] };
                frame[..6].copy_from_slice(&mac);
                frame[6..12].copy_from_slice(&self.topology.back_ends[row].macs[to]);
                self.far[2 * to + 1].send([frame.as_slice()]);
            }
        }
    }

    fn workers(&mut self) -> impl Iterator<Item = &mut Plane> {
        [&mut self.plane].into_iter().chain(&mut self.others)
    }

    /// What all workers counted.
    fn counters(&mut self) -> Counters {
        let mut all = Counters::default();
        self.workers().for_each(|plane| all += plane.counters());
        all
    }

    fn ready(delays_ms: [u64; 3]) -> World {
        World::several(delays_ms, 1)
    }

    fn several(delays_ms: [u64; 3], workers: usize) -> World {
        let mut world = World::new(delays_ms, workers);
        world.plan([On, On, Off]);
        (0..40).for_each(|_| world.step(false));
        world
    }
}

fn data(flow: u16, sequence: u32) -> Vec<u8> {
    let source: SocketAddr = format!("198.18.0.1:{}", 1000 + flow).parse().expect("an address");
    let destination = "198.19.0.1:9".parse().expect("an address");
    let mut payload = flow.to_be_bytes().to_vec();
    payload.extend(sequence.to_be_bytes());
    let mut frame = Template::udp(source, destination).to_frame(&payload);
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0]);
    frame
}

fn read(frame: &[u8]) -> (u16, u32) {
    let payload = &frame[42..48];
    let sequence = u32::from_be_bytes(payload[2..].try_into().expect("four bytes"));
    (u16::from_be_bytes([payload[0], payload[1]]), sequence)
}

/// Packets of a flow that the XDP program leaves to the kernel go where the flow's others go.
#[test]
fn what_takes_the_kernels_way_is_its_flows_workers_too() {
    let mut world = World::several([1, 1, 1], 3);
    let mut pool = Pool::standalone(64);
    let mut carried = |world: &mut World, direct: bool, flow: u16| {
        let count = |plane: &mut Plane| plane.counters().balanced;
        let before: Vec<u64> = world.workers().map(count).collect();
        let (frame, now) = (data(flow, 0), world.now);
        if direct {
            world.far[0].send([frame.as_slice()]);
        } else {
            world.plane.left(0, pool.fill(&frame).expect("a frame"), now);
        }
        world.workers().for_each(|plane| _ = plane.turn(now));
        let after: Vec<u64> = world.workers().map(count).collect();
        before.iter().zip(after).position(|(before, after)| after > *before)
    };
    let mut seen = BTreeSet::new();
    for flow in 0..FLOWS {
        let owner = carried(&mut world, true, flow);
        assert_eq!(carried(&mut world, false, flow), owner);
        seen.insert(owner);
    }
    assert_eq!(seen, [Some(0), Some(1), Some(2)].into());
}

/// Made-up hosts of which a worker tells the first one leave room for frames.
#[test]
fn hosts_that_are_told_of_leave_room_for_frames() {
    let mut workers = Worker::several(2, &topology());
    let mut pool = Pool::standalone(512);
    let hosts: Vec<[u8; 6]> = (0..10_000u32)
        .map(|host| [2, 0, host.to_be_bytes()[1], 9, host.to_be_bytes()[2], host as u8])
        .collect();
    let later = |count: u64| Time::from_nanos(1_000_000_000 * count);
    let mut told = |workers: &mut [Worker], count| {
        hosts.iter().for_each(|host| workers[1].note(0, *host, later(count)));
        let packet = pool.fill(&data(1, 1)).expect("a frame");
        assert!(workers[1].hand(0, 0, packet).is_ok());
        std::iter::from_fn(|| workers[0].take()).count()
    };
    // A quarter of 512, and the frame; when they have been heard, as many more.
    assert_eq!([1, 2].map(|count| told(&mut workers, count)), [129, 129]);
    assert_eq!((workers[0].post_max(), workers[0].share(4096)), (512, 2048));
}

/// Back-ends of different delays come and go while flows go on: without the drain's marker, flows that
/// move from the slow to the fast one would overtake themselves.
#[test]
fn planned_changes_lose_and_reorder_nothing() {
    [1, 2, 5].into_iter().for_each(planned_changes);
}

fn planned_changes(workers: usize) {
    let mut world = World::several([7, 1, 3], workers);
    let on_and_off = [
        [On, On, On],
        [Draining, On, On],
        [Off, On, On],
        [On, On, On],
        [On, Draining, On],
        [On, Off, On],
        [On, On, Draining],
        [Draining, On, Off],
        [On, On, On],
    ];
    for powers in on_and_off {
        world.plan(powers);
        (0..50).for_each(|_| world.step(true));
        let version = world.version;
        let said = world.workers().map(|plane| plane.logic().acknowledgement().version).min();
        assert_eq!(said, Some(version), "{powers:?} is acknowledged once the flows have moved");
    }
    (0..30).for_each(|_| world.step(false));
    let expected: Vec<u32> = (0..world.sent).collect();
    assert_eq!(world.arrived.len(), usize::from(FLOWS));
    for (flow, sequences) in &world.arrived {
        assert!(sequences.is_sorted(), "flow {flow} out of order");
        assert_eq!(*sequences, expected, "flow {flow}");
    }
    let busy = world.workers().filter(|plane| plane.counters().balanced > 1000).count();
    assert_eq!(busy, workers, "each has its flows");
    let counters = world.counters();
    assert!(counters.held > 0 && counters.drains >= 8 * workers as u64, "{counters:?}");
    assert_eq!((counters.drains_cut, counters.homeless, counters.overrun), (0, 0, 0));
    assert_eq!(counters.probes_refused, 0, "each answer comes to whom it is for");
}

/// Equal weights before back-ends of 1:5: the weak one, slower and asked for twice what it carries, is relieved within
/// two seconds, and no flow that moves loses a packet or its order.
#[test]
fn a_nearly_full_back_end_is_relieved_in_order() {
    [1, 2].into_iter().for_each(relief);
}

fn relief(workers: usize) {
    let mut world = World::several([7, 1, 3], workers);
    let capacities = [("r0", 12e3), ("r1", 60e3), ("r2", 60e3)];
    let capacities = capacities.map(|(name, pps)| (name.to_owned(), (1, pps)));
    let (capacities, now) = (BTreeMap::from(capacities), world.now);
    world.workers().for_each(|plane| plane.weigh(&capacities, now));
    let carried = |world: &mut World| {
        let of = |row: usize| world.workers().map(|plane| plane.carried()[row]).sum::<u64>();
        [0, 1].map(of)
    };
    let used = |world: &mut World, steps: u32| {
        let before = carried(world);
        (0..steps).for_each(|_| world.step(true));
        let carried = carried(world).into_iter().zip(before).map(|(now, before)| now - before);
        let pps: Vec<f64> = carried.map(|count| count as f64 * 1e3 / f64::from(steps)).collect();
        [pps[0] / 12e3, pps[1] / 60e3]
    };
    let before = used(&mut world, 500);
    assert!(before[0] > 1.2 && before[1] < 0.6, "{before:?}");
    used(&mut world, 1600);
    let after = used(&mut world, 500);
    assert!(after[0] <= 0.9 && after[1] >= 0.5, "{after:?}");
    (0..30).for_each(|_| world.step(false));
    let expected: Vec<u32> = (0..world.sent).collect();
    assert!(world.arrived.values().all(|sequences| *sequences == expected), "in order, all");
    let counters = world.counters();
    assert!((1..=50).contains(&counters.relieved) && counters.drains_cut == 0, "{counters:?}");
}

#[test]
fn a_dead_back_end_is_left_within_the_detection_time() {
    [1, 2].into_iter().for_each(death);
}

fn death(workers: usize) {
    let mut world = World::several([1, 1, 1], workers);
    (0..20).for_each(|_| world.step(true));
    world.routers[0].alive = false;
    let (died, before) = (world.now, world.sent);
    (0..100).for_each(|_| world.step(true));
    let found = world.workers().flat_map(Plane::take_found);
    let found: Vec<_> = found.filter(|found| found.dead).collect();
    assert_eq!(found.iter().map(|found| found.row).collect::<Vec<_>>(), [0], "said once");
    let took = found[0].at.since(died);
    assert!(took <= Duration::from_millis(60), "{took:?}");
    let lost = |sequences: &Vec<u32>| world.sent - 1 - sequences.len() as u32;
    let most = world.arrived.values().map(lost).max().expect("flows");
    assert!(most <= 65, "{most} packets of a flow lost, one each millisecond");
    let last: Vec<u32> = world.arrived.values().map(|all| all[all.len() - 1]).collect();
    assert!(last.iter().all(|last| *last > before + 60), "all flows go on");
}

fn group(bytes: &str) -> Vec<u8> {
    let hex: String = bytes.split_whitespace().collect();
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
        .collect()
}

#[test]
fn who_asks_for_the_cluster_is_answered_with_its_address() {
    let topology = topology();
    let ask = group(
        "ffffffffffff 020000000909 0806 0001 0800 06 04 0001 020000000909 0a000002 000000000000 0a000001",
    );
    let Verdict::Answer(reply) = from_outside(&topology, 1, 0, &ask) else { panic!("no answer") };
    let expected = group(
        "020000000909 020000000000 0806 0001 0800 06 04 0002 020000000000 0a000001 020000000909 0a000002",
    );
    assert_eq!(reply, expected);
    let other = [&ask[..41], &[9]].concat();
    assert_eq!(from_outside(&topology, 1, 0, &other), Verdict::Everybody, "no answer, but news");
    let solicitation = group(
        "3333ff000001 020000000909 86dd 60000000 0020 3a ff \
         20010db8000000000000000000000002 ff0200000000000000000001ff000001 \
         8700 0000 00000000 20010db8000000000000000000000001 0101 020000000909",
    );
    let Verdict::Answer(reply) = from_outside(&topology, 1, 0, &solicitation) else {
        panic!("no answer")
    };
    assert_eq!((reply[54], reply[58]), (136, 0xe0), "a solicited advertisement of a router");
    assert_eq!(reply[80..86], [2, 0, 0, 0, 0, 0]);
    let sum = ebb_wire::checksum::pseudo_header(&reply[22..38], &reply[38..54], 58, 32);
    assert_eq!(sum.bytes(&reply[54..86]).finish(), 0);
}

#[test]
fn back_ends_speak_as_the_cluster() {
    let topology = topology();
    let mut ask = group(
        "ffffffffffff 020000010100 0806 0001 0800 06 04 0001 020000010100 0a000001 000000000000 0a000002",
    );
    let said = from_inside(&topology, 1, 0, &mut ask);
    assert_eq!((said.row, said.verdict), (Some(1), Verdict::Out));
    assert_eq!(said.asked, Some("10.0.0.2".parse().expect("an address")));
    assert_eq!((&ask[6..12], &ask[22..28]), (&[2, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 0][..]));
    let mut solicitation = group(
        "3333ff000002 020000010100 86dd 60000000 0020 3a ff \
         20010db8000000000000000000000001 ff0200000000000000000001ff000002 \
         8700 0000 00000000 20010db8000000000000000000000002 0101 020000010100",
    );
    let sum =
        ebb_wire::checksum::pseudo_header(&solicitation[22..38], &solicitation[38..54], 58, 32);
    let sum = sum.bytes(&solicitation[54..86]).finish();
    solicitation[56..58].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(from_inside(&topology, 1, 0, &mut solicitation).verdict, Verdict::Out);
    assert_eq!(solicitation[80..86], [2, 0, 0, 0, 0, 0]);
    let sum =
        ebb_wire::checksum::pseudo_header(&solicitation[22..38], &solicitation[38..54], 58, 32);
    assert_eq!(sum.bytes(&solicitation[54..86]).finish(), 0, "the checksum follows");
}

//! The kernel path of one port on several CPUs: entries that change their CPU reorder nothing and lose nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common;

use common::{Wires, flow_and_seq, opened, options, run, udp};
use ebb_lab::test::skip;
use ebb_ports::PacketSocket;
use ebb_ports::afxdp::{Exit, Interface, InterfaceOptions, Mode, PacketPath, name_of};

/// Few, so that each has packets on its way nearly always.
const FLOWS: u16 = 12;
const BURST: usize = 32;
/// Changes of the table; more by EBB_MOVES.
const CHANGES: u64 = 2_000;

/// What has come to the far end.
#[derive(Default)]
struct Arrived {
    count: AtomicU64,
    reordered: AtomicU64,
    missed: AtomicU64,
    ends: AtomicBool,
}

fn watch(mut socket: PacketSocket, arrived: Arc<Arrived>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut next = BTreeMap::new();
        while !arrived.ends.load(SeqCst) {
            let take = |frame: &[u8]| {
                if frame.len() < 46 || frame[12..14] != [8, 0] || frame[23] != 17 {
                    return;
                }
                let (flow, seq) = flow_and_seq(frame);
                let last = next.insert(flow, seq);
                if last.is_some_and(|last| last >= seq) {
                    arrived.reordered.fetch_add(1, SeqCst);
                }
                arrived.count.fetch_add(1, SeqCst);
            };
            if socket.receive(take).expect("received") == 0 {
                // Of a watcher that had no processor for long enough.
                let missed = socket.missed().expect("told");
                arrived.missed.fetch_add(missed.into(), SeqCst);
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    })
}

/// Ready to forward from p0 to p1 in the driver.
fn forwarding(wires: &Wires, interface: &mut Interface) {
    for command in [
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0",
        "ip addr add 10.0.0.254/24 dev p0",
        "ip addr add 10.2.0.1/24 dev p1",
        "ip route add 10.1.0.0/16 via 10.2.0.2",
        "ip neigh add 10.2.0.2 lladdr 02:00:00:00:09:09 dev p1 nud permanent",
    ] {
        run(&format!("ip netns exec {} {command}", wires.router));
    }
    // So that its driver takes what programs send.
    wires.in_generator("ethtool -K g1 gro on");
    let exit = (1..64).find(|index| name_of(*index).is_ok_and(|name| name == "p1"));
    let exit = exit.expect("p1 has an index");
    let exits = BTreeMap::from([(exit, Exit::Device)]);
    interface.set_exits(&exits, &BTreeSet::from([exit])).expect("told the exits");
}

/// Packets that a driver had no room for when they were to leave by an interface: `/proc/net/dev`.
fn refused(devices: &str, name: &str) -> u64 {
    let mut lines =
        devices.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    let count = lines.next().and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    count.expect("an interface")
}

/// Numbers without a pattern (xorshift).
fn random_from(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_is_reordered_or_lost_when_entries_change_their_cpu() {
    if ebb_lab::command::run("ethtool", &["--version"], "").is_err() {
        return skip("ethtool is not installed");
    }
    let Some(wires) = Wires::new(2, 1) else { return };
    let path = PacketPath::Kernel;
    let options = InterfaceOptions { path, mode: Mode::Native, ..options("p0", 1) };
    let (memory, mut interface, ports) = opened(&options);
    forwarding(&wires, &mut interface);
    assert!(interface.can_have_lanes());
    assert!(interface.set_lanes(&[1; 128]).is_err(), "no lane is open");
    let cpus: Vec<u32> =
        (0..std::thread::available_parallelism().map_or(1, usize::from) as u32).collect();
    interface.open_lanes(&cpus).expect("opened");
    assert!(interface.open_lanes(&cpus).is_err(), "opened once");

    let arrived = Arc::new(Arrived::default());
    let watcher = watch(wires.far(1), arrived.clone());
    let mut from = wires.far(0);
    let (mac, mut sent, changes) = (interface.mac(), 0_u64, asked("EBB_MOVES", CHANGES));
    let (mut random, mut numbers) = (random_from(1), vec![0_u32; FLOWS.into()]);
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = random_from(2);
            for _ in 0..changes {
                let table = std::array::from_fn(|_| (random() % (cpus.len() as u64 + 1)) as u8);
                interface.set_lanes(&table).expect("changed");
                std::thread::sleep(Duration::from_micros(random() % 400));
            }
            done.store(true, SeqCst);
        });
        while !done.load(SeqCst) {
            let mut frame = || {
                let flow = (random() % u64::from(FLOWS)) as u16;
                numbers[usize::from(flow)] += 1;
                udp(mac, flow, numbers[usize::from(flow)])
            };
            let frames: Vec<Vec<u8>> = (0..BURST).map(|_| frame()).collect();
            sent += frames.len() as u64;
            common::send(&mut from, frames.iter().map(Vec::as_slice));
        }
    });
    let (took, interface) = (begun.elapsed(), &interface);
    let deadline = Instant::now() + Duration::from_secs(5);
    let devices = "cat /proc/net/dev";
    let dropped = || {
        arrived.missed.load(SeqCst)
            + refused(&wires.in_generator(devices), "g0")
            + interface.lanes().iter().map(|lane| lane.dropped).sum::<u64>()
            + refused(&run(&format!("ip netns exec {} {devices}", wires.router)), "p1")
    };
    while arrived.count.load(SeqCst) + dropped() < sent && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    arrived.ends.store(true, SeqCst);
    watcher.join().expect("watched");
    let lanes = interface.lanes();
    let count = arrived.count.load(SeqCst);
    println!("{sent} packets in {took:?}, {count} arrived: {lanes:?}");
    assert_eq!(arrived.reordered.load(SeqCst), 0, "{lanes:?}");
    assert_eq!(count + dropped(), sent, "{lanes:?}");
    assert!(lanes[1..].iter().any(|lane| lane.given > 0 && lane.waiting() == 0), "{lanes:?}");
    let pool = memory.pool();
    memory.close(ports, pool);
}

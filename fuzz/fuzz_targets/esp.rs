//! Any frame through tunnels around routing: each leaves once, or waits for a neighbour, and none panics. The checksums of
//! IPv4 headers are put right in every other input, so that what lies behind them is reached.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use ebb_apps::Application;
use ebb_apps::esp::{Algorithm, DontFragment, Esp, Key, Start, Tunnel, Used};
use ebb_apps::route::{Builder, FibWriter, Interface, InterfaceId, Requests, Target, WorkerGraph};
use ebb_graph::{Batch, Exits, Packet, Pool, PortId};
use ebb_units::Time;
use ebb_wire::checksum;
use libfuzzer_sys::fuzz_target;

fn key(byte: &str) -> Key {
    let algorithm = Algorithm::Aes128Gcm;
    Key::from_hex(&byte.repeat(algorithm.key_len()), algorithm).expect("a key")
}

thread_local! {
    /// Its memory is never given back.
    static POOL: RefCell<Pool> = RefCell::new(Pool::standalone(512));
    static WORKERS: RefCell<[Option<Bench>; 2]> = const { RefCell::new([None, None]) };
}

/// A worker between tunnels, for some inputs: to make one takes a hundred times as long as to run it.
struct Bench {
    worker: WorkerGraph,
    /// What the worker reads is written by it.
    _writer: FibWriter,
    inputs: u32,
    nanos: u64,
}

const INPUTS: u32 = 2048;

fn bench(extended_sequence: bool) -> Bench {
    let tunnel = Tunnel {
        local: "192.0.2.1".parse().expect("an address"),
        remote: "198.51.100.1".parse().expect("an address"),
        remote_prefixes: vec![
            "10.0.0.0/8".parse().expect("a prefix"),
            "2001:db8::/32".parse().expect("a prefix"),
        ],
        local_prefixes: Vec::new(),
        clear_prefixes: Vec::new(),
        algorithm: Algorithm::Aes128Gcm,
        out: (256, key("a1")),
        into: (257, key("b2")),
        window: 64,
        extended_sequence,
        udp: true,
        mtu: 1400,
        df: DontFragment::Copy,
    };
    let claim = Used::default().claim(1 << 32, Duration::ZERO).expect("numbers");
    let starts = [Start { claim, seen: 0 }];
    let bell = Arc::new(|| ()) as _;
    let reserve = POOL.with_borrow(|pool| pool.reserve().clone());
    let esp: Arc<dyn Application> = Arc::new(Esp::new(1, &[tunnel], &starts, &bell, &reserve));
    let (mut writer, fib) = FibWriter::new();
    let id = InterfaceId(1);
    let gateway = "203.0.113.2".parse().expect("an address");
    let interface = Interface {
        port: PortId(0),
        vlan: 0,
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        addresses: vec!["203.0.113.1/24".parse().expect("an address")],
    };
    writer.set_interface(id, interface);
    writer.set_neighbour(id, gateway, [2, 0, 0, 0, 0, 2]);
    writer
        .set_route("0.0.0.0/0".parse().expect("a prefix"), &Target::via(id, gateway))
        .expect("room");
    writer.publish();
    let requests = Requests::new(16, Arc::new(|| {}));
    let applications = [esp];
    let worker = Builder::new(&fib, requests).applications(&applications).worker(0);
    Bench { worker, _writer: writer, inputs: 0, nanos: 1 }
}

/// A frame to the router, with the right checksum in its IPv4 header if `repairs`.
fn to_frame(bytes: &[u8], repairs: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    frame.extend(bytes.iter().take(1700));
    let len = usize::from(frame.get(14).copied().unwrap_or(0) & 15) * 4;
    if repairs
        && let [8, 0, rest @ ..] = &mut frame[12..]
        && let Some(header) = rest.get_mut(..len.max(20))
    {
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Gives all frames back that left; how many of them had come.
fn returned(pool: &mut Pool, exits: &mut Exits) -> u64 {
    let mut left = 0;
    for batch in exits.transmit.iter_mut().chain([&mut exits.kernel, &mut exits.dropped]) {
        let counted = |packet: &&Packet| packet.flags & Packet::ORIGINATED == 0;
        left += batch.iter().filter(counted).count() as u64;
        pool.put_batch(batch);
    }
    left
}

fn run(bench: &mut Bench, pool: &mut Pool, frames: &[Vec<u8>]) {
    let Bench { worker, inputs, nanos, .. } = bench;
    *inputs += 1;
    // Nothing waits for a neighbour for so long.
    *nanos += 5_000_000_000;
    let now = Time::from_nanos(*nanos);
    let (mut batch, mut exits) = (Batch::new(), Exits::new(1));
    let waited = worker.counters.held();
    worker.graph.poll(now, &mut exits);
    assert_eq!(returned(pool, &mut exits), waited);
    let repairs = frames.first().and_then(|frame| frame.last()).is_some_and(|byte| byte % 2 == 1);
    for bytes in frames.iter().take(32) {
        batch.push(pool.get().expect("a frame").fill(&to_frame(bytes, repairs)));
    }
    let count = batch.len() as u64;
    worker.graph.run(now, worker.entry, &mut batch, &mut exits);
    assert_eq!(returned(pool, &mut exits) + worker.counters.held(), count);
}

fuzz_target!(|frames: Vec<Vec<u8>>| {
    WORKERS.with_borrow_mut(|benches| {
        let place = &mut benches[frames.len() % 2];
        if place.as_ref().is_none_or(|bench| bench.inputs >= INPUTS) {
            // What waits in it is given back first.
            place.iter_mut().for_each(|last| POOL.with_borrow_mut(|pool| run(last, pool, &[])));
            *place = Some(bench(frames.len() % 2 == 0));
        }
        let bench = place.as_mut().expect("one is there");
        POOL.with_borrow_mut(|pool| run(bench, pool, &frames));
    });
});

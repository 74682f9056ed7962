use std::time::Instant;

use ebb_apps::route::{FibWriter, Requests, RouteLimits, graph};
use ebb_control::policies::Napi;
use ebb_control::{IdleDepth, Limits, OperatingPoint};
use ebb_graph::Reserve;
use ebb_host::Doorbell;
use ebb_ports::memory::{self, LinkOptions};

use super::*;

/// A worker that gains entries before it has received for the first time: what it is sent
/// meanwhile waits.
#[test]
fn a_worker_whose_first_order_is_to_hold_has_frames_for_what_comes() {
    let limits = Limits { cores: 1, frequencies: 1 };
    let point = OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow };
    let (_writer, fib) = FibWriter::new();
    let requests = Requests::new(1, Arc::new(|| {}));
    let (graph, entry, counters) = graph(&fib, PORTS_MAX, requests, &RouteLimits::default());
    let control = Arc::new(Doorbell::new().unwrap());
    let policy = Box::new(Napi::new(limits));
    let shared = Shared::new(vec![counters], policy, point, control, Order::Hold).unwrap();
    let options = LinkOptions { name: "m".into(), queues: 1, queue_len: 64 };
    let mut link = memory::link(&options).unwrap();
    let ports = link.ports.drain(..).map(|port| Some(Box::new(port) as _)).collect();
    let (_, reserve) = Reserve::allocate(256);
    let pool = Pool::new(reserve.clone());
    let worker = Worker::new(0, shared.clone(), ports, (graph, entry), pool, (64, 0));
    let thread = std::thread::spawn(move || worker.run(false));
    let begun = Instant::now();
    while link.far.send([[0u8; 60].as_slice()]) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "no frame was posted");
        std::thread::yield_now();
    }
    assert_eq!(shared.workers[0].counters.received.get(), 0, "it holds");
    shared.workers[0].mailbox.give(Order::Stop);
    thread.join().unwrap();
    assert_eq!(reserve.len(), 256);
}

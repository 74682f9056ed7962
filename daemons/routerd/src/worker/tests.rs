//! What a worker does with orders.

use std::time::Instant;

use ebb_apps::route::{Builder, FibWriter, Requests, WorkerGraph};
use ebb_control::policies::Napi;
use ebb_control::{IdleDepth, Limits, OperatingPoint};
use ebb_graph::Reserve;
use ebb_host::Doorbell;
use ebb_ports::memory::{self, LinkOptions};

use super::*;

/// One worker on one port whose first order this is.
struct Bench {
    shared: Arc<Shared>,
    far: memory::FarEnd,
    reserve: Arc<Reserve>,
    thread: std::thread::JoinHandle<()>,
}

impl Bench {
    fn new(order: Order) -> Bench {
        let limits = Limits { cores: 1, frequencies: 1 };
        let point = OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow };
        let (_writer, fib) = FibWriter::new();
        let requests = Requests::new(1, Arc::new(|| {}));
        let WorkerGraph { graph, entry, counters } = Builder::new(&fib, requests).worker(0);
        let control = Arc::new(Doorbell::new().unwrap());
        let policy = Box::new(Napi::new(limits));
        let shared = Shared::new(
            vec![counters],
            policy,
            point,
            control,
            order,
            ebb_host::pulse::Pulses::new().unwrap(),
        )
        .unwrap();
        let options = LinkOptions { name: "m".into(), queues: 1, queue_len: 64 };
        let mut link = memory::link(&options).unwrap();
        let ports = link.ports.drain(..).map(|port| Some(Box::new(port) as _)).collect();
        let (_, reserve) = Reserve::allocate(256);
        let pool = Pool::new(reserve.clone());
        let worker = Worker::new(0, shared.clone(), ports, (graph, entry), pool, (64, 0));
        let thread = std::thread::spawn(move || worker.run(false));
        Bench { shared, far: link.far, reserve, thread }
    }

    /// Until the port takes one in.
    fn send(&mut self) {
        let begun = Instant::now();
        while self.far.send([[0u8; 60].as_slice()]) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "no frame was posted");
            std::thread::yield_now();
        }
    }

    fn end(self) {
        self.shared.workers[0].mailbox.give(Order::Stop);
        self.thread.join().unwrap();
        // Nobody takes what is for the kernel.
        assert_eq!(self.reserve.len() + self.shared.kernel.len(), 256);
    }
}

/// A worker that gains entries before it has received for the first time: what it is sent
/// meanwhile waits.
#[test]
fn a_worker_whose_first_order_is_to_hold_has_frames_for_what_comes() {
    let mut bench = Bench::new(Order::Hold);
    bench.send();
    assert_eq!(bench.shared.workers[0].counters.received.get(), 0, "it holds");
    bench.end();
}

/// Whoever receives in its place may have no other CPU.
#[test]
fn a_worker_that_holds_sleeps() {
    let mut bench = Bench::new(Order::Run);
    let shared = bench.shared.clone();
    let mine = &shared.workers[0];
    let begun = Instant::now();
    while mine.counters.received.get() == 0 {
        bench.send();
        assert!(begun.elapsed() < Duration::from_secs(10), "it receives nothing");
    }
    // Straight after it has received, with counters that are still to be told.
    mine.mailbox.give(Order::Hold);
    std::thread::sleep(Duration::from_millis(20));
    let before = mine.counters.wakeups.get();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(mine.counters.wakeups.get(), before);
    bench.end();
}

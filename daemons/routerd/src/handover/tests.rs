//! Hand-overs of redirect entries, step by step.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

use ebb_apps::route::RouteCounters;
use ebb_control::policies::Napi;
use ebb_control::{IdleDepth, Limits, OperatingPoint};
use ebb_host::Doorbell;

use super::*;

/// What happened, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Ordered(usize, Order),
    Wrote(usize),
}

type Log = Arc<Mutex<Vec<(Event, Instant)>>>;

fn note(log: &Log, event: Event) {
    log.lock().unwrap().push((event, Instant::now()));
}

struct Fake {
    port: usize,
    log: Log,
    held: Arc<Mutex<Table>>,
    refuses: Arc<AtomicBool>,
    fence: Fence,
}

impl RedirectTable for Fake {
    fn form(&self) -> &'static str {
        "fake"
    }
    fn write(&mut self, table: &Table) -> io::Result<Fence> {
        note(&self.log, Event::Wrote(self.port));
        if self.refuses.load(SeqCst) {
            return Err(io::Error::other("not now"));
        }
        *self.held.lock().unwrap() = *table;
        Ok(self.fence)
    }
}

/// Ports over fake tables, and workers that answer at once.
struct Bench {
    shared: Arc<Shared>,
    redirects: Redirects,
    log: Log,
    held: Vec<Arc<Mutex<Table>>>,
    refuses: Vec<Arc<AtomicBool>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Bench {
    fn new(workers: usize, ports: usize, fence: Fence) -> Bench {
        let limits = Limits { cores: workers as u16, frequencies: 1 };
        let point = OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow };
        let routes = (0..workers).map(|_| Arc::new(RouteCounters::default())).collect();
        let control = Arc::new(Doorbell::new().unwrap());
        let shared = Shared::new(
            routes,
            Box::new(Napi::new(limits)),
            point,
            control,
            Order::Park,
            ebb_host::pulse::Pulses::new().unwrap(),
        )
        .unwrap();
        let log = Log::default();
        let held: Vec<_> = (0..ports).map(|_| Arc::new(Mutex::new([0; ENTRIES]))).collect();
        let refuses: Vec<_> = (0..ports).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let fake = |port: usize| {
            let (held, refuses) = (held[port].clone(), refuses[port].clone());
            Some(Box::new(Fake { port, log: log.clone(), held, refuses, fence }) as _)
        };
        let redirects = Redirects::new((0..ports).map(fake));
        let threads = (0..workers)
            .map(|worker| {
                let (shared, log) = (shared.clone(), log.clone());
                std::thread::spawn(move || answer(worker, &shared, &log))
            })
            .collect();
        Bench { shared, redirects, log, held, refuses, threads }
    }

    /// Hands over and returns what was ordered and written for that.
    fn change(&mut self, active: u16) -> (Handover, Vec<(Event, Instant)>) {
        self.log.lock().unwrap().clear();
        let done = hand_over(&self.shared, &mut self.redirects, active);
        (done, self.log.lock().unwrap().clone())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn answer(worker: usize, shared: &Shared, log: &Log) {
    let mut seen = 0;
    while !shared.stop.load(SeqCst) {
        let (order, serial) = shared.workers[worker].mailbox.order();
        if serial != seen {
            seen = serial;
            if matches!(order, Order::Hold | Order::Drain) {
                note(log, Event::Ordered(worker, order));
            }
            shared.workers[worker].mailbox.answer(serial);
        }
        std::thread::yield_now();
    }
}

/// The hold of the gaining workers must not grow with the number of ports.
#[test]
fn all_ports_are_written_before_anything_is_waited_for() {
    let settle = Duration::from_millis(100);
    let mut bench = Bench::new(2, 8, Fence::hardware(settle));
    let (done, log) = bench.change(2);
    assert_eq!((done.entries_moved, done.refused.len(), done.late.len()), (64, 0, 0));
    let events: Vec<Event> = log.iter().map(|(event, _)| *event).collect();
    let writes = (0..8).map(Event::Wrote);
    let wanted: Vec<Event> = [Event::Ordered(1, Order::Hold)]
        .into_iter()
        .chain(writes)
        .chain([Event::Ordered(0, Order::Drain)])
        .collect();
    assert_eq!(events, wanted);
    let at = |index: usize| log[index].1;
    assert!(at(8) - at(1) < settle, "waited between two ports");
    assert!(at(9) - at(8) >= settle, "not waited before the old owner drains");
}

/// A port that refused holds an older table than the others: when it takes the next one, other
/// workers lose its entries.
#[test]
fn a_port_that_fell_behind_is_handed_over_by_what_it_holds() {
    let mut bench = Bench::new(3, 2, Fence::PASSED);
    bench.change(1);
    bench.refuses[1].store(true, SeqCst);
    let (done, _) = bench.change(2);
    assert_eq!(done.refused, ["not now"]);
    assert_eq!(*bench.held[1].lock().unwrap(), [0; ENTRIES], "the old table stays");
    bench.refuses[1].store(false, SeqCst);
    let (done, log) = bench.change(3);
    assert_eq!((done.refused.len(), done.late.len()), (0, 0));
    let at = |wanted: Event| log.iter().rposition(|(event, _)| *event == wanted).expect("no event");
    let written = at(Event::Wrote(1));
    // Entries go from worker 0 to workers 1 and 2, also those that worker 1 has elsewhere.
    for gainer in [1, 2] {
        let held = at(Event::Ordered(gainer, Order::Hold));
        assert!(held < written, "worker {gainer} receives while its entries come");
    }
    assert!(at(Event::Ordered(0, Order::Drain)) > written);
    for worker in 0..3u8 {
        for held in &bench.held {
            let count = held.lock().unwrap().iter().filter(|entry| **entry == worker).count();
            assert!((42..=43).contains(&count), "worker {worker} has {count} entries");
        }
    }
}

#[test]
fn a_port_that_comes_later_holds_the_table_in_force() {
    let mut bench = Bench::new(2, 1, Fence::PASSED);
    bench.change(2);
    let held = Arc::new(Mutex::new([7; ENTRIES]));
    let fake = Fake {
        port: 1,
        log: bench.log.clone(),
        held: held.clone(),
        refuses: Arc::default(),
        fence: Fence::PASSED,
    };
    bench.redirects.attach(1, Some(Box::new(fake))).unwrap();
    assert_eq!(*held.lock().unwrap(), *bench.redirects.table());
    assert_eq!(*held.lock().unwrap(), *bench.held[0].lock().unwrap());
}

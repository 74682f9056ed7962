//! What applications' nodes carry and take: packets, bytes and drops of each node, and processor time, which is read for
//! some of their batches. The clock is the caller's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_graph::{Batch, Given, Node, Outputs, PortId};
use ebb_units::Time;

/// Processor time of the calling thread.
pub type Stopwatch = fn() -> Time;

/// One batch of so many is timed. No power of two: batches of several ports come in turns.
const TIMED_EVERY: u32 = 17;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before routing.
    Ingress,
    /// Behind it.
    Egress,
    /// Behind all egress nodes.
    Observer,
}

impl Place {
    /// The name in what is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Ingress => "ingress",
            Place::Egress => "egress",
            Place::Observer => "observer",
        }
    }
}

/// Those of all nodes.
#[derive(Debug)]
pub struct Meters {
    clock: Stopwatch,
    of: Mutex<Vec<Arc<Meter>>>,
}

/// One node of one worker, which alone writes it.
#[derive(Debug)]
#[repr(align(128))]
struct Meter {
    node: (&'static str, Place),
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    nanos: AtomicU64,
}

/// What was counted of a node; only ever more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Processor time, estimated: of the batches that were timed, times one of how many each is.
    pub time: Duration,
}

impl Reading {
    fn add(&mut self, other: &Reading) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.time += other.time;
    }
}

impl Meters {
    /// None yet; `clock` tells what workers use of their processors.
    pub fn new(clock: Stopwatch) -> Arc<Meters> {
        Arc::new(Meters { clock, of: Mutex::default() })
    }

    /// Applications' nodes, each over all workers, in the order in which packets pass them.
    ///
    /// # Panics
    /// When a worker could not be made.
    pub fn read(&self) -> Vec<((&'static str, Place), Reading)> {
        let mut sums: Vec<((&'static str, Place), Reading)> = Vec::new();
        for meter in self.of.lock().expect("meters").iter() {
            let reading = meter.read();
            match sums.iter_mut().find(|(node, _)| *node == meter.node) {
                Some((_, sum)) => sum.add(&reading),
                None => sums.push((meter.node, reading)),
            }
        }
        sums
    }

    /// A node with a meter around it.
    pub(crate) fn around(
        &self,
        application: &'static str,
        place: Place,
        node: Box<dyn Node>,
    ) -> Box<dyn Node> {
        let zero = AtomicU64::default;
        let (packets, bytes, dropped, nanos) = (zero(), zero(), zero(), zero());
        let node_of = (application, place);
        let meter = Arc::new(Meter { node: node_of, packets, bytes, dropped, nanos });
        self.of.lock().expect("meters").push(meter.clone());
        // Not the first, whose code and tables are in no cache yet.
        Box::new(Metered { node, meter, clock: self.clock, left: TIMED_EVERY / 2 })
    }
}

impl Meter {
    fn read(&self) -> Reading {
        Reading {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
        }
    }
}

/// Only the owning worker calls this.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

/// A node, and what it carries.
struct Metered {
    node: Box<dyn Node>,
    meter: Arc<Meter>,
    clock: Stopwatch,
    /// Batches until the next is timed.
    left: u32,
}

impl Metered {
    fn timed(&mut self, times: u64, work: impl FnOnce(&mut dyn Node)) {
        // A look at the clock takes longer than a packet: what one takes is left out.
        let before = (self.clock)();
        let begun = (self.clock)();
        work(&mut *self.node);
        let span = (self.clock)().since(begun);
        let own = span.saturating_sub(begun.since(before));
        add(&self.meter.nanos, own.as_nanos() as u64 * times);
    }
}

impl Node for Metered {
    fn name(&self) -> &'static str {
        self.node.name()
    }

    fn process(&mut self, now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        add(&self.meter.packets, batch.len() as u64);
        add(&self.meter.bytes, batch.iter().map(|packet| packet.len() as u64).sum());
        let before = out.dropped();
        if self.left == 0 {
            self.left = TIMED_EVERY - 1;
            self.timed(u64::from(TIMED_EVERY), |node| node.process(now, batch, out));
        } else {
            self.left -= 1;
            self.node.process(now, batch, out);
        }
        add(&self.meter.dropped, (out.dropped() - before) as u64);
    }

    fn poll_at(&self) -> Option<Time> {
        self.node.poll_at()
    }

    fn poll(&mut self, now: Time, out: &mut Outputs<'_>) {
        let before = out.dropped();
        self.timed(1, |node| node.poll(now, out));
        add(&self.meter.dropped, (out.dropped() - before) as u64);
    }

    fn held(&self) -> usize {
        self.node.held()
    }

    fn keeps_state(&self) -> bool {
        self.node.keeps_state()
    }

    fn give_up(&mut self, leaves: &mut dyn FnMut(PortId, u32) -> bool) -> Vec<Given> {
        self.node.give_up(leaves)
    }

    fn retire(&mut self) {
        self.node.retire();
    }

    fn take_over(&mut self, now: Time, given: Given, out: &mut Outputs<'_>) {
        self.node.take_over(now, given, out);
    }
}

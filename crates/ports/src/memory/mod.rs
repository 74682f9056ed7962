//! Network cards in memory: a link whose near end is a set of [`Port`](crate::Port)s, one per
//! worker, and whose far end is a handle for a traffic generator or a test.
//!
//! A memory NIC moves frames as hardware does: the worker posts free frames, the far end copies
//! bytes into one (the only copy) and hands it over; transmitted frames travel to the far end and
//! back through a completion ring. All rings are single-producer, single-consumer. The NIC's side
//! of the receive rings sits behind a lock that is taken once per [`FarEnd::send`] of up to 64
//! frames, which makes the redirect table's fence trivial: a rewrite that holds the lock knows
//! that nothing steered by the old table is still on its way.

mod far;
mod port;
mod redirect;

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use ebb_graph::{Frame, Packet};
use ebb_units::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::eventfd::Doorbell;

pub use far::{FarEnd, FarReceiver, FarSender};
pub use port::MemoryPort;
pub use redirect::MemoryRedirect;

/// What a memory link is made of.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The port's name.
    pub name: String,
    /// Receive queues, one per worker, 1 to 128.
    pub queues: usize,
    /// Packets each receive and each transmit queue holds; the worker's pool feeds every receive
    /// queue with as many frames.
    pub queue_len: usize,
}

/// A link in memory.
#[derive(Debug)]
pub struct Link {
    /// The near end, one port per worker.
    pub ports: Vec<MemoryPort>,
    /// The near end's redirect table, all entries on queue 0 at first.
    pub redirect: MemoryRedirect,
    /// The other end.
    pub far: FarEnd,
}

/// Makes a link.
///
/// ```
/// use ebb_graph::{Batch, Pool};
/// use ebb_ports::{Port, memory};
///
/// let options = memory::LinkOptions { name: "lan".into(), queues: 1, queue_len: 64 };
/// let mut link = memory::link(&options).unwrap();
/// let (mut pool, mut batch) = (Pool::standalone(256), Batch::new());
/// let port = &mut link.ports[0];
/// port.receive(&mut pool, &mut batch, 64); // posts free frames
/// link.far.send([b"a frame".as_slice()]);
/// assert_eq!(port.receive(&mut pool, &mut batch, 64), 1);
/// port.transmit(&mut pool, &mut batch);
/// link.far.receive(|frame| assert_eq!(frame, b"a frame"));
/// ```
///
/// # Errors
/// When the system refuses an eventfd.
///
/// # Panics
/// When the number of queues is not 1 to 128 or the queues have no length.
pub fn link(options: &LinkOptions) -> io::Result<Link> {
    assert!((1..=128).contains(&options.queues), "1 to 128 queues, not {}", options.queues);
    assert!(options.queue_len > 0, "a queue needs a length");
    let mut ports = Vec::new();
    let mut ingress = Vec::new();
    let mut egress = Vec::new();
    let mut lines = Vec::new();
    for _ in 0..options.queues {
        let len = options.queue_len;
        let (fill, posted) = RingBuffer::<Frame>::new(len);
        let (arrived, rx) = RingBuffer::<Packet>::new(len);
        let (tx, leaving) = RingBuffer::<Packet>::new(len);
        let (completed, done) = RingBuffer::<Frame>::new(len);
        lines.push(Line { doorbell: Doorbell::new()?, dropped: AtomicU64::new(0) });
        ingress.push(IngressQueue { posted, arrived, staged: Vec::with_capacity(64) });
        egress.push(EgressQueue { leaving, completed });
        ports.push((fill, rx, tx, done));
    }
    let nic = Arc::new(Nic {
        ingress: Mutex::new(Ingress { table: [0; 128], queues: ingress, sampled: Time::ZERO }),
        egress: Mutex::new(egress),
        lines,
    });
    let ports = ports
        .into_iter()
        .enumerate()
        .map(|(queue, rings)| MemoryPort::new(&options.name, nic.clone(), queue, rings))
        .collect();
    let far = FarEnd::new(nic.clone());
    Ok(Link { ports, redirect: MemoryRedirect::new(nic), far })
}

/// The NIC between the two ends.
#[derive(Debug)]
struct Nic {
    ingress: Mutex<Ingress>,
    egress: Mutex<Vec<EgressQueue>>,
    lines: Vec<Line>,
}

/// What both sides of a receive queue touch without the lock.
#[derive(Debug)]
struct Line {
    doorbell: Doorbell,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Ingress {
    table: [u8; 128],
    queues: Vec<IngressQueue>,
    /// When a packet was last stamped.
    sampled: Time,
}

#[derive(Debug)]
struct IngressQueue {
    posted: Consumer<Frame>,
    arrived: Producer<Packet>,
    staged: Vec<Packet>,
}

#[derive(Debug)]
struct EgressQueue {
    leaving: Consumer<Packet>,
    completed: Producer<Frame>,
}

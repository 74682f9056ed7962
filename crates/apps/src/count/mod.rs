//! Counts packets and their bytes by IP version as they come in and leave: the smallest application, to
//! see that the chain is right and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_graph::{Batch, Node, Outputs, Packet};
use ebb_units::Time;
use ebb_wire::{ethertype, link};

use crate::application::{Application, Observer};

/// See the module.
#[derive(Debug)]
pub struct Count {
    workers: Vec<Arc<Counters>>,
}

/// One worker's; nobody else writes them. A line of the cache or two of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters([AtomicU64; NAMES.len()]);

/// Coming in, leaving; IPv4, IPv6, others; packets, bytes.
const NAMES: [&str; 12] = [
    "in_ipv4_packets",
    "in_ipv4_bytes",
    "in_ipv6_packets",
    "in_ipv6_bytes",
    "in_other_packets",
    "in_other_bytes",
    "out_ipv4_packets",
    "out_ipv4_bytes",
    "out_ipv6_packets",
    "out_ipv6_bytes",
    "out_other_packets",
    "out_other_bytes",
];
const OUT: usize = NAMES.len() / 2;

impl Count {
    /// For so many workers.
    pub fn new(workers: usize) -> Count {
        Count { workers: (0..workers).map(|_| Arc::default()).collect() }
    }
}

impl Counters {
    fn count(&self, first: usize, packets: &[Packet]) {
        let mut sums = [0; OUT];
        for packet in packets {
            let kind = match link(packet.data()).map(|link| link.ethertype) {
                Some(ethertype::IPV4) => 0,
                Some(ethertype::IPV6) => 2,
                _ => 4,
            };
            sums[kind] += 1;
            sums[kind + 1] += packet.len() as u64;
        }
        for (counter, sum) in self.0[first..].iter().zip(sums) {
            // A single writer needs no more.
            counter.store(counter.load(Ordering::Relaxed) + sum, Ordering::Relaxed);
        }
    }
}

impl Application for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn ingress(&self, worker: usize) -> Option<Box<dyn Node>> {
        Some(Box::new(In(self.workers[worker].clone())))
    }

    fn observer(&self, worker: usize) -> Option<Box<dyn Observer>> {
        Some(Box::new(Out(self.workers[worker].clone())))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |index: usize| {
            self.workers.iter().map(|worker| worker.0[index].load(Ordering::Relaxed)).sum()
        };
        NAMES.into_iter().enumerate().map(|(index, name)| (name, sum(index))).collect()
    }
}

struct In(Arc<Counters>);

impl Node for In {
    fn name(&self) -> &'static str {
        "count"
    }

    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        self.0.count(0, batch);
        out.forward(0, batch);
    }
}

struct Out(Arc<Counters>);

impl Observer for Out {
    fn observe(&mut self, _now: Time, packets: &[Packet]) {
        self.0.count(OUT, packets);
    }
}

//! Flow export: counts what leaves by flow, and makes IPFIX (RFC 7011) or NetFlow version 9 messages of it; or samples
//! it, and makes datagrams of sFlow version 5.
//!
//! [`Ipfix`] is the application: a meter and a flow cache, or a sampler, for each worker. [`Exporter`] takes what has ended to
//! messages, on a thread of the caller's, who sends them. The README beside this file tells how both work.
//! Neighbours: `application`, which puts the meters behind everything else. Reads no clock, opens nothing.

mod cache;
mod export;
mod flow;
mod gather;
mod lane;
mod message;
mod meter;
mod pair;
mod sample;
mod select;
mod sflow;
mod template;

use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ebb_graph::PortId;
use ebb_units::Time;

pub use export::Exporter;
pub use flow::{EndReason, Record};
pub use gather::{Gatherer, Part};
use lane::Lane;
pub use lane::{Bell, Traffic};
pub use message::Message;
use meter::Meter;
pub use pair::Flow;
use sample::Sampler;
pub use select::Selection;
use sflow::Datagrams;

use crate::application::{Application, Observer};

/// How flows are metered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metering {
    /// Longest time that a flow goes on before it is reported.
    pub active: Duration,
    /// Time without a packet after which it is reported.
    pub idle: Duration,
    /// Flows in a worker's cache, 64 bytes each.
    pub flows: usize,
    /// Which are counted; of those, one packet of `sampling`.
    pub selection: Selection,
    /// One packet of so many is counted; at least 1.
    pub sampling: u32,
    /// A random number that nobody outside knows.
    pub seed: u64,
}

/// Protocol of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 7011.
    Ipfix,
    /// RFC 3954.
    Netflow9,
}

/// What messages are like; of sFlow, version and directions say nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Protocol.
    pub version: Version,
    /// Observation domain (in NetFlow the source, in sFlow the sub-agent) in their headers.
    pub domain: u32,
    /// Longest message in bytes, at least 512.
    pub message_len: usize,
    /// Templates and options, in sFlow the interfaces' counters, are sent again after so long.
    pub template_every: Duration,
    /// Whether both directions of a conversation become one record (RFC 5103); IPFIX only.
    pub biflow: bool,
    /// As [`Metering::sampling`].
    pub sampling: u32,
}

/// What the clocks and the system say while messages are made.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The workers' clock.
    pub now: Time,
    /// The same moment since 1970.
    pub unix: Duration,
    /// The system's interface numbers by port number.
    pub interfaces: Vec<u32>,
    /// What the ports counted, by their numbers; sFlow alone reports it.
    pub counts: Vec<Counts>,
}

/// Whether a port is up, and what it has counted since the start: received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whether it is set up, and whether it can send.
    pub up: [bool; 2],
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of their frames.
    pub bytes: [u64; 2],
    /// Packets for which there was no room.
    pub dropped: [u64; 2],
}

impl Reading {
    fn interface(&self, port: PortId) -> u32 {
        self.interfaces.get(usize::from(port.0)).copied().unwrap_or(0)
    }

    fn now_ms(&self) -> u32 {
        flow::ms_of(self.now.as_nanos())
    }

    /// Milliseconds since 1970 of a time not longer ago than 2^31 ms.
    fn unix_ms(&self, ms: u32) -> u64 {
        let ago = self.now_ms().wrapping_sub(ms) as i32;
        (self.unix.as_millis() as u64).saturating_add_signed(-i64::from(ago))
    }
}

/// What became of records, for counters and for the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Messages sent.
    pub messages: u64,
    /// Records sent, and their packets and bytes.
    pub sent: Traffic,
    /// The same of those that were lost: no room on their way, or not taken by the collector.
    pub unsent: Traffic,
    /// Packets that are neither IPv4 nor IPv6.
    pub other_packets: u64,
}

/// The application.
#[derive(Debug)]
pub struct Ipfix {
    metering: Metering,
    lanes: Vec<Arc<Lane>>,
    exported: Arc<Exported>,
    /// The router's address in sFlow; nothing where flows are counted.
    agent: Option<IpAddr>,
}

/// What the exporter counted; it alone writes.
#[derive(Debug, Default)]
struct Exported([AtomicU64; EXPORTED.len()]);

const EXPORTED: [&str; 7] = [
    "exported_messages",
    "exported_flows",
    "exported_packets",
    "exported_bytes",
    "unsent_flows",
    "unsent_packets",
    "unsent_bytes",
];

impl Exported {
    fn add(&self, first: usize, numbers: &[u64]) {
        for (counter, more) in self.0[first..].iter().zip(numbers) {
            counter.store(counter.load(Relaxed) + more, Relaxed);
        }
    }

    fn get(&self) -> [u64; EXPORTED.len()] {
        std::array::from_fn(|index| self.0[index].load(Relaxed))
    }
}

impl Ipfix {
    /// For so many workers; `bell` is rung when the exporter should not wait any longer.
    pub fn new(workers: usize, metering: Metering, bell: &Bell) -> Ipfix {
        Ipfix::make(workers, metering, None, bell)
    }

    /// The same for sFlow, from the router with this address: each packet that is taken, at random, is reported by
    /// itself with its header. Of the metering, only rate and seed matter.
    pub fn sampled(workers: usize, metering: Metering, agent: IpAddr, bell: &Bell) -> Ipfix {
        Ipfix::make(workers, metering, Some(agent), bell)
    }

    fn make(workers: usize, metering: Metering, agent: Option<IpAddr>, bell: &Bell) -> Ipfix {
        let lane = |_| Arc::new(Lane::new(bell.clone(), agent.is_some()));
        let lanes = (0..workers).map(lane).collect();
        Ipfix { metering, lanes, exported: Arc::default(), agent }
    }

    /// Takes in flows that were counted elsewhere, which its exporter then has beside those of the workers. To be asked for
    /// before that, once, and not of sFlow.
    pub fn gatherer(&mut self) -> Gatherer {
        let lane = Arc::new(Lane::new(self.lanes[0].bell(), false));
        self.lanes.push(lane.clone());
        Gatherer::new(Meter::new(&self.metering, lane))
    }

    /// What makes messages of its flows. One at a time.
    pub fn exporter(&self, format: Format) -> Exporter {
        // Directions of a conversation end within a round of the sweep and the time between their packets.
        let patience = self.metering.idle / 2 + Duration::from_secs(1);
        let datagrams = self.agent.map(|agent| Datagrams::new(agent, format.clone()));
        Exporter::new(format, datagrams, patience, self.lanes.clone(), self.exported.clone())
    }
}

impl Application for Ipfix {
    fn name(&self) -> &'static str {
        "ipfix"
    }

    fn observer(&self, worker: usize) -> Option<Box<dyn Observer>> {
        let (metering, lane) = (&self.metering, self.lanes[worker].clone());
        Some(match self.agent.is_some() {
            true => Box::new(Sampler::new(worker, metering, lane)),
            false => Box::new(Meter::new(metering, lane)),
        })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = [0u64; lane::NAMES.len()];
        for lane in &self.lanes {
            sums.iter_mut().zip(lane.counted()).for_each(|(sum, more)| *sum += more);
        }
        let metered = lane::NAMES.into_iter().zip(sums);
        metered.chain(EXPORTED.into_iter().zip(self.exported.get())).collect()
    }
}

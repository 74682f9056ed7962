//! Takes the flows that the kernel path has counted to the exporter.
//!
//! Neighbours: `ebb_ports::afxdp::KernelFlows` counts them by indices of interfaces, `Places` knows whose these are, and
//! [`Gatherer`] makes records of them.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebb_apps::ipfix::{Gatherer, Part};
use ebb_graph::PortId;
use ebb_host::clock;
use ebb_ports::afxdp::{KernelFlow, KernelFlows};
use ebb_units::Time;
use tracing::warn;

use crate::config::{Config, FlowExport};

/// How often flows are taken at most, unless they need room: each flow that goes on begins anew in the other table then, which
/// takes the program several times what a further packet does.
const EVERY: Duration = Duration::from_secs(2);
/// Most flows that one of the kernel's two tables holds, some 150 bytes each; when it is half full they are taken.
const ROOM_MAX: u32 = 65_536;
/// What is no port.
const NOWHERE: PortId = PortId(u8::MAX);

/// The tables in the kernel, where the configuration wants flows to be counted there.
///
/// # Errors
/// When the kernel has none.
pub fn tables(config: &Config) -> std::io::Result<Option<Arc<KernelFlows>>> {
    let wanted = config.counts_on_the_kernel_path();
    let room = config.ipfix.flows.min(ROOM_MAX);
    wanted.then(|| KernelFlows::create(room).map(Arc::new)).transpose()
}

/// Port and VLAN of each interface by its index, of those too that are gone: their flows may yet come.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<BTreeMap<u32, (PortId, u16)>>>);

impl Places {
    /// Notes an interface.
    pub fn note(&self, index: u32, port: PortId, vlan: u16) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(index, (port, vlan));
    }

    fn get(&self, index: u32) -> (PortId, u16) {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(&index).copied().unwrap_or((NOWHERE, 0))
    }
}

/// See the module.
#[derive(Debug)]
pub struct Gathering {
    flows: Arc<KernelFlows>,
    gatherer: Gatherer,
    places: Places,
    every: Duration,
    at: Time,
    is_told: bool,
}

impl Gathering {
    /// From the kernel's tables to records, by the timeouts of `of`.
    pub fn new(
        of: &FlowExport,
        flows: Arc<KernelFlows>,
        gatherer: Gatherer,
        places: Places,
    ) -> Gathering {
        // A flow is told when a quarter more than its timeout has passed, as workers tell it.
        let least = Duration::from_secs(of.idle_timeout_s.min(of.active_timeout_s).into());
        let every = EVERY.min(least / 4);
        Gathering { flows, gatherer, places, every, at: Time::ZERO, is_told: false }
    }

    /// Readable when flows need room.
    pub(super) fn call(&self) -> RawFd {
        self.flows.call()
    }

    /// Takes what was counted, if it is time, and ends flows.
    pub(super) fn turn(&mut self) {
        let now = clock::monotonic();
        if self.flows.is_half_full() || now.since(self.at) >= self.every && self.flows.has_some() {
            self.at = now;
            self.take();
        }
        self.gatherer.turn(now);
    }

    /// Takes everything; when nothing is forwarded any more.
    pub(super) fn finish(mut self) {
        self.take();
        self.take();
        self.gatherer.turn(clock::monotonic());
    }

    fn take(&mut self) {
        let Gathering { flows, gatherer, places, .. } = self;
        let taken = flows.take(|flow| match part(flow, places) {
            Some(part) => gatherer.add(&part),
            None => gatherer.lose(flow.packets, flow.bytes),
        });
        match taken {
            Ok([0, 0]) => {}
            Ok([packets, bytes]) => gatherer.lose(packets, bytes),
            Err(error) if !self.is_told => {
                self.is_told = true;
                warn!(%error, code = "EBB-R083", "cannot read the flows of the kernel path; it is tried again");
            }
            Err(_) => {}
        }
    }
}

/// None: it cannot be told by a record.
fn part(flow: &KernelFlow, places: &Places) -> Option<Part> {
    let (first, last) = flow.seen_ns;
    Some(Part {
        source: flow.source,
        destination: flow.destination,
        ports: flow.ports,
        protocol: flow.protocol,
        input: places.get(flow.input),
        output: places.get(flow.output),
        packets: i32::try_from(flow.packets).ok()? as u32,
        bytes: flow.bytes,
        seen: (Time::from_nanos(first), Time::from_nanos(last)),
        tcp_flags: flow.tcp_flags,
        tos: flow.tos,
    })
}

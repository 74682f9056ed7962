//! Flows that something else has counted, as the kernel does, and hands over a part at a time: they become records like those of
//! workers.
//!
//! Neighbours: `meter` keeps the flows and ends them, `lane` takes what ended to the exporter. Reads no clock; who calls says when.

use std::net::Ipv6Addr;

use ebb_graph::PortId;
use ebb_units::Time;

use super::flow::Delta;
use super::meter::Meter;

/// Packets of one flow that were counted elsewhere since its last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Source; of IPv4 as an IPv4-mapped address.
    pub source: Ipv6Addr,
    /// Destination.
    pub destination: Ipv6Addr,
    /// Source and destination port; of ICMP 0, and type and code as one number.
    pub ports: (u16, u16),
    /// Protocol.
    pub protocol: u8,
    /// Port where they came in, with their VLAN.
    pub input: (PortId, u16),
    /// Port by which the first of them left, with its VLAN.
    pub output: (PortId, u16),
    /// Packets; at least one.
    pub packets: u32,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// First and last of them.
    pub seen: (Time, Time),
    /// All TCP flags.
    pub tcp_flags: u8,
    /// Type of service or traffic class of the first.
    pub tos: u8,
}

/// See the module. When it is dropped, what is left is reported.
pub struct Gatherer(Meter);

impl Gatherer {
    pub(super) fn new(meter: Meter) -> Gatherer {
        Gatherer(meter)
    }

    /// Takes a part in. Parts of a flow come in the order of their packets.
    pub fn add(&mut self, part: &Part) {
        self.0.add(&Delta::of(part));
    }

    /// So many packets and bytes passed of which nothing else is known.
    pub fn lose(&mut self, packets: u64, bytes: u64) {
        self.0.lose(packets, bytes);
    }

    /// Ends flows that are to end, and makes known what was counted.
    pub fn turn(&mut self, now: Time) {
        self.0.turn(now);
    }

    /// When it has flows to look at again, if it has any.
    pub fn poll_at(&self) -> Option<Time> {
        use crate::application::Observer as _;
        self.0.poll_at()
    }
}

impl core::fmt::Debug for Gatherer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gatherer").finish_non_exhaustive()
    }
}

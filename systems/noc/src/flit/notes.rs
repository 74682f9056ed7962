//! Single flows and packets, for those who ask.

use std::collections::BTreeMap;

/// A packet that arrived. Times in processing elements' cycles from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketNote {
    /// Tile that sent it.
    pub source: u32,
    /// Tile that received it.
    pub target: u32,
    /// Its length.
    pub flits: u16,
    /// Routers it went through.
    pub routers: u16,
    /// When it was made.
    pub made: u64,
    /// When its first flit entered the network.
    pub entered: u64,
    /// When its last flit arrived.
    pub arrived: u64,
}

/// The packets between two tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowNote {
    /// Its number.
    pub packets: u64,
    /// Their flits.
    pub flits: u64,
    /// Sum of their latencies from making to the last flit, cycles.
    pub latency: u64,
    /// The longest.
    pub latency_max: u64,
}

/// What was noted of the packets made in the window.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Packets to note at most; flows are of all.
    pub packets_max: usize,
    /// In the order of arrival.
    pub packets: Vec<PacketNote>,
    /// By source and target.
    pub flows: BTreeMap<(u32, u32), FlowNote>,
}

impl Notes {
    /// Nothing yet, and room for so many packets.
    pub fn new(packets_max: usize) -> Notes {
        Notes { packets_max, ..Notes::default() }
    }

    pub(super) fn packet(&mut self, packet: PacketNote) {
        let latency = packet.arrived - packet.made;
        let flow = self.flows.entry((packet.source, packet.target)).or_default();
        flow.packets += 1;
        flow.flits += u64::from(packet.flits);
        flow.latency += latency;
        flow.latency_max = flow.latency_max.max(latency);
        if self.packets.len() < self.packets_max {
            self.packets.push(packet);
        }
    }
}

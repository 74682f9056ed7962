//! Single flows and packets, for those who ask.

use std::collections::BTreeMap;

use super::packet::Packet;

/// A data packet that arrived at its host. Times in ns from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketNote {
    /// Host that sent it.
    pub source: u32,
    /// Host that received it.
    pub target: u32,
    /// Its number in its flow, from 1.
    pub sequence: u32,
    /// Its length.
    pub bytes: u16,
    /// Switches it crossed.
    pub hops: u16,
    /// When it was made.
    pub born_ns: u64,
    /// When its first byte left the host.
    pub entered_ns: u64,
    /// When its last byte arrived.
    pub arrived_ns: u64,
}

/// The packets between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowNote {
    /// Its number.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their latencies from making to the last byte, ns.
    pub latency_ns: u64,
    /// The longest.
    pub latency_ns_max: u64,
}

/// What was noted of the packets that arrived after the transient.
#[derive(Clone, Debug, Default)]
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
    #[must_use]
    pub fn new(packets_max: usize) -> Notes {
        Notes { packets_max, ..Notes::default() }
    }

    pub(super) fn arrived(&mut self, packet: &Packet, now: u64) {
        let latency = now - packet.born;
        let flow = self.flows.entry((packet.source, packet.target)).or_default();
        flow.packets += 1;
        flow.bytes += u64::from(packet.bytes);
        flow.latency_ns += latency;
        flow.latency_ns_max = flow.latency_ns_max.max(latency);
        if self.packets.len() < self.packets_max {
            self.packets.push(PacketNote {
                source: packet.source,
                target: packet.target,
                sequence: packet.sequence,
                bytes: packet.bytes,
                hops: packet.hops,
                born_ns: packet.born,
                entered_ns: packet.entered,
                arrived_ns: now,
            });
        }
    }
}

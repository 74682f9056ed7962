//! Channels, what waits for what, and whether that can close.
//!
//! Room: the channels of a fabric, their dependency graph (Dally and Seitz 1987), and what
//! `ebb_deadlock` says of it: cycles ([`cycle`]) and a topological order that is kept while
//! dependencies come and go ([`online`]). Nothing here knows where dependencies come from.

pub mod cycle;
mod graph;
pub mod online;

use crate::tables::Lane;
use crate::topology::{Lid, PortNumber, SwitchId, Topology};

pub use graph::DependencyGraph;

/// One virtual lane of a directed link, named by the switch port it leaves through. Links from
/// switches to hosts are channels; links from hosts to switches are not, since no packet waits for
/// one while holding another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(u32);

impl Channel {
    /// The channel of a lane of a port.
    #[must_use]
    pub fn new(topology: &Topology, switch: SwitchId, port: PortNumber, lane: Lane) -> Channel {
        Channel::at(topology.port_index(switch, port), lane)
    }

    /// The channel of a lane of the port with this dense index ([`Topology::port_index`]).
    #[must_use]
    pub fn at(port_index: usize, lane: Lane) -> Channel {
        Channel((port_index as u32) << 4 | u32::from(lane))
    }

    /// A dense index below 16 times the number of ports.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The same with the channels of a lane side by side, in a fabric of so many ports: where few lanes are in
    /// use, what is known of them is in few places of memory.
    #[must_use]
    pub(crate) fn lane_index(self, ports: usize) -> usize {
        usize::from(self.lane()) * ports + self.port_index()
    }

    /// The dense index of its port.
    #[must_use]
    pub fn port_index(self) -> usize {
        (self.0 >> 4) as usize
    }

    /// Its lane.
    #[must_use]
    pub fn lane(self) -> Lane {
        (self.0 & 15) as Lane
    }

    /// Its place as people read it.
    #[must_use]
    pub fn place(self, topology: &Topology) -> ChannelLabel {
        let (switch, port) = topology.port_at(self.port_index());
        ChannelLabel::of(topology, switch, port, self.lane())
    }
}

/// A channel as people read it: the switch it leaves, the port, the lane.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChannelLabel {
    /// Name of the switch.
    pub switch: String,
    /// Its port.
    pub port: PortNumber,
    /// The lane.
    pub lane: Lane,
    /// GUID of the switch, as `0x0123456789abcdef`.
    pub guid: String,
    /// LID of the switch.
    pub lid: Lid,
    /// Name of the switch or host at the other end of the cable; empty where there is none.
    pub to: String,
    /// Its port.
    pub to_port: PortNumber,
}

impl ChannelLabel {
    /// The place of a lane of a switch's port.
    #[must_use]
    pub fn of(topology: &Topology, switch: SwitchId, port: PortNumber, lane: Lane) -> ChannelLabel {
        let here = topology.switch(switch);
        let (to, to_port) = topology.far_end(switch, port);
        let guid = format!("{:#018x}", here.guid);
        ChannelLabel { switch: here.name.clone(), port, lane, guid, lid: here.lid, to, to_port }
    }
}

impl std::fmt::Display for ChannelLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, port {}, lane {})", self.switch, self.port, self.lane)
    }
}

/// A list of channels as people read it.
#[must_use]
pub fn places(topology: &Topology, channels: &[Channel]) -> Vec<ChannelLabel> {
    channels.iter().map(|channel| channel.place(topology)).collect()
}

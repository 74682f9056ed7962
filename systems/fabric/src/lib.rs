//! Lossless fabrics (InfiniBand and its kin) whose links are switched on and off.
//!
//! Room: what a fabric is ([`topology`]), what its switches are told ([`tables`]), how that is
//! written down ([`mod@format`]), what packets then do ([`walk`], [`check`]), how tables are made
//! ([`routing`]) and whether one set of tables can be replaced by another while packets flow
//! ([`transition`]). Everything is a function of its arguments: files come in as bytes, randomness
//! as a generator. What a user asks of a
//! fabric is in [`studies`] and [`commands`].
//!
//! A lossless network never drops a packet for want of a buffer, so packets wait for each other; a
//! ring of waiting packets waits for ever. Whether that can happen is decided on the channel
//! dependency graph (Dally and Seitz 1987): its nodes are channels, one per directed link and
//! virtual lane, its edges the pairs of channels that some packet holds and wants at the same time.
//! No cycle means no deadlock. [`dependency`] holds the graph, its cycles and its orders.

pub mod check;
pub mod commands;
pub mod dependency;
pub mod experiments;
pub mod format;
pub mod plan;
pub mod regulator;
pub mod routing;
pub mod schemes;
pub mod sim;
pub mod simulate;
pub mod spread;
pub mod studies;
pub mod tables;
pub mod topology;
pub mod transition;
pub mod walk;

pub use experiments::experiments;
pub use plan::plan;
pub use simulate::{SimulateError, simulate};
pub use tables::{Forwarding, LaneMap, ServiceLevels, Tables};
pub use topology::{HostId, Lid, Peer, PortNumber, SwitchId, Topology};

/// A topology with the tables its switches hold.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Switches, hosts and cables.
    pub topology: Topology,
    /// What the switches and hosts are told.
    pub tables: Tables,
}

//! A simulator of a lossless fabric: packets, credits, lanes, and a manager that changes the tables
//! while packets flow.
//!
//! Room: what happens in the network of Montañana et al. 2010, section 4.1, to the nanosecond:
//! input and output buffers for every lane, a crossbar that is not multiplexed, virtual
//! cut-through, credits, routing and flight times, a control lane. [`crate::schemes`] says in which
//! steps tables are changed; nothing here knows whether they are safe, so unsafe ones can be seen
//! to fail. A deadlock is found and shown, never waited for.
//!
//! A packet that a switch's port receives may leave `routing_ns` after its first byte, when its
//! output has room for all of it. Routing is pipelined: packets behind it are routed while it
//! crosses. Buffers are of every lane ("independent buffer resources"). Credits come back when a
//! packet's last byte has left the buffer.

mod account;
mod audit;
mod awaited;
mod collective;
mod credits;
mod crossbar;
mod deadlock;
mod ends;
mod link;
mod manager;
mod meter;
mod network;
mod notes;
pub mod orders;
mod packet;
mod physics;
mod routes;
#[cfg(test)]
mod tests;
mod tokens;
mod traffic;
mod wiring;

pub use account::StageTime;
pub use audit::Audit;
pub use collective::Collective;
pub use meter::{Bin, LANE_CLASSES, Meter};
pub use network::{Network, Setup};
pub use notes::{FlowNote, Notes, PacketNote};
pub use physics::{Physics, Speed};
pub use traffic::{ListedFlow, Multipath, Pattern, Traffic};

use crate::dependency::ChannelLabel;

/// Why time stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The time asked for is reached.
    Reached,
    /// The reconfiguration is finished.
    Settled,
    /// These channels wait for each other in a ring.
    Deadlock(Vec<ChannelLabel>),
}

/// Why a network cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// Too many lanes.
    #[error(
        "{sets} lane sets of {of_set} lanes and a control lane are more than the 16 lanes of a \
        switch"
    )]
    Lanes {
        /// Lane sets.
        sets: u8,
        /// Lanes that the tables use.
        of_set: u32,
    },
    /// A link with a speed of its own that there is not.
    #[error(
        "network.speeds: no link ends at `{0}`; write a switch's port, for example S3:1, or a \
        host, for example H5"
    )]
    NoSuchEnd(String),
    /// The manager cannot reach every switch.
    #[error("the links that are on do not connect all switches: the manager cannot reach them")]
    Unmanageable,
}

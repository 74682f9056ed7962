//! The kernel's links, addresses, neighbours, next hops and routes, and changes to them.
//!
//! [`Monitor`] subscribes first and dumps afterwards over the same socket, so that what it says is
//! complete and in the order in which it became true. [`Requests`] is a second socket for what is
//! asked of the kernel. [`parse`] is the pure layer below both: it turns recorded bytes into
//! [`Event`]s without a socket.
//!
//! Neither keeps a thread; the caller waits on [`Monitor::fd`]. Only the attribute framing comes
//! from `netlink-bindings`: its typed families have no next-hop objects, leave `RTA_MULTIPATH`
//! opaque and misread `RTA_VIA`, and building an iterator value per attribute costs more than a
//! full table's dump may.

mod abi;
mod ask;
pub mod classifier;
mod features;
mod frame;
mod listeners;
mod monitor;
mod parse;
mod parse_link;
mod parse_route;
pub mod policy;
mod requests;
mod requests_link;
mod requests_route;
mod socket;
mod types;
pub mod xfrm;

pub use features::{XdpFeatures, redirect_targets, xdp_features};
pub use listeners::listeners;
pub use monitor::{Listed, Monitor, Part};
pub use parse::parse;
pub use requests::Requests;
pub use requests_link::Veth;
pub use requests_route::{RouteChange, RouteRefusal};
pub use types::{
    Address, Elsewhere, Error, Event, Hops, Link, Neighbour, NeighbourState, NextHopObject,
    NextHopTarget, Result, Route, RouteHop, RouteKind, TABLE_LOCAL, TABLE_MAIN,
};

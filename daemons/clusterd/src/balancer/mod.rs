//! Stage 1: frames of the world to back-ends by their flow, frames of back-ends to the world as if one
//! router had sent them.

mod discovery;
mod frame;
mod links;
mod peers;
mod plane;
mod probe;
mod runner;
#[cfg(test)]
mod tests;
mod topology;
mod words;
mod workers;

pub use frame::AddressSet;
pub use links::LinkStatus;
pub use peers::Peers;
pub use plane::{Counters, Found, Link, Plane, Probing};
pub use probe::Seal;
pub use runner::{BalancerHandle, BalancerStatus, RunnerOptions, WORKERS_MAX};
pub use topology::{BackEnd, Mac, Side, Topology};
pub use words::{PeerAuthentication, Unread, Words, Writing};
pub use workers::Worker;

//! Stage 1: frames of the world to back-ends by their flow, frames of back-ends to the world as if one
//! router had sent them.

mod discovery;
mod face;
mod frame;
mod links;
mod peers;
mod plane;
mod probe;
mod runner;
#[cfg(test)]
mod tests;

pub use face::{BackEnd, Face, Mac, Side};
pub use frame::Charge;
pub use links::LinkStatus;
pub use peers::{Bond, Peers};
pub use plane::{Counters, Found, Link, Plane, Probing};
pub use runner::{BalancerHandle, BalancerStatus, RunnerOptions};

//! Policies that decide how much capacity is powered, the plants they decide for, and the loop
//! between them.
//!
//! Room: pure decisions. No clock, no I/O, no threads: the live router and the simulators hand in
//! time and observations and carry out the actions. It knows neither packets nor Linux.

pub mod cluster;
mod kernel;
mod pacing;
mod paths;
pub mod policies;
mod policy;
mod recording;
pub mod redirect;
mod router;

pub use kernel::{KernelCores, KernelLoad, gathering};
pub use pacing::Pacing;
pub use paths::{Path, PathChoice};
pub use policy::{Plant, Policy, drive};
pub use recording::{Decision, Divergence, Recording, replay};
pub use router::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, RouterPolicy};

//! What both engines share, packet by packet and in slots: how the router is set up, what a run saw,
//! and that it can be stopped.
//!
//! Room: knows the machine, the load's times and the account; neither engine, nor who runs them.

mod options;
mod recorder;

pub(crate) use options::Options;
pub use recorder::{Counts, Latency, Sample};
pub(crate) use recorder::{Recorder, shares};

/// Decisions after which an engine looks whether it is to end: those of a policy outside take some 30 µs each.
pub(crate) const LOOK_DECISIONS: u64 = 256;

/// Somebody asked the run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was stopped")]
pub struct Stopped;

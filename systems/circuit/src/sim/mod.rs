//! Racks behind an optical circuit switch, frame by frame.
//!
//! Time passes day by day: what arrives for a queue while its circuit is down is added when its day
//! comes, and only the frames of the one queue of each rack that has a circuit are looked at one by
//! one. So a rack costs as much as it sends. What TCP learns takes effect with the flow's next
//! day; that is when it could matter.

mod flow;
mod nic;
mod run;
mod scenario;
mod watch;

pub use flow::{Congestion, Flow};
pub use nic::Nic;
pub use run::{Outcome, run};
pub use scenario::{Card, Jitter, Scenario, Source};

#[cfg(test)]
mod tests;

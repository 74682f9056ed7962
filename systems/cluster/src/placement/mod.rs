//! Which server, which NUMA node and which core each busy thread of a cluster belongs to: the virtual form
//! (Li 2012, chapters 3 and 4), as a program over servers, cores, links and costs per packet.
//!
//! A balancer is one busy thread, which sees each packet twice: on its way to a back-end, and on its way
//! out. A back-end is one that forwards (a vcpu, a worker) and, where packets are carried to it by
//! another, one that moves (vhost-net, QEMU's own). The throughput is the highest rate at which no core
//! and no link between servers is asked for more than it has.

mod calibration;
mod model;
mod problem;
mod report;
mod search;
#[cfg(test)]
mod tests;

pub use calibration::Calibration;
pub use model::{Balancing, Layout, Outcome, Role, Thread};
pub use problem::{Costs, Link, Machine, PlacementProblem};
pub use search::{Placed, place};

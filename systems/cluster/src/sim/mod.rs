//! A cluster through its days: the policies that the live one runs, over flows, drains, wake-ups,
//! failures and elections.
//!
//! Between two events every load is constant, so time passes from event to event and energy and loss are
//! exact for the model. The balancer's table is the live one ([`ebb_cluster::SteeringTable`]); how its
//! slots are filled comes from flows of heavy-tailed size that are drawn anew with every sample.

mod flows;
mod report;
mod run;
mod scenario;
mod server;
#[cfg(test)]
mod tests;

pub use report::simulate;
pub use run::{Outcome, Point, run};
pub use scenario::{Failures, Planned, Prepared, Scenario};

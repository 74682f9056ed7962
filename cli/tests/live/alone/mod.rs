//! What measures: processor time, packets lost or late, how long it takes. Nothing else of these tests runs beside.
//! `docs/faults.md` states what they hold the router to.

mod churn;
#[cfg(feature = "systems")]
mod circuit;
mod cluster;
mod crash;
mod faults;
mod governor;
mod guest_rss;
mod interfaces;
mod kernel_cpus;
mod order;
mod paths;
mod unit;
mod upgrade;

//! Tests of the command that use the machine: one program, so that what they share is compiled and linked once. Those in
//! [`alone`] measure what the machine does and run one at a time; all others mostly wait, each in namespaces of its own, and
//! run several at a time (`scripts/test`).
//!
//! Namespaces are named after the process that made them, and are removed. Without the privileges a test says why it is
//! skipped; with `CI=true` it has to run.

mod alone;
mod common;
mod script;

#[cfg(feature = "systems")]
mod alerts;
mod calibrate;
mod command;
#[cfg(feature = "systems")]
mod dashboard;
mod edge_router;
mod first_day;
mod hosts;
mod package;
mod packages;
mod policy;
mod recorded;
mod reload;
mod routing;
mod start;
mod tables;

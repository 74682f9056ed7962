//! How a running program is seen and asked: a local socket, with a line for each request and a line of
//! JSON for each answer, and Prometheus metrics over HTTP.
//!
//! What requests and answers mean is the program's affair.

mod client;
mod metrics;
mod place;
mod server;
#[cfg(test)]
mod tests;

pub use client::{AskError, ask};
pub use metrics::{encoded, gauge, metrics};
pub use place::{BindError, Bound, bind, inherit};
pub use server::{CLIENTS_MAX, REQUEST_MAX, Serving, serve};

use std::time::Duration;

/// Whoever says nothing, or takes nothing, for so long is let go.
pub const PATIENCE: Duration = Duration::from_secs(10);

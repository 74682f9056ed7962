//! Packet applications: one file (or folder) and one README each.
//!
//! Room: nodes for `graph`. An app knows packets and its own tables; it knows neither ports nor
//! Linux nor power, reads no clock and does no I/O.

pub mod application;
pub mod count;
mod counters;
pub mod dedup;
pub mod esp;
pub mod ipfix;
pub mod meter;
pub mod ports;
pub mod route;

pub use application::{Application, Observer, OnPorts};

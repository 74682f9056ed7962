//! One router made of many, live: balancers in front (AF_XDP, layer 2), back-ends that go on and off
//! behind them, members that agree through a store who decides and what.
//!
//! Room: wires the decisions of `ebb_cluster` and the policies of `ebb_control` to Linux, packets and
//! a store. The decisions themselves are elsewhere, and run the same in the simulator.

pub mod api;
pub mod balancer;
pub mod config;
pub mod keepers;
mod kept;
pub mod member;
pub mod node;
pub mod power;
mod program;
pub mod routes;
pub mod status;
pub mod store;
mod telemetry;
pub mod threads;

pub use ebb_cluster::{ClusterPlan, Entry, Power, weights_of};

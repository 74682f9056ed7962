//! One router made of many, live: a balancer in front (AF_XDP, layer 2), back-ends that go on and off
//! behind it, members that agree through a store who decides and what.
//!
//! Room: wires the decisions of `ebb_cluster` and the policies of `ebb_control` to Linux, packets and
//! a store. The decisions themselves are elsewhere, and run the same in the simulator.

pub mod balancer;
pub mod lab;
pub mod member;
pub mod parallel;
pub mod quota;
pub mod store;
pub mod tune;

pub use ebb_cluster::{Book, Entry, Power};

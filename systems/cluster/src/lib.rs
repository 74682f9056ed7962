//! One router made of many: a row of back-end servers behind balancers, which go on and off with the
//! load. Which servers to buy, which to run, and how far that is from the least anybody could.
//!
//! Room: one system of the literature (Li 2012, chapter 8), its planner and experiments. It knows no
//! other system, reads no clock and opens no file.
//!
//! ```
//! use ebb_system_cluster::{Catalogue, Demand};
//! let table = "group,capacity_mbps,power_full_w,power_idle_w,price,available\nI,6500,75,75,250,\n";
//! let catalogue = Catalogue::parse("c.csv", table.as_bytes()).unwrap();
//! let demand = Demand::parse("d.csv", b"seconds,mbps\n0,13000\n3600,1000\n").unwrap();
//! assert_eq!((catalogue.groups.len(), demand.peak_mbps()), (1, 13000.0));
//! ```

mod boxes;
mod catalogue;
mod demand;
mod designs;
mod envelope;
mod error;
mod experiments;
pub mod faults;
mod fleet;
mod goal;
mod least_cost;
mod outlook;
mod packets;
pub mod placement;
mod plan;
#[cfg(feature = "solver")]
mod program;
mod report;
mod run;
pub mod sim;
mod specpower;
pub mod studies;
#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, Group};
pub use demand::{Demand, Levels};
pub use designs::{DESIGNS, Design};
pub use error::ClusterError;
pub use experiments::experiments;
pub use fleet::Fleet;
pub use goal::{Goal, SearchLimits, goal};
pub use outlook::{Alternative, Tariff};
pub use packets::PacketMix;
pub use plan::{Method, Plan, Problem};
#[cfg(feature = "solver")]
pub use program::program;
pub use report::plan;
pub use run::{BackEnd, Planned};
pub use specpower::Curve;

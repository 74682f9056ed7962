//! Programs whose system calls run on another core: phases, mechanisms, asymmetric cores and what they
//! draw (Strong 2013, "Low-latency techniques for improving system energy efficiency", chapter 3).
//!
//! Room: one system of the literature, its model, simulator, planner and experiments. It knows no other
//! system, reads no clock and opens no file. The mechanisms of the live program are in `ebb-switch`; what
//! `ebb bench switch --json` measured of them can be put in the place of the published costs.
//!
//! The model has 24 numbers that were fitted, each named with its table in [`cores`], [`costs`] and the workloads; all
//! other numbers of Tables 3.4 to 3.17 are predictions or arithmetic ([`experiments`]).
//!
//! ```
//! use ebb_system_coreswitch::{Configuration, Mechanism, costs};
//! let machine = Configuration::parse("CS").unwrap().machine(Default::default());
//! let trip = costs::round_trip_ns(Mechanism::V4, &machine.app[0], &machine.os[0], 0.0);
//! assert!((trip - 3971.0).abs() < 10.0, "{trip}");
//! ```

pub mod cores;
pub mod costs;
mod experiments;
mod plan;
mod simulate;
mod simulation;
pub mod studies;
mod workload;

pub use cores::{Cache, Configuration, Core, Kind, Machine};
pub use costs::Mechanism;
pub use experiments::experiments;
pub use plan::{Gain, break_even, plan};
pub use simulate::{Scenario, simulate};
pub use simulation::{Costs, Outcome, Run, Way};
pub use workload::{Interrupts, Workload, named};

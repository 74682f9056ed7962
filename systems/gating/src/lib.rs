//! Cores that are power gated while they wait for memory, after chapter 2 of R. D. Strong,
//! "Low-latency techniques for improving system energy efficiency" (dissertation, UC San Diego, 2013).
//!
//! Room: a machine that runs traces of memory references ([`machine`], [`memory`]), what gating costs
//! and saves ([`power`], [`circuit`], [`keeper`]), what they are told ([`stall`]), who switches ([`switch`], [`gate`]) and decides ([`controllers`], [`dvfs`]), the comparison of all
//! on one workload ([`compare`]), the paper's own formula ([`analytic`]), and its numbers beside ours
//! ([`experiments`]). It opens no file and reads no clock. Times are in picoseconds.
//!
//! Numbers of sections, tables, figures and equations are those of the dissertation.
//!
//! ```
//! use ebb_scenario::{Document, MemoryFiles, Silent};
//! let files = MemoryFiles::new().with("t.trace", "200 4096\n".repeat(50));
//! let text = "trace = \"t.trace\"\nfiltered = true\ncontrollers = [\"oracle\", \"tap\"]\n";
//! let document = Document::parse("s.toml", text).unwrap();
//! let report = ebb_system_gating::simulate(&document, &files, 1, &Silent).unwrap();
//! let saved = |name: &str| report.figures["controllers"][name]["energy_saved"].as_f64().unwrap();
//! assert!(saved("oracle") >= saved("tap"));
//! ```

pub mod analytic;
mod caches;
pub mod circuit;
pub mod compare;
pub mod controllers;
pub mod dvfs;
mod experiments;
mod feed;
pub mod gate;
pub mod keeper;
pub mod machine;
pub mod memory;
mod plan;
pub mod power;
pub mod profile;
mod settings;
mod simulate;
pub mod stall;
pub mod stream;
pub mod studies;
#[cfg(test)]
mod supply;
pub mod switch;

pub use circuit::Keeping;
pub use compare::{Compared, Comparison};
pub use experiments::experiments;
pub use feed::Given;
pub use keeper::{Keeper, Slots};
pub use plan::plan;
pub use power::{Idle, Island};
pub use settings::{CoreSettings, MachineSettings};
pub use simulate::{Scenario, SimulateError, simulate, simulate_scenario};

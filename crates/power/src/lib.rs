//! What a router draws when nothing measures it, and how fast it works.
//!
//! Room: models of power and of forwarding rate as functions of what is powered and how busy it
//! is. It knows no packets, no policies and no Linux, and reads no clock: states and times are
//! handed in.
//!
//! The whole server (Niccolini et al. 2012):
//! - [`ServerModel`]: `power(&[CoreState]) -> Watts`, `traffic(BitsPerSecond) -> Watts`,
//!   `core(&CoreState) -> Watts`.
//! - [`Server`]: the same with P-states, idle states and speed.
//!   `service_ns(&PacketCost, bytes, Hertz, working_cores) -> f64`,
//!   `rate(&PacketCost, bytes, cores, Hertz) -> PacketsPerSecond`,
//!   `exit_latency(Depth) -> Duration`, `interrupt_ns(Hertz) -> f64`,
//!   `busy_with_interrupts(PacketsPerSecond, service_ns, Hertz, Depth) -> f64`,
//!   `power(&[CoreState], BitsPerSecond) -> Breakdown`, `breakdown(added, BitsPerSecond)`.
//!   `application(name) -> Option<PacketCost>`; `from_toml(file, text)` reads a server or a core
//!   model as `ebb calibrate` writes it.
//! - [`PacketCost`]: cost of a packet; `all()`, `by_name("ipv4" | "netflow" | "ipsec" | "dedup")`.
//!
//! The cores alone, with fitted numbers (Bolla et al.):
//! - [`CoreModel`]: `power(cores, frequency_index, PacketsPerSecond) -> Option<Watts>`,
//!   `throughput(..)`, `capacity(cores, frequency_index)`, `cheapest(load, headroom)`,
//!   `operations(load)`, `from_toml(file, text)`, `to_toml()`.
//! - [`Chi`]: the normalised form, `Chi::published()`.
//! - [`Fit::new`]`(name, &[Sample]) -> Result<Fit, FitError>`: the model that fits measurements;
//!   [`read_samples`]`(file, bytes)`, [`write_samples`].
//!
//! [`PathCosts`]: processors that forwarding keeps busy by either path of the live router, `at(PacketsPerSecond)`.
//!
//! [`Integrator`] adds up energy; [`Basis`] says whether a figure was measured or modelled.

mod basis;
mod chi;
mod components;
mod core_model;
mod fit;
pub mod idle;
mod integrator;
mod machine;
mod measured;
mod packet_cost;
mod paths;
mod server;

pub use basis::Basis;
pub use chi::Chi;
pub use components::{Breakdown, Components, Part};
pub use core_model::{CoreModel, CorePoint, FitQuality, Gain, Operation};
pub use fit::{Fit, FitError, Residual, Sample, read_samples, write_samples};
pub use idle::IdleState;
pub use integrator::Integrator;
pub use machine::{Interrupt, Server};
pub use packet_cost::PacketCost;
pub use paths::{ForwardingPath, PathCost, PathCosts};
pub use server::{CoreState, Depth, ModelError, Origin, Parameter, ServerModel};

//! What a router draws when nothing measures it.
//!
//! Room: models of power as functions of what is powered and how busy it is. It knows no packets,
//! no policies and no Linux, and reads no clock: states and times are handed in.

mod basis;
mod integrator;
mod server;

pub use basis::Basis;
pub use integrator::Integrator;
pub use server::{CoreState, Depth, ModelError, Origin, Parameter, ServerModel};

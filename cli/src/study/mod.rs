//! `ebb sim`, `ebb plan` and `ebb fabric`: the studies of the catalogue as commands.
//!
//! Room: arguments into a job of `ebb_study`, its report onto the terminal. What there is to run is
//! the catalogue's: this module knows no system.

mod args;
mod command;
mod parts;
mod progress;
mod run;

pub use command::{Fabric, Plan, Sim};
pub use parts::Sweep;
pub use progress::Watched;

use ebb_study::Program;

/// This program.
pub(crate) const PROGRAM: Program<'static> =
    Program { revision: env!("EBB_REVISION"), version: env!("CARGO_PKG_VERSION"), identity: None };

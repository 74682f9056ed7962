//! The software top-of-rack switch that keeps microsecond circuits (`ebb tor run`), the emulated
//! optical switch it is proved against (`ebb ocs run`), and the controller that plans the circuits
//! and announces them (`ebb ocs control`).
//!
//! Room: the live side of `systems/circuit`, whose schedulers and token rules it uses as they are.
//! Frames travel over `crates/ports`. What circuits stand when is one state machine ([`plan`]) that
//! the switch and the racks share; it reads no clock.
//!
//! ```text
//!   hosts -- veth or tap --> [ VOQ 0 | VOQ 1 | ... ] -- by day --> uplink --> optical switch
//!            (unmodified)        one per rack         tokens                  drops what comes at
//!                                   |                                         night or elsewhere
//!                                   +-- queue lengths --> controller -- sync frames (0x8015) --+
//!                                                             ^-- to racks and optical switch --+
//! ```

mod absent;
pub mod addresses;
pub mod api;
pub mod clock;
pub mod config;
pub mod control;
mod energy;
mod follow;
mod hosts;
pub mod ocs;
pub mod optical;
pub mod plan;
pub mod rack;
mod reopen;
pub mod seal;
pub mod status;
pub mod sync;
pub mod tables;
mod telemetry;
mod timebase;
pub mod tor;
pub mod voq;

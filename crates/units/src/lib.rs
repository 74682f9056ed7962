//! Quantities with their unit in the type.
//!
//! Room: the foundation every other crate stands on. It knows nothing of packets, power models or
//! Linux and performs no I/O; in particular it never reads a clock, a [`Time`] is always handed in.
//! Spans of time are [`core::time::Duration`].

mod energy;
mod rate;
mod time;

pub use energy::{Joules, Watts};
pub use rate::{BitsPerSecond, Hertz, PacketsPerSecond};
pub use time::Time;

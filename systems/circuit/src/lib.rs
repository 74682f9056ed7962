//! Optical circuits that switch in microseconds, and the top-of-rack switches that keep them (after
//! Strong 2013, chapter 4, and Porter et al., SIGCOMM 2013).
//!
//! Room: what is asked for ([`Demand`]), when which input is connected to which output
//! ([`Schedule`]), who decides that ([`schedulers`]), the most that anybody could reach
//! (`bound`), what a fabric of such circuits does to packets ([`sim`]), and what it costs in
//! time and power ([`latency`], [`energy`]). Everything is a function of its arguments. The live
//! switch in `daemons/tord` uses the schedulers and the token rules ([`tokens`]) as they are.
//!
//! Time is measured in windows, demand in what one link carries during a window: 1 fills it.

pub mod bound;
pub mod coflow;
mod dearest;
pub mod demand;
pub mod energy;
pub mod experiments;
pub mod latency;
pub mod matching;
pub mod plan;
pub mod schedule;
pub mod schedulers;
pub mod sim;
mod simulate;
pub mod studies;
pub mod tokens;

pub use demand::{Demand, DemandError};
pub use experiments::experiments;
pub use plan::{Problem, plan};
pub use schedule::{Day, Schedule, Window};
pub use simulate::simulate;

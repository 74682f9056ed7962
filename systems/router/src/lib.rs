//! The router's digital twin: a simulated server under the very policies of the live router.
//!
//! Room: the model of one router, from arrivals over the redirect table to cores that work, sleep
//! and wake, with what they draw. It may use the rooms for units, power, traffic, headers, control,
//! reports, simulated time and scenarios; it knows neither other systems nor daemons, opens no file
//! and reads no clock: the same scenario and seed give the same bytes on every machine.
//!
//! Neighbours: `daemons/routerd` is the live router that this imitates; its policies and its
//! redirect-table arithmetic come from `ebb_control` for both.

mod account;
mod engine;
pub mod experiments;
mod flows;
mod load;
pub mod machine;
pub mod optimum;
mod outside;
mod packet;
pub mod plan;
mod replay;
mod report;
mod run;
pub mod scenario;
mod slot;
pub mod studies;
mod watch;

pub use account::STATE_NAMES as CORE_STATES;
pub use engine::{Counts, Latency, Sample, Stopped};
pub use load::{Piece, Rates};
pub use report::simulate;
pub use run::{Outcome, ReplayError, Twin};

//! Moving work from one core to another: the hand-over protocol, five mechanisms, and one
//! measurement that treats them alike (Strong 2013, "Very fast core switching", chapter 3).
//!
//! Room: threads, cores and who holds which work. A unit of work is a message ([`channel`]) or a
//! stackful continuation ([`Pair`]). It knows no packets, no policies and no configuration. The
//! mechanisms of the source are changes to a kernel's scheduler; these are what a program can do
//! by itself on an unmodified Linux: it does not pay for the scheduler where both cores are awake, and
//! pays for it in full where the target sleeps.
//!
//! Promises, each with its proof:
//! - work is taken or withdrawn, never both and never neither; nobody sleeps past work
//!   (`proofs.rs`: loom, every interleaving);
//! - work that the target does not take within its [`Pair::patience`] is taken back and goes on at home;
//! - a continuation that outgrows its stack ends with [`SwitchError::StackOverflow`]; nothing else does.
//!
//! ```
//! let (mut sender, mut receiver) = ebb_switch::channel(2);
//! sender.offer("flows").unwrap();
//! sender.offer("timers").unwrap();
//! assert_eq!(sender.offer("packets").unwrap_err().work, "packets");
//! assert_eq!(receiver.take(), Some("flows"));
//! assert_eq!(sender.withdraw(), Some("timers"));
//! assert_eq!(receiver.take(), None);
//! ```

#![cfg_attr(
    test,
    allow(clippy::duplicate_mod, reason = "proofs.rs compiles protocol.rs against loom")
)]

mod continuation;
mod error;
pub mod measure;
pub mod mechanism;
mod overflow;
mod pair;
#[cfg(test)]
mod proofs;
mod protocol;
mod samples;
mod sync;
pub mod syscalls;
#[cfg(test)]
mod tests;
mod travel;
mod user_wait;
mod waiting;

pub use continuation::STACK_BYTES;
pub use error::SwitchError;
pub use pair::{Pair, Settings};
pub use protocol::{Receiver, Refusal, Refused, Sender, channel};
pub use travel::{Arrival, Location, Travel};
pub use waiting::{Waiter, Waiting};

//! Everything Ebb asks of Linux besides packets: links, routes and neighbours by netlink, queue
//! spreading by ethtool, frequency and idle depth, energy counters, and the duty to put every
//! changed knob back.
//!
//! Room: the only library beside `ports` that talks to the kernel. It knows nothing of policies,
//! packets or configuration: it reads facts, turns knobs and reports refusals as typed errors.
//! Paths below `/sys` and `/proc` start at an injectable root, so that a directory that imitates
//! them serves as well as a machine.

pub mod capability;
pub mod clock;
mod courier;
mod doorbell;
pub mod energy;
pub mod ethtool;
mod frequency;
pub mod icmp;
pub mod idle;
pub mod interrupts;
pub mod journal;
mod knob;
pub mod link;
pub mod moderation;
pub mod namespace;
pub mod netlink;
pub mod pcap;
pub mod process;
pub mod processors;
pub mod pulse;
pub mod secret;
pub mod service;
pub mod signals;
mod sysfs;
pub mod topology;
pub mod transmit;
pub mod wait;

pub use courier::Courier;
pub use doorbell::Doorbell;
pub use frequency::Frequency;
pub use knob::Knob;
pub use sysfs::{Files, KnobError, Operation, Sysfs};

//! Tests of the command that use the machine, one at a time: one program, so that what they share is compiled and
//! linked once.

mod bench_small;
mod calibrate;
#[cfg(feature = "systems")]
mod circuit;
mod command;
mod conformance;
mod differential;
mod guest_rss;
mod interfaces;
mod mutated;
mod package;
mod packages;
mod policy;
mod recorded;
mod script;

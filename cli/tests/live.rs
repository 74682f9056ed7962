//! Tests of the command that use the machine, one at a time: one program, so that what they share is compiled and
//! linked once.

mod calibrate;
#[cfg(feature = "systems")]
mod circuit;
mod command;
mod guest_rss;
mod interfaces;
mod outlives;
mod package;
mod packages;
mod recorded;
mod script;

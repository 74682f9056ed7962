//! Tests of the commands that only compute: one program, so that what they share is compiled and linked once.

mod fabric;
mod gating;
mod messages;
#[cfg(feature = "systems")]
mod operate;
mod sources;
mod study;

//! Tests of fabrics: one program, so that what they share is compiled and linked once.

mod damaged;
mod differential;
mod found;
mod measured;
mod opensm;
#[path = "search/main.rs"]
mod search;
mod transitions;
mod written;

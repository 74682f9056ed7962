//! Tests of the catalogue: one program, so that what they share is compiled and linked once.

mod newcomer;
mod reference;
mod timelines;

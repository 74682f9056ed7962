//! The policies' tests: one program, so that what they share is compiled and linked once.

mod model;
mod patience;
mod plant;
mod powersave;

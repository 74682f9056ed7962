//! Tests of longest-prefix match: one program, so that what they share is compiled and linked once.

mod concurrent;
mod internet;
mod oracle;

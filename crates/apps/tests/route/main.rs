//! The routing application from outside: frames in, frames out.

mod captures;
mod chain;
mod clauses;
mod harness;
mod icmp;
mod multipath;
mod neighbours;
mod policy;
mod random;
mod updates;

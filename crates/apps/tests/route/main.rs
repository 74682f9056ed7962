//! The routing application from outside: frames in, frames out.

mod captures;
mod clauses;
mod harness;
mod icmp;
mod multipath;
mod neighbours;
mod policy;
mod random;
mod updates;

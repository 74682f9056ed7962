//! What a study is, and how it is run, swept over settings, repeated with further seeds and kept in
//! a directory.
//!
//! Room: everything that the studies of all systems have in common, for every face. A study is a
//! value that its system declares ([`Study`]); a [`Job`] runs it. This crate writes directories of
//! runs and reads the files that scenarios name. It reads no terminal and no clock: who watches is
//! told by a [`Watcher`], who computes is an [`Executor`].

mod directory;
mod error;
mod executor;
mod interval;
mod job;
mod key;
mod merge;
mod outside;
mod parts;
mod perform;
mod points;
mod reference;
mod repeat;
mod reproduce;
mod saturation;
mod save;
mod shard;
mod store;
mod study;
mod sweep;
mod sweep_report;
#[cfg(feature = "http")]
mod web;

pub use directory::Directory;
pub use error::{JobError, StudyError};
pub use executor::{Executor, Finished, Outcome, Point, Take, Threads};
pub use interval::Interval;
pub use job::{Event, Job, Program, Watcher};
pub use outside::{Decided, Decides, Govern, Governed, Policies, Replay};
pub use parts::merge as merge_shards;
pub use reference::{json_schema_of, reference_of};
pub use repeat::{Repeat, Until};
pub use reproduce::reproduce;
pub use save::tables;
pub use shard::Shard;
pub use study::{Flag, FlagValue, Import, Kind, Run, Study, Work};

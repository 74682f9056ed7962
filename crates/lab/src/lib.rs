//! Laboratories inside one machine: network namespaces, links between them and programs in them, for
//! demonstrations, measurements and tests.
//!
//! Room: below whatever plays in a laboratory and above `ebb_host`. It knows how such things are made, watched
//! and removed, also when something fails or the process is killed; what runs in them is the caller's. Its
//! errors are for whoever started the command, so they are `anyhow`'s.
//!
//! - [`Lab`]: namespaces, a directory, programs; all in the journal before they are there.
//! - [`wire`], [`End`], [`add_routes`]: links between namespaces.
//! - [`Program`]: a child with its log.
//! - [`command`]: programs of the system that run to their end: `ip`, `tc`, anything in a namespace.
//! - [`tune`]: the kernel's threads of a namespace, bound, weighed and confined; narrow links, filters.
//! - [`mod@test`]: when a live test is skipped, and what all of them do.

pub mod command;
mod links;
mod program;
mod space;
pub mod test;
pub mod tune;

pub use links::{End, add_routes, wire};
pub use program::Program;
pub use space::Lab;

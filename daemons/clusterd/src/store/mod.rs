//! What all members share: in this process, or in etcd.

mod embedded;
mod etcd;
mod server;

use std::sync::Arc;
use std::time::Duration;

use ebb_cluster::{Snapshot, Write};

use crate::routes::Routes;

pub use embedded::Embedded;
pub use etcd::Etcd;
pub use server::EtcdServer;

/// Why the store does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// One member's access to the store, with a lease of its own.
pub trait Store: Send {
    /// Prolongs the lease, or begins a new one where it has ended. Returns whether it is the same.
    ///
    /// # Errors
    /// When the store does not answer: the lease may end.
    fn renew(&mut self) -> Result<bool, StoreError>;

    /// Everything, as of one instant: not before one's own last write, nor before what was returned last.
    ///
    /// # Errors
    /// When the store does not answer, which may be found out only some seconds later.
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, StoreError>;

    /// Waits until something has changed since the last snapshot, or for so long.
    fn wait(&mut self, patience: Duration);

    /// Changes something. Returns whether its conditions held.
    ///
    /// # Errors
    /// When the store does not answer; the change may have been made.
    fn write(&mut self, write: &Write) -> Result<bool, StoreError>;

    /// The routes that all back-ends have, and their revision; `None` while it is `known`, 0 being that
    /// of a cluster that has never had any.
    ///
    /// # Errors
    /// When the store does not answer.
    fn routes(&mut self, known: u64) -> Result<Option<(u64, Routes)>, StoreError>;

    /// Publishes routes, if the book has not been written since it was `writes` (as in a snapshot).
    /// Returns whether that held.
    ///
    /// # Errors
    /// When the store does not answer; the routes may have been published.
    fn publish(&mut self, routes: &Routes, writes: u64) -> Result<bool, StoreError>;
}

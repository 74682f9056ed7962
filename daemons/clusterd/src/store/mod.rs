//! What all members share: in this process, or in etcd.

mod embedded;
mod etcd;
mod server;

use std::sync::Arc;
use std::time::Duration;

use ebb_cluster::{Snapshot, Write};

use crate::routes::{Published, Routes};

pub use embedded::Embedded;
pub use etcd::{Etcd, Records};
pub use server::EtcdServer;

/// Why the store does not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl StoreError {
    /// Whether nobody answers, which may be otherwise soon.
    pub fn is_silence(&self) -> bool {
        self.0.starts_with("field `store.endpoints`")
    }
}

/// One member's access to the store, with a lease of its own.
pub trait Store: Send {
    /// Prolongs the lease, or begins a new one where it has ended. Returns whether it is the same.
    ///
    /// # Errors
    /// When the store does not answer: the lease may end.
    fn renew(&mut self) -> Result<bool, StoreError>;

    /// Everything, as of one instant: not before one's own last write, nor before what refused one, nor before what was
    /// returned last.
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

    /// The routes that all back-ends have; the same object while they are the same.
    ///
    /// # Errors
    /// When the store does not answer.
    fn routes(&mut self) -> Result<Arc<Published>, StoreError>;

    /// What is in the store and not believed: which key, and why. What was known of it stays.
    fn refused(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Chunks of routes of which the store holds something else than is known: whoever publishes writes them again.
    fn spoilt_chunks(&mut self) -> Vec<usize> {
        Vec::new()
    }

    /// Publishes other contents of some chunks, if the plan has not been written since it was `writes` (as in
    /// a snapshot). Returns whether that held. The last of them may be published later than the first.
    ///
    /// # Errors
    /// When the store does not answer; the routes may have been published.
    fn publish(&mut self, chunks: &[(usize, Arc<Routes>)], writes: u64)
    -> Result<bool, StoreError>;
}

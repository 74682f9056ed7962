//! How others see and command a running daemon: a local socket with a line of JSON for each request and
//! each answer, and metrics over HTTP; and how it reports to the system's journal. docs/telemetry.md describes the conversation.
//!
//! One thread serves both and sleeps while nobody asks. What is asked is answered by a [`Daemon`], about
//! which this crate knows that it has a state and snapshots. Nothing that comes over either door makes it
//! panic.

mod client;
mod crowd;
mod http;
mod journal;
mod place;
mod request;
mod serving;
mod socket;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError, Subscription, client};
pub use crowd::{Connection, Crowd, Patience};
pub use http::CONNECTIONS_MAX;
pub use journal::{Journal, Record, message_id};
pub use place::{BindError, Bound, bind, inherit};
pub use request::{EVERY_MAX, EVERY_MIN, REQUEST_LEN_MAX, Request, RequestError, parse_request};
pub use serving::{Doors, Options, PreparedMetrics, ServeError, Serving, serve, serve_at};
pub use socket::CLIENTS_MAX;

use std::time::Duration;

use ebb_telemetry::Snapshot;
use serde_json::{Map, Value};

/// A client that says nothing, or takes nothing, for so long is let go; one that waits for an answer waits as
/// long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the metrics is let go when it takes so long to ask, or to take the answer.
pub const METRICS_PATIENCE: Duration = Duration::from_secs(10);

/// Who answers.
pub trait Daemon: Send + Sync + 'static {
    /// The state as the daemon's own document. Called on the serving thread: it must not block for long.
    ///
    /// # Errors
    /// Why there is none, for the client to read.
    fn status(&self) -> Result<Value, String>;

    /// A snapshot of that state. Called on the serving thread, too.
    ///
    /// # Errors
    /// As [`Daemon::status`].
    fn snapshot(&self) -> Result<Snapshot, String>;

    /// Carries out a request of the daemon's own and returns what to answer. May block; it has a thread of its
    /// own.
    ///
    /// # Errors
    /// What to tell the client.
    fn command(&self, command: Map<String, Value>) -> Result<Value, String>;
}

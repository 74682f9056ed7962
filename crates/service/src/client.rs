//! Whoever asks.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_telemetry::{PROTOCOL, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::PATIENCE;

/// Why a daemon did not answer as wished.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or not to us.
    #[error("{}: {source}{}", path.display(), hint(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the daemon closed the connection: {0}")]
    Io(#[from] io::Error),
    /// The answer is not what a daemon says.
    #[error("the daemon's answer is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The daemon is of another version.
    #[error(
        "the daemon uses protocol {0}, this program {PROTOCOL}: use the program of the daemon's \
        version"
    )]
    Protocol(u32),
    /// The daemon declined.
    #[error("{0}")]
    Refused(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => " (is the daemon running?)",
        io::ErrorKind::PermissionDenied => " (only its owner may connect)",
        _ => "",
    }
}

/// A conversation with a running daemon.
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// Connects to the socket at `path`.
///
/// # Errors
/// When nobody answers there.
pub fn client(path: &Path) -> Result<Client, ClientError> {
    let failed = |source| ClientError::Connect { path: path.to_owned(), source };
    let stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(Client { stream: BufReader::new(stream) })
}

impl Client {
    /// Sends one request and returns what the daemon answers to it.
    ///
    /// # Errors
    /// When the daemon declines or the conversation breaks off.
    pub fn request(&mut self, request: &Value) -> Result<Value, ClientError> {
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, ClientError> {
        let mut reply = String::new();
        if self.stream.read_line(&mut reply)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut reply: Value = serde_json::from_str(&reply)?;
        match reply.get("error") {
            Some(Value::String(message)) => Err(ClientError::Refused(message.clone())),
            _ => Ok(reply["ok"].take()),
        }
    }

    /// The daemon's state.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn status<T: DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        Ok(serde_json::from_value(self.request(&json!({ "get": "status" }))?)?)
    }

    /// A snapshot at once and one after each interval.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn subscribe(mut self, every: Duration) -> Result<Subscription, ClientError> {
        let request = json!({ "subscribe": { "every_ms": every.as_millis() as u64 } });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        self.stream.get_mut().set_read_timeout(Some(every + PATIENCE))?;
        Ok(Subscription(self))
    }
}

/// A stream of snapshots; it ends with the first error.
pub struct Subscription(Client);

impl Subscription {
    fn hear(&mut self) -> Result<Snapshot, ClientError> {
        let value = self.0.answer()?;
        let protocol = value["protocol"].as_u64().unwrap_or(0) as u32;
        if protocol != PROTOCOL {
            return Err(ClientError::Protocol(protocol));
        }
        Ok(serde_json::from_value(value)?)
    }
}

impl Iterator for Subscription {
    type Item = Result<Snapshot, ClientError>;

    /// The next snapshot; waits for it.
    fn next(&mut self) -> Option<Result<Snapshot, ClientError>> {
        Some(self.hear())
    }
}

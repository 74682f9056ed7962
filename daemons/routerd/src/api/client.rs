use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::status::Status;

/// Why a router did not answer as wished.
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
    #[error("the router broke off: {0}")]
    Io(#[from] io::Error),
    /// The answer is not what a router says.
    #[error("the router's answer is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The router declined.
    #[error("{0}")]
    Refused(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => " (is the router running?)",
        io::ErrorKind::PermissionDenied => " (only its owner may connect)",
        _ => "",
    }
}

/// A conversation with a running router.
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
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).map_err(failed)?;
    stream.set_write_timeout(patience).map_err(failed)?;
    Ok(Client { stream: BufReader::new(stream) })
}

impl Client {
    /// Sends one request and returns what the router answers to it.
    ///
    /// # Errors
    /// When the router declines or the conversation breaks off.
    pub fn request(&mut self, request: &Value) -> Result<Value, ClientError> {
        let mut line = request.to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
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

    /// The router's state.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let value = self.request(&serde_json::json!({ "get": "status" }))?;
        Ok(serde_json::from_value(value)?)
    }
}

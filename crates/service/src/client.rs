//! Whoever asks.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::PATIENCE;

/// Why there is no answer as wished.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens, or not to us.
    #[error("{}: nobody answers", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("{}: the conversation broke off", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The answer is no JSON.
    #[error("an unreadable answer")]
    Unreadable(#[from] serde_json::Error),
    /// The program declined.
    #[error("{0}")]
    Refused(String),
}

/// Asks whoever serves the socket at `path` one thing.
///
/// # Errors
/// When nobody answers on the socket, not in time, or not as wished.
pub fn ask(path: &Path, request: &str) -> Result<Value, AskError> {
    let silent = |source| AskError::Silent { path: path.to_owned(), source };
    let broken = |source| AskError::Broken { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(silent)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(broken)?;
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line).map_err(broken)? == 0 {
        return Err(broken(io::ErrorKind::UnexpectedEof.into()));
    }
    let value: Value = serde_json::from_str(&line)?;
    match value.get("error") {
        Some(error) => {
            let said = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            Err(AskError::Refused(said))
        }
        None => Ok(value),
    }
}

//! What is wrong with a trace, and where.

/// What is wrong with a trace, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: byte {offset}{}: {message}", line.map_or_else(String::new, |line| format!(" (line {line})")))]
pub struct TraceError {
    /// The file, as the user named it.
    pub file: String,
    /// The first byte at fault, from 0, of what the file holds when unpacked.
    pub offset: u64,
    /// Its line, from 1, in formats that are text.
    pub line: Option<u64>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

//! Files that a scenario names.

use std::collections::BTreeMap;

/// Files that a scenario names, wherever they are kept.
pub trait Files: Sync {
    /// The bytes of the file `name`, which is relative to the scenario's place unless absolute.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError>;

    /// The bytes of the file `name` one after another, as they are stored, for files that may be
    /// larger than memory.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn stream(&self, name: &str) -> Result<Box<dyn Stream>, FileError> {
        Ok(Box::new(Kept { bytes: self.read(name)?, at: 0 }))
    }

    /// Whether there is a file `name`, readable or not.
    fn has(&self, name: &str) -> bool {
        self.read(name).is_ok()
    }
}

/// Bytes one after another.
pub trait Stream: Send {
    /// Fills the front of `buffer`; how much of it, 0 only at the end.
    ///
    /// # Errors
    /// Why nothing more can be read.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, String>;

    /// How many bytes there are, those that were read among them; `None` where nobody knows.
    fn size(&self) -> Option<u64> {
        None
    }
}

/// A file that is in memory anyway.
struct Kept {
    bytes: Vec<u8>,
    at: usize,
}

impl Stream for Kept {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let rest = &self.bytes[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }

    fn size(&self) -> Option<u64> {
        Some(self.bytes.len() as u64)
    }
}

/// A file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct FileError {
    /// Its name, as the user wrote it.
    pub name: String,
    /// Why.
    pub message: String,
}

/// Files in memory, for tests and for scenarios that name none.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(BTreeMap<String, Vec<u8>>);

impl MemoryFiles {
    /// Without files.
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> MemoryFiles {
        self.0.insert(name.into(), bytes.into());
        self
    }
}

impl Files for MemoryFiles {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let found = self.0.get(name).cloned();
        found.ok_or_else(|| FileError { name: name.to_owned(), message: "no such file".to_owned() })
    }
}

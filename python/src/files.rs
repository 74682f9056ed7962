//! Files that a scenario names: those of a directory, and those handed over in memory.
//!
//! Room: the only place of this crate that knows where bytes come from. It reads; it writes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use ebb_scenario::{FileError, Files, MemoryFiles, Stream};
use ebb_study::Directory;

/// Files in memory before those of a directory.
pub(crate) struct Given {
    memory: MemoryFiles,
    names: Vec<String>,
    directory: Directory,
}

impl Given {
    /// Those in memory by name, and the directory of all others.
    pub(crate) fn new(memory: &BTreeMap<String, Vec<u8>>, directory: &Path) -> Given {
        let names = memory.keys().cloned().collect();
        let all = memory
            .iter()
            .fold(MemoryFiles::new(), |all, (name, bytes)| all.with(name.as_str(), bytes.clone()));
        Given { memory: all, names, directory: Directory::at(directory) }
    }

    fn of(&self, name: &str) -> &dyn Files {
        if self.names.iter().any(|have| have == name) { &self.memory } else { &self.directory }
    }
}

impl Files for Given {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        self.of(name).read(name)
    }

    fn stream(&self, name: &str) -> Result<Box<dyn Stream>, FileError> {
        self.of(name).stream(name)
    }

    fn has(&self, name: &str) -> bool {
        self.of(name).has(name)
    }
}

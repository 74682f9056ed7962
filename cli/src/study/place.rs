use std::fs;
use std::path::{Path, PathBuf};

use ebb_scenario::{FileError, Files};

/// Files below a directory: those a scenario names, relative to itself.
pub struct Directory(PathBuf);

impl Directory {
    /// The directory of the scenario file `scenario`.
    pub fn of(scenario: &Path) -> Directory {
        Directory(scenario.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// The directory `path` itself.
    pub fn at(path: &Path) -> Directory {
        Directory(path.to_owned())
    }
}

impl Files for Directory {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let path = self.0.join(name);
        fs::read(&path).map_err(|error| FileError {
            name: path.display().to_string(),
            message: format!("cannot be read: {error}"),
        })
    }
}

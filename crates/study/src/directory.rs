//! The files of a directory, which scenarios name.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ebb_scenario::{FileError, Files, Stream};
use flate2::read::MultiGzDecoder;

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

impl Directory {
    /// Where `name` is: by itself, or packed with `.gz` behind it.
    fn place(&self, name: &str) -> PathBuf {
        let plain = self.0.join(name);
        let packed = self.0.join(format!("{name}.gz"));
        if !plain.exists() && packed.exists() { packed } else { plain }
    }
}

/// Packed files are unpacked.
impl Files for Directory {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let path = self.place(name);
        let packed = self.0.join(format!("{name}.gz"));
        if path.exists() && packed.exists() && path != packed {
            let name = path.display().to_string();
            let message = "exists both plain and as .gz: remove the one that is out of date";
            return Err(FileError { name, message: message.to_owned() });
        }
        let bytes = fs::read(&path).map_err(|error| FileError {
            name: path.display().to_string(),
            message: format!("cannot read the file: {error}"),
        })?;
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(bytes);
        }
        let mut unpacked = Vec::new();
        match MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked) {
            Ok(_) => Ok(unpacked),
            Err(error) => {
                let line = 1 + unpacked.iter().filter(|byte| **byte == b'\n').count();
                let name = format!("{}:{line}", path.display());
                let message = format!("the gzip data are truncated or damaged: {error}");
                Err(FileError { name, message })
            }
        }
    }

    /// Packed files stay packed: who streams knows more ways to unpack.
    fn stream(&self, name: &str) -> Result<Box<dyn Stream>, FileError> {
        let path = self.place(name);
        let file = fs::File::open(&path).map_err(|error| FileError {
            name: path.display().to_string(),
            message: format!("cannot read the file: {error}"),
        })?;
        Ok(Box::new(Opened(file)))
    }

    fn has(&self, name: &str) -> bool {
        self.place(name).exists()
    }
}

struct Opened(fs::File);

impl Stream for Opened {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            match self.0.read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

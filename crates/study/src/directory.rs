//! The files of a directory, which scenarios name, and those they name by an address.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ebb_scenario::{FileError, Files, Stream};
use flate2::read::MultiGzDecoder;

/// Files below a directory: those a scenario names, relative to itself; what it names by an address
/// (`http://...`) is fetched once.
pub struct Directory {
    place: PathBuf,
    /// Or why there is nothing.
    fetched: Mutex<BTreeMap<String, Result<Vec<u8>, String>>>,
}

impl Directory {
    /// The directory of the scenario file `scenario`.
    pub fn of(scenario: &Path) -> Directory {
        Directory::at(scenario.parent().unwrap_or(Path::new("")))
    }

    /// The directory `path` itself.
    pub fn at(path: &Path) -> Directory {
        Directory { place: path.to_owned(), fetched: Mutex::default() }
    }
}

impl Directory {
    /// Where `name` is: by itself, or packed with `.gz` behind it.
    fn at_place(&self, name: &str) -> PathBuf {
        let plain = self.place.join(name);
        let packed = self.place.join(format!("{name}.gz"));
        if !plain.exists() && packed.exists() { packed } else { plain }
    }

    /// What is behind an address, if the name is one.
    fn fetched(&self, name: &str) -> Option<Result<Vec<u8>, FileError>> {
        if !["http://", "https://"].iter().any(|start| name.starts_with(start)) {
            return None;
        }
        let mut fetched = self.fetched.lock().expect("no thread panicked");
        let answer = fetched.entry(name.to_owned()).or_insert_with(|| fetch(name)).clone();
        Some(answer.map_err(|message| FileError { name: name.to_owned(), message }))
    }
}

/// Packed files are unpacked.
impl Files for Directory {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        if let Some(answer) = self.fetched(name) {
            return answer;
        }
        let path = self.at_place(name);
        let packed = self.place.join(format!("{name}.gz"));
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
        if let Some(answer) = self.fetched(name) {
            return Ok(Box::new(Held(std::io::Cursor::new(answer?))));
        }
        let path = self.at_place(name);
        let file = fs::File::open(&path).map_err(|error| FileError {
            name: path.display().to_string(),
            message: format!("cannot read the file: {error}"),
        })?;
        Ok(Box::new(Opened(file)))
    }

    fn has(&self, name: &str) -> bool {
        match self.fetched(name) {
            Some(answer) => answer.is_ok(),
            None => self.at_place(name).exists(),
        }
    }
}

#[cfg(feature = "http")]
fn fetch(name: &str) -> Result<Vec<u8>, String> {
    crate::web::fetch(name)
}

#[cfg(not(feature = "http"))]
fn fetch(_: &str) -> Result<Vec<u8>, String> {
    Err("this build fetches nothing: save it as a file".to_owned())
}

struct Held(std::io::Cursor<Vec<u8>>);

impl Stream for Held {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        self.0.read(buffer).map_err(|error| error.to_string())
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.get_ref().len() as u64)
    }
}

struct Opened(fs::File);

impl Stream for Opened {
    /// Of a pipe nobody knows it.
    fn size(&self) -> Option<u64> {
        self.0.metadata().ok().filter(fs::Metadata::is_file).map(|of| of.len())
    }

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

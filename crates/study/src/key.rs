//! What a result depends on, as one number: a result that is found under its key is the result.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use blake3::Hasher;
use ebb_scenario::{Document, FileError, Files, Stream};
use serde::{Deserialize, Serialize};

/// How much of a file is read at a time.
const BLOCK: usize = 1 << 16;

/// The running program by its own bytes: two builds of one revision can differ.
///
/// # Errors
/// When the program cannot read itself.
pub(crate) fn running_program() -> io::Result<String> {
    let mut hasher = Hasher::new();
    // What runs, even where another file has taken its name since.
    io::copy(&mut std::fs::File::open("/proc/self/exe")?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// What was read of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// All of it, unpacked.
    Whole,
    /// Its first bytes as they are stored.
    First(u64),
    /// All of it as it is stored.
    Stored,
    /// Only whether it is there.
    Presence,
}

/// A file that a run used, and what of it.
pub(crate) type Used = (String, Part);

/// What a result depends on besides the files that its run read.
pub(crate) struct Origin<'a> {
    /// Kind and system.
    pub(crate) study: [&'a str; 2],
    /// The scenario with every setting in place.
    pub(crate) document: &'a Document,
    /// The seed.
    pub(crate) seed: u64,
    /// The program.
    pub(crate) program: &'a str,
    /// What its policy is told by, where that is from outside.
    pub(crate) policy: Option<&'a str>,
}

impl Origin<'_> {
    /// The key of a result that was computed with these files, which have `digests` in the same order.
    pub(crate) fn key(&self, files: &[Used], digests: &[String]) -> String {
        let mut hasher = Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        self.study.iter().for_each(|word| field(word.as_bytes()));
        field(self.program.as_bytes());
        field(&self.seed.to_le_bytes());
        field(self.document.values().as_bytes());
        if let Some(policy) = self.policy {
            field(policy.as_bytes());
        }
        for ((name, part), digest) in files.iter().zip(digests) {
            field(name.as_bytes());
            field(format!("{part:?}").as_bytes());
            field(digest.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Files that remember what was read of them.
pub(crate) struct Recorded<'a> {
    files: &'a dyn Files,
    used: Arc<Mutex<BTreeMap<Used, String>>>,
}

impl<'a> Recorded<'a> {
    /// Before anything is read.
    pub(crate) fn new(files: &'a dyn Files) -> Recorded<'a> {
        Recorded { files, used: Arc::default() }
    }

    /// What was read, each with its digest.
    pub(crate) fn used(self) -> (Vec<Used>, Vec<String>) {
        std::mem::take(&mut *self.used.lock().expect("no thread panicked")).into_iter().unzip()
    }

    fn note(&self, name: &str, part: Part, digest: String) {
        let mut used = self.used.lock().expect("no thread panicked");
        used.insert((name.to_owned(), part), digest);
    }
}

impl Files for Recorded<'_> {
    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        let read = self.files.read(name);
        self.note(name, Part::Whole, of_bytes(read.as_deref().ok()));
        read
    }

    fn stream(&self, name: &str) -> Result<Box<dyn Stream>, FileError> {
        let (name, used) = (name.to_owned(), self.used.clone());
        let stream = self.files.stream(&name)?;
        Ok(Box::new(Hashed { stream, name, used, read: 0, ended: false, hasher: Hasher::new() }))
    }

    fn has(&self, name: &str) -> bool {
        let there = self.files.has(name);
        self.note(name, Part::Presence, there.to_string());
        there
    }
}

/// A stream that is hashed while it is read.
struct Hashed {
    stream: Box<dyn Stream>,
    name: String,
    used: Arc<Mutex<BTreeMap<Used, String>>>,
    read: u64,
    ended: bool,
    hasher: Hasher,
}

impl Stream for Hashed {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let count = self.stream.fill(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.read += count as u64;
        self.ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }

    fn size(&self) -> Option<u64> {
        self.stream.size()
    }
}

impl Drop for Hashed {
    fn drop(&mut self) {
        let part = if self.ended { Part::Stored } else { Part::First(self.read) };
        if let Ok(mut used) = self.used.lock() {
            let digest = self.hasher.finalize().to_hex().to_string();
            used.insert((std::mem::take(&mut self.name), part), digest);
        }
    }
}

/// Digests of files as they are now, each computed once.
pub(crate) struct Present<'a> {
    files: &'a dyn Files,
    known: BTreeMap<Used, String>,
}

impl<'a> Present<'a> {
    /// Before any file is read.
    pub(crate) fn new(files: &'a dyn Files) -> Present<'a> {
        Present { files, known: BTreeMap::new() }
    }

    /// The digests of these files, in their order.
    pub(crate) fn digests(&mut self, used: &[Used]) -> Vec<String> {
        let mut digest = |used: &Used| {
            let compute = || digest(self.files, &used.0, &used.1);
            self.known.entry(used.clone()).or_insert_with(compute).clone()
        };
        used.iter().map(&mut digest).collect()
    }
}

fn digest(files: &dyn Files, name: &str, part: &Part) -> String {
    match part {
        Part::Whole => of_bytes(files.read(name).as_deref().ok()),
        Part::Presence => files.has(name).to_string(),
        Part::Stored => of_stream(files, name, u64::MAX),
        Part::First(count) => of_stream(files, name, *count),
    }
}

/// Of a file that cannot be read: a word that is no digest.
const UNREADABLE: &str = "unreadable";

fn of_bytes(bytes: Option<&[u8]>) -> String {
    bytes.map_or(UNREADABLE.to_owned(), |bytes| blake3::hash(bytes).to_hex().to_string())
}

/// The digest of at most the first `left` bytes.
fn of_stream(files: &dyn Files, name: &str, mut left: u64) -> String {
    let Ok(mut stream) = files.stream(name) else { return UNREADABLE.to_owned() };
    let (mut hasher, mut buffer) = (Hasher::new(), vec![0; BLOCK]);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        match stream.fill(&mut buffer[..most]) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                left -= count as u64;
            }
            Err(_) => return UNREADABLE.to_owned(),
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::MemoryFiles;

    fn read_some(files: &dyn Files) -> (Vec<Used>, Vec<String>) {
        let recorded = Recorded::new(files);
        drop(recorded.read("whole"));
        assert!(recorded.has("whole") && !recorded.has("none"));
        let mut buffer = [0; 4];
        recorded.stream("first").expect("there").fill(&mut buffer).expect("read");
        let mut all = recorded.stream("all").expect("there");
        while all.fill(&mut buffer).expect("read") > 0 {}
        drop(all);
        recorded.used()
    }

    #[test]
    fn what_was_read_is_what_counts() {
        let files = |whole: &str, first: &str, all: &str| {
            MemoryFiles::new().with("whole", whole).with("first", first).with("all", all)
        };
        let old = files("w", "first of many", "all of it");
        let (used, digests) = read_some(&old);
        assert_eq!(used.len(), 5);
        let now = |files: &MemoryFiles| Present::new(files).digests(&used);
        assert_eq!(now(&old), digests);
        assert_eq!(now(&files("w", "firstly", "all of it")), digests, "never read so far");
        for other in [
            files("W", "first of many", "all of it"),
            files("w", "fist", "all of it"),
            files("w", "first of many", "all of it!"),
            files("w", "first of many", "all of it").with("none", ""),
            MemoryFiles::new(),
        ] {
            assert_ne!(now(&other), digests);
        }
    }
}

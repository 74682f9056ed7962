//! The journal's file: appending lines, reading them back.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::undo::{Undo, escape, unescape};
use crate::process;

const MAGIC: &str = "ebb-journal\t1";

/// The writing side.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    /// End of the last complete line.
    len: u64,
    next_id: u64,
    /// A torn line could not be taken back: nothing written now would be understood.
    broken: bool,
    /// Everything was undone: what is recorded now would be lost.
    pub closed: bool,
}

impl Store {
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let mut store = Store { file, len: 0, next_id: 1, broken: false, closed: false };
        let pid = std::process::id();
        let header = process::start_time(pid)
            .and_then(|start| store.append(&format!("{MAGIC}\t{pid}\t{start}\n")))
            .and_then(|()| File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all());
        if let Err(error) = header {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(store)
    }

    pub fn append_undo(&mut self, undo: &Undo) -> io::Result<u64> {
        let id = self.next_id;
        self.append(&format!("undo\t{id}\t{}\n", undo.encode()))?;
        self.next_id += 1;
        Ok(id)
    }

    pub fn append_forget(&mut self, id: u64) -> io::Result<()> {
        self.append(&format!("forget\t{id}\n"))
    }

    /// What is appended from now on is an inheritance from the owner of `file`, or nobody's.
    pub fn append_heir(&mut self, file: Option<&Path>) -> io::Result<()> {
        let file = file.map_or_else(String::new, |file| escape(&file.to_string_lossy()));
        self.append(&format!("heir\t{file}\n"))
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        if self.closed {
            return Err(io::Error::other("the journal is closed"));
        }
        if self.broken {
            return Err(io::Error::other("the last line of the journal is incomplete"));
        }
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.len += line.len() as u64,
            Err(_) => self.broken = self.file.set_len(self.len).is_err(),
        }
        written
    }
}

/// One undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub id: u64,
    pub undo: Undo,
    /// The journal from which it was inherited.
    pub heir_of: Option<PathBuf>,
}

/// The reading side: what is still to be undone, oldest first.
#[derive(Debug, Default)]
pub(super) struct Content {
    owner: Option<(u32, u64)>,
    pub undos: Vec<Entry>,
    heir_of: Option<PathBuf>,
}

impl Content {
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Content::parse(&String::from_utf8_lossy(&fs::read(path)?)))
    }

    /// Lines that make no sense are reported and passed over.
    pub fn parse(text: &str) -> Self {
        let mut content = Content::default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in complete.split('\n') {
            if content.apply(line).is_none() {
                tracing::warn!(line, code = "EBB-H004", "unknown line in the journal");
            }
        }
        content
    }

    fn apply(&mut self, line: &str) -> Option<()> {
        if let Some(owner) = line.strip_prefix(MAGIC) {
            let (pid, start) = owner.trim_start_matches('\t').split_once('\t')?;
            self.owner = Some((pid.parse().ok()?, start.parse().ok()?));
        } else if let Some(entry) = line.strip_prefix("undo\t") {
            let (id, undo) = entry.split_once('\t')?;
            let (id, undo, heir_of) = (id.parse().ok()?, Undo::decode(undo)?, self.heir_of.clone());
            self.undos.push(Entry { id, undo, heir_of });
        } else if let Some(file) = line.strip_prefix("heir\t") {
            self.heir_of = match file {
                "" => None,
                file => Some(unescape(file)?.into()),
            };
        } else {
            let id: u64 = line.strip_prefix("forget\t")?.parse().ok()?;
            self.undos.retain(|entry| entry.id != id);
        }
        Some(())
    }

    pub fn owner_is_alive(&self) -> bool {
        let Some((pid, start)) = self.owner else { return false };
        process::start_time(pid).is_ok_and(|found| found == start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "ebb-journal\t1\t4000000\t77\n\
        undo\t1\twrite\t/sys/a\t800000\n\
        undo\t2\tnamespace\tebb-x\n\
        forget\t1\n\
        undo\t3\trss\teth0\t0,1,2,3\n";

    #[test]
    fn forgotten_entries_and_a_torn_line_do_not_count() {
        let torn = format!("{TEXT}undo\t4\twrite\t/sys/b\t1");
        let content = Content::parse(&torn);
        let ids: Vec<u64> = content.undos.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 3]);
        assert!(!content.owner_is_alive());
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_keeps_its_complete_lines(cut in 0..TEXT.len()) {
            let content = Content::parse(&TEXT[..cut]);
            let complete = TEXT[..cut].matches('\n').count();
            prop_assert_eq!(content.undos.len(), [0, 0, 1, 2, 1, 2][complete]);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Content::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}

//! One setting of the host that is changed and put back.

use std::path::PathBuf;

use crate::journal::{EntryId, Journal, Undo};
use crate::sysfs::{KnobError, Operation, Sysfs};

/// A file whose value is changed for a while.
///
/// Its original value goes into the journal before the first change; without that the change is
/// refused. [`Knob::restore`] puts it back, as does the journal's end.
///
/// ```
/// use ebb_host::{Knob, Sysfs, journal::Journal};
/// # let root = std::env::temp_dir().join(format!("ebb-knob-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&root).unwrap();
/// std::fs::write(root.join("latency"), "7\n").unwrap();
/// let journal = Journal::open(&root)?;
/// let mut knob = Knob::open(&Sysfs::new(&root), "latency", &journal)?;
/// knob.write("0")?;
/// assert_eq!(knob.read()?, "0");
/// journal.finish();
/// assert_eq!(knob.read()?, "7");
/// # std::fs::remove_dir_all(&root).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Knob {
    sysfs: Sysfs,
    relative: String,
    original: String,
    written: Option<String>,
    journal: Journal,
    entry: Option<EntryId>,
}

impl Knob {
    /// Reads the original value, from the journal where that has it already; changes nothing.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn open(sysfs: &Sysfs, relative: &str, journal: &Journal) -> Result<Self, KnobError> {
        let present = sysfs.read(relative)?;
        let known = journal.original_of(&sysfs.path(relative));
        let (entry, original) = known.map_or((None, present), |(id, value)| (Some(id), value));
        Ok(Knob {
            original,
            sysfs: sysfs.clone(),
            relative: relative.to_owned(),
            written: None,
            journal: journal.clone(),
            entry,
        })
    }

    /// The value before any change.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The full path.
    pub fn path(&self) -> PathBuf {
        self.sysfs.path(&self.relative)
    }

    /// The value now.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read(&self) -> Result<String, KnobError> {
        self.sysfs.read(&self.relative)
    }

    /// Sets the value; nothing happens when it is what was written last.
    ///
    /// # Errors
    /// When the original can't be recorded ([`Operation::Record`]) or the kernel refuses.
    pub fn write(&mut self, value: &str) -> Result<(), KnobError> {
        if self.written.as_deref() == Some(value) && !self.journal.is_finished() {
            return Ok(());
        }
        if self.entry.is_none() || self.journal.is_finished() {
            let undo = Undo::Write { path: self.path(), value: self.original.clone() };
            let entry = self.journal.record(undo);
            self.entry = Some(
                entry.map_err(|source| KnobError::new(&self.path(), Operation::Record, source))?,
            );
        }
        // An error leaves the value in doubt, so that the next write is not skipped.
        self.written = None;
        self.sysfs.write(&self.relative, value)?;
        self.written = Some(value.to_owned());
        Ok(())
    }

    /// Puts the original value back, if it was changed.
    ///
    /// # Errors
    /// When the kernel refuses; the journal's end tries again.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        if let Some(entry) = self.entry {
            self.sysfs.write(&self.relative, &self.original)?;
            self.written = None;
            self.journal.forget(entry);
            self.entry = None;
        }
        Ok(())
    }
}

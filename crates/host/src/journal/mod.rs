//! The duty to leave the host as it was.
//!
//! Every change of the host is preceded by a line in a journal that says how to undo it, on disk
//! before the change is made. Four ways lead back: [`Journal::finish`] on a clean exit, also after
//! a signal; dropping the last handle; the [`Guard`], a process that outlives a `kill -9`; and
//! [`Journal::recover_stale`] at the next start, when even the guard was killed.
//!
//! Format, one line each, fields separated by tabs with `%XX` escapes:
//!
//! ```text
//! ebb-journal  1  PID  START
//! undo  ID  KIND  FIELDS...
//! forget  ID
//! heir  FILE
//! ```
//!
//! What follows `heir` was written by the owner of that journal, whose duty it is as long as the file exists; an `heir`
//! without a file ends it.
//!
//! A last line without its end was being written when the program died: the change that it
//! announces was not made.

mod brake;
mod guard;
mod store;
mod trust;
mod undo;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

pub use brake::Brake;
pub use guard::Guard;
use store::{Content, Entry, Store};
pub use trust::directory as trusted_directory;
pub use undo::Undo;

/// Where journals are kept unless the configuration says otherwise.
pub const DIRECTORY: &str = "/run/ebb";

/// How long the guard of an heir waits until the duties are clear.
const HEIR_PATIENCE: Duration = Duration::from_secs(1);

/// A recorded undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(u64);

/// An undo and how it went.
#[derive(Debug)]
pub struct Undone {
    /// What was to be undone.
    pub undo: Undo,
    /// Whether it was.
    pub result: io::Result<()>,
}

/// The undo entries of this process, in a file. Clones share it; dropping the last one undoes.
#[derive(Clone, Debug)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    store: Mutex<Store>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        log_failures(&undo_file(&self.path));
    }
}

fn log_failures(undone: &[Undone]) {
    for Undone { undo, result } in undone {
        if let Err(error) = result {
            tracing::warn!(?undo, %error, code = "EBB-H001", "cannot undo");
        }
    }
}

impl Journal {
    /// Starts the journal of this process in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// When others could write to the directory, since undoing is done with this process's
    /// privileges; when the file can't be made, or is there already: then [`Journal::recover_stale`]
    /// was not called, or the process has a journal in this directory.
    pub fn open(directory: impl AsRef<Path>) -> io::Result<Self> {
        let directory = directory.as_ref();
        fs::create_dir_all(directory)?;
        trust::directory(directory)?;
        let path = directory.join(format!("knobs-{}.journal", std::process::id()));
        let store = Mutex::new(Store::create(&path)?);
        Ok(Journal { shared: Arc::new(Shared { path, store }) })
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Puts `undo` on disk. Call it *before* the change, and make the change only on success.
    ///
    /// # Errors
    /// When the line can't be written: a full disk, a lost file system.
    pub fn record(&self, undo: Undo) -> io::Result<EntryId> {
        self.store().append_undo(&undo).map(EntryId)
    }

    /// The change was undone, or never made. When the line can't be written, the undo is done
    /// once more at the end, which does no harm.
    pub fn forget(&self, entry: EntryId) {
        let mut store = self.store();
        if store.closed {
            return;
        }
        if let Err(error) = store.append_forget(entry.0) {
            tracing::warn!(%error, path = %self.shared.path.display(), code = "EBB-H002", "journal");
        }
    }

    /// The value that a file had before it was first changed, and the entry that says so.
    pub(crate) fn original_of(&self, path: &Path) -> Option<(EntryId, String)> {
        let content = Content::read(&self.shared.path).ok()?;
        content.undos.into_iter().find_map(|Entry { id, undo, .. }| match undo {
            Undo::Write { path: changed, value } if changed == path => Some((EntryId(id), value)),
            _ => None,
        })
    }

    /// Takes over the duties in the journal of another process that is about to leave its changes
    /// to this one. Called again it adds those that came meanwhile. What both have recorded is put
    /// back to where the other found it: the older entry is undone last. As long as the other's file exists the duties
    /// are the other's: however this process ends, it undoes none of them.
    ///
    /// # Errors
    /// When the file can't be read, others could have written it, or this journal not be written.
    pub fn inherit(&self, file: &Path) -> io::Result<()> {
        trust::file(file)?;
        let theirs = Content::read(file)?;
        let mut store = self.store();
        let own = Content::read(&self.shared.path)?;
        store.append_heir(Some(file))?;
        for Entry { undo, .. } in theirs.undos {
            if !own.undos.iter().any(|known| known.undo == undo) {
                store.append_undo(&undo)?;
            }
        }
        store.append_heir(None)
    }

    /// Leaves every change as it is, because another process has inherited the duties: the file is
    /// removed, if the heir has not done so yet ([`Journal::accept`]), and nothing can be recorded any more.
    ///
    /// # Errors
    /// When the file can't be removed; then this process's guard will undo.
    pub fn bequeath(&self) -> io::Result<()> {
        self.store().closed = true;
        remove(&self.shared.path)
    }

    /// What was inherited from `file` is this process's duty from now on: the file is removed. False if it was gone
    /// already: whoever had the duty has undone everything, or left it to this process.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn accept(&self, file: &Path) -> io::Result<bool> {
        match lock(file) {
            Some(_lock) => remove(file).map(|()| true),
            None => Ok(false),
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether [`Journal::finish`] was called: no change can be recorded any more.
    pub fn is_finished(&self) -> bool {
        self.store().closed
    }

    /// Undoes everything, last first, and removes the file. Entries that fail for want of
    /// permission stay for a later [`Journal::recover_stale`].
    pub fn finish(&self) -> Vec<Undone> {
        self.store().closed = true;
        let undone = undo_file(&self.shared.path);
        log_failures(&undone);
        undone
    }

    /// Undoes what processes that are gone left behind in `directory`. Journals of live processes
    /// are left alone; so is all that somebody else could have written.
    pub fn recover_stale(directory: impl AsRef<Path>) -> Vec<Undone> {
        let mut undone = Vec::new();
        if directory.as_ref().exists()
            && let Err(error) = trust::directory(directory.as_ref())
        {
            tracing::warn!(%error, code = "EBB-H003", "cannot undo the changes of an earlier run");
            return undone;
        }
        let mut paths: Vec<PathBuf> = fs::read_dir(directory.as_ref())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| pid_in_name(path).is_some() && trust::file(path).is_ok())
            .collect();
        paths.sort();
        for path in paths {
            let alive = Content::read(&path).is_ok_and(|content| content.owner_is_alive());
            if !alive {
                undone.extend(undo_file(&path));
            }
        }
        log_failures(&undone);
        undone
    }
}

/// Nobody else undoes what the journal in this file says, or removes it; none if that was done.
fn lock(path: &Path) -> Option<Flock<File>> {
    let lock = Flock::lock(File::open(path).ok()?, FlockArg::LockExclusive).ok()?;
    (lock.metadata().ok()?.nlink() > 0).then_some(lock)
}

/// Removes a file that may be gone.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The process whose journal this is has died. If it died just when it became an heir, the other is about to remove its
/// file: that is waited for.
fn await_other_heirs(path: &Path) {
    const LOOKS: u32 = 100;
    for _ in 0..LOOKS {
        let content = Content::read(path).unwrap_or_default();
        let open = |entry: &Entry| entry.heir_of.as_ref().is_some_and(|file| file.exists());
        if !content.undos.iter().any(open) {
            return;
        }
        std::thread::sleep(HEIR_PATIENCE / LOOKS);
    }
}

fn pid_in_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("knobs-")?.strip_suffix(".journal")?.parse().ok()
}

/// Undoes what a journal file says, and removes it. Logs nothing: the guard calls it, too. Two processes may try at once: a lock lets one
/// of them go first, and the other finds the work done.
fn undo_file(path: &Path) -> Vec<Undone> {
    let Some(_lock) = lock(path) else { return Vec::new() };
    let Ok(content) = Content::read(path) else { return Vec::new() };
    let mut undone = Vec::new();
    for Entry { undo, heir_of, .. } in content.undos.into_iter().rev() {
        if heir_of.is_some_and(|file| file.exists()) {
            continue;
        }
        let result = undo.perform();
        undone.push(Undone { undo, result });
    }
    let denied = |undone: &Undone| {
        undone.result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    if !undone.iter().any(denied) {
        let _ = fs::remove_file(path);
    }
    undone
}

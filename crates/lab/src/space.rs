//! A laboratory: namespaces and a directory, journaled and removed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use ebb_host::capability::{self, Capability};
use ebb_host::journal::{DIRECTORY, Guard, Journal, Undo};
use ebb_host::namespace::Namespace;
use ebb_host::process;

use crate::program::Program;

/// Namespaces, a directory and programs of this process. Everything is in the journal before it is made, and
/// gone when this is dropped.
#[derive(Debug)]
pub struct Lab {
    name: String,
    directory: PathBuf,
    /// A test's has none: it cannot fork a guard any more, and the next test removes what it left.
    duty: Option<(Journal, Guard)>,
}

impl Lab {
    /// Opens it; the names of all that is made begin with `name` and this process's number. To be called before
    /// threads are started: it forks a guard that undoes everything should this process be killed.
    ///
    /// # Errors
    /// When this machine or user does not permit it; nothing is left behind then.
    pub fn open(name: &str) -> Result<Lab> {
        let missing = capability::missing(&[Capability::CAP_SYS_ADMIN, Capability::CAP_NET_ADMIN]);
        ensure!(missing.is_empty(), "this user may not create network namespaces (use sudo)");
        Journal::recover_stale(DIRECTORY);
        let journal = Journal::open(DIRECTORY)
            .with_context(|| format!("cannot write a journal in {DIRECTORY}"))?;
        let guard = Guard::spawn(&journal).context("cannot start the guard process")?;
        _ = process::lift_memory_lock_limit();
        Lab::furnish(format!("{name}-{}", std::process::id()), Some((journal, guard)))
    }

    /// One for a test, among others of the process; what killed ones of this name left is removed first.
    ///
    /// # Errors
    /// When no directory can be made.
    pub(crate) fn of_test(name: &str) -> Result<Lab> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        sweep(name);
        let number = NUMBER.fetch_add(1, Relaxed);
        Lab::furnish(format!("{name}-{}-{number}", std::process::id()), None)
    }

    fn furnish(name: String, duty: Option<(Journal, Guard)>) -> Result<Lab> {
        let directory = std::env::temp_dir().join(&name);
        let lab = Lab { name, directory, duty };
        lab.record(|| Undo::Directory { path: lab.directory.clone() })?;
        fs::create_dir_all(&lab.directory).with_context(|| lab.directory.display().to_string())?;
        Ok(lab)
    }

    fn record(&self, undo: impl FnOnce() -> Undo) -> Result<()> {
        if let Some((journal, _)) = &self.duty {
            journal.record(undo())?;
        }
        Ok(())
    }

    /// The name of the namespace for `role`.
    pub fn space(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    /// Makes the namespace for `role`.
    ///
    /// # Errors
    /// Without the privilege.
    pub fn namespace(&self, role: &str) -> Result<Namespace> {
        let name = self.space(role);
        self.record(|| Undo::Namespace { name: name.clone() })?;
        Namespace::create(&name).context("network namespaces are not permitted")
    }

    /// For configurations, sockets and logs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was changed, for further changes.
    ///
    /// # Panics
    /// In a test's, which has none.
    pub fn journal(&self) -> &Journal {
        &self.duty.as_ref().expect("a test's has no journal").0
    }

    /// Starts this program with `words` in a namespace; its log is the file `log` of the directory.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, namespace: &Namespace, words: &[&str], log: &str) -> Result<Program> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words);
        let name = format!("ebb {}", words[..words.len().min(2)].join(" "));
        self.start_other(namespace, &name, &mut command, log)
    }

    /// Starts any program in a namespace, called `name` in errors; its log is the file `log` of the directory.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_other(
        &self,
        namespace: &Namespace,
        name: &str,
        command: &mut Command,
        log: &str,
    ) -> Result<Program> {
        // Ctrl-C is for this process to pass on.
        command.process_group(0);
        let log = self.directory.join(log);
        let program = namespace.run(|| Program::start(name, command, &log))??;
        Ok(match &self.duty {
            Some((journal, _)) => program.journaled(journal),
            None => program,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        match &self.duty {
            Some((journal, _)) => _ = journal.finish(),
            None => _ = fs::remove_dir_all(&self.directory),
        }
    }
}

/// Removes what processes that are gone left of this name.
fn sweep(name: &str) {
    let prefix = format!("{name}-");
    let is_stale = |entry: &str| {
        let owner = entry.strip_prefix(&prefix).and_then(|rest| rest.split('-').next());
        let owner = owner.filter(|pid| pid.parse::<u32>().is_ok());
        owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    let stale = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|entry| is_stale(entry)).collect()
    };
    for space in stale(Path::new("/run/netns")) {
        _ = Namespace::delete(&space);
    }
    let temporary = std::env::temp_dir();
    for directory in stale(&temporary) {
        match fs::remove_dir_all(temporary.join(&directory)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                eprintln!("cannot remove {directory} in {}: {error}", temporary.display());
            }
            _ => {}
        }
    }
}

//! Programs that run in the background, with their logs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_host::clock::monotonic;
use ebb_host::journal::{EntryId, Journal, Undo};
use ebb_host::signals::{self, Signal};

const POLL_EVERY: Duration = Duration::from_millis(5);

/// A running child with its log. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    entry: Option<(Journal, EntryId)>,
}

impl Program {
    /// Starts `command`, called `name` in errors, whose standard error goes to the file `log`.
    ///
    /// # Errors
    /// When the file cannot be written or the program does not start.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Program> {
        let errors = File::create(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        Ok(Program { name: name.to_owned(), child, log: log.to_owned(), entry: None })
    }

    /// Has `journal` end it should this process be killed.
    pub(crate) fn journaled(mut self, journal: &Journal) -> Program {
        let entry = Undo::process(self.pid()).and_then(|undo| journal.record(undo));
        self.entry = entry.ok().map(|entry| (journal.clone(), entry));
        self
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The last lines of that, for errors.
    pub fn last_words(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("\n  {line}")).collect()
    }

    /// Its exit status once it has ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Makes sure that it runs.
    ///
    /// # Errors
    /// When it has ended: with its last words.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.ended()? {
            Some(status) => bail!("`{}` ended ({status}){}", self.name, self.last_words()),
            None => Ok(()),
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        signals::send(self.pid(), signal)
    }

    /// Asks it to end, kills it after `patience`, and returns how it ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn end(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        _ = self.signal(Signal::SIGTERM);
        let begun = monotonic();
        while self.ended()?.is_none() && monotonic().since(begun) < patience {
            std::thread::sleep(POLL_EVERY);
        }
        self.kill()
    }

    /// Ends it without a word, unless it has ended already.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if self.ended()?.is_none() {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        if let Some((journal, entry)) = self.entry.take() {
            journal.forget(entry);
        }
        Ok(status)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Ended already: nothing to do.
        _ = self.kill();
    }
}

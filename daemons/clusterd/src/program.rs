//! Programs that a member starts, and ends with all that they started.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_host::clock::monotonic;
use ebb_host::journal::{Journal, Undo};
use ebb_host::process;
use ebb_host::signals::{self, Signal};

/// A program that is asked to end has so long.
const END_MAX: Duration = Duration::from_secs(5);
/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program with its arguments.
pub(crate) fn command(line: &[String]) -> Result<Command> {
    let (program, arguments) = line.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// A program that was started here, with what it starts itself: they are one group of processes. Dropping it
/// ends them.
pub(crate) struct Program {
    child: Child,
    name: String,
    reaped: bool,
}

impl Program {
    /// Starts it in the calling thread's network namespace.
    pub(crate) fn start(line: &[String], journal: &Journal) -> Result<Program> {
        let child = command(line)?.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start `{}`", line[0]))?;
        if let Ok(undo) = Undo::process(child.id()) {
            journal.record(undo)?;
        }
        Ok(Program { child, name: line[0].clone(), reaped: false })
    }

    /// The number of its group.
    #[cfg(test)]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it without a word.
    pub(crate) fn kill(mut self) {
        self.reap();
    }

    /// Whether it runs. One that has ended stays a name of its group until [`Program::reap`].
    pub(crate) fn is_there(&self) -> bool {
        process::start_time(self.child.id()).is_ok()
    }

    /// Kills what is left of the group.
    fn reap(&mut self) {
        // All of it may have ended already.
        _ = signals::send_to_group(self.child.id(), Signal::SIGKILL);
        _ = self.child.wait();
        self.reaped = true;
    }

    fn end(&mut self) {
        let begun = monotonic();
        // One that has ended already cannot be told to.
        _ = signals::send_to_group(self.child.id(), Signal::SIGTERM);
        while self.is_there() {
            if monotonic().since(begun) > END_MAX {
                tracing::warn!(
                    program = self.name,
                    code = "EBB-C015",
                    "did not end on SIGTERM: killed"
                );
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.reap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Not where it was killed: whoever has its number now is nobody's business here.
        if !self.reaped {
            self.end();
        }
    }
}

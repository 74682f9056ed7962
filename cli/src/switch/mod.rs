//! `ebb switch`: programs whose system calls run on another core.

mod run;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// What can be done with programs.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(run::Run),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Run(command) => command.run(),
        }
    }
}

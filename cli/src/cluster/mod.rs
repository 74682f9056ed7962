//! `ebb cluster`: one router made of many.

mod bench;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Bench(bench::Bench),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Bench(command) => command.run(),
        }
    }
}

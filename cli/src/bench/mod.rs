//! `ebb bench`: measurements of this machine, beside each other in one run.

mod switch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Measurements.
#[derive(Debug, Subcommand)]
pub enum Command {
    Switch(switch::Switch),
}

impl Command {
    /// Measures.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Switch(command) => command.run(),
        }
    }
}

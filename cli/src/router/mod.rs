//! `ebb router`: the live router and what looks at it.

mod check;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether a configuration is right, and what is wrong where
    Check(check::Check),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Check(command) => command.run(),
        }
    }
}

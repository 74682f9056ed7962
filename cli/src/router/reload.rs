//! `ebb router reload`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::Target;

/// Reload the configuration of a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router check -c router.toml && ebb router reload

Changes are made while packets flow; those that need a restart are listed. A configuration with a
problem changes nothing.")]
pub struct Reload {
    #[command(flatten)]
    target: Target,
}

impl Reload {
    /// Asks the router and prints what it changed.
    pub fn run(self) -> Result<ExitCode> {
        let answer = self.target.connect()?.request(&json!({ "reload": {} }))?;
        let text = answer["reloaded"].as_str().unwrap_or("done");
        writeln!(std::io::stdout().lock(), "{text}")?;
        Ok(ExitCode::SUCCESS)
    }
}

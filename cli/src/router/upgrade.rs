//! `ebb router upgrade`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::Target;

/// Let another version of the program take over while packets flow
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  install ebb /usr/local/bin/ebb && ebb router upgrade
  ebb router upgrade --program /opt/ebb-2/bin/ebb

The running router starts the new program, which prepares itself and then takes over its interfaces,
packets, status socket and configuration; no packet is lost or reordered. Counters begin at 0. If the
new program cannot, the running one goes on and the exit status is 1. A configuration that has changed
on disk is read by `ebb router reload`, before or after.")]
pub struct Upgrade {
    /// The new program, instead of the file from which the running one was started
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl Upgrade {
    /// Asks the router and prints which process runs now.
    pub fn run(self) -> Result<ExitCode> {
        let whole =
            |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
        let program = self.program.map(whole).transpose()?;
        let answer =
            self.target.connect()?.request(&json!({ "upgrade": { "program": program } }))?;
        writeln!(
            std::io::stdout().lock(),
            "process {} runs version {}; no worker received for {} us",
            answer["pid"],
            answer["version"].as_str().unwrap_or("unknown"),
            answer["silence_us"]
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

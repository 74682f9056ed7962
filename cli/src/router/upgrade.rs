//! `ebb router upgrade`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::Target;

/// Replace the running program by another version while packets flow
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  install ebb /usr/local/bin/ebb && ebb router upgrade
  ebb router upgrade --program /opt/ebb-2/bin/ebb

The running router starts the new program, which prepares itself and then takes over its interfaces,
packets, status socket and configuration; no packet is lost or reordered. Counters start at 0. If the
new program fails, the running one continues and the exit status is 1. To read a configuration that was
changed on disk, use `ebb router reload` before or after.")]
pub struct Upgrade {
    /// The new program, instead of the file of the running one
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
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "process {} runs version {}; no worker received packets for {} us",
            answer["pid"],
            answer["version"].as_str().unwrap_or("unknown"),
            answer["silence_us"]
        )?;
        if let Some(lost @ 1..) = answer["lost"].as_u64() {
            writeln!(out, "{lost} packets that waited for a neighbour's address are lost")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

//! `ebb cluster top`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use ebb_clusterd::api;

/// Watch a running cluster
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster top
  ebb cluster top --count 1 --json")]
pub struct Top {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// Looks before it ends [default: none]
    #[arg(long)]
    count: Option<u64>,
    /// Print the state as a line of JSON each time
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: super::Target,
}

impl Top {
    /// Looks again and again.
    pub(super) fn run(self) -> Result<ExitCode> {
        anyhow::ensure!(self.every >= 0.05, "--every must be at least 0.05");
        let live = std::io::stdout().is_terminal() && !self.json;
        let mut before = api::status(&self.target.socket)?;
        for _ in 0..self.count.unwrap_or(u64::MAX) {
            std::thread::sleep(Duration::from_secs_f64(self.every.min(3600.0)));
            let now = api::status(&self.target.socket)?;
            let mut out = std::io::stdout().lock();
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&now)?)?;
            } else {
                if live {
                    write!(out, "\x1b[H\x1b[2J")?;
                }
                let span = now.uptime_seconds - before.uptime_seconds;
                write!(out, "{}", super::show::panel(&now, Some((&before, span))))?;
            }
            out.flush()?;
            before = now;
        }
        Ok(ExitCode::SUCCESS)
    }
}

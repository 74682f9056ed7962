//! Looking at a running program again and again: `ebb router top`, `ebb tor top`, `ebb cluster top`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

/// How often, and how it is shown.
#[derive(Debug, Args)]
pub struct Watch {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// Looks before it ends [default: none]
    #[arg(long)]
    count: Option<u64>,
    /// Print a line of JSON each time
    #[arg(long)]
    pub json: bool,
}

impl Watch {
    /// Between two looks.
    ///
    /// # Errors
    /// When it is not from 0.05 s to a day.
    pub fn interval(&self) -> Result<Duration> {
        let good = (0.05..=86_400.0).contains(&self.every);
        ensure!(good, "--every must be from 0.05 to 86400, not {}", self.every);
        Ok(Duration::from_secs_f64(self.every))
    }

    /// How many.
    pub fn looks(&self) -> u64 {
        self.count.unwrap_or(u64::MAX)
    }

    /// Asks for the state and shows it, with the one before.
    ///
    /// # Errors
    /// When nobody answers, or nobody reads.
    #[cfg_attr(not(feature = "systems"), expect(dead_code, reason = "for clusters and circuits"))]
    pub fn run<S: Serialize>(
        &self,
        ask: impl Fn() -> Result<S>,
        panel: impl Fn(&S, &S) -> String,
    ) -> Result<ExitCode> {
        let interval = self.interval()?;
        let live = std::io::stdout().is_terminal() && !self.json;
        let mut before = ask()?;
        for _ in 0..self.looks() {
            std::thread::sleep(interval);
            let now = ask()?;
            let mut out = std::io::stdout().lock();
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&now)?)?;
            } else {
                if live {
                    write!(out, "\x1b[H\x1b[2J")?;
                }
                write!(out, "{}", panel(&before, &now))?;
            }
            out.flush()?;
            before = now;
        }
        Ok(ExitCode::SUCCESS)
    }
}

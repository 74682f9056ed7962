//! `ebb cluster top`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_clusterd::api;

use crate::watch::Watch;

/// Watch a running cluster
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster top
  ebb cluster top --count 1 --json")]
pub struct Top {
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    target: super::Target,
}

impl Top {
    /// Looks again and again.
    pub(super) fn run(self) -> Result<ExitCode> {
        self.watch.run(
            || api::status(&self.target.socket),
            |before, now| {
                let span = now.uptime_seconds - before.uptime_seconds;
                super::show::panel(now, Some((before, span)))
            },
        )
    }
}

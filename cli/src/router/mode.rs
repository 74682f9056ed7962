//! `ebb router mode`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::Target;

/// Change the policy of a running router
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router mode poll          for the measurement
  ebb router mode powersave     and back

The mode stays until the router stops or reloads; no packet is lost or reordered.")]
pub struct Mode {
    /// The policy
    #[arg(value_parser = super::policy_names())]
    mode: String,
    #[command(flatten)]
    target: Target,
}

impl Mode {
    /// Tells the router.
    pub fn run(self) -> Result<ExitCode> {
        self.target.connect()?.request(&json!({ "set": { "mode": self.mode } }))?;
        Ok(ExitCode::SUCCESS)
    }
}

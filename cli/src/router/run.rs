//! `ebb router run`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_routerd::config::Config;
use ebb_routerd::live;

/// Forward packets until a signal stops it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb router run -c router.toml
  sudo ebb router run -c router.toml --mode poll
  EBB_LOG=debug sudo -E ebb router run -c router.toml

Addresses, routes and neighbours are the kernel's: set them with ip(8) or a routing daemon.
SIGHUP reloads the configuration; SIGINT and SIGTERM stop the router, and the kernel forwards.")]
pub struct Run {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = "/etc/ebb/router.toml")]
    config: PathBuf,
    /// Policy at the start, instead of the configuration's
    #[arg(short, long, value_parser = super::policy_names())]
    mode: Option<String>,
    /// Write every decision of the policy and its input as a line of JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Take the place of the router that speaks on standard input (`ebb router upgrade`)
    #[arg(long, hide = true, conflicts_with_all = ["mode", "record"])]
    take_over: bool,
}

impl Run {
    /// Runs the router in this process.
    pub fn run(self) -> Result<ExitCode> {
        if self.take_over {
            live::take_over(&self.config)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut config = Config::load(&self.config)?;
        if let Some(mode) = self.mode {
            config.router.mode = mode;
        }
        if self.record.is_some() {
            config.governor.record = self.record;
        }
        live::run(&self.config, config)?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `ebb tor` and `ebb ocs`: the live top-of-rack switch, the emulated optical switch and its
//! controller.

mod top;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebb_service::client;
use ebb_tord::config;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum Tor {
    /// Run the switch until a signal stops it
    #[command(after_help = "\
Examples:
  sudo ebb tor run -c tor.toml

Hosts need no change: they send to their gateway, for whose address the kernel answers. Sync frames
(EtherType 0x8015) announce when each circuit is up; without them a fixed rotation is used for a while,
then the packet path. They are sealed if the configuration names a token_file. SIGHUP reloads rates,
tokens, guard, queue lengths and the keys of that file.")]
    Run(Run),
    /// Check a configuration and list all its problems
    #[command(after_help = "\
Examples:
  ebb tor check --example >tor.toml
  ebb tor check -c tor.toml")]
    Check(Check),
    /// Show the state of a running switch, as JSON
    #[command(after_help = "\
Examples:
  ebb tor show
  ebb tor show --socket /run/ebb/tor.sock | jq .clock")]
    Show(Target),
    /// Watch a running switch
    #[command(after_help = "\
Examples:
  ebb tor top
  ebb tor top --count 10 | cat  one line per interval, without a terminal
  ebb tor top --count 1 --json

Keys: q quits; arrows sort. With --json each interval is one line, a snapshot of all metrics as in
docs/telemetry.md.")]
    Top(top::Top),
    /// Reload the configuration of a running switch
    #[command(after_help = "\
Examples:
  ebb tor check -c tor.toml && ebb tor reload

A configuration with a problem changes nothing; the command then fails with the reason.")]
    Reload(Target),
}

#[derive(Debug, Subcommand)]
pub enum Ocs {
    /// Emulate an optical circuit switch until a signal stops it
    #[command(after_help = "\
Examples:
  sudo ebb ocs run -c ocs.toml

It passes frames whose light is within their circuit from begin to end, and counts and drops all others.
Light is computed from the kernel's time of arrival and the link's rate.")]
    Run(Run),
    /// Plan circuits and announce them with sync frames
    #[command(after_help = "\
Examples:
  sudo ebb ocs control -c ocs.toml

SIGHUP reloads the keys that seal sync frames (token_file): the first line seals, all lines are accepted.")]
    Control(Run),
    /// Check a configuration and list all its problems
    #[command(after_help = "\
Examples:
  ebb ocs check --example >ocs.toml
  ebb ocs check -c ocs.toml")]
    Check(Check),
    /// Show the counters of a running optical switch as JSON
    #[command(after_help = "\
Examples:
  ebb ocs show
  ebb ocs show --socket /run/ebb/ocs-control.sock")]
    Show(ShowOcs),
}

#[derive(Debug, Args)]
pub struct Run {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

#[derive(Debug, Args)]
pub struct Check {
    /// The configuration
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    config: Option<PathBuf>,
    /// Print a commented configuration with every setting
    #[arg(long)]
    example: bool,
}

#[derive(Debug, Args)]
pub struct Target {
    /// The switch's status socket
    #[arg(short, long, value_name = "PATH", default_value = "/run/ebb/tor.sock")]
    socket: PathBuf,
}

#[derive(Debug, Args)]
pub struct ShowOcs {
    /// The status socket
    #[arg(short, long, value_name = "PATH", default_value = "/run/ebb/ocs.sock")]
    socket: PathBuf,
}

impl Tor {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Tor::Run(run) => ebb_tord::tor::run(&run.config).map(|()| ExitCode::SUCCESS),
            Tor::Check(check) => check.run(config::TOR_EXAMPLE, |path| {
                config::TorConfig::load(path)?.keys()?;
                Ok(())
            }),
            Tor::Show(target) => {
                println!("{:#}", client(&target.socket)?.status::<Value>()?);
                Ok(ExitCode::SUCCESS)
            }
            Tor::Top(top) => top.run(),
            Tor::Reload(target) => {
                let answer = client(&target.socket)?.request(&json!({ "reload": {} }))?;
                println!("{}", answer["reloaded"].as_str().unwrap_or("done"));
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Ocs {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Ocs::Run(run) => ebb_tord::ocs::run(&run.config).map(|()| ExitCode::SUCCESS),
            Ocs::Control(run) => ebb_tord::control::run(&run.config).map(|()| ExitCode::SUCCESS),
            Ocs::Check(check) => check.run(config::OCS_EXAMPLE, |path| {
                let config = config::OcsConfig::load(path)?;
                config.keys()?;
                config.controller_keys()?;
                Ok(())
            }),
            Ocs::Show(show) => {
                println!("{:#}", client(&show.socket)?.status::<Value>()?);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Check {
    fn run(self, example: &str, load: impl Fn(&Path) -> Result<()>) -> Result<ExitCode> {
        if self.example {
            print!("{example}");
            return Ok(ExitCode::SUCCESS);
        }
        Ok(crate::verdict(load(&self.config.unwrap_or_default())))
    }
}

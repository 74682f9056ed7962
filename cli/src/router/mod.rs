//! `ebb router`: the live router, what looks at it, and its data plane over captures.

mod capture;
mod check;
mod explain;
mod graph;
mod list;
mod mode;
mod reload;
mod replay;
mod run;
mod show;
mod timeline;
mod top;
mod tunnel;
mod upgrade;

#[cfg(test)]
pub use top::PANEL as TOP;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args, Subcommand};
use ebb_service::{Client, client};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward packets until a signal stops it
    Run(run::Run),
    /// Check a configuration and list all its problems
    Check(check::Check),
    /// Show the state of a running router once
    Show(show::Show),
    /// Watch a running router
    Top(top::Top),
    /// Change the policy of a running router
    Mode(mode::Mode),
    /// Reload the configuration of a running router
    Reload(reload::Reload),
    /// Replace the running program by another version while packets flow
    Upgrade(upgrade::Upgrade),
    /// List, add and remove IPsec tunnels of a running router
    Tunnel(tunnel::Tunnel),
    /// Copy packets that a running router receives into a capture file
    Capture(capture::Capture),
    /// Explain what a running router would do with a packet, and why
    Explain(explain::Explain),
    /// Send captures through the data plane, without privileges, and count the results
    Replay(replay::Replay),
    /// Write what a router decided as a timeline that Perfetto and chrome://tracing draw
    Timeline(timeline::TimelineCommand),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Run(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Mode(command) => command.run(),
            Command::Reload(command) => command.run(),
            Command::Upgrade(command) => command.run(),
            Command::Tunnel(command) => command.run(),
            Command::Capture(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Replay(command) => command.run(),
            Command::Timeline(command) => command.run(),
        }
    }
}

/// Accepts the name of a policy.
fn policy_names() -> clap::builder::PossibleValuesParser {
    let name = |(name, help): (&'static str, &'static str)| PossibleValue::new(name).help(help);
    clap::builder::PossibleValuesParser::new(ebb_control::policies::NAMES.map(name))
}

/// Which running router.
#[derive(Debug, Args)]
struct Target {
    /// The router's status socket
    #[arg(short, long, global = true, value_name = "PATH", default_value = "/run/ebb/router.sock")]
    socket: PathBuf,
}

impl Target {
    fn connect(&self) -> Result<Client> {
        Ok(client(&self.socket)?)
    }
}

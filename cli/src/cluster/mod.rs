//! `ebb cluster`: one router made of many, live.

mod bench;
pub(crate) mod lab;
mod show;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebb_clusterd::{config, node};
use ebb_service::client;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a member of a cluster until a signal stops it
    Run(Run),
    /// Check a cluster's file and list its problems
    Check(Check),
    /// Show the state of a running cluster once
    Show(show::Show),
    /// Watch a running cluster
    Top(top::Top),
    /// Take a back-end out of service without losing a packet, or give it back
    Drain(Drain),
    /// Remove the registration of a balancer that will not return
    Forget(Forget),
    /// Reload the file of a running member
    Reload(Reload),
    Bench(bench::Bench),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Command::Run(run) => {
                node::run(&run.file, run.member.as_deref())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Check(check) => check.run(),
            Command::Show(show) => show.run(),
            Command::Top(top) => top.run(),
            Command::Drain(drain) => {
                let verb = if drain.back { "undrain" } else { "drain" };
                drain.target.order(&json!({ (verb): drain.back_end }))
            }
            Command::Forget(forget) => forget.target.order(&json!({ "forget": forget.balancer })),
            Command::Reload(reload) => reload.target.order(&json!({ "reload": {} })),
            Command::Bench(command) => command.run(),
        }
    }
}

/// Run a member of a cluster until a signal stops it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb cluster run edge.toml
  sudo ebb cluster run edge.toml --member m2

One file describes the whole cluster; every machine gets the same. The entry [[member]] of a machine
defines its roles: balance, keep back-ends, be a candidate for the leader. SIGHUP reloads the policy and
the capacity and power of back-ends; SIGINT and SIGTERM stop it: back-ends that stop with it drain first.")]
pub struct Run {
    /// The cluster's file
    #[arg(value_name = "FILE", default_value = "/etc/ebb/cluster.toml")]
    file: PathBuf,
    /// Entry `[[member]]` of this machine [default: the host's name]
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
}

/// Check a cluster's file and list its problems
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster check --example >edge.toml
  ebb cluster check edge.toml
  ebb cluster check edge.toml --member m2")]
pub struct Check {
    /// The cluster's file
    #[arg(value_name = "FILE", required_unless_present = "example")]
    file: Option<PathBuf>,
    /// Also check that it has this member
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// Print a commented file with every setting
    #[arg(long)]
    example: bool,
}

impl Check {
    fn run(self) -> Result<ExitCode> {
        if self.example {
            print!("{}", config::EXAMPLE);
            return Ok(ExitCode::SUCCESS);
        }
        let load = || -> Result<()> {
            let config = config::ClusterConfig::load(&self.file.unwrap_or_default())?;
            if let Some(member) = &self.member {
                config.member(member)?;
            }
            config.token().map(drop)
        };
        Ok(crate::verdict(load()))
    }
}

/// Which running member.
#[derive(Debug, Args)]
struct Target {
    /// The member's control socket
    #[arg(short, long, value_name = "PATH", default_value = "/run/ebb/cluster.sock")]
    socket: PathBuf,
}

impl Target {
    fn order(&self, order: &Value) -> Result<ExitCode> {
        client(&self.socket)?.request(order)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Take a back-end out of service without losing a packet, or give it back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster drain r1
  ebb cluster show
  ebb cluster drain r1 --back

The back-end goes off once the others that the load needs are on and every flow has moved; see
`ebb cluster show`. It stays off until --back, which works on any member.")]
pub struct Drain {
    /// The back-end
    #[arg(value_name = "BACK-END")]
    back_end: String,
    /// Give it back to the policy
    #[arg(long)]
    back: bool,
    #[command(flatten)]
    target: Target,
}

/// Remove the registration of a balancer that will not return
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster forget m2

A back-end goes off only after every registered balancer has confirmed that it sends nothing there. A
killed balancer cannot confirm: back-ends stay on until it runs again or is forgotten.")]
pub struct Forget {
    /// The balancer
    balancer: String,
    #[command(flatten)]
    target: Target,
}

/// Reload the file of a running member
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster reload")]
pub struct Reload {
    #[command(flatten)]
    target: Target,
}

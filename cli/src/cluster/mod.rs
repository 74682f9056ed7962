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
    /// Do what a machine does in a cluster, until told to stop
    Run(Run),
    /// Say whether a cluster's file is right, and what is wrong where
    Check(Check),
    /// Show the state of a running cluster once
    Show(show::Show),
    /// Watch a running cluster
    Top(top::Top),
    /// Take a back-end out, without losing a packet, or give it back
    Drain(Drain),
    /// Remove a balancer that is gone for good from the registrations
    Forget(Forget),
    /// Make a running member read its file again
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

/// Do what a machine does in a cluster, until told to stop
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb cluster run edge.toml
  sudo ebb cluster run edge.toml --member m2

One file describes the whole cluster; every machine gets the same. What this one does says its entry
[[member]]: balance, keep back-ends, be a candidate for the leader. SIGHUP takes over the policy and what
back-ends carry and draw; SIGINT and SIGTERM end it: back-ends that end with it drain first.")]
pub struct Run {
    /// The cluster's file
    #[arg(value_name = "FILE", default_value = "/etc/ebb/cluster.toml")]
    file: PathBuf,
    /// Which entry `[[member]]` is this machine's [default: the host's name]
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
}

/// Say whether a cluster's file is right, and what is wrong where
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
    /// Also ask whether it has this member
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

/// Take a back-end out, without losing a packet, or give it back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster drain r1
  ebb cluster show
  ebb cluster drain r1 --back

It goes off once the others that the load needs are on and every flow has moved; `ebb cluster show` says
when. It stays off until it is given back, whichever member that is asked of.")]
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

/// Remove a balancer that is gone for good from the registrations
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster forget m2

No back-end goes off before every registered balancer has said that it sends nothing there. One that was
killed says nothing: back-ends stay on until it runs again or is forgotten.")]
pub struct Forget {
    /// The balancer
    balancer: String,
    #[command(flatten)]
    target: Target,
}

/// Make a running member read its file again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb cluster reload")]
pub struct Reload {
    #[command(flatten)]
    target: Target,
}

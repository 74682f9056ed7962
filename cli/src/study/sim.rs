use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use ebb_system_router::TwinError;

use super::args::StudyArgs;
use super::run::run;
use super::{Study, Subject};

/// Simulators, one for each system.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// The router: a server with its cores, queues and policies, packet by packet or in slots
    #[command(after_help = "\
Examples:
  ebb sim router examples/router-day.toml
  ebb sim router examples/router-day.toml --set policy.name=poll,napi,powersave
  ebb sim router examples/router-poisson.toml --set arrivals.rate_mpps=1..28:1 --jobs 2 --out sweep

A sweep that was interrupted goes on where it stopped when the same command runs again.")]
    Router(StudyArgs),
}

impl Sim {
    /// Simulates.
    pub fn run(self) -> Result<ExitCode> {
        let (system, study, args): (_, Study, _) = match self {
            Sim::Router(args) => (
                "router",
                |document, files, seed, progress| {
                    ebb_system_router::simulate(document, files, seed, progress).map_err(twin)
                },
                args,
            ),
        };
        run(Subject { kind: "sim", system, study }, &args)
    }
}

/// What is wrong with a scenario is told apart from what went wrong in a run.
pub(super) fn twin(error: TwinError) -> anyhow::Error {
    match error {
        TwinError::Scenario(error) => error.into(),
        other => other.into(),
    }
}

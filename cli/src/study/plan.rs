use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use super::args::StudyArgs;
use super::run::run;
use super::sim::twin;
use super::{Study, Subject};

/// Planners, one for each system.
#[derive(Debug, Subcommand)]
pub enum Plan {
    /// The router: the cheapest cores and frequency for each load, what each policy would draw on
    /// your traffic, and the least that anybody could
    #[command(after_help = "\
Examples:
  ebb plan router examples/router-plan.toml
  ebb plan router examples/router-plan.toml --set headroom=0.1,0.2,0.3 --json")]
    Router(StudyArgs),
}

impl Plan {
    /// Plans.
    pub fn run(self) -> Result<ExitCode> {
        let (system, study, args): (_, Study, _) = match self {
            Plan::Router(args) => (
                "router",
                |document, files, seed, progress| {
                    ebb_system_router::plan::plan(document, files, seed, progress).map_err(twin)
                },
                args,
            ),
        };
        run(Subject { kind: "plan", system, study }, &args)
    }
}

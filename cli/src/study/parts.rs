//! `ebb sweep`: what is done with sweeps that were computed in parts.
//!
//! Room: arguments into `ebb_study::merge_shards`, its report onto the terminal. It knows no system.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebb_catalogue::{STUDIES, find};
use ebb_study::merge_shards;

use super::run::{print, status};
use super::{PROGRAM, Watched};

/// Put together sweeps that were computed in parts
#[derive(Debug, Subcommand)]
pub enum Sweep {
    /// Make one directory of those of all parts, as one run would have written it
    Merge(Merge),
}

/// What is put together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb sim noc sweep.toml --set load=0.1..0.9:0.1 --shard 1/2 --out part-1      on one machine
  ebb sim noc sweep.toml --set load=0.1..0.9:0.1 --shard 2/2 --out part-2      on another
  ebb sweep merge part-1 part-2 --out whole

All parts are computed by the same build of ebb; a part that was interrupted goes on with the same command.")]
pub struct Merge {
    /// Directories of all parts
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    /// Directory for report.html, report.json, the tables and the finished runs
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Sweep {
    /// Does it.
    pub fn run(self) -> Result<ExitCode> {
        let Sweep::Merge(Merge { parts, out, json }) = self;
        let watched = Watched::start()?;
        let known = |kind: &str, system: &str| {
            let kind =
                STUDIES.iter().map(|study| study.kind()).find(|known| known.name() == kind)?;
            find(kind, system)
        };
        match merge_shards(&parts, &out, &known, PROGRAM, &watched) {
            Ok(report) => {
                print(&report, json, Some(&out))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Ok(status(&error)),
        }
    }
}

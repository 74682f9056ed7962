//! `ebb fabric convert`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ebb_system_fabric::format::{graphml, ibnetdiscover, ibsim};

/// Convert a fabric between formats, or write a generated fabric
#[derive(Debug, Args)]
#[command(after_help = "\
TOPOLOGY as for `ebb fabric route`.

Exit status: 0 written, 2 the topology cannot be read.

Examples:
  ebb fabric convert ibnetdiscover.txt --to graphml --out fabric.graphml
  ebb fabric convert torus:8x8 --to ibsim --out torus.net && ibsim -s torus.net")]
pub struct Convert {
    /// File, directory or name of a generated fabric
    topology: String,
    /// The format to write
    #[arg(long, value_enum)]
    to: Format,
    /// The file to write; default: standard output
    #[arg(long)]
    out: Option<PathBuf>,
    /// Hosts on each switch of a GraphML file that has none
    #[arg(long, default_value_t = 1)]
    hosts: u32,
    /// Seed of `random:`
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A format of fabrics.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Ibnetdiscover,
    Graphml,
    Ibsim,
}

impl Convert {
    /// Reads one format and writes another.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let topology = match super::files::topology(&self.topology, self.hosts, self.seed) {
            Ok(topology) => topology,
            Err(error) => return Ok(super::unreadable(&error)),
        };
        let text = match self.to {
            Format::Ibnetdiscover => ibnetdiscover::write(&topology),
            Format::Graphml => graphml::write(&topology),
            Format::Ibsim => ibsim::write(&topology),
        };
        match &self.out {
            Some(path) => std::fs::write(path, text)?,
            None => std::io::stdout().write_all(text.as_bytes())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

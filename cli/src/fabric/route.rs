//! `ebb fabric route`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ebb_system_fabric::Fabric;
use ebb_system_fabric::format::set;
use ebb_system_fabric::routing::{self, Options, RoutingError};
use ebb_system_fabric::topology::Link;

/// Compute tables for a fabric and prove them sound
#[derive(Debug, Args)]
#[command(after_help = "\
TOPOLOGY is a file (ibnetdiscover, also with -p or -g, opensm-subnet.lst, ibsim net list, GraphML, GML, SNDlib XML,
node-link JSON), a directory with one, or the name of a generated fabric: torus:8x8[,hosts=1], mesh:4x4x4, tree:ARITYxLEVELS, pods:RADIX, dragonfly:HOSTS,
dragonfly:GROUPSxSWITCHESxGLOBALxHOSTS, random:SWITCHESxDEGREE.
Routing functions: up-down, dimension-order, west-first, layered, nue, min-hop.

`ebb fabric check` reads the files in --out; opensm-lfts.dump can be loaded by
`opensm -R file -U opensm-lfts.dump`.

Exit status: 0 the tables are sound, 1 they are not, 2 the topology cannot be read.

Examples:
  ebb fabric route torus:8x8 --with dimension-order --out before
  ebb fabric route ibnetdiscover.txt --with up-down --off S-03-03:1 --out after
  ebb fabric route pods:8 --with nue --lanes 2 --json")]
pub struct Route {
    /// File, directory or name of a generated fabric
    topology: String,
    /// The routing function
    #[arg(long, default_value = "up-down")]
    with: String,
    /// A link that is off, by one of its ends: name of the switch, or its GUID if the name is not unique
    #[arg(long, value_name = "SWITCH:PORT")]
    off: Vec<String>,
    /// Lanes the routing function may use
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=15))]
    lanes: u8,
    /// Root of up-down, by name or GUID
    #[arg(long)]
    root: Option<String>,
    /// Hosts on each switch of a GraphML file that has none
    #[arg(long, default_value_t = 1)]
    hosts: u32,
    /// Seed of `random:`
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory for the tables
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

impl Route {
    /// Makes the tables, proves them and writes them.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let topology = match super::files::topology(&self.topology, self.hosts, self.seed) {
            Ok(topology) => topology,
            Err(error) => return Ok(super::unreadable(&error)),
        };
        let links: Result<Vec<Link>, String> =
            self.off.iter().map(|end| topology.link_called(end)).collect();
        let topology = match links {
            Ok(links) => topology.without(&links),
            Err(error) => return Ok(super::unreadable(&error)),
        };
        let options = Options { lanes: self.lanes, root: self.root.clone() };
        let routed = routing::by_name(&self.with)
            .and_then(|function| routing::route(function, &topology, &options));
        let (tables, verdict) = match routed {
            Ok(routed) => routed,
            Err(error @ (RoutingError::Unknown { .. } | RoutingError::NoSuchRoot(_))) => {
                return Ok(super::unreadable(&error));
            }
            Err(error) => {
                eprintln!("ebb: {error}");
                return Ok(super::verdict(false));
            }
        };
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
            replace_set(folder, &set::write(&Fabric { topology, tables }))?;
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&verdict)?)?;
        } else {
            super::check::print(&mut out, &verdict, false)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a set of files in place of whatever set was there: what this one does not have, such as
/// another run's service levels, goes.
fn replace_set(folder: &Path, files: &[(&str, String)]) -> std::io::Result<()> {
    for name in set::ALL {
        for stale in [folder.join(name), folder.join(format!("{name}.gz"))] {
            match std::fs::remove_file(&stale) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    files.iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

//! `ebb schema`: what a scenario or a daemon's configuration may hold, for editors and readers.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ebb_catalogue::STUDIES;
use ebb_clusterd::config::ClusterConfig;
use ebb_routerd::config::Config;
use ebb_scenario::Schema as Declared;
use ebb_study::{json_schema_of, reference_of};
use ebb_tord::config::{OcsConfig, TorConfig};

/// Print the settings of a scenario or configuration with type, unit, range and default
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb schema circuit > circuit.schema.json       JSON Schema, for editors of TOML
  ebb schema circuit --of plan --reference       a reference page in Markdown
  ebb schema route --of fabric                   that of `ebb fabric route`
  ebb schema router --of daemon                  the configuration of `ebb router run`")]
pub struct Schema {
    /// The system, command or daemon
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// Whose: the simulator's (sim), the planner's (plan), a command's of a group (fabric) or a daemon's (daemon)
    #[arg(long, value_name = "KIND", default_value = "sim", value_parser = kinds())]
    of: String,
    /// Print a page in Markdown instead of JSON Schema
    #[arg(long)]
    reference: bool,
}

/// The kinds of studies that have scenarios.
fn kinds() -> PossibleValuesParser {
    let kinds =
        STUDIES.iter().filter(|study| study.has_scenario()).map(|study| study.kind().name());
    PossibleValuesParser::new(kinds.chain([DAEMON]).collect::<BTreeSet<_>>())
}

/// What `--of` says for daemons' configurations.
const DAEMON: &str = "daemon";

/// A daemon's configuration: its name, what it is, its declaration.
type Configuration = (&'static str, &'static str, fn() -> Declared);

/// The configurations of daemons.
const DAEMONS: [Configuration; 4] = [
    ("router", "A router: its ports, workers, governor and applications", Config::schema),
    ("cluster", "A cluster: one file for all its machines", Declared::of::<ClusterConfig>),
    ("tor", "A top-of-rack switch and its racks", Declared::of::<TorConfig>),
    (
        "ocs",
        "An emulated optical switch and the controller of its circuits",
        Declared::of::<OcsConfig>,
    ),
];

impl Schema {
    /// Prints it.
    pub fn run(self) -> Result<ExitCode> {
        if self.of == DAEMON {
            return self.of_daemon();
        }
        let of_kind = || STUDIES.iter().filter(|study| study.kind().name() == self.of);
        let study = of_kind().find(|study| study.system == self.system);
        let text = study.and_then(|study| match self.reference {
            true => study.reference(),
            false => study.json_schema().map(|schema| format!("{schema:#}\n")),
        });
        let Some(text) = text else {
            let declared = of_kind().filter(|study| study.schema.is_some());
            let known: Vec<&str> = declared.map(|study| study.system).collect();
            let Schema { of, system, .. } = self;
            bail!("there is no schema of `{of} {system}`; known: {}", known.join(", "));
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    fn of_daemon(&self) -> Result<ExitCode> {
        let found = DAEMONS.iter().find(|(name, ..)| *name == self.system);
        let Some((name, about, declared)) = found else {
            let known = DAEMONS.map(|(name, ..)| name).join(", ");
            bail!("there is no schema of the daemon `{}`; known: {known}", self.system);
        };
        let command = format!("{name} run");
        let text = match self.reference {
            true => reference_of(&command, about, &declared()),
            false => format!("{:#}\n", json_schema_of(&command, &declared())),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

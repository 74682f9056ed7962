//! `ebb schema`: what a scenario may hold, for editors and readers.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ebb_study::Kind;

/// Print the settings of a scenario with type, unit, range and default
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb schema circuit > circuit.schema.json       JSON Schema, for editors of TOML
  ebb schema circuit --of plan --reference       a reference page in Markdown")]
pub struct Schema {
    /// The system
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// Scenario of the simulator or of the planner
    #[arg(long, value_name = "KIND", default_value = "sim")]
    of: Of,
    /// Print a page in Markdown instead of JSON Schema
    #[arg(long)]
    reference: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// The simulator's
    Sim,
    /// The planner's
    Plan,
}

impl Schema {
    /// Prints it.
    pub fn run(self) -> Result<ExitCode> {
        let kind = match self.of {
            Of::Sim => Kind::Sim,
            Of::Plan => Kind::Plan,
        };
        let study = ebb_catalogue::find(kind, &self.system);
        let text = study.and_then(|study| match self.reference {
            true => study.reference(),
            false => study.json_schema().map(|schema| format!("{schema:#}\n")),
        });
        let Some(text) = text else {
            let declared = ebb_catalogue::of(kind).filter(|study| study.schema.is_some());
            let known: Vec<&str> = declared.map(|study| study.system).collect();
            let kind = kind.name();
            bail!("there is no schema of `{kind} {}`; known: {}", self.system, known.join(", "));
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

use std::path::PathBuf;

use clap::Args;

/// Arguments of every simulator and planner
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// The scenario, in TOML
    #[arg(value_name = "FILE")]
    pub scenario: PathBuf,
    /// Replace a value of the scenario; a range LOW..HIGH:STEP or a list A,B,C makes a sweep over
    /// all combinations
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Seed of everything that is drawn, instead of the scenario's `seed`; 1 if neither says
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where report.html, report.json, the tables as CSV and the exact scenario go [default:
    /// ebb-runs/…, named after the scenario]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the report as JSON; writes no directory unless --out names one
    #[arg(long)]
    pub json: bool,
    /// Points of a sweep computed at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Compute all points of a sweep again, also those an earlier run finished
    #[arg(long)]
    pub fresh: bool,
}

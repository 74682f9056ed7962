//! The arguments that all studies have.

use std::path::PathBuf;

use clap::Args;

use ebb_study::{Interval, Shard, Until};

/// Arguments of every simulator and planner.
#[derive(Debug, Default, Args)]
pub struct StudyArgs {
    /// The scenario, in TOML
    #[arg(value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Replace a value of the scenario; a range LOW..HIGH:STEP or a list A,B,C makes a sweep over
    /// all combinations
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Seed of all random numbers, instead of the scenario's `seed`; default 1
    #[arg(long)]
    pub seed: Option<u64>,
    /// Repeat each run with this many seeds, from --seed on: figures become means with 95 % intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub seeds: Option<u32>,
    /// Repeat each run with further seeds until the 95 % interval of its headline figures, or of FIGURE, is
    /// within this share of the mean on both sides; --seeds is then the maximum [default: 100]
    #[arg(long, value_name = "[FIGURE=]SHARE", value_parser = Until::parse)]
    pub until: Option<Until>,
    /// Find the highest value of a setting at which the system is stable, by bisection of LOW..HIGH (to 1 %
    /// of HIGH, or to STEP), for each point of a sweep
    #[arg(long, value_name = "PATH=LOW..HIGH[:STEP]", value_parser = Interval::parse,
          conflicts_with_all = ["seeds", "until"])]
    pub saturation: Option<Interval>,
    /// Compute only this part of a sweep, for example 3/64, here or on another machine; `ebb sweep merge`
    /// puts the directories of all parts together
    #[arg(long, value_name = "NUMBER/COUNT", value_parser = Shard::parse, conflicts_with = "saturation")]
    pub shard: Option<Shard>,
    /// Directory for report.html, report.json, the tables as CSV and the exact scenario [default: ebb-runs/…,
    /// named after the scenario]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the configuration that runs into this file, - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "until", "saturation", "shard"])]
    pub emit: Option<PathBuf>,
    /// Print the report as JSON; writes no directory without --out
    #[arg(long)]
    pub json: bool,
    /// Points of a sweep computed at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Compute all points of a sweep again, including those that an earlier run finished
    #[arg(long)]
    pub fresh: bool,
}

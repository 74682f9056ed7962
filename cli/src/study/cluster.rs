use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_report::{Report, Terminal};
use ebb_system_cluster::{ClusterError, Method, Problem};

use super::args::Outputs;
use super::place::Directory;
use super::run::run;
use super::{Subject, Unreadable, Watched};

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit status when a file or a value makes no sense.
const UNREADABLE: u8 = 2;

/// Arguments of `ebb plan cluster`: a problem file, or the problem itself as flags
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The problem, in TOML; instead of it --catalogue and --demand
    #[arg(value_name = "FILE", required_unless_present = "catalogue",
          conflicts_with_all = ["catalogue", "demand"])]
    scenario: Option<PathBuf>,
    /// Servers to choose from: CSV with the columns group, capacity_mbps, power_full_w, power_idle_w,
    /// price, available (empty: as many as wanted)
    #[arg(long, value_name = "FILE.csv", requires = "demand")]
    catalogue: Option<String>,
    /// Traffic over time: CSV with the columns seconds (when each sample begins) and mbps
    #[arg(long, value_name = "FILE.csv", requires = "catalogue")]
    demand: Option<String>,
    /// What designs IV and V may cost, in the catalogue's money [default: anything]
    #[arg(long, value_name = "PRICE", requires = "catalogue")]
    budget: Option<f64>,
    /// Keep one server more on than the load needs, so that any may fail
    #[arg(long, requires = "catalogue")]
    spare: bool,
    /// A server that is on draws its full power whatever its load, as the published model has it
    #[arg(long, requires = "catalogue")]
    flat: bool,
    /// Choose servers on the demand averaged over so many seconds, evaluate them on it as it is
    #[arg(long, value_name = "SECONDS", requires = "catalogue")]
    design_seconds: Option<f64>,
    /// Solve the goal program as published with a mixed-integer solver: small problems only
    #[arg(long, requires = "catalogue")]
    program: bool,
    /// Replace a value of the problem file; a range LOW..HIGH:STEP or a list A,B,C makes a sweep
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "catalogue")]
    set: Vec<String>,
    #[command(flatten)]
    outputs: Outputs,
}

impl ClusterArgs {
    /// Plans.
    pub(super) fn run(self) -> Result<ExitCode> {
        if let (Some(catalogue), Some(demand)) = (&self.catalogue, &self.demand) {
            return self.by_flags(&self.problem(catalogue, demand));
        }
        let subject = Subject {
            kind: "plan",
            system: "cluster",
            study: |document, files, seed, progress| {
                ebb_system_cluster::plan(document, files, seed, progress)
                    .map_err(|error| Unreadable(error.to_string()).into())
            },
        };
        let scenario = self.scenario.unwrap_or_default();
        run(subject, &self.outputs.of(scenario, self.set, None))
    }

    fn problem(&self, catalogue: &str, demand: &str) -> Problem {
        let mut problem = Problem::new(catalogue, demand);
        (problem.budget, problem.spare, problem.flat) = (self.budget, self.spare, self.flat);
        problem.design_seconds = self.design_seconds;
        problem.method = if self.program { Method::Program } else { Method::Search };
        problem
    }

    fn by_flags(&self, problem: &Problem) -> Result<ExitCode> {
        let watched = Watched::start()?;
        let solved = problem.report(&Directory::at(Path::new("")), &watched);
        watched.clear();
        match solved {
            Ok(report) => self.tell(&report),
            Err(ClusterError::Stopped) => {
                eprintln!("ebb: interrupted");
                Ok(ExitCode::from(INTERRUPTED))
            }
            Err(error) => {
                let said = error.to_string();
                let said = said
                    .strip_prefix("field `budget`")
                    .map_or(said.clone(), |rest| format!("--budget{rest}"));
                eprintln!("ebb: {said}");
                Ok(ExitCode::from(UNREADABLE))
            }
        }
    }

    fn tell(&self, report: &Report) -> Result<ExitCode> {
        if let Some(directory) = &self.outputs.out {
            report.save(directory)?;
        }
        let text = if self.outputs.json {
            serde_json::to_string_pretty(&report.figures)? + "\n"
        } else {
            report.to_terminal(&Terminal::of_stdout())
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

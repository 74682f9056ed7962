use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_report::Terminal;
use ebb_system_circuit::Problem;

use super::args::Outputs;
use super::place::Directory;
use super::run::run;
use super::{Subject, Unreadable, Watched};

/// Arguments of `ebb plan circuit`: a problem file, or the problem itself as flags
#[derive(Debug, Args)]
pub struct CircuitArgs {
    /// The problem, in TOML; instead of it --demand
    #[arg(value_name = "FILE", required_unless_present = "demand", conflicts_with = "demand")]
    scenario: Option<PathBuf>,
    /// csv:FILE (a row of numbers for each input, in units of what a link carries in a window of 1),
    /// or uniform:PORTS, sparse:PORTS, hotspot:PORTS
    #[arg(long)]
    demand: Option<String>,
    /// Length of a night
    #[arg(long, default_value_t = 0.01, requires = "demand")]
    delta: f64,
    /// Length of the window
    #[arg(long, default_value_t = 1.0, requires = "demand")]
    window: f64,
    /// all, or names with commas: round-robin, tms-arbitrary, tms-bottleneck, solstice, eclipse,
    /// eclipse-2hop, hybrid
    #[arg(long, default_value = "all", requires = "demand")]
    scheduler: String,
    /// Let schedulers see each amount with an error of up to this share
    #[arg(long, default_value_t = 0.0, requires = "demand")]
    error: f64,
    /// Capacity of the hybrid's packet switch as a share of a circuit's
    #[arg(long, default_value_t = 0.1, requires = "demand")]
    packet_share: f64,
    /// Leave the bound out
    #[arg(long, requires = "demand")]
    no_bound: bool,
    /// Replace a value of the problem file; a range LOW..HIGH:STEP or a list A,B,C makes a sweep
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "demand")]
    set: Vec<String>,
    /// Seed of everything that is drawn [default: the problem's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    outputs: Outputs,
}

impl CircuitArgs {
    /// Plans.
    pub(super) fn run(self) -> Result<ExitCode> {
        if let Some(demand) = &self.demand {
            return match self.solve(demand) {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(error) if crate::is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
                Err(error) => {
                    eprintln!("ebb: {}", crate::said(&error));
                    Ok(ExitCode::from(2))
                }
            };
        }
        let subject = Subject {
            kind: "plan",
            system: "circuit",
            study: |document, files, seed, progress| {
                ebb_system_circuit::plan(document, files, seed, progress)
                    .map_err(Unreadable::because)
            },
        };
        let scenario = self.scenario.unwrap_or_default();
        run(subject, &self.outputs.of(scenario, self.set, self.seed))
    }

    fn solve(&self, demand: &str) -> Result<()> {
        let problem = Problem {
            delta: self.delta,
            window: self.window,
            scheduler: self.scheduler.clone(),
            error: self.error,
            packet_share: self.packet_share,
            bound: !self.no_bound,
            ..Problem::new(demand)
        };
        let files = Directory::at(Path::new(""));
        let watched = Watched::start()?;
        let plan = problem.solve(&files, self.seed.unwrap_or(1), &watched);
        watched.clear();
        let plan = plan?;
        let report = plan.report(&format!("Circuits for {demand}"));
        if let Some(directory) = &self.outputs.out {
            report.save(directory)?;
        }
        let text = if self.outputs.json {
            serde_json::to_string(&plan)? + "\n"
        } else {
            report.to_terminal(&Terminal::of_stdout())
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

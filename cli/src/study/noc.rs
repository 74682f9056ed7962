use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ebb_report::Terminal;
use ebb_system_noc::{NocError, Normalise, Problem};

use super::args::Outputs;
use super::place::Directory;
use super::run::run;
use super::{Subject, Unreadable, Watched};

/// Arguments of `ebb plan noc`: a problem file, or the problem itself as flags
#[derive(Debug, Args)]
pub struct NocArgs {
    /// The problem, in TOML; instead of it --mesh and --traffic
    #[arg(value_name = "FILE", required_unless_present = "mesh", conflicts_with_all = ["mesh", "traffic"])]
    scenario: Option<PathBuf>,
    /// Rows x columns, such as 5x5
    #[arg(long, value_name = "ROWSxCOLUMNS", requires = "traffic")]
    mesh: Option<String>,
    /// Close rows and columns
    #[arg(long, requires = "mesh")]
    torus: bool,
    /// uniform, normal, transpose, tornado, hotspot, csv:FILE (N rows of N numbers, row = source,
    /// tiles numbered row by row) or task:FILE (columns src, dst, rate)
    #[arg(long, requires = "mesh")]
    traffic: Option<String>,
    /// all, or names with commas: xy, yx, 2p-es, 2p-rs, 4p-es, adaptive
    #[arg(long, default_value = "all", requires = "mesh")]
    routing: String,
    /// What the matrix is multiplied with after normalising
    #[arg(long, default_value_t = 1.0, requires = "mesh")]
    load: f64,
    /// What load 1 means [default: none for csv, max for everything else]
    #[arg(long, requires = "mesh")]
    normalise: Option<Normalisation>,
    /// The largest expansion factor V_max/V, at least 1
    #[arg(long, default_value_t = 3.0, requires = "mesh")]
    alpha_max: f64,
    /// Planes, each with a voltage of its own
    #[arg(long, default_value_t = 1, requires = "mesh")]
    planes: usize,
    /// Expansion factors of the planes, with commas: adds the best allocation of whole flows at just these
    /// voltages
    #[arg(long, value_name = "ALPHA,ALPHA", value_delimiter = ',', requires = "mesh")]
    alphas: Vec<f64>,
    /// Compute the sampled method at this many expansion factors beside the exact bound
    #[arg(long, default_value_t = 0, requires = "mesh")]
    samples: usize,
    /// Leave the exact bound out
    #[arg(long, requires = "mesh")]
    no_bound: bool,
    /// Add everything that proves the bound to the JSON; docs/verify_bound.py verifies it
    #[arg(long, requires = "mesh", requires = "json")]
    certificate: bool,
    /// Replace a value of the problem file; a range LOW..HIGH:STEP or a list A,B,C makes a sweep
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "mesh")]
    set: Vec<String>,
    /// Seed of everything that is drawn [default: the problem's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Normalisation {
    /// Rates are in units of a link's capacity
    None,
    /// The fullest link over all compared routings is full
    Max,
    /// The fullest link under XY is full
    Xy,
}

impl NocArgs {
    /// Plans.
    pub(super) fn run(self) -> Result<ExitCode> {
        if let (Some(mesh), Some(traffic)) = (&self.mesh, &self.traffic) {
            let problem = self.problem(mesh, traffic);
            return match self.solve(&problem) {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(error) => {
                    eprintln!("ebb: {}", crate::said(&error));
                    Ok(ExitCode::from(2))
                }
            };
        }
        let subject = Subject {
            kind: "plan",
            system: "noc",
            study: |document, files, seed, progress| {
                ebb_system_noc::plan(document, files, seed, progress)
                    .map_err(|error| Unreadable(error.to_string()).into())
            },
        };
        let scenario = self.scenario.unwrap_or_default();
        run(subject, &self.outputs.of(scenario, self.set, self.seed))
    }

    fn problem(&self, mesh: &str, traffic: &str) -> Problem {
        let mut problem = Problem::new(mesh, traffic);
        problem.torus = self.torus;
        problem.routing.clone_from(&self.routing);
        problem.load = self.load;
        problem.normalise = self.normalise.map(|normalise| match normalise {
            Normalisation::None => Normalise::None,
            Normalisation::Max => Normalise::Max,
            Normalisation::Xy => Normalise::Xy,
        });
        problem.alpha_max = self.alpha_max;
        problem.planes = self.planes;
        problem.alphas.clone_from(&self.alphas);
        problem.samples = self.samples;
        problem.bound = !self.no_bound;
        problem.certificate = self.certificate;
        problem
    }

    fn solve(&self, problem: &Problem) -> Result<()> {
        let files = Directory::at(Path::new(""));
        let watched = Watched::start()?;
        let solved = problem.solve(&files, self.seed.unwrap_or(1), &watched);
        watched.clear();
        let solved = solved.map_err(|error: NocError| anyhow::anyhow!(error))?;
        let report = solved.report(problem);
        if let Some(directory) = &self.outputs.out {
            report.save(directory)?;
        }
        if self.outputs.json {
            println!("{}", serde_json::to_string_pretty(&solved.plan)?);
        } else {
            print!("{}", report.to_terminal(&Terminal::of_stdout()));
        }
        Ok(())
    }
}

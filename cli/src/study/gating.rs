use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ebb_report::Terminal;
use ebb_system_gating::{CoreSettings, Idle, Keeping, Scenario, SimulateError};

use super::args::Outputs;
use super::place::Directory;
use super::run::run;
use super::{Subject, Unreadable, Watched};

/// Arguments of `ebb sim gating`: a scenario file, or a trace and the machine as flags
#[derive(Debug, Args)]
pub struct GatingArgs {
    /// The scenario, in TOML; instead of it --trace
    #[arg(value_name = "FILE", required_unless_present = "trace", conflicts_with = "trace")]
    scenario: Option<PathBuf>,
    /// A trace of memory references, plain, gz, xz or zstd; several times: one for each core
    #[arg(long, value_name = "FILE")]
    trace: Vec<String>,
    /// champsim, cloudsuite, lackey, din, ramulator, ramulator-memory or compact [default: told from the name
    /// and the first bytes]
    #[arg(long, requires = "trace")]
    format: Option<String>,
    /// The trace holds what the last cache let through: straight to memory
    #[arg(long, requires = "trace")]
    filtered: bool,
    /// The cores: ev6 (out of order, six wide, 3.3 GHz) or io (in order, two wide, 2 GHz)
    #[arg(long, default_value = "ev6", requires = "trace")]
    core: String,
    /// How many; each runs the trace in an address space of its own
    #[arg(long, default_value_t = 1, requires = "trace")]
    cores: usize,
    /// Threads of the trace are dealt out to the cores instead, in one address space
    #[arg(long, requires = "trace")]
    split: bool,
    /// all, or names with commas: none, oracle, counter, tap, fupg, dvfs-mean, dvfs-oracle, cyclic,
    /// hybrid
    #[arg(long, default_value = "all", requires = "trace")]
    controller: String,
    /// Time to charge a core, ns [default: 10.2 (ev6), 8.06 (io)]
    #[arg(long, requires = "trace")]
    wake_ns: Option<f64>,
    /// Leakage as a part of a core's power at work [default: 0.4]
    #[arg(long, requires = "trace")]
    leakage_share: Option<f64>,
    /// How wake-ups of neighbours are kept apart: none, worst, central, staggered or slots
    #[arg(long, requires = "trace")]
    keeping: Option<String>,
    /// The part of the time in which there is something to do, above 0; the trace is that part
    #[arg(long, default_value_t = 1.0, requires = "trace")]
    load: f64,
    /// What cores do in the rest of it: poll, halt or sleep
    #[arg(long, requires = "trace")]
    idle: Option<String>,
    /// References of each core that only warm the caches
    #[arg(long, default_value_t = 0, requires = "trace")]
    warmup: u64,
    /// References of each core after those; 0 for all
    #[arg(long, default_value_t = 0, requires = "trace")]
    references: u64,
    /// Replace a value of the scenario; a range LOW..HIGH:STEP or a list A,B,C makes a sweep
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "trace")]
    set: Vec<String>,
    /// Seed of everything that is drawn [default: the scenario's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    outputs: Outputs,
}

/// A scenario cannot be read or makes no sense.
const UNREADABLE: u8 = 2;
/// Ctrl-C.
const INTERRUPTED: u8 = 130;

impl GatingArgs {
    /// Simulates.
    pub(super) fn run(self) -> Result<ExitCode> {
        if !self.trace.is_empty() {
            return self.short();
        }
        let subject = Subject {
            kind: "sim",
            system: "gating",
            study: |document, files, seed, progress| {
                ebb_system_gating::simulate(document, files, seed, progress)
                    .map_err(Unreadable::because)
            },
        };
        let scenario = self.scenario.unwrap_or_default();
        run(subject, &self.outputs.of(scenario, self.set, self.seed))
    }

    fn short(&self) -> Result<ExitCode> {
        let scenario = match self.scenario() {
            Ok(scenario) => scenario,
            Err(wrong) => {
                eprintln!("ebb: {wrong}");
                return Ok(ExitCode::from(UNREADABLE));
            }
        };
        let watched = Watched::start()?;
        let (files, seed) = (Directory::at(Path::new("")), self.seed.unwrap_or(1));
        let report = ebb_system_gating::simulate_scenario(&scenario, &files, seed, &watched);
        watched.clear();
        let report = match report {
            Ok(report) => report,
            Err(SimulateError::Stopped) => {
                eprintln!("ebb: interrupted");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(error) => {
                eprintln!("ebb: {}", crate::said(&error.into()));
                return Ok(ExitCode::from(UNREADABLE));
            }
        };
        let report = report.figure("seed", seed).figure("revision", env!("EBB_REVISION"));
        if let Some(directory) = &self.outputs.out {
            report.save(directory)?;
        }
        if self.outputs.json {
            print!("{}", report.to_json());
        } else {
            print!("{}", report.to_terminal(&Terminal::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn scenario(&self) -> Result<Scenario, String> {
        let core = CoreSettings::named(&self.core)
            .ok_or_else(|| format!("--core: no core `{}`; ev6 or io", self.core))?;
        let keeping = self.keeping.as_deref().map(|name| {
            let known = "none, worst, central, staggered or slots";
            Keeping::named(name).ok_or_else(|| format!("--keeping: no `{name}`; {known}"))
        });
        let idle = self.idle.as_deref().map(|name| {
            Idle::named(name).ok_or_else(|| format!("--idle: no `{name}`; poll, halt or sleep"))
        });
        let base = Scenario { core, ..Scenario::default() };
        Ok(Scenario {
            trace: self.trace.clone().into(),
            format: self.format.clone(),
            filtered: self.filtered,
            split: self.split,
            cores: self.cores,
            warmup: self.warmup,
            references: self.references,
            controllers: vec![self.controller.clone()].into(),
            keeping: keeping.transpose()?.unwrap_or(base.keeping),
            load: self.load,
            idle: idle.transpose()?.unwrap_or(base.idle),
            wake_ns: self.wake_ns,
            leakage_share: self.leakage_share.unwrap_or(base.leakage_share),
            ..base
        })
    }
}

//! `ebb demo cluster`: a compressed day before a row of back-ends that come and go with the load, one of
//! which is killed in the middle.

mod findings;
mod planned;
mod play;
mod twin;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_report::Terminal;
use ebb_traffic::DayProfile;

use super::{INTERRUPTED, say};
use crate::generator::{interrupt_signals, on_interrupt};
use play::Stage;

/// A compressed day through a cluster whose back-ends go on and off with the load; one is killed in the
/// middle
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb demo cluster
  sudo ebb demo cluster --seconds 20 --report /tmp/day --policy predictive
  sudo ebb demo cluster --plan examples/cluster-plan-run.toml

Everything runs in network namespaces of this machine, which are removed afterwards: hosts, a balancer
over AF_XDP, two Ethernet segments, and back-ends that are plain kernel routers. The directory of --report
gets report.html and report.json.")]
pub struct ClusterDemo {
    /// Length of the day
    #[arg(long, default_value_t = 30.0)]
    pub(super) seconds: f64,
    /// Directory for the report
    #[arg(long, value_name = "DIR", default_value = "ebb-report")]
    pub(super) report: PathBuf,
    /// A plan's problem file (`ebb plan cluster FILE`): its servers, day, policy and reserves, scaled to --peak;
    /// nobody is killed, and the plan, the simulator and the live day are compared
    #[arg(long, value_name = "FILE", conflicts_with_all = ["back_ends", "profile"])]
    pub(super) plan: Option<PathBuf>,
    #[arg(skip)]
    planned: Option<Box<planned::PlannedDay>>,
    /// Which servers are on [default: differential; with --plan the plan's]
    #[arg(long,
          value_parser = clap::builder::PossibleValuesParser::new(["all", "differential", "optimum", "predictive"]))]
    pub(super) policy: Option<String>,
    /// Back-ends, 2 to 16
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(super) back_ends: u8,
    /// Packets per second at the peak, both directions together
    #[arg(long, value_name = "PPS", default_value_t = 40_000.0)]
    pub(super) peak: f64,
    /// The day
    #[arg(long, value_name = "DAY", default_value = "uk-backbone",
          value_parser = clap::builder::PossibleValuesParser::new(["uk-backbone", "eu-isp"]))]
    pub(super) profile: String,
    /// Where the state of the cluster is stored; the demonstration starts etcd [default: etcd where it is
    /// installed]
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(["etcd", "embedded"]))]
    pub(super) store: Option<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

/// Exit status when the plan makes no sense.
const UNREADABLE: u8 = 2;

impl ClusterDemo {
    /// Which servers are on, by its name.
    fn policy(&self) -> &str {
        let planned = self.planned.as_ref().map_or("differential", |day| day.policy);
        self.policy.as_deref().unwrap_or(planned)
    }

    /// The day's load in equal steps, packets per second.
    fn steps(&self) -> Vec<f64> {
        match &self.planned {
            Some(day) => day.steps.clone(),
            None => {
                let profile = DayProfile::by_name(&self.profile).expect("checked by the parser");
                profile.steps().iter().map(|load| load * self.peak).collect()
            }
        }
    }

    /// Plays the day and writes the report.
    pub fn run(mut self) -> Result<ExitCode> {
        let long = self.seconds >= 5.0 && self.seconds.is_finite();
        ensure!(long, "--seconds must be at least 5");
        ensure!(self.peak >= 100.0 && self.peak.is_finite(), "--peak must be at least 100");
        if let Some(file) = &self.plan {
            match planned::PlannedDay::read(file, self.peak)? {
                Ok(day) => self.planned = Some(Box::new(day)),
                Err(error) => {
                    eprintln!("ebb: {error}");
                    return Ok(ExitCode::from(UNREADABLE));
                }
            }
        }
        let signals = interrupt_signals()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut stage = Stage::build(&self)?;
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        let played = stage.play(&self, &stop)?;
        drop(stage);
        if stop.load(Relaxed) {
            say("Interrupted before the day was over; there is nothing to report.")?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let compared = planned::compared(&self, &played)?;
        let shown = compared.as_ref().map(|report| report.to_terminal(&Terminal::of_stdout()));
        let report = findings::report(&self, &played, compared)?;
        report.save(&self.report).context("cannot write the report")?;
        say(&format!(
            "\n{}\n{}{}\n\nReport: {}",
            findings::table(&played).to_terminal(&Terminal::of_stdout()),
            shown.unwrap_or_default(),
            findings::verdict(&played),
            self.report.join("report.html").display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

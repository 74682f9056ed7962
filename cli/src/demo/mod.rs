//! `ebb demo`: a working day through the router under each policy, and what it cost.
//!
//! The router and its hosts are a [`Stage`].

#[cfg(feature = "systems")]
mod circuit;
#[cfg(feature = "systems")]
mod cluster;
mod findings;
mod play;
mod twin;
mod view;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_host::process;
use ebb_report::{Terminal, write_file};
use ebb_traffic::DayProfile;
use ebb_units::PacketsPerSecond;

use crate::generator::{interrupt_signals, on_interrupt};
use crate::stage::{FLOWS, LiveStage, MemoryStage, Plan, Stage};
use findings::Facts;
use play::{Day, PEAK_SHARE, Player};
use view::{Scene, View};

/// Modes in the order of a full demonstration.
const MODES: [&str; 3] = ["poll", "napi", "powersave"];
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Demonstrations of other systems than the router.
#[cfg(feature = "systems")]
#[derive(Debug, clap::Subcommand)]
enum Other {
    Circuit(circuit::Circuit),
    Cluster(cluster::ClusterDemo),
}

/// Run a compressed working day through the router under each policy and compare their costs
#[derive(Debug, Args)]
#[cfg_attr(feature = "systems", command(args_conflicts_with_subcommands = true))]
#[command(after_help = "\
Examples:
  sudo ebb demo                                   a minute, in network namespaces over AF_XDP
  ebb demo --memory --seconds 15                  without privileges, over links in memory
  sudo ebb demo --modes poll,powersave --report /tmp/day

The directory of --report gets report.html, report.json and summary.svg.")]
pub struct Demo {
    #[cfg(feature = "systems")]
    #[command(subcommand)]
    other: Option<Other>,
    /// Length of all days together; measuring the capacity first takes a few seconds more
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Directory for the report
    #[arg(long, value_name = "DIR", default_value = "ebb-report")]
    report: PathBuf,
    /// Policies to show, in this order
    #[arg(long, value_delimiter = ',', default_values_t = MODES.map(String::from),
          value_parser = clap::builder::PossibleValuesParser::new(MODES))]
    modes: Vec<String>,
    /// Use links in memory even if namespaces are permitted
    #[arg(long)]
    memory: bool,
    /// The day (uk-backbone, eu-isp)
    #[arg(long, value_name = "DAY", default_value = "uk-backbone",
          value_parser = clap::builder::PossibleValuesParser::new(["uk-backbone", "eu-isp"]))]
    profile: String,
    /// Packets per second at the peak, instead of a share of the measured capacity
    #[arg(long, value_name = "PPS")]
    peak: Option<f64>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Demo {
    /// Plays all modes and writes the report.
    pub fn run(self) -> Result<ExitCode> {
        #[cfg(feature = "systems")]
        match self.other {
            Some(Other::Circuit(demo)) => return demo.run(),
            Some(Other::Cluster(demo)) => return demo.run(),
            None => {}
        }
        self.play_router()
    }

    fn play_router(self) -> Result<ExitCode> {
        ensure!(self.seconds >= 1.0 && self.seconds.is_finite(), "--seconds must be at least 1");
        ensure!(self.peak.is_none_or(|peak| peak >= 1.0), "--peak must be at least 1");
        let cpus = process::allowed_cpus()?;
        let plan = Arc::new(Plan::new(self.seed, &cpus));
        let signals = interrupt_signals()?;
        let (mut stage, place) = self.stage(&plan);
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        say(&place)?;
        let player = Player { plan: plan.clone(), stage: stage.as_mut(), stop: stop.clone() };
        let (facts, days) = self.play(player, place, cpus.len())?;
        if days.is_empty() {
            say("Interrupted before the first mode was finished; there is nothing to report.")?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
        self.conclude(&facts, &days)?;
        let code = if facts.interrupted { INTERRUPTED } else { 0 };
        Ok(ExitCode::from(code))
    }

    /// The best stage there is, and the sentence that says which.
    fn stage(&self, plan: &Arc<Plan>) -> (Box<dyn Stage>, String) {
        let same = "the same workers, graph and governor, without the kernel's interfaces.";
        let reason = if self.memory {
            "because of --memory".to_owned()
        } else {
            match LiveStage::new(plan.clone()) {
                Ok(stage) => {
                    let place = "Over AF_XDP on virtual interfaces between network namespaces.";
                    return (Box::new(stage), place.to_owned());
                }
                Err(error) => format!("because {error:#}"),
            }
        };
        let place = format!("Over links in memory, {reason}: {same}");
        (Box::new(MemoryStage::new(plan.clone())), place)
    }

    fn play(
        &self,
        mut player: Player<'_>,
        place: String,
        cpus: usize,
    ) -> Result<(Facts, Vec<Day>)> {
        let profile = DayProfile::by_name(&self.profile).expect("checked by the parser");
        let memory = player.stage.transport() == "memory";
        let top = PacketsPerSecond(if memory { 5e6 } else { 2e6 });
        say("Measuring the throughput of one polling worker ...")?;
        let capacity = player.capacity(top)?;
        let peak = self.peak.map_or(capacity.0 * PEAK_SHARE, |peak| peak);
        let span = Duration::from_secs_f64(self.seconds / self.modes.len() as f64);
        let plan = player.plan.clone();
        let mut facts = Facts {
            place,
            transport: player.stage.transport().into(),
            seed: self.seed,
            routes: plan.routes.len(),
            flows: 2 * FLOWS,
            sizes: plan.sizes.name().into(),
            profile: profile.name(),
            seconds: span.as_secs_f64(),
            capacity_pps: capacity.0,
            peak_pps: peak,
            cpus,
            generator_cpu: plan.generator_cpu,
            interrupted: false,
        };
        let mut days = Vec::new();
        if !player.stop.load(Relaxed) {
            say(&format!(
                "It forwards {:.0} kpps; the day's peak is {:.0} kpps. {},000 routes, {} flows, sizes {}.\n",
                capacity.0 / 1e3,
                peak / 1e3,
                facts.routes / 1000,
                facts.flows,
                facts.sizes,
            ))?;
        }
        let mut view = View::of_stdout();
        for (index, mode) in self.modes.iter().enumerate() {
            if player.stop.load(Relaxed) {
                break;
            }
            let scene = Scene {
                mode: mode.clone(),
                place: format!("{}/{}", index + 1, self.modes.len()),
                span,
                peak_pps: peak,
                workers: plan.cpus(mode).len(),
            };
            let peak = PacketsPerSecond(peak);
            let mut watch = |status: &_, moments: &[_], progress: &_| {
                view.show(&scene, status, moments, progress);
            };
            let day = player.profile(mode, profile, peak, span, &mut watch)?;
            if player.stop.load(Relaxed) {
                break;
            }
            view.finish(&day);
            days.push(day);
        }
        facts.interrupted = player.stop.load(Relaxed);
        Ok((facts, days))
    }

    fn conclude(&self, facts: &Facts, days: &[Day]) -> Result<()> {
        let profile = DayProfile::by_name(&self.profile).expect("checked by the parser");
        let modes: Vec<String> = days.iter().map(|day| day.mode.clone()).collect();
        let larger = twin::days(profile, &modes, self.seed).context("the twin's day")?;
        let report = findings::report(facts, days);
        let report = findings::add_twin(report, &larger);
        report.save(&self.report).context("cannot write the report")?;
        let picture = findings::picture(days);
        write_file(&self.report.join("summary.svg"), picture.as_bytes())?;
        let mut text = format!("\n{}", findings::table(days).to_terminal(&Terminal::of_stdout()));
        if facts.interrupted {
            text += "\n\
                 Interrupted: unfinished modes are left out.";
        }
        for verdict in findings::verdicts(days) {
            text += &format!("\n{verdict}");
        }
        text += &format!("\n\n{}", twin::table(&larger).to_terminal(&Terminal::of_stdout()));
        text += &format!("\nReport: {}", self.report.join("report.html").display());
        say(&text)
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

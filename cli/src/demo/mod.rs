//! `ebb demo`: a working day through the plain kernel and through the router under each policy, and what it cost.
//!
//! The router and its hosts are a [`Stage`].

mod account;
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

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebb_host::process;
use ebb_host::processors::Processors;
use ebb_report::{Terminal, write_file};
use ebb_traffic::DayProfile;
use ebb_units::PacketsPerSecond;

use crate::generator::{interrupt_signals, on_interrupt};
use crate::stage::{FLOWS, Forwarder, LiveStage, MemoryStage, Plan, Stage};
use findings::Facts;
use play::{Day, PEAK_SHARE, Player};
use view::{Scene, View};

/// What is compared, in the order of a full demonstration.
const SERIES: [(&str, Forwarder); 5] = [
    ("kernel", Forwarder::Kernel),
    ("poll", Forwarder::Ebb { mode: "poll", path: "worker" }),
    ("napi", Forwarder::Ebb { mode: "napi", path: "worker" }),
    ("powersave-workers", Forwarder::Ebb { mode: "powersave", path: "worker" }),
    ("powersave", Forwarder::Ebb { mode: "powersave", path: "auto" }),
];
/// Those of them that links in memory have.
const IN_MEMORY: [&str; 3] = ["poll", "napi", "powersave"];
/// How often each series is played where others work on the machine as well.
const ROUNDS: usize = 3;
/// How long the machine is looked at before anything runs, and how many processors others may use unmentioned.
const LOOK_ROUND: Duration = Duration::from_millis(500);
const OTHERS_MAX: f64 = 0.1;
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Demonstrations of other systems than the router.
#[cfg(feature = "systems")]
#[derive(Debug, clap::Subcommand)]
enum Other {
    Circuit(circuit::Circuit),
    Cluster(cluster::ClusterDemo),
}

/// Run a compressed working day through the plain kernel and through the router under each policy and compare their costs
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
    /// Length of all days together; measuring the capacity first and starting routers takes a third more
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Directory for the report
    #[arg(long, value_name = "DIR", default_value = "ebb-report")]
    report: PathBuf,
    /// What to compare, in this order: the kernel without Ebb, a policy with workers, or `powersave` as it is by default,
    /// which on virtual links forwards in the kernel. All of them, if not given
    #[arg(long, value_delimiter = ',',
          value_parser = clap::builder::PossibleValuesParser::new(SERIES.map(|(name, _)| name)))]
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
        let series = self.series(stage.transport() == "memory")?;
        let player =
            Player { plan: plan.clone(), stage: stage.as_mut(), stop: stop.clone(), alone: None };
        let (facts, days) = self.play(player, &series, place, cpus.len())?;
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
                    let place = "On virtual interfaces between network namespaces.";
                    return (Box::new(stage), place.to_owned());
                }
                Err(error) => format!("because {error:#}"),
            }
        };
        let place = format!("Over links in memory, {reason}: {same}");
        (Box::new(MemoryStage::new(plan.clone())), place)
    }

    /// What is compared, which is less where there is no kernel between the links.
    fn series(&self, memory: bool) -> Result<Vec<(&'static str, Forwarder)>> {
        let named =
            |name: &str| self.modes.is_empty() || self.modes.iter().any(|mode| mode == name);
        let mut wanted: Vec<_> = SERIES.into_iter().filter(|(name, _)| named(name)).collect();
        wanted.sort_by_key(|(name, _)| self.modes.iter().position(|mode| mode == name));
        if memory {
            let absent = self.modes.iter().find(|mode| !IN_MEMORY.contains(&mode.as_str()));
            if let Some(mode) = absent {
                bail!(
                    "--modes {mode} needs network namespaces; over links in memory there are {}",
                    IN_MEMORY.join(", ")
                );
            }
            wanted.retain(|(name, _)| IN_MEMORY.contains(name));
        }
        Ok(wanted)
    }

    fn play(
        &self,
        mut player: Player<'_>,
        series: &[(&'static str, Forwarder)],
        place: String,
        cpus: usize,
    ) -> Result<(Facts, Vec<Day>)> {
        let profile = DayProfile::by_name(&self.profile).expect("checked by the parser");
        let memory = player.stage.transport() == "memory";
        let top = PacketsPerSecond(if memory { 5e6 } else { 2e6 });
        say("Measuring the throughput of one polling worker ...")?;
        let capacity = player.capacity(top)?;
        let peak = self.peak.map_or(capacity.0 * PEAK_SHARE, |peak| peak);
        let rounds = if memory { 1 } else { ROUNDS };
        let days = rounds * (series.len() + usize::from(!memory));
        let span = Duration::from_secs_f64(self.seconds / days as f64);
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
        let mut played: Vec<Vec<Day>> = series.iter().map(|_| Vec::new()).collect();
        if !memory && !player.stop.load(Relaxed) {
            warn_of_others()?;
            say(&format!(
                "All are played {ROUNDS} times in turn, each time after the same day over a cable; \
                 the day of median CPU time counts."
            ))?;
        }
        for round in 0..rounds {
            if !memory && !player.stop.load(Relaxed) {
                let (cable, pace) = (("cable", Forwarder::Cable), PacketsPerSecond(peak));
                let day = player.profile(cable, profile, pace, span, &mut |_, _, _| {})?;
                player.alone = Some(day.moments);
            }
            let mut order: Vec<usize> = (0..series.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (index, at) in order.into_iter().enumerate() {
                if player.stop.load(Relaxed) {
                    break;
                }
                let (name, forwarder) = series[at];
                let scene = Scene {
                    mode: name.to_owned(),
                    place: format!(
                        "{}/{}",
                        index + 1 + round * series.len(),
                        rounds * series.len()
                    ),
                    span,
                    peak_pps: peak,
                    workers: plan.cpus("napi").len(),
                };
                let mut watch = |status: &_, moments: &[_], progress: &_| {
                    view.show(&scene, status, moments, progress);
                };
                let pace = PacketsPerSecond(peak);
                let day = player.profile((name, forwarder), profile, pace, span, &mut watch)?;
                if !player.stop.load(Relaxed) {
                    view.finish(&day);
                    played[at].push(day);
                }
            }
        }
        let days = played.into_iter().filter_map(account::median).collect();
        facts.interrupted = player.stop.load(Relaxed);
        Ok((facts, days))
    }

    fn conclude(&self, facts: &Facts, days: &[Day]) -> Result<()> {
        let profile = DayProfile::by_name(&self.profile).expect("checked by the parser");
        let modes: Vec<&str> = IN_MEMORY
            .into_iter()
            .filter(|mode| days.iter().any(|day| day.mode.starts_with(mode)))
            .collect();
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

/// Says so where other programs work on this machine: its processors' time is then theirs too.
fn warn_of_others() -> Result<()> {
    let before = Processors::now()?;
    std::thread::sleep(LOOK_ROUND);
    let busy = Processors::now()?.busy_since(&before).as_secs_f64() / LOOK_ROUND.as_secs_f64();
    if busy > OTHERS_MAX {
        say(&format!(
            "Other programs use {busy:.1} processors of this machine: CPU times and energy include them and vary with them."
        ))?;
    }
    Ok(())
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

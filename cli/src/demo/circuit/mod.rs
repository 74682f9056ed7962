//! `ebb demo circuit`: racks of unmodified hosts behind an emulated optical switch, over circuits
//! and, for comparison, the same programs as a packet switch.

mod fabric;
mod findings;
mod lab;
mod load;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use ebb_host::process;
use ebb_system_circuit::tokens::Tokens;

use crate::generator::{interrupt_signals, on_interrupt};
use fabric::{Fabric, Setting};
use findings::{Phase, Played};
use lab::Lab;
use load::Kind;

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Parts of the demonstration, the last of which kills the controller.
const PHASES: f64 = 7.0;

/// Keep 300 us circuits between racks of unmodified hosts and show what was lost
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb demo circuit
  sudo ebb demo circuit --seconds 20 --report /tmp/circuit
  sudo ebb demo circuit --day-us 100 --racks 3

The report's directory gets report.json, report.html and day.svg, the picture of the day.")]
pub struct Circuit {
    /// Length of all parts together; starting them takes a few seconds more
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "ebb-report")]
    report: PathBuf,
    /// Racks, one host each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(3..=8))]
    racks: u8,
    /// Rate of the light, Mb/s; on a virtual machine all of it passes two processors
    #[arg(long, default_value_t = 250.0)]
    link_mbps: f64,
    /// How long circuits stand
    #[arg(long, default_value_t = 300.0)]
    day_us: f64,
    /// How long they take to be set up
    #[arg(long, default_value_t = 11.5)]
    night_us: f64,
}

impl Circuit {
    /// Plays all parts and writes the report.
    pub fn run(self) -> Result<ExitCode> {
        ensure!(self.seconds >= 2.0 && self.seconds <= 600.0, "--seconds must be 2 to 600");
        ensure!(
            self.link_mbps >= 20.0 && self.link_mbps <= 1e5,
            "--link-mbps must be 20 to 100000"
        );
        ensure!((20.0..=1e5).contains(&self.day_us), "--day-us must be 20 to 100000");
        ensure!((1.0..=1e4).contains(&self.night_us), "--night-us must be 1 to 10000");
        let cpus = process::allowed_cpus()?;
        let signals = interrupt_signals()?;
        let lab = Lab::build(self.racks)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        // The switch has the last processor, everybody else the others.
        let own = cpus.last().copied().filter(|_| cpus.len() > 1);
        if own.is_some() && cpus.len() == 2 {
            process::pin_to(cpus[0])?;
        }
        super::say(&format!(
            "{} racks behind an emulated optical switch: days of {} us, nights of {} us, light of {} \
             Mb/s. Undilated: others run milliseconds or dilate time twenty times.\n",
            self.racks, self.day_us, self.night_us, self.link_mbps
        ))?;
        let mut played = Played { cpus: cpus.len(), ..Played::default() };
        for (name, kind, setting) in self.phases(own) {
            if stop.load(Relaxed) {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let phase = self.play(&lab, name, kind, &setting, &stop)?;
            super::say(&phase.line())?;
            played.phases.push(phase);
        }
        if stop.load(Relaxed) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        played.killed = Some(self.kill_controller(&lab, own, &stop)?);
        findings::conclude(&self, &played)?;
        Ok(ExitCode::SUCCESS)
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / PHASES)
    }

    fn setting(&self, cpu: Option<usize>) -> Setting {
        Setting {
            racks: self.racks,
            link_mbps: self.link_mbps,
            day_us: self.day_us,
            night_us: self.night_us,
            packets: false,
            tokens: Tokens::Pacing,
            rotation_ms: 1000.0,
            cpu,
        }
    }

    fn phases(&self, cpu: Option<usize>) -> Vec<(&'static str, Kind, Setting)> {
        let circuits = self.setting(cpu);
        let packets = Setting { packets: true, ..circuits };
        let tokens = |tokens| Setting { tokens, ..circuits };
        let udp = Kind::Udp { mbps: self.link_mbps * load::UDP_SHARE };
        vec![
            ("packet switch, UDP", udp, packets),
            ("circuits, UDP", udp, circuits),
            ("circuits, UDP, naive tokens", udp, tokens(Tokens::Naive)),
            ("circuits, UDP, aging tokens", udp, tokens(Tokens::Aging)),
            ("packet switch, TCP", Kind::Tcp, packets),
            ("circuits, TCP", Kind::Tcp, circuits),
        ]
    }

    fn play(
        &self,
        lab: &Lab,
        name: &'static str,
        kind: Kind,
        setting: &Setting,
        stop: &AtomicBool,
    ) -> Result<Phase> {
        let fabric = Fabric::start(lab, setting)?;
        let before = fabric.tor()?;
        let carried = load::run(lab, self.racks, kind, self.span(), stop)?;
        // Status is shown 20 times a second.
        std::thread::sleep(Duration::from_millis(150));
        let (tor, ocs) = (fabric.tor()?, fabric.ocs()?);
        fabric.end()?;
        let cpu = (tor.cpu_seconds - before.cpu_seconds)
            / (tor.uptime_seconds - before.uptime_seconds).max(1e-3);
        Ok(Phase { name, carried, tor, ocs, tor_busy: cpu })
    }

    /// What becomes of the racks when nobody announces days any more.
    fn kill_controller(
        &self,
        lab: &Lab,
        cpu: Option<usize>,
        stop: &AtomicBool,
    ) -> Result<findings::Killed> {
        let rotation = self.span().mul_f64(0.3);
        let rotation_ms = rotation.as_secs_f64() * 1e3;
        let setting = Setting { rotation_ms, ..self.setting(cpu) };
        let mut fabric = Fabric::start(lab, &setting)?;
        let kind = Kind::Udp { mbps: self.link_mbps * 0.1 };
        let killed = std::thread::scope(|scope| -> Result<findings::Killed> {
            let load = scope.spawn(|| load::run(lab, self.racks, kind, self.span(), stop));
            std::thread::sleep(self.span().mul_f64(0.3));
            fabric.kill_controller()?;
            let mut sources = Vec::new();
            while !load.is_finished() {
                let source = fabric.tor()?.source;
                if sources.last() != Some(&source) {
                    sources.push(source);
                }
                std::thread::sleep(Duration::from_millis(25));
            }
            let carried = load.join().expect("the load does not panic")?;
            let names =
                sources.into_iter().flatten().map(|source| format!("{source:?}").to_lowercase());
            Ok(findings::Killed { sources: names.collect(), carried, tor: fabric.tor()? })
        })?;
        fabric.end()?;
        super::say(&killed.line())?;
        Ok(killed)
    }
}

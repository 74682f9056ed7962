//! `ebb demo circuit`: racks of unmodified hosts behind an emulated optical switch, over circuits
//! and, for comparison, the same programs as a packet switch.

mod coflows;
mod diagnosis;
mod fabric;
mod faults;
mod findings;
mod load;
mod played;
mod racks;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use ebb_host::process;
use ebb_host::processors::Processors;
use ebb_system_circuit::tokens::Tokens;
use ebb_tord::status::between;

use crate::generator::{interrupt_signals, on_interrupt};
use coflows::Replay;
use fabric::{Fabric, Setting};
use load::Kind;
use played::{Phase, Played};
use racks::Racks;

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// What each part takes beside its load: changing the switches' rules, letting queues run empty.
const BETWEEN: Duration = Duration::from_millis(350);
/// What ending everything and writing the report takes.
const AFTERWARDS: Duration = Duration::from_millis(700);
/// However little time is left, a part is played for this long.
const PART_MIN: Duration = Duration::from_millis(300);

/// Frames per second that all racks together send over a light whose rate is not given: what two
/// processors of a virtual machine carry through the hosts' stacks and both switches.
const FRAMES_PER_SECOND: f64 = 77_000.0;
/// What the switch takes to hand over a rack's first frame on such a machine, us: the last rack's
/// light begins so much later for each rack.
const HANDING_US: f64 = 5.5;
/// The end of each day in which nothing may be on the light, us.
const GUARD_US: f64 = 8.0;

/// Run 300 us circuits between racks of unmodified hosts and show the losses
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb demo circuit
  sudo ebb demo circuit --seconds 20 --report /tmp/circuit
  sudo ebb demo circuit --day-us 100 --racks 3
  sudo ebb demo circuit --coflows FB2010-1Hr-150-0.txt --seconds 90

The directory of --report gets report.json, report.html and day.svg, a plot of the day.")]
pub struct Circuit {
    /// Time for the whole demonstration, start included (at least 8)
    #[arg(long, default_value_t = 40.0)]
    seconds: f64,
    /// Directory for the report
    #[arg(long, value_name = "DIR", default_value = "ebb-report")]
    report: PathBuf,
    /// Racks, one host each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(3..=64))]
    racks: u8,
    /// Rate of the light, Mb/s [default: days hold a whole number of full frames, 77,000 of which two
    /// processors carry in a second]
    #[arg(long)]
    link_mbps: Option<f64>,
    /// How long a circuit is up
    #[arg(long, default_value_t = 300.0)]
    day_us: f64,
    /// How long circuits take to set up
    #[arg(long, default_value_t = 11.5)]
    night_us: f64,
    /// A trace of coflows (Coflow-Benchmark) that hosts send as well, by TCP, over the packet switch and over circuits;
    /// its racks are laid over those here, its time and its sizes are scaled
    #[arg(long, value_name = "FILE")]
    coflows: Option<PathBuf>,
}

/// TCP over the packet switch and over circuits in turns, as what the machine gives changes within seconds.
const TCP_TURNS: usize = 3;

/// A part of the demonstration.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    kind: Kind,
    packets: bool,
    tokens: Tokens,
    /// Its share of the time.
    weight: f64,
}

/// Share of the time for each of the two parts that send a trace.
const COFLOWS: f64 = 3.0;

/// Share of the time for faults.
const FAULTS: f64 = 1.0;

/// Shares what is left of the time among the parts that are left.
struct Budget {
    end: Instant,
    parts: u32,
    weight: f64,
}

impl Budget {
    /// How long the next part may take.
    fn next(&mut self, now: Instant, weight: f64) -> Duration {
        let left = self.end.saturating_duration_since(now);
        let left = left.saturating_sub(BETWEEN * self.parts + AFTERWARDS);
        let span = left.mul_f64(weight / self.weight.max(weight));
        self.parts -= 1;
        self.weight -= weight;
        span.max(PART_MIN)
    }
}

impl Circuit {
    /// Plays all parts and writes the report.
    pub fn run(self) -> Result<ExitCode> {
        let begun = Instant::now();
        ensure!(self.seconds >= 2.0 && self.seconds <= 600.0, "--seconds must be from 2 to 600");
        ensure!((20.0..=1e5).contains(&self.day_us), "--day-us must be from 20 to 100000");
        ensure!((1.0..=1e4).contains(&self.night_us), "--night-us must be from 1 to 10000");
        let rate = (20.0..=1e5).contains(&self.link_mbps());
        ensure!(rate, "--link-mbps must be from 20 to 100000");
        let replay = self.coflows.as_ref().map(|file| Replay::read(file, self.racks));
        let replay = replay.transpose()?;
        let cpus = process::allowed_cpus()?;
        let signals = interrupt_signals()?;
        // The switch has the last processor, everybody else the others.
        let (own, others) = match &cpus[..] {
            [others @ .., own] if !others.is_empty() => (Some(*own), others),
            _ => (None, &[][..]),
        };
        let racks = Racks::build(self.racks, others, own.as_slice())?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        if own.is_some() && cpus.len() == 2 {
            process::pin_to(cpus[0])?;
        }
        super::say(&format!(
            "{} racks behind an emulated optical switch: days of {} us, nights of {} us, light of \
             {:.0} Mb/s. In real time: other emulations use milliseconds or slow time down twenty \
             times.\n",
            self.racks,
            self.day_us,
            self.night_us,
            self.link_mbps()
        ))?;
        let played = match self.play(&racks, replay.as_ref(), own, begun, &stop) {
            Ok(played) => played,
            // What was interrupted fails in many ways.
            Err(_) if stop.load(Relaxed) => return Ok(ExitCode::from(INTERRUPTED)),
            Err(error) => return Err(error),
        };
        if stop.load(Relaxed) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        findings::conclude(&self, &Played { cpus: cpus.len(), ..played })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Rate of the light, Mb/s.
    fn link_mbps(&self) -> f64 {
        self.link_mbps.unwrap_or_else(|| fitting(self.day_us, self.night_us, self.racks))
    }

    /// Full frames that a day holds.
    fn frames_per_day(&self) -> f64 {
        ((self.day_us - GUARD_US) * self.link_mbps() / 8.0 / load::ON_WIRE).floor()
    }

    fn setting(&self, cpu: Option<usize>) -> Setting {
        Setting {
            racks: self.racks,
            link_mbps: self.link_mbps(),
            day_us: self.day_us,
            night_us: self.night_us,
            guard_us: GUARD_US,
            packets: false,
            tokens: Tokens::Pacing,
            cpu,
        }
    }

    fn parts(&self) -> Vec<Part> {
        let udp = Kind::Udp { mbps: self.link_mbps() * load::UDP_SHARE, burst: 1 };
        // Three days' worth at once, for one of the others: what comes in the evening cannot leave
        // before night, and what comes in the morning is more than a card takes well.
        let burst = 3 * (self.frames_per_day() as usize).max(1);
        let bursts = Kind::Udp { mbps: self.link_mbps() * load::BURSTS_SHARE, burst };
        let part =
            |name, kind, packets, tokens, weight| Part { name, kind, packets, tokens, weight };
        let tcp = [
            part("packet switch, TCP", Kind::Tcp, true, Tokens::Pacing, 0.6),
            part("circuits, TCP", Kind::Tcp, false, Tokens::Pacing, 0.6),
        ];
        let mut parts = vec![
            part("packet switch, UDP", udp, true, Tokens::Pacing, 1.0),
            part("circuits, UDP", udp, false, Tokens::Pacing, 1.2),
            part("bursts, naive tokens", bursts, false, Tokens::Naive, 0.6),
            part("bursts, aging tokens", bursts, false, Tokens::Aging, 0.6),
            part("bursts, aging and pacing", bursts, false, Tokens::Pacing, 0.6),
        ];
        (0..TCP_TURNS).for_each(|_| parts.extend(tcp));
        parts
    }

    /// Plays all parts over one fabric, whose rules change in between.
    fn play(
        &self,
        racks: &Racks,
        replay: Option<&Replay>,
        cpu: Option<usize>,
        begun: Instant,
        stop: &AtomicBool,
    ) -> Result<Played> {
        let setting = self.setting(cpu);
        let mut fabric = Fabric::start(racks, &setting, stop)?;
        let parts = self.parts();
        let more = if replay.is_some() { findings::COFLOWS.len() } else { 0 };
        let mut budget = Budget {
            end: begun + Duration::from_secs_f64(self.seconds),
            parts: (parts.len() + more) as u32 + 1,
            weight: parts.iter().map(|part| part.weight).sum::<f64>()
                + more as f64 * COFLOWS
                + FAULTS,
        };
        let mut played = Played::default();
        let count = parts.len() + more + 1;
        for (at, part) in parts.iter().enumerate() {
            let span = budget.next(Instant::now(), part.weight);
            announce(at + 1, count, part.name, span)?;
            let setting = Setting { packets: part.packets, tokens: part.tokens, ..setting };
            fabric.set(&setting, stop)?;
            let kind = part.kind;
            let load = || load::run(racks, kind, span, stop, &|| fabric.nothing_waits());
            let phase = self.part(&fabric, part.name, load, stop)?;
            super::say(&format!("[{}/{count}] {}", at + 1, phase.line()))?;
            played.phases.push(phase);
        }
        for (at, name) in findings::COFLOWS.into_iter().enumerate().take(more) {
            let Some(replay) = replay else { break };
            let span = budget.next(Instant::now(), COFLOWS);
            announce(parts.len() + at + 1, count, name, span)?;
            let packets = at == 0;
            fabric.set(&Setting { packets, ..setting }, stop)?;
            let load = || replay.run(racks, self.link_mbps(), span, stop);
            let phase = self.part(&fabric, name, load, stop)?;
            super::say(&format!("[{}/{count}] {}", parts.len() + at + 1, phase.line()))?;
            played.phases.push(phase);
        }
        let span = budget.next(Instant::now(), FAULTS);
        announce(count, count, "faults", span)?;
        fabric.set(&setting, stop)?;
        let load = Kind::Udp { mbps: self.link_mbps() * 0.1, burst: 1 };
        let faults = faults::play(racks, &mut fabric, load, span, stop)?;
        super::say(&format!("[{count}/{count}] {}", faults.line()))?;
        played.faults = Some(faults);
        fabric.end()?;
        Ok(played)
    }

    fn part(
        &self,
        fabric: &Fabric<'_>,
        name: &'static str,
        load: impl FnOnce() -> Result<load::Carried>,
        stop: &AtomicBool,
    ) -> Result<Phase> {
        let processors = Processors::now()?;
        let (tor, ocs) = (fabric.fresh_tor()?, fabric.ocs()?);
        let carried = load()?;
        let (tor, ocs) = (between(&tor, &fabric.fresh_tor()?), between(&ocs, &fabric.ocs()?));
        ensure!(!stop.load(Relaxed), "interrupted");
        let stolen = Processors::now()?.stolen_since(&processors);
        Ok(Phase { name, carried, tor, ocs, stolen })
    }
}

/// The rate at which a day holds a whole number of full frames, all racks together send
/// [`FRAMES_PER_SECOND`] and the last rack may begin when all others have.
fn fitting(day_us: f64, night_us: f64, racks: u8) -> f64 {
    let frames = FRAMES_PER_SECOND * 1e-6 * (day_us + night_us) / f64::from(racks);
    let dawn_us = HANDING_US * f64::from(racks);
    let usable_us = (day_us - GUARD_US - dawn_us).max(day_us / 2.0);
    (frames.round().clamp(2.0, 24.0) * load::ON_WIRE * 8.0 / usable_us).ceil()
}

/// Says what is being played, for those who watch.
fn announce(at: usize, count: usize, name: &str, span: Duration) -> Result<()> {
    let mut out = std::io::stderr().lock();
    if out.is_terminal() {
        write!(out, "\r\x1b[K[{at}/{count}] {name}: {:.1} s\r", span.as_secs_f64())?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_what_is_left_and_nothing_takes_the_time_of_others() {
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        let mut budget = Budget { end: begun + 20 * second, parts: 3, weight: 3.0 };
        // 20 s less three times 0.35 and 0.7.
        let first = budget.next(begun, 1.0);
        assert!((first.as_secs_f64() - 18.25 / 3.0).abs() < 1e-6, "{first:?}");
        // The first took twice as long as it should.
        let now = begun + 2 * first;
        let now = now + budget.next(now, 1.0) + BETWEEN;
        let now = now + budget.next(now, 1.0) + BETWEEN;
        assert!(now + AFTERWARDS <= begun + 20 * second);
        let mut late = Budget { end: begun, parts: 1, weight: 1.0 };
        assert_eq!(late.next(begun + second, 1.0), PART_MIN);
    }

    #[test]
    fn the_light_fits_the_days() {
        let demo = |day_us, racks| Circuit {
            seconds: 40.0,
            report: PathBuf::new(),
            racks,
            link_mbps: None,
            day_us,
            night_us: 11.5,
            coflows: None,
        };
        for (day_us, racks, frames) in [(300.0, 4, 6.0), (100.0, 3, 3.0), (1000.0, 8, 10.0)] {
            let demo = demo(day_us, racks);
            assert_eq!(demo.frames_per_day(), frames, "{day_us} us");
            // Begun late, a day still holds as many.
            let dawn_us = HANDING_US * f64::from(racks);
            let late = (day_us - GUARD_US - dawn_us) * demo.link_mbps() / 8.0 / load::ON_WIRE;
            assert!(late >= frames && late < frames + 0.3, "{day_us} us: {late}");
        }
    }
}

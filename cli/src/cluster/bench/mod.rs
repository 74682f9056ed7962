//! `ebb cluster bench`: what a cluster of virtual back-ends forwards, by how its CPU time, its links and its
//! threads are given out.

mod cases;
mod findings;
mod guest;
mod initrd;
mod parallel;
mod rated;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebb_report::Terminal;
use ebb_traffic::SizeMix;

use crate::generator::{interrupt_signals, on_interrupt};
use cases::{CASES, Case};
use findings::Findings;
use guest::Hypervisor;
use stage::{Compared, Stage};

/// Frame lengths of a rating (RFC 2544, section 9.1), and a mix.
const RATED: [&str; 8] = ["64", "128", "256", "512", "1024", "1280", "1518", "imix"];
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Measure the throughput of virtual back-ends by the allocation of CPU time, links and threads
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb cluster bench
  sudo ebb cluster bench --json > bench.json     for `bench` of a placement file of ebb plan cluster
  sudo ebb cluster bench scaling --share 0.1 --seconds 3
  sudo ebb cluster bench isolation binding --out /tmp/bench
  sudo ebb cluster bench front guests --rates   rate without loss, latency, fairness by frame length

Each case compares setups that differ in one respect and measures them in turn: packets of 64
bytes, or --packets, from one side to the other, more than can be forwarded. The median of the
turns' ratios confirms or refutes a rule of Li 2012; it is undecided where the setups differ by
less than 5 % or the turns disagree. Back-ends are network namespaces with kernel threads of their
own, which are bound, weighted and limited like those of a guest. The case guests puts virtual
machines (QEMU) and a worker over AF_XDP in their place; without hardware virtualisation the
machines are emulated, and their figures say so (machine, emulated).
JSON: setups.NAME has kpps (median, least, most, runs) and mbps, scaling the throughput by number
of back-ends, rules the verdicts, costs the processor time per packet and thread, skipped what
this machine cannot run.
With --rates setups are not compared: for frames of 64 to 1518 bytes and a mix, or --packets,
rates has for each the highest rate without loss (RFC 2544; least and most of the turns), latency
at 50 and 90 % of it, and what comes of 1.5 times that rate, with Jain's index of the parts of
their packets that flows got (1: all alike).

Cases: scaling, balancers, isolation, links, binding, priority, small-routers, front, guests.
Exit status: 0 when anything was measured; cases that were not are listed with the reason.")]
pub struct Bench {
    /// Cases [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Each back-end's share of a CPU in the case `scaling`
    #[arg(long, default_value_t = 0.2)]
    share: f64,
    /// Length of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often each measurement is repeated, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    turns: u32,
    /// Number of filter rules in back-ends that filter
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    rules: u32,
    /// Lengths of the packets: `imix`, or a length in bytes with the check sequence [default: 64; with --rates 64 to 1518,
    /// and imix]
    #[arg(long, value_name = "MIX")]
    packets: Option<String>,
    /// Look for the highest rate without loss by frame length, and measure latency and fairness [default cases: front]
    #[arg(long)]
    rates: bool,
    /// With --rates: accepted loss in percent of the packets
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, requires = "rates")]
    loss_max: f64,
    /// Kernel of the virtual machines in the case `guests`: `vmlinuz`, and `modules/*.ko` with virtio_net and what it
    /// needs, in the order of their names [default: the newest that tests/guest fetched]
    #[arg(long, value_name = "DIR")]
    guest_kernel: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Directory for a page with the figures
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Bench {
    /// Measures.
    pub fn run(self) -> Result<ExitCode> {
        let cases = self.chosen()?;
        let share = self.share > 0.0 && self.share <= 1.0;
        ensure!(share, "--share must be above 0 and at most 1");
        let seconds = self.seconds >= 0.05 && self.seconds.is_finite();
        ensure!(seconds, "--seconds must be at least 0.05");
        ensure!(
            (0.0..100.0).contains(&self.loss_max),
            "--loss-max must be at least 0 and below 100"
        );
        let mixes = self.mixes()?;
        let sizes = mixes[0].clone();
        let signals = interrupt_signals()?;
        let stop = Arc::new(AtomicBool::new(false));
        let hypervisor = Hypervisor::new(self.guest_kernel.clone());
        let mut stage = Stage::build(self.seconds, self.rules, sizes, hypervisor, stop.clone())?;
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        let measured = self.measure(&mut stage, &cases, &mixes, &stop);
        drop(stage);
        if stop.load(Relaxed) {
            eprintln!("ebb: interrupted");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        self.tell(&measured?)
    }

    fn chosen(&self) -> Result<Vec<&'static Case>> {
        let find = |name: &String| {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            let found = CASES.iter().find(|case| case.name == name);
            found.with_context(|| format!("there is no case `{name}`; known: {}", names.join(", ")))
        };
        match self.cases.is_empty() {
            true if self.rates => Ok(CASES.iter().filter(|case| case.name == "front").collect()),
            true => Ok(CASES.iter().collect()),
            false => self.cases.iter().map(find).collect(),
        }
    }

    /// Which packets; at least one mix.
    fn mixes(&self) -> Result<Vec<SizeMix>> {
        let known = |name: &str| {
            SizeMix::by_name(name).context("--packets must be imix or a length from 64 to 1518")
        };
        match &self.packets {
            Some(name) => Ok(vec![known(name)?]),
            None if self.rates => RATED.into_iter().map(known).collect(),
            None => Ok(vec![SizeMix::fixed(SizeMix::FRAME_MIN)]),
        }
    }

    fn measure(
        &self,
        stage: &mut Stage,
        cases: &[&'static Case],
        mixes: &[SizeMix],
        stop: &AtomicBool,
    ) -> Result<Findings> {
        let mut findings = Findings::new(self.share, mixes[0].clone());
        for case in cases {
            eprintln!("ebb: {}: {}", case.name, case.about);
            let compared = match stage.lacks(case) {
                Some(why) => Err(anyhow::anyhow!(why)),
                None if self.rates => self.rate(stage, case, mixes, &mut findings),
                None => stage.compare(case, self.share, self.turns),
            };
            if stop.load(Relaxed) {
                break;
            }
            for setup in case.setups {
                if let Some(why) = stage.why_not(setup) {
                    findings.skip(&format!("{}: {}", case.name, setup.name), why);
                }
            }
            // What one case takes and this machine refuses does not keep the others from being measured.
            match compared {
                Ok(_) if self.rates => {}
                Ok(compared) => findings.add(case, compared),
                Err(why) => findings.skip(case.name, format!("{why:#}")),
            }
        }
        Ok(findings)
    }

    /// Rates a case's setups instead of comparing them.
    fn rate(
        &self,
        stage: &mut Stage,
        case: &'static Case,
        mixes: &[SizeMix],
        findings: &mut Findings,
    ) -> Result<Compared> {
        for setup in case.setups {
            if stage.why_not(setup).is_some() {
                continue;
            }
            let mut wanted = *setup;
            if case.name == "scaling" {
                wanted.back_end_share = Some(self.share);
            }
            let rated = stage.rate(&wanted, mixes, self.turns, self.loss_max)?;
            findings.rated(case, setup, rated);
        }
        Ok(Vec::new())
    }

    fn tell(&self, findings: &Findings) -> Result<ExitCode> {
        use std::io::Write as _;
        let report = findings.report();
        if let Some(place) = &self.out {
            report.save(place).context("cannot write the report")?;
        }
        let text = match self.json {
            true => serde_json::to_string_pretty(&report.figures)? + "\n",
            false => report.to_terminal(&Terminal::of_stdout()),
        };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        for (what, why) in findings.skipped() {
            eprintln!("ebb: {what}: not measured: {why}");
        }
        Ok(if findings.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

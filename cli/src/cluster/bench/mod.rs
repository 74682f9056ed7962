//! `ebb cluster bench`: what a cluster of virtual back-ends forwards, by how its CPU time, its links and its
//! threads are given out.

mod cases;
mod findings;
mod guest;
mod initrd;
mod parallel;
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
use stage::Stage;

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Measure the throughput of virtual back-ends by the allocation of CPU time, links and threads
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ebb cluster bench
  sudo ebb cluster bench --json > bench.json      for `bench` of a placement file of ebb plan cluster
  sudo ebb cluster bench scaling --share 0.1 --seconds 3
  sudo ebb cluster bench isolation binding --out /tmp/bench

Each case compares setups that differ in one respect and measures them in turn: packets of 64 bytes, or --packets,
from one side to the other, more than can be forwarded. The median of the turns' ratios confirms or refutes a rule of
Li 2012; it is undecided where the setups differ by less than 5 % or the turns disagree. Back-ends are network
namespaces with kernel threads of their own, which are bound, weighted and limited like those of a guest. The case
guests puts virtual machines (QEMU) and a worker over AF_XDP in their place; without hardware virtualisation the
machines are emulated, and their figures say so (machine, emulated).
JSON: setups.NAME has kpps (median, least, most, runs) and mbps, scaling the throughput by number of back-ends,
rules the verdicts, costs the processor time per packet and thread, skipped what this machine cannot run.

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
    /// Lengths of the packets: `imix`, or a length in bytes with the check sequence
    #[arg(long, value_name = "MIX", default_value = "64")]
    packets: String,
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
        let sizes = SizeMix::by_name(&self.packets)
            .context("--packets must be imix or a length from 64 to 1518")?;
        let signals = interrupt_signals()?;
        let stop = Arc::new(AtomicBool::new(false));
        let hypervisor = Hypervisor::new(self.guest_kernel.clone());
        let mut stage = Stage::build(self.seconds, self.rules, sizes, hypervisor, stop.clone())?;
        let asked = stop.clone();
        on_interrupt(signals, move || asked.store(true, Relaxed))?;
        let measured = self.measure(&mut stage, &cases, &stop);
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
            true => Ok(CASES.iter().collect()),
            false => self.cases.iter().map(find).collect(),
        }
    }

    fn measure(
        &self,
        stage: &mut Stage,
        cases: &[&'static Case],
        stop: &AtomicBool,
    ) -> Result<Findings> {
        let sizes = SizeMix::by_name(&self.packets).expect("checked");
        let mut findings = Findings::new(self.share, sizes);
        for case in cases {
            eprintln!("ebb: {}: {}", case.name, case.about);
            let compared = match stage.lacks(case) {
                Some(why) => Err(anyhow::anyhow!(why)),
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
                Ok(compared) => findings.add(case, compared),
                Err(why) => findings.skip(case.name, format!("{why:#}")),
            }
        }
        Ok(findings)
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

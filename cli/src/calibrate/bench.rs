//! The router that is walked, with its hosts: that of the demonstration, its frequency held.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ebb_host::journal::{DIRECTORY, Journal};
use ebb_host::{Frequency, Sysfs, clock, process};
use ebb_traffic::{Due, Start};
use ebb_units::{Hertz, PacketsPerSecond, Time};

use super::meter::Carried;
use super::walk::Bench;
use crate::generator::{Generator, Progress, Sender};
use crate::stage::{FLOWS, Forwarder, LiveStage, MemoryStage, Plan, Stage, Subject};

/// Sleeps whenever its queue is empty: the policy whose power follows the load by itself.
const ROUTER: Forwarder = Forwarder::Ebb { mode: "napi", path: "worker" };
/// Packets that a late generator may catch up with per direction.
const BACKLOG_MAX: f64 = 512.0;
/// As a network card's interrupt moderation.
const MODERATION: Duration = Duration::from_micros(100);
/// How long stragglers are waited for.
const STRAGGLERS: Duration = Duration::from_millis(50);
/// Stands in for a clock that the machine does not tell.
const UNKNOWN_CLOCK: Hertz = Hertz(1_000_000_000);

/// Routers that come and go, and what holds their clock.
pub struct LiveBench {
    plan: Plan,
    memory: bool,
    place: String,
    stage: Option<(u16, Arc<Plan>, Box<dyn Stage>)>,
    forwarder: Forwarder,
    running: Option<Running>,
    clocks: Vec<Frequency>,
    frequencies: Vec<Hertz>,
    cores_max: u16,
    stop: Arc<AtomicBool>,
}

/// A router under traffic.
struct Running {
    subject: Box<dyn Subject>,
    progress: Arc<Progress>,
    dial: Arc<AtomicU64>,
    generator: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Packets sent and received so far.
    fn counts(&self) -> (u64, u64) {
        (self.progress.sent.load(Relaxed), self.progress.received.load(Relaxed))
    }

    fn stop(self) -> Result<()> {
        self.progress.stop.store(true, Relaxed);
        let ran = self.generator.join().expect("the generator does not panic");
        self.subject.stop()?;
        ran.context("a link failed")
    }
}

/// Releases packets at a rate that another thread sets, in packets per second as bits of an `f64`.
struct Dial {
    rate: Arc<AtomicU64>,
    since: Time,
    credit: f64,
}

impl Due for Dial {
    fn due(&mut self, now: Time, max: u32) -> u32 {
        let rate = f64::from_bits(self.rate.load(Relaxed));
        let earned = rate * (now - self.since).as_secs_f64();
        self.since = now;
        self.credit = if rate > 0.0 { (self.credit + earned).min(BACKLOG_MAX) } else { 0.0 };
        let count = (self.credit as u32).min(max);
        self.credit -= f64::from(count);
        count
    }

    /// It never ends, and what it releases next depends on the dial.
    fn next_at(&mut self) -> Option<Time> {
        Some(self.since)
    }
}

impl LiveBench {
    /// Over AF_XDP in network namespaces where that is permitted, in memory elsewhere.
    ///
    /// # Errors
    /// When nothing can be started here.
    pub fn new(
        sysfs: &Sysfs,
        cpus: &[usize],
        memory: bool,
        stop: Arc<AtomicBool>,
    ) -> Result<LiveBench> {
        ensure!(!cpus.is_empty(), "this process may use no CPU");
        let plan = Plan::new(1, cpus).without_frequency();
        let workers = plan.cpus("poll");
        let mut bench = LiveBench {
            cores_max: workers.len() as u16,
            plan,
            memory,
            place: String::new(),
            stage: None,
            forwarder: ROUTER,
            running: None,
            clocks: Vec::new(),
            frequencies: Vec::new(),
            stop,
        };
        bench.build(1)?;
        bench.open_clocks(sysfs, &workers);
        Ok(bench)
    }

    /// Has another forward, at whatever frequency the machine chooses.
    ///
    /// # Errors
    /// When it does not start, or this user may not have network namespaces.
    pub fn arrange_for(&mut self, forwarder: Forwarder) -> Result<()> {
        ensure!(!self.memory, "the paths differ in network namespaces only: root is needed");
        self.halt()?;
        self.forwarder = forwarder;
        self.running = Some(self.start()?);
        Ok(())
    }

    /// Where it runs and what that means, in a sentence.
    pub fn place(&self) -> &str {
        &self.place
    }

    fn build(&mut self, cores: u16) -> Result<()> {
        self.halt()?;
        self.stage = None;
        let plan = Arc::new(self.plan.clone().with_workers(cores.into()));
        let live =
            if self.memory { Err(anyhow!("as asked")) } else { LiveStage::new(plan.clone()) };
        let (stage, how): (Box<dyn Stage>, String) = match live {
            Ok(stage) => (Box::new(stage), "over AF_XDP between network namespaces".to_owned()),
            Err(error) => {
                // Later stages of one walk are all of the first one's kind.
                self.memory = true;
                (
                    Box::new(MemoryStage::new(plan.clone())),
                    format!("over links in memory ({error:#})"),
                )
            }
        };
        self.place = format!(
            "A router {how}. CPU {} of the same machine sends its traffic, and the meter measures \
            that CPU too: to calibrate the router alone, use --samples with values measured \
            outside.",
            plan.generator_cpu,
        );
        self.stage = Some((cores, plan, stage));
        Ok(())
    }

    fn open_clocks(&mut self, sysfs: &Sysfs, workers: &[usize]) {
        let journal = Journal::open(DIRECTORY).ok();
        for cpu in workers {
            let covered = self.clocks.iter().any(|clock| clock.domain().contains(cpu));
            let Some(journal) = journal.as_ref().filter(|_| !covered) else { continue };
            match Frequency::open(sysfs, *cpu, journal) {
                Ok(clock) => self.clocks.push(clock),
                Err(error) => eprintln!("CPU {cpu}: cannot set its frequency: {error}"),
            }
        }
        let common = |level: &Hertz| self.clocks.iter().all(|clock| clock.levels().contains(level));
        self.frequencies = match self.clocks.first() {
            Some(first) => first.levels().iter().copied().filter(common).collect(),
            None => vec![present_clock(sysfs).unwrap_or(UNKNOWN_CLOCK)],
        };
        if self.frequencies.is_empty() {
            self.clocks.clear();
            self.frequencies.push(present_clock(sysfs).unwrap_or(UNKNOWN_CLOCK));
        }
    }

    fn halt(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), Running::stop)
    }

    /// The router with silent hosts.
    fn start(&mut self) -> Result<Running> {
        let (_, plan, stage) = self.stage.as_mut().context("arranged before")?;
        let (subject, links) = stage.start(self.forwarder)?;
        let dial = Arc::new(AtomicU64::new(0f64.to_bits()));
        let sender = |side| Sender {
            link: side,
            stream: plan.stream(side),
            pace: Box::new(Dial { rate: dial.clone(), since: clock::monotonic(), credit: 0.0 }),
        };
        let senders = vec![sender(0), sender(1)];
        let mut generator =
            Generator::new(links, senders, 2 * FLOWS, Start::Zero).with_moderation(MODERATION);
        let (progress, cpu) = (generator.progress(), plan.generator_cpu);
        let run = move || {
            // An unpinned generator is slower, not wrong.
            _ = process::pin_to(cpu);
            generator.run(Time::NEVER, STRAGGLERS)
        };
        let generator = std::thread::Builder::new().name("ebb-generator".into()).spawn(run)?;
        Ok(Running { subject, progress, dial, generator })
    }
}

/// The first `cpu MHz` of the kernel's list, where it has one.
pub(super) fn present_clock(sysfs: &Sysfs) -> Option<Hertz> {
    let text = sysfs.read("proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    (mhz > 1.0).then_some(Hertz((mhz.round() * 1e6) as u64))
}

impl Bench for LiveBench {
    fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }

    fn cores_max(&self) -> u16 {
        self.cores_max
    }

    fn arrange(&mut self, cores: u16, frequency: Hertz) -> Result<()> {
        if self.stage.as_ref().is_none_or(|(have, ..)| *have != cores) {
            self.build(cores)?;
        }
        for clock in &mut self.clocks {
            clock.set(frequency).map_err(|error| anyhow!("{error}"))?;
        }
        self.halt()?;
        self.running = Some(self.start()?);
        Ok(())
    }

    fn offer(
        &mut self,
        rate: PacketsPerSecond,
        settle: Duration,
        span: Duration,
        mark: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Carried> {
        let running = self.running.as_mut().context("arranged before")?;
        running.dial.store((rate.0 / 2.0).to_bits(), Relaxed);
        std::thread::sleep(settle);
        let (begun, before) = (clock::monotonic(), running.counts());
        mark()?;
        std::thread::sleep(span);
        mark()?;
        let (ended, after) = (clock::monotonic(), running.counts());
        if running.generator.is_finished() {
            self.halt()?;
            bail!("the traffic ended early");
        }
        running.subject.status()?;
        let seconds = (ended - begun).as_secs_f64().max(1e-9);
        let rate = |before: u64, after: u64| (after - before) as f64 / seconds;
        let offered = rate(before.0, after.0);
        // A window's edges cut between sending and receiving.
        let forwarded = rate(before.1, after.1).min(offered);
        Ok(Carried { offered: PacketsPerSecond(offered), forwarded: PacketsPerSecond(forwarded) })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Drop for LiveBench {
    fn drop(&mut self) {
        if let Err(error) = self.halt() {
            eprintln!("the router failed: {error:#}");
        }
        for clock in &mut self.clocks {
            if let Err(error) = clock.restore() {
                eprintln!("cannot restore a CPU's frequency limits: {error}");
            }
        }
    }
}

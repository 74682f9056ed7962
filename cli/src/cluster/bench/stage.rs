//! The cluster that is measured, and one measurement.

mod generator;
mod rates;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_clusterd::balancer::{BalancerHandle, Probing, RunnerOptions};
use ebb_clusterd::keepers::NamespaceRouter;
use ebb_clusterd::member::Keeper as _;
use ebb_clusterd::{ClusterPlan, Entry, Power};
use ebb_host::clock::monotonic;
use ebb_host::{namespace::Namespace, process};
use ebb_lab::Lab;
use ebb_lab::command::tc;
use ebb_lab::tune::{self, Occupant};
use ebb_traffic::{SizeMix, Summary};
use ipnet::IpNet;

use super::cases::{Case, Front, Setup, ThreadPlacement};
use super::guest::{Busy, Carrier, Hypervisor, Machine};
use super::parallel::{self, Parallel};
use crate::cluster::lab::{self, BackEndKeeper, Cluster};
use crate::generator::{FrameSource, Generator, TestLink};

pub(super) use rates::{LATENCY_AT, Rated};

const FLOWS: u32 = 4096;
/// A frame's check sequence, in bytes, which a shaper does not see.
const CHECK_SEQUENCE: f64 = 4.0;
/// First rate that is tried, in packets per second.
const RATE_FIRST: f64 = 20_000.0;
/// Next rate over the one before, until more is sent than comes.
const RATE_STEP: f64 = 1.5;
/// Of a back-end's part of a CPU, what the thread gets that receives what is sent; the others get probes.
const BUSY: f64 = 0.95;
/// Comes of what is sent when that is no overload.
const ENOUGH: f64 = 0.85;
const TRIES_MAX: u32 = 14;
/// Measurements in a row in which nothing comes, after which it is not measured.
const SILENT_MAX: u32 = 20;
/// Length of a try at most.
const TRY: Duration = Duration::from_millis(250);
/// Quiet after which what has not come is lost.
const SETTLE: Duration = Duration::from_millis(30);
/// Until the balancer reaches all back-ends.
const PATIENCE: Duration = Duration::from_secs(15);

/// What one measurement found.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Packets per second that came.
    pub(super) pps: f64,
    /// Packets per second that were sent.
    pub(super) offered_pps: f64,
    /// Processor time of the balancer, and of all back-ends together, for a packet that came, in
    /// nanoseconds.
    pub(super) balancer_ns: Option<f64>,
    pub(super) back_end_ns: f64,
    /// Of a virtual machine.
    pub(super) busy: Option<Busy>,
    /// What became of the packets.
    pub(super) summary: Summary,
    /// How alike flows fared, at most 1.
    pub(super) fairness: f64,
}

/// What a case found: for each setup in order its measurements, turn by turn.
pub(super) type Compared = Vec<(&'static Setup, Vec<Measured>)>;

/// The hosts' side of a cluster.
struct Sides {
    links: Vec<Box<dyn TestLink>>,
    /// Threads of each back-end.
    threads: Vec<Vec<u32>>,
    /// Names of the back-ends' namespaces.
    names: Vec<String>,
    /// Namespace of the other ends of their links, and what those are called by back-end and side.
    far: (String, fn(usize, usize) -> String),
    /// How many rules each back-end has now.
    rules: Vec<Option<u32>>,
}

/// Both kinds of cluster, built once.
pub(super) struct Stage {
    seconds: f64,
    rules: u32,
    /// Lengths of the packets.
    sizes: SizeMix,
    stop: Arc<AtomicBool>,
    cpus: Vec<usize>,
    /// Whether threads have parts of a CPU.
    confined: bool,
    /// Who has what a common part leaves.
    occupant: Option<Occupant>,
    balanced: Sides,
    parallel: Result<Sides, String>,
    balancer: Option<BalancerHandle>,
    balancer_thread: u32,
    version: u64,
    limited: bool,
    hypervisor: Hypervisor,
    /// What forwards in the first back-end now, and the machine that does, where it is not the kernel.
    carrier: Carrier,
    machine: Option<Machine>,
    keepers: Vec<BackEndKeeper>,
    copies: Option<Parallel>,
    cluster: Cluster,
}

fn behind(side: usize) -> [IpNet; 1] {
    [["198.18.0.0/16", "198.19.0.0/16"][side].parse().expect("a network")]
}

fn plan() -> lab::Plan {
    // Overload is meant: nobody is to be relieved of it.
    let unbounded = 1e15;
    let back_end = |index| (format!("r{index:02}"), unbounded);
    lab::Plan {
        back_ends: (0..Setup::BACK_ENDS_MAX).map(back_end).collect(),
        routes: (0..lab::SIDES).flat_map(|side| behind(side).map(|net| (net, side))).collect(),
    }
}

fn start_balancer(cluster: &Cluster) -> Result<BalancerHandle> {
    // Probes are lost in an overload that is meant: nobody dies of that here.
    let probing = Probing { misses: 1_000_000, ..Probing::default() };
    let options = RunnerOptions { cpu: None, probing, ..RunnerOptions::default() };
    BalancerHandle::start(&cluster.front, cluster.topology(), options)
}

impl Sides {
    /// Roles of its namespaces begin with `prefix`; `far` is the role of the other ends of the back-ends' links,
    /// and what those are called.
    fn of(
        lab: &Lab,
        hosts: &Namespace,
        frames: &FrameSource,
        prefix: &str,
        far: (&str, fn(usize, usize) -> String),
    ) -> Result<Sides> {
        let space = |role: &str| lab.space(&format!("{prefix}{role}"));
        let names = plan().back_ends.iter().map(|(name, _)| space(name)).collect();
        let links = lab::host_links(hosts, frames)?;
        let far = (space(far.0), far.1);
        let threads = vec![Vec::new(); Setup::BACK_ENDS_MAX];
        let mut sides =
            Sides { links, threads, names, far, rules: vec![None; Setup::BACK_ENDS_MAX] };
        sides.find_threads(0..Setup::BACK_ENDS_MAX)?;
        Ok(sides)
    }

    /// Of back-ends that were just made.
    fn find_threads(&mut self, which: Range<usize>) -> Result<()> {
        let (space, end) = &self.far;
        for index in which {
            self.rules[index] = None;
            let ends: Vec<String> = (0..lab::SIDES).map(|side| end(index, side)).collect();
            let (name, interfaces) = (&self.names[index], ["e0", "e1"]);
            self.threads[index] = tune::receiving_threads(name, &interfaces, (Some(space), &ends))?;
        }
        Ok(())
    }

    /// Gives these back-ends so many rules.
    fn filter(&mut self, which: Range<usize>, rules: u32) -> Result<()> {
        for index in which {
            let before = self.rules[index].replace(rules);
            if before != Some(rules) {
                tc(&self.names[index], &tune::filters("e0", rules, before.is_some()))?;
            }
        }
        Ok(())
    }
}

impl Stage {
    /// Builds both clusters. To be called before threads are started: it forks a guard that undoes
    /// everything should this process be killed.
    pub(super) fn build(
        seconds: f64,
        rules: u32,
        sizes: SizeMix,
        hypervisor: Hypervisor,
        stop: Arc<AtomicBool>,
    ) -> Result<Stage> {
        let cpus = process::allowed_cpus()?;
        let cluster = Cluster::build("ebb-bench", plan())?;
        let frames = FrameSource::new(2);
        let mut keepers: Vec<_> =
            (0..Setup::BACK_ENDS_MAX).map(|index| cluster.keeper(index)).collect();
        keepers.iter_mut().try_for_each(BackEndKeeper::wake)?;
        let far = ("segments", NamespaceRouter::port as fn(usize, usize) -> String);
        let balanced = Sides::of(&cluster.lab, &cluster.hosts, &frames, "", far)?;
        let (copies, parallel) = match parallel(&cluster.lab) {
            Ok((copies, sides)) => (Some(copies), Ok(sides)),
            Err(error) => (None, Err(format!("{error:#}"))),
        };
        let balancer = start_balancer(&cluster)?;
        let mut stage = Stage {
            seconds,
            rules,
            sizes,
            stop,
            cpus,
            confined: false,
            occupant: None,
            balanced,
            parallel,
            balancer: Some(balancer),
            balancer_thread: 0,
            version: 0,
            limited: false,
            hypervisor,
            carrier: Carrier::Kernel,
            machine: None,
            keepers,
            copies,
            cluster,
        };
        stage.balancer_thread = stage.find_balancer()?;
        stage.turn_on(Setup::BACK_ENDS_MAX)?;
        Ok(stage)
    }

    fn find_balancer(&self) -> Result<u32> {
        let begun = monotonic();
        loop {
            let threads = process::threads_of(std::process::id())?;
            if let Some(found) = threads.iter().find(|thread| thread.name == "ebb-balancer") {
                return Ok(found.tid);
            }
            ensure!(monotonic().since(begun) < PATIENCE, "cannot find the balancer's thread");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Why there is no such setup here.
    pub(super) fn why_not(&self, setup: &Setup) -> Option<String> {
        self.hypervisor.why_not(setup.carrier)
    }

    /// What a case takes that is not here.
    pub(super) fn lacks(&self, case: &Case) -> Option<String> {
        let any = |of: fn(&Setup) -> bool| case.setups.iter().any(of);
        if let (true, Err(why)) = (any(|one| one.front == Front::Queues), &self.parallel) {
            return Some(why.clone());
        }
        let apart = any(|one| one.place == ThreadPlacement::Apart);
        (apart && self.cpus.len() < 2).then(|| "separate threads need two CPUs".to_owned())
    }

    /// Measures a case's setups in turns, beginning with another each time.
    pub(super) fn compare(
        &mut self,
        case: &'static Case,
        share: f64,
        turns: u32,
    ) -> Result<Compared> {
        let compared = self.compared(case, share, turns);
        self.freed()?;
        compared
    }

    fn compared(&mut self, case: &'static Case, share: f64, turns: u32) -> Result<Compared> {
        let setups: Vec<&'static Setup> =
            case.setups.iter().filter(|setup| self.why_not(setup).is_none()).collect();
        let mut compared: Compared = setups.iter().map(|one| (*one, Vec::new())).collect();
        let mut rates: BTreeMap<usize, f64> = BTreeMap::new();
        let mut first_pps = 0.0;
        for turn in 0..turns as usize {
            for step in 0..setups.len() {
                // Who needs to know what the first carried comes after it, at first.
                let at = if turn == 0 { step } else { (step + turn) % setups.len() };
                let mut setup = *setups[at];
                if case.name == "scaling" {
                    setup.back_end_share = Some(share);
                }
                self.arrange(&setup, first_pps)?;
                let rate = match rates.get(&at) {
                    Some(rate) => *rate,
                    None => self.overload(&setup)?,
                };
                rates.insert(at, rate);
                let measured = self.measure_some(&setup, rate)?;
                if at == 0 && turn == 0 {
                    first_pps = measured.pps;
                }
                eprintln!("  {}: {:.1} kpps", setup.name, measured.pps / 1e3);
                compared[at].1.push(measured);
                ensure!(!self.stop.load(Relaxed), "interrupted");
            }
        }
        Ok(compared)
    }

    /// Brings so many back-ends on and the others off.
    fn turn_on(&mut self, count: usize) -> Result<()> {
        let balancer = self.balancer.as_ref().context("the balancer has ended")?;
        self.version += 1;
        let entry = |index: usize| {
            let power = if index < count { Power::On } else { Power::Off };
            (format!("r{index:02}"), Entry { power, since: self.version })
        };
        let entries = (0..Setup::BACK_ENDS_MAX).map(entry).collect();
        balancer.follow(&ClusterPlan { version: self.version, entries, speaker: None });
        let begun = monotonic();
        loop {
            let status = balancer.status();
            if let Some(why) = status.links.iter().find_map(|link| link.why.as_ref()) {
                anyhow::bail!("the balancer cannot open an interface: {why}");
            }
            if status.usable.len() == count && status.acknowledgement.version == self.version {
                return Ok(());
            }
            let late = monotonic().since(begun) >= PATIENCE;
            ensure!(!late, "the balancer reaches only {:?} of {count} back-ends", status.usable);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Gives everything out as a setup has it.
    fn arrange(&mut self, setup: &Setup, first_pps: f64) -> Result<()> {
        self.freed()?;
        self.carry(setup.carrier)?;
        self.turn_on(setup.back_ends)?;
        if let (Front::Queues, Some(copies)) = (setup.front, &self.copies) {
            copies.part(setup.back_ends)?;
        }
        let rules = if setup.filters { self.rules } else { 0 };
        // A virtual machine has its own.
        let first = usize::from(self.machine.as_ref().and_then(Machine::pair).is_some());
        self.sides(setup.front).filter(first..Setup::BACK_ENDS_MAX, rules)?;
        if let Some(part) = setup.link_part {
            let bits = 8.0 * (self.sizes.mean() - CHECK_SEQUENCE);
            let mbps = part * first_pps * bits / setup.back_ends as f64 / 1e6;
            self.narrow(Some(mbps))?;
        }
        let threads: Vec<Vec<u32>> = self.sides(setup.front).threads[..setup.back_ends].to_vec();
        self.bind(setup, &threads)?;
        tune::weigh(self.balancer_thread, setup.nice[0])?;
        for thread in threads.iter().flatten() {
            tune::weigh(*thread, setup.nice[1])?;
        }
        if let Some(share) = setup.common_share {
            let last = *self.cpus.last().context("this process may use no CPU")?;
            self.occupant = Some(Occupant::start(last, 1.0 - share)?);
        }
        if let Some(share) = setup.balancer_share {
            self.confine(self.balancer_thread, share)?;
        }
        if let Some(share) = setup.back_end_share {
            for threads in &threads {
                let (first, others) =
                    threads.split_first().context("a back-end without threads")?;
                self.confine(*first, share * BUSY)?;
                let each = share * (1.0 - BUSY) / others.len().max(1) as f64;
                others.iter().try_for_each(|thread| self.confine(*thread, each))?;
            }
        }
        Ok(())
    }

    fn confine(&mut self, thread: u32, share: f64) -> Result<()> {
        self.confined = true;
        tune::confine(thread, share)
    }

    fn bind(&self, setup: &Setup, threads: &[Vec<u32>]) -> Result<()> {
        let last = *self.cpus.last().context("this process may use no CPU")?;
        // The generator has the first. With two CPUs back-ends have no other either.
        let others: Vec<usize> = self.cpus[..self.cpus.len().max(2) - 1].to_vec();
        let others = if others.len() > 1 { others[1..].to_vec() } else { others };
        let (front, back): (Vec<usize>, Vec<Vec<usize>>) = match setup.place {
            ThreadPlacement::Free => (self.cpus.clone(), vec![self.cpus.clone()]),
            ThreadPlacement::Apart => {
                (vec![last], others.into_iter().map(|cpu| vec![cpu]).collect())
            }
            ThreadPlacement::Together => (vec![last], vec![vec![last]]),
        };
        tune::bind(self.balancer_thread, &front)?;
        for (threads, cpus) in threads.iter().zip(back.iter().cycle()) {
            threads.iter().try_for_each(|thread| tune::bind(*thread, cpus))?;
        }
        Ok(())
    }

    /// Takes back what a setup gave out, so that a next one finds nothing of it.
    fn freed(&mut self) -> Result<()> {
        self.occupant = None;
        self.narrow(None)?;
        if std::mem::take(&mut self.confined) {
            self.renew()?;
        }
        tune::weigh(self.balancer_thread, 0)?;
        Ok(())
    }

    /// Has the first back-end forward by something else; the balancer, which would not notice, starts anew.
    fn carry(&mut self, carrier: Carrier) -> Result<()> {
        if self.carrier == carrier {
            return Ok(());
        }
        if let Some(balancer) = self.balancer.take() {
            balancer.end();
        }
        let replaced = self.replace(carrier);
        if replaced.is_err() {
            // What comes next finds the kernel there.
            self.replace(Carrier::Kernel)?;
        }
        self.balancer = Some(start_balancer(&self.cluster)?);
        self.balancer_thread = self.find_balancer()?;
        replaced
    }

    fn replace(&mut self, carrier: Carrier) -> Result<()> {
        self.machine = None;
        let first = &mut self.keepers[0];
        first.sleep()?;
        if matches!(carrier, Carrier::Kernel | Carrier::Worker) {
            first.wake()?;
            self.balanced.find_threads(0..1)?;
        }
        if carrier != Carrier::Kernel {
            let (lab, segments) = (&self.cluster.lab, &self.cluster.segments);
            let machine = Machine::start(carrier, lab, segments, &self.hypervisor, &plan())?;
            self.balanced.threads[0] = machine.threads();
            self.machine = Some(machine);
        }
        self.carrier = carrier;
        Ok(())
    }

    /// Makes everything anew that had a part of a CPU: it keeps that until its threads end.
    fn renew(&mut self) -> Result<()> {
        if let Some(balancer) = self.balancer.take() {
            balancer.end();
        }
        for keeper in &mut self.keepers {
            keeper.sleep()?;
            keeper.wake()?;
        }
        self.balanced.find_threads(0..Setup::BACK_ENDS_MAX)?;
        self.balancer = Some(start_balancer(&self.cluster)?);
        self.balancer_thread = self.find_balancer()?;
        self.turn_on(Setup::BACK_ENDS_MAX)
    }

    /// The links to back-ends let through what they are told to.
    fn narrow(&mut self, mbps: Option<f64>) -> Result<()> {
        if self.limited != mbps.is_some() {
            let ports = (0..Setup::BACK_ENDS_MAX).map(|index| NamespaceRouter::port(index, 0));
            let lines: String = ports.map(|port| tune::limit(&port, mbps)).collect();
            tc(&self.cluster.lab.space("segments"), &lines)?;
            self.limited = mbps.is_some();
        }
        Ok(())
    }

    fn sides(&mut self, front: Front) -> &mut Sides {
        match (front, &mut self.parallel) {
            (Front::Queues, Ok(sides)) => sides,
            _ => &mut self.balanced,
        }
    }

    /// A rate that is more than a setup forwards.
    fn overload(&mut self, setup: &Setup) -> Result<f64> {
        let mut rate = RATE_FIRST;
        for _ in 0..TRIES_MAX {
            let span = TRY.min(Duration::from_secs_f64(self.seconds));
            let seen = self.measure(setup, rate, span, FLOWS)?;
            let behind = seen.offered_pps < ENOUGH * rate;
            if behind || seen.pps < ENOUGH * seen.offered_pps {
                break;
            }
            rate *= RATE_STEP;
        }
        // What it forwards when much more comes than fits differs little; what the generator takes for
        // that does on a machine with few CPUs.
        Ok(rate)
    }

    fn cpu(&mut self, setup: &Setup) -> Result<(f64, f64)> {
        let of = |thread: u32| tune::cpu_seconds(thread);
        let balancer = of(self.balancer_thread)?;
        let threads = &self.sides(setup.front).threads[..setup.back_ends];
        let sum: f64 = threads.iter().flatten().map(|thread| of(*thread)).sum::<Result<f64>>()?;
        Ok((balancer, sum))
    }

    /// Processor time of a virtual machine's processor and of what moves its packets.
    fn busy_seconds(&self) -> Result<Option<[f64; 2]>> {
        let Some(pair) = self.machine.as_ref().and_then(Machine::pair) else { return Ok(None) };
        Ok(Some([tune::cpu_seconds(pair[0])?, tune::cpu_seconds(pair[1])?]))
    }

    /// A measurement in which something came: a machine with much else to do may let nothing through for a
    /// while.
    fn measure_some(&mut self, setup: &Setup, rate: f64) -> Result<Measured> {
        let span = Duration::from_secs_f64(self.seconds);
        for _ in 0..SILENT_MAX {
            let measured = self.measure(setup, rate, span, FLOWS)?;
            if measured.pps > 0.0 {
                return Ok(measured);
            }
        }
        anyhow::bail!("{}: nothing was forwarded in {SILENT_MAX} measurements", setup.name)
    }

    fn measure(
        &mut self,
        setup: &Setup,
        rate: f64,
        span: Duration,
        flows: u32,
    ) -> Result<Measured> {
        let links = std::mem::take(&mut self.sides(setup.front).links);
        let (before, busy) = (self.cpu(setup)?, self.busy_seconds()?);
        let begun = monotonic() + Duration::from_millis(5);
        let generator = generator::of(links, &self.sizes, flows, rate, span, begun);
        let (cpu, end) = (self.cpus[0], begun + span);
        // In a thread of its own: where that is bound is nobody else's matter.
        let run = move || -> std::io::Result<Generator> {
            let mut generator = generator;
            _ = process::pin_to(cpu);
            generator.run(end, SETTLE)?;
            Ok(generator)
        };
        let thread = std::thread::Builder::new().name("ebb-generator".into()).spawn(run)?;
        let ended = thread.join().expect("the generator does not panic");
        let generator = ended.context("a link failed")?;
        let (summary, fairness) = (generator.summary(true), generator.fairness());
        let (sent, seconds) = (generator.sent(), generator.ran().as_secs_f64());
        let received = summary.received;
        self.sides(setup.front).links = generator.into_links();
        let after = self.cpu(setup)?;
        let busy = busy.zip(self.busy_seconds()?).map(|(before, after)| {
            let part = |at: usize| (after[at] - before[at]) / (seconds + SETTLE.as_secs_f64());
            Busy { processor: part(0), mover: part(1), emulated: !Hypervisor::is_real() }
        });
        let each = |before: f64, after: f64| (after - before) * 1e9 / received.max(1) as f64;
        let balanced = setup.front == Front::Balancer;
        Ok(Measured {
            pps: received as f64 / seconds,
            offered_pps: sent as f64 / seconds,
            balancer_ns: balanced.then(|| each(before.0, after.0)),
            back_end_ns: each(before.1, after.1),
            busy,
            summary,
            fairness,
        })
    }
}

fn parallel(lab: &Lab) -> Result<(Parallel, Sides)> {
    let copies = Parallel::build(&plan(), lab)?;
    let far = ("front", parallel::port as fn(usize, usize) -> String);
    let sides = Sides::of(lab, &copies.hosts, &FrameSource::new(2), parallel::PREFIX, far)?;
    Ok((copies, sides))
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.occupant = None;
        drop(self.balancer.take());
        self.machine = None;
    }
}

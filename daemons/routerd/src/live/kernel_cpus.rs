//! On how many CPUs the kernel forwards: as few as suffice, by what is seen of the CPUs' time.
//!
//! The packets of a port whose program is in the driver go to other CPUs when the one that receives them is full. Where the program
//! stands before the network stack, a card's interrupts go to as few CPUs as suffice, in modes that save power.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_control::redirect::{ENTRIES, Table, rebalance};
use ebb_control::{KernelCores, KernelLoad, gathering};
use ebb_host::clock::monotonic;
use ebb_host::processors::{EachProcessor, Share};
use ebb_ports::afxdp::{Interface, LANES, LaneCounters, Work};
use ebb_units::Time;
use tracing::{debug, warn};

use super::Live;
use super::interfaces::LiveInterface;
use super::parking::is_in_kernel;
use crate::config;
use crate::moderation::differs;

/// How often ports with traffic are looked at, and others.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_AT_QUIET: Duration = Duration::from_secs(1);
/// Packets a second below which nobody looks closer, and no CPU is full of them.
const QUIET: f64 = 1_000.0;
/// A CPU that has no time left is full where packets have so much of it at least and some were left behind.
const NO_TIME: f64 = 0.97;
const FOR_PACKETS: f64 = 0.2;
/// A CPU with a smaller part of a port's packets has nothing to do with it.
const PART: f64 = 0.05;
/// As many packets under way to a CPU mean that it does not follow.
const MANY: u64 = 256;

/// The modes in which a card's interrupts go to no more CPUs than needed.
const SAVING: [&str; 2] = ["powersave", "model"];

/// When the CPUs were looked at last, and what they had done by then.
#[derive(Default)]
pub(super) struct KernelCpus {
    last: Option<(Time, EachProcessor)>,
    busy: bool,
    gathered: Option<Gathered>,
}

/// Interrupts of cards whose packets the kernel forwards before its network stack.
struct Gathered {
    policy: KernelCores,
    /// CPUs to which they go, 0: where they were found; and how many ports they are of.
    cores: u16,
    ports: usize,
}

impl Gathered {
    /// On how many of `cpus` they are to be served. `rate`: packets of these ports a second.
    fn look(&mut self, cpus: &[u32], rate: f64, meanwhile: &Meanwhile<'_>) -> u16 {
        let used = &cpus[..cpus.len().min(usize::from(self.cores.max(1)))];
        let full = rate > QUIET && used.iter().any(|cpu| meanwhile.is_full(*cpu));
        let seen = KernelLoad { rate, full, taken: meanwhile.taken(used) };
        self.policy.decide(meanwhile.now, &seen)
    }
}

impl KernelCpus {
    /// When the next look is due, if there is one.
    pub(super) fn patience(&self) -> Option<Duration> {
        let every = if self.busy { LOOK_EVERY } else { LOOK_AT_QUIET };
        Some(every.saturating_sub(monotonic().since(self.last.as_ref()?.0)))
    }
}

impl KernelCpus {
    /// Sends the interrupts of `cards`, which get `rate` packets a second, to as few CPUs as suffice, or to all.
    fn gather(
        &mut self,
        (cards, rate): (&mut [&mut LiveInterface], f64),
        cpus: &[Option<usize>],
        saves: bool,
        meanwhile: &Meanwhile<'_>,
    ) {
        if cards.is_empty() {
            self.gathered = None;
            return;
        }
        let numbers: Vec<u32> = cpus.iter().flatten().map(|cpu| *cpu as u32).collect();
        let most = numbers.len() as u16;
        let new = || Gathered { policy: KernelCores::new(most), cores: 0, ports: 0 };
        let gathered = self.gathered.get_or_insert_with(new);
        let wanted = gathered.look(&numbers, rate, meanwhile);
        let wanted = if saves { wanted } else { most };
        if (gathered.cores, gathered.ports) != (wanted, cards.len()) {
            debug!(cores = wanted, rate, code = "EBB-R036", "interrupts of the kernel path");
            cards.iter_mut().for_each(|live| live.follow_parking(cpus, wanted));
            (gathered.cores, gathered.ports) = (wanted, cards.len());
        }
    }
}

/// What the CPUs have done meanwhile.
struct Meanwhile<'a> {
    now: Time,
    seconds: f64,
    /// The share of its time that packets may take of a CPU.
    full: f64,
    processors: (&'a EachProcessor, &'a EachProcessor),
}

impl Meanwhile<'_> {
    fn share(&self, cpu: u32) -> Share {
        let (before, after) = self.processors;
        after.since(before, cpu as usize)
    }

    /// What packets take of these CPUs, 1 for each that they fill.
    fn taken(&self, cpus: &[u32]) -> f64 {
        cpus.iter().map(|cpu| self.share(*cpu).packets / self.full).sum()
    }

    fn is_full(&self, cpu: u32) -> bool {
        let Share { busy, packets, squeezed } = self.share(cpu);
        packets > self.full || squeezed && packets > FOR_PACKETS && busy > NO_TIME
    }
}

/// The CPUs of one port.
#[derive(Default)]
pub struct PortCpus {
    /// Packets that were forwarded by the last look.
    forwarded: Option<u64>,
    following: Option<Following>,
    /// The CPUs of lanes 1 and up, once they are open.
    cpus: Vec<u32>,
    refused: bool,
}

struct Following {
    policy: KernelCores,
    /// Lanes in use, and which of these each entry has.
    used: Vec<u8>,
    entries: Table,
    work: Vec<Work>,
    lanes: Vec<LaneCounters>,
}

impl Following {
    /// On the CPU that receives, from what was counted by now.
    fn new(interface: &Interface, cpus: &[u32]) -> Following {
        Following {
            // These, and that which receives, whichever it is.
            policy: KernelCores::new(cpus.len() as u16 + 1),
            used: vec![0],
            entries: [0; ENTRIES],
            work: interface.work_by_cpu().unwrap_or_default(),
            lanes: interface.lanes(),
        }
    }

    /// Packets a second since the last look, and the CPUs that have forwarded them.
    fn rates(&mut self, work: Vec<Work>, seconds: f64) -> (f64, Vec<u32>) {
        let before = std::mem::replace(&mut self.work, work);
        let done = |(cpu, work): (usize, &Work)| {
            let then = before.get(cpu).map_or(0, |work| work.forwarded);
            work.forwarded.saturating_sub(then) as f64
        };
        let done: Vec<f64> = self.work.iter().enumerate().map(done).collect();
        let all: f64 = done.iter().sum();
        let part = |(cpu, done): (u32, &f64)| (*done > PART * all).then_some(cpu);
        (all / seconds, (0..).zip(&done).filter_map(part).collect())
    }

    /// Whether packets wait for a CPU or are dropped since they do.
    fn are_crowded(&mut self, lanes: Vec<LaneCounters>) -> bool {
        let before = std::mem::replace(&mut self.lanes, lanes);
        let crowded = |(lane, counts): (usize, &LaneCounters)| {
            let dropped = before.get(lane).map_or(0, |counts| counts.dropped);
            // What the first lane has is done at once.
            lane > 0 && (counts.dropped > dropped || counts.waiting() >= MANY)
        };
        self.lanes.iter().enumerate().any(crowded)
    }

    /// One more lane, to the CPU that has least to do of those that forward nothing yet.
    fn widen(&mut self, cpus: &[u32], forwarding: &[u32], meanwhile: &Meanwhile<'_>) {
        let free = (1..)
            .zip(cpus)
            .filter(|(lane, cpu)| !self.used.contains(lane) && !forwarding.contains(cpu));
        let idlest = |(_, one): &(u8, &u32), (_, other): &(u8, &u32)| {
            meanwhile.share(**one).busy.total_cmp(&meanwhile.share(**other).busy)
        };
        self.used.extend(free.min_by(idlest).map(|(lane, _)| lane));
    }
}

impl PortCpus {
    /// Packets a second since the last look.
    fn rate(&mut self, interface: &Interface, seconds: f64) -> f64 {
        let Ok(counts) = interface.counters() else { return 0.0 };
        let before = self.forwarded.replace(counts.forwarded).unwrap_or(counts.forwarded);
        counts.forwarded.saturating_sub(before) as f64 / seconds
    }

    /// Looks at one port's packets since the last time, and has so many CPUs forward them as they need. Their number a
    /// second.
    fn look(&mut self, interface: &mut Interface, cpus: &[u32], meanwhile: &Meanwhile<'_>) -> f64 {
        let port = self.following.get_or_insert_with(|| Following::new(interface, cpus));
        let (rate, forwarding) =
            port.rates(interface.work_by_cpu().unwrap_or_default(), meanwhile.seconds);
        let crowded = port.are_crowded(interface.lanes());
        // Of a CPU that others' packets fill, a few of this port's take nothing.
        let fill = |cpu: &u32| rate > QUIET && meanwhile.is_full(*cpu);
        let full = crowded || forwarding.iter().any(fill);
        let seen = KernelLoad { rate, full, taken: meanwhile.taken(&forwarding) };
        let wanted = port.policy.decide(meanwhile.now, &seen);
        let before = port.used.len();
        if wanted as usize > before && !self.refused {
            if self.cpus.is_empty() {
                match interface.open_lanes(cpus) {
                    Ok(()) => self.cpus = cpus.to_vec(),
                    Err(error) => {
                        warn!(port = interface.name(), %error, code = "EBB-R037", "cannot forward on other CPUs than that which receives");
                        self.refused = true;
                    }
                }
            }
            port.widen(&self.cpus, &forwarding, meanwhile);
        }
        port.used.truncate(wanted.into());
        if port.used.len() != before {
            port.entries = rebalance(&port.entries, port.used.len() as u16);
            let table = port.entries.map(|entry| port.used[usize::from(entry)]);
            debug!(port = interface.name(), lanes = ?port.used, rate, ?forwarding, code = "EBB-R038", "CPUs in the kernel");
            if let Err(error) = interface.set_lanes(&table) {
                warn!(port = interface.name(), %error, code = "EBB-R037", "cannot forward on other CPUs than that which receives");
            }
        }
        rate
    }

    /// Has all packets forwarded by the CPU that receives them: another program is to take over.
    fn gather(&mut self, interface: &mut Interface) {
        if self.following.take().is_some_and(|port| port.used.len() > 1) {
            _ = interface.set_lanes(&[0; ENTRIES]);
        }
    }
}

impl Live {
    /// Has as many CPUs forward each port's packets in the driver as they need.
    pub(super) fn follow_kernel_cpus(&mut self) {
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        let open = interfaces.open.iter_mut().flatten().filter(|live| is_in_kernel(live));
        let (mut ports, mut cards): (Vec<_>, Vec<_>) =
            open.partition(|live| live.interface.can_have_lanes());
        cards.retain(|live| live.by_receive_queue.is_some() || live.moderation.is_some());
        if ports.is_empty() && cards.is_empty() {
            self.kernel_cpus = KernelCpus::default();
            return;
        }
        if self.upgrade.is_some() {
            ports.iter_mut().for_each(|live| live.cpus.gather(&mut live.interface));
            return;
        }
        if self.kernel_cpus.patience().is_some_and(|patience| !patience.is_zero()) {
            return;
        }
        let (now, Ok(after)) = (monotonic(), EachProcessor::now()) else { return };
        let Some((then, before)) = self.kernel_cpus.last.replace((now, after.clone())) else {
            return;
        };
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let full = f64::from(self.config.governor.kernel_full_percent) / 100.0;
        let meanwhile = Meanwhile { now, seconds, full, processors: (&before, &after) };
        let cpus = self.backend.router.cpus().iter().flatten().map(|cpu| *cpu as u32);
        let cpus: BTreeSet<u32> = cpus.take(LANES - 1).collect();
        let cpus: Vec<u32> = cpus.into_iter().collect();
        let saves = SAVING.contains(&self.config.router.mode.as_str());
        let gathers = saves && self.config.governor.moderation == config::Moderation::On;
        let budget = self.backend.router.shared().latency_budget();
        let budget = if gathers { budget } else { Duration::ZERO };
        let (mut busy, mut moved) = (false, 0.0);
        for live in ports {
            let rate = live.cpus.look(&mut live.interface, &cpus, &meanwhile);
            live.gather_packets(rate, budget);
            busy |= rate > QUIET;
        }
        for live in &mut cards {
            let rate = live.cpus.rate(&live.interface, seconds);
            live.gather_packets(rate, budget);
            moved += if live.by_receive_queue.is_some() { rate } else { 0.0 };
            busy |= rate > QUIET;
        }
        cards.retain(|live| live.by_receive_queue.is_some());
        let cpus = self.backend.router.cpus();
        self.kernel_cpus.gather((&mut cards, moved), cpus, saves, &meanwhile);
        self.kernel_cpus.busy = busy;
    }
}

impl LiveInterface {
    /// Has the packets of a port on the kernel path, which gets `rate` a second, gather for as long as that is worth it.
    fn gather_packets(&mut self, rate: f64, budget: Duration) {
        let wanted = gathering(rate / f64::from(self.interface.queues().max(1)), budget);
        let nanos = |span: Duration| span.as_nanos() as u32;
        if differs(nanos(self.gathers), nanos(wanted)) {
            _ = self.moderate(wanted);
        }
    }
}

//! The slotted engine: fluid queues in slots, stretched while nothing changes.
//!
//! Within a slot every core receives what its share of the redirect table brings and works off
//! what it can. While the rate is constant, no queue grows and no change is under way, the router
//! is stationary: the engine then jumps to the next instant at which anything can happen (the rate
//! changes, the policy's timer) and adds up time and energy by formula.
//!
//! Queues of a busy core fluctuate, and policies look at queues. After every change and while queues
//! do not drain, slots are drawn at random: arrivals of each core with the mean and variance of the
//! packet-exact engine's. Jumps end where a queue grows so long that a policy sees it, at random
//! instants whose rate follows from heavy-traffic theory.

mod estimate;
mod jump;
mod plant;
mod step;

use ebb_control::redirect::{ENTRIES, Table, rebalance};
use ebb_control::{Idle, IdleDepth, OperatingPoint};
use ebb_des::{Rng, Seed};
use ebb_scenario::Progress;

use self::estimate::Spread;
use crate::account::Account;
use crate::engine::{Options, Recorder};
use crate::load::Load;
use crate::machine::{Machine, Nap, PER_NANO, Picos};

/// A core's fluid queue.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    /// Packets that wait or are in work.
    queue: f64,
    /// Arrivals a second.
    pps: f64,
    /// Whether it receives nothing while entries change hands.
    held: bool,
    /// Packets that must leave before a drain is over.
    drain: f64,
}

/// Packets as a fluid.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    queued_before: f64,
    arrived: f64,
    delivered: f64,
    lost: f64,
}

/// A change of the operating point under way, as in the packet-exact engine.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Gainers wake to answer, until then.
    Hold { until: Picos },
    /// The table is being rewritten, until then.
    Rewrite { until: Picos },
    /// Losers forward what waited.
    Drain,
    /// The frequency changes, at that time.
    Clock { until: Picos },
}

/// The simulated router in slots.
pub(crate) struct Slotted<'a> {
    machine: &'a Machine,
    load: &'a Load,
    options: Options,
    slot_ps: Picos,
    progress: &'a dyn Progress,
    random: Rng,
    now: Picos,
    point: OperatingPoint,
    frequency: u16,
    table: Table,
    change: Option<Change>,
    /// The table that the change under way leads to.
    next_table: Table,
    cores: Vec<Core>,
    piece: usize,
    /// Time of a packet of mean length in force.
    service_ps: f64,
    /// Squared coefficient of variation of that time.
    variation: f64,
    /// Whether cores sleep when their queue is empty.
    idle: Idle,
    /// Slots still to be drawn at random before a jump.
    careful: u32,
    /// Rounds of the slot just made that the policy has not been asked about.
    rounds: u32,
    received: f64,
    /// What the policy saw last, and how often in a row with the same answer.
    same: u32,
    /// Packets since the last reset, with fractions.
    totals: Totals,
    spread: Spread,
    /// Of the delivered, those whose bits are in the account.
    carried: f64,
    wakeups: f64,
    /// Packets that have come before their time.
    debt: f64,
    begun: bool,
    warm: bool,
    sample_at: Picos,
    pub(crate) account: Account,
    pub(crate) recorder: Recorder,
}

impl<'a> Slotted<'a> {
    /// A router at time 0 with empty queues.
    pub(crate) fn new(
        machine: &'a Machine,
        load: &'a Load,
        (options, slot_ps): (Options, Picos),
        seed: Seed,
        progress: &'a dyn Progress,
    ) -> Slotted<'a> {
        Slotted {
            machine,
            load,
            options,
            slot_ps,
            progress,
            random: seed.stream("slots"),
            now: 0,
            point: OperatingPoint { cores: 1, frequency: 0, depth: IdleDepth::Shallow },
            frequency: 0,
            table: [0; ENTRIES],
            change: None,
            next_table: [0; ENTRIES],
            cores: vec![Core::default(); machine.cores.into()],
            piece: 0,
            service_ps: 1.0,
            variation: 0.0,
            idle: Idle::Halt,
            careful: 0,
            rounds: 0,
            received: 0.0,
            same: 0,
            totals: Totals::default(),
            spread: Spread::new(),
            carried: 0.0,
            wakeups: 0.0,
            debt: 0.0,
            begun: false,
            warm: load.warm_ps == 0,
            sample_at: options.sample_ps,
            account: Account::new(0),
            recorder: Recorder::new(0),
        }
    }

    fn begin(&mut self, point: OperatingPoint, idle: Idle) {
        self.begun = true;
        self.point = point;
        self.frequency = point.frequency;
        self.idle = idle;
        self.table = rebalance(&self.table, point.cores);
        self.refresh();
    }

    /// Recomputes what depends on rate, table, cores and frequency.
    fn refresh(&mut self) {
        let service = self.machine.service(self.point.cores, self.frequency);
        self.service_ps = service.packet_ps + service.byte_ps * self.load.sizes.mean();
        let sizes = service.byte_ps.powi(2) * self.load.sizes.variance() / self.service_ps.powi(2);
        let drawn = if self.options.exponential { 1.0 + sizes } else { 0.0 };
        self.variation = sizes + drawn;
        let pps = self.load.rates.pieces()[self.piece].pps;
        self.cores.iter_mut().for_each(|core| core.pps = 0.0);
        for (worker, weight) in self.table.iter().zip(self.load.flows.weights()) {
            self.cores[usize::from(*worker)].pps += weight * pps;
        }
        self.careful = self.settling();
    }

    /// The idle state of an active core without packets.
    fn nap(&self, pps: f64) -> Nap {
        let expected = match self.idle {
            Idle::Gather { .. } => self.gathers(),
            _ if pps > 0.0 => 1e12 / pps,
            _ => 1e18,
        };
        self.options.nap(self.machine, self.point.depth, expected as Picos)
    }

    /// How long cores without packets sleep whatever comes, in picoseconds; 0: until it comes.
    fn gathers(&self) -> f64 {
        match self.idle {
            Idle::Gather { nanos } => f64::from(nanos) * PER_NANO as f64,
            _ => 0.0,
        }
    }

    fn queued(&self) -> f64 {
        self.cores.iter().map(|core| core.queue).sum()
    }

    /// Whole packets out of the fluid: what fractions leave over goes to the delivered, so that
    /// every packet is accounted for.
    fn count(&mut self) {
        let whole = |fluid: f64| fluid.round().max(0.0) as u64;
        let totals = self.totals;
        let counts = &mut self.recorder.counts;
        counts.queued_before = whole(totals.queued_before);
        counts.arrived = whole(totals.arrived);
        counts.lost = whole(totals.lost);
        counts.queued = whole(self.cores.iter().map(|core| core.queue).sum());
        let gone = counts.lost + counts.queued;
        counts.delivered = (counts.queued_before + counts.arrived).saturating_sub(gone);
        counts.bytes = (counts.delivered as f64 * self.load.sizes.mean()) as u64;
        let apart = (counts.delivered as f64 - totals.delivered).abs();
        assert!(apart < 4.0 + 1e-9 * totals.arrived, "{apart} packets came from nowhere");
    }

    /// Closes the run.
    pub(crate) fn finish(&mut self) {
        self.due();
        self.recorder.wakeups = self.wakeups.round() as u64;
        self.count();
    }
}

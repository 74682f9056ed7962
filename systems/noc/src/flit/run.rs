//! One run: warm up, measure, drain, and say honestly how it ended.

use super::Network;
use super::allocator::Set;
use super::arrivals::Arrivals;
use super::clock::Clock;
use super::demand::Demand;
use super::ends::Ends;
use super::grid::{Grid, PORTS, PORTS_MAX};
use super::handshake::{HandshakeNetwork, HandshakeRouter};
use super::notes::Notes;
use super::outcome::{Outcome, Status};
use super::vc::{VcNetwork, VcRouter};
use super::voq::{VoqNetwork, VoqRouter};
use ebb_des::Seed;

/// The router of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Router {
    /// Credits and virtual channels.
    Vc(VcRouter),
    /// Slotted, with virtual output queues.
    Voq(VoqRouter),
    /// Wormhole switching over links with a handshake.
    Handshake(HandshakeRouter),
}

/// How long a run takes, in processing elements' cycles. After the warm-up it measures sample after
/// sample, until in three of them neither the mean latency nor the accepted load changed by more
/// than 5 % (BookSim 2's rule), within the bounds given; then it drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// Before packets are measured.
    pub warmup: u64,
    /// Cycles of a sample.
    #[schema(least = 1)]
    pub sample: u64,
    /// Samples at least.
    #[schema(least = 1)]
    pub samples_min: u64,
    /// Samples at most.
    pub samples_max: u64,
    /// At most, after that, until all measured packets have arrived.
    pub drain_max: u64,
}

impl Default for Phases {
    fn default() -> Phases {
        Phases {
            warmup: 30_000,
            sample: 10_000,
            samples_min: 3,
            samples_max: 7,
            drain_max: 100_000,
        }
    }
}

impl Phases {
    /// A fixed time of measurement.
    pub fn fixed(warmup: u64, measure: u64, drain_max: u64) -> Phases {
        Phases { warmup, sample: measure, samples_min: 1, samples_max: 1, drain_max }
    }

    fn measure_max(&self) -> u64 {
        self.sample * self.samples_max
    }
}

/// Cycles without any movement after which flits inside are looked at for a circle of waiting.
const STALL_CYCLES: u64 = 256;
/// Cycles between looks for circles that leave the rest of the network moving.
const LOOK_CYCLES: u64 = 8_192;
/// Relative change of mean latency or accepted load under which a sample has settled.
const SETTLED: f64 = 0.05;
/// Settled samples in a row that end the measurement.
const SETTLED_SAMPLES: u64 = 3;
/// A run is saturated when what is underway grows by more than this share of what is offered.
const GROWTH_MAX: f64 = 0.01;
/// ... and by more packets or bursts per tile than come and go by chance.
const GROWTH_PACKETS_MAX: f64 = 2.0;

/// A network to run.
#[derive(Debug, Clone)]
pub struct Simulation<'a> {
    /// Its tiles and links.
    pub grid: &'a Grid,
    /// What they send.
    pub demand: &'a Demand,
    /// When.
    pub arrivals: &'a Arrivals,
    /// The routers.
    pub router: Router,
    /// The two clocks.
    pub clock: Clock,
    /// Its length.
    pub phases: Phases,
}

impl Simulation<'_> {
    /// Runs it. `progress` is told the share done now and then, and stops the run by `false`.
    pub fn run(&self, seed: Seed, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        self.run_noting(None, seed, progress)
    }

    /// The same with single flows and packets noted.
    pub fn run_noting(
        &self,
        notes: Option<Notes>,
        seed: Seed,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Outcome {
        match self.router {
            Router::Vc(how) => {
                // Sets of one word where a router's channels fit into it, of two where not.
                let ports = if self.grid.ports() > PORTS { PORTS_MAX } else { PORTS };
                match (ports, ports * usize::from(how.vcs) > 64) {
                    (PORTS, false) => self.run_vc::<u64, PORTS, 64>(how, notes, seed, progress),
                    (PORTS, true) => self.run_vc::<u128, PORTS, 128>(how, notes, seed, progress),
                    (_, false) => self.run_vc::<u64, PORTS_MAX, 64>(how, notes, seed, progress),
                    _ if self.grid.ports() <= 8 => {
                        self.run_vc::<u128, 8, 128>(how, notes, seed, progress)
                    }
                    _ => self.run_vc::<u128, PORTS_MAX, 128>(how, notes, seed, progress),
                }
            }
            Router::Voq(how) => {
                Run::new(self, VoqNetwork::new(self.grid, how), notes, seed).run(progress)
            }
            Router::Handshake(how) => {
                let network = HandshakeNetwork::new(self.grid, how, seed);
                Run::new(self, network, notes, seed).run(progress)
            }
        }
    }
}

impl Simulation<'_> {
    fn run_vc<S: Set, const PORTS: usize, const N: usize>(
        &self,
        how: VcRouter,
        notes: Option<Notes>,
        seed: Seed,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Outcome {
        let network = VcNetwork::<S, PORTS, N>::new(self.grid, how, self.demand);
        Run::new(self, network, notes, seed).run(progress)
    }
}

/// Counters at one moment.
#[derive(Clone, Default)]
struct Mark {
    noc_cycle: u64,
    delivered: u64,
    offered: u64,
    link_flits: Vec<u64>,
    tile_flits: Vec<u64>,
}

struct Run<'a, N> {
    how: &'a Simulation<'a>,
    network: N,
    ends: Ends<'a>,
    now: u64,
    moved_at: u64,
    moved_sum: u64,
}

impl<'a, N: Network> Run<'a, N> {
    fn new(how: &'a Simulation<'a>, network: N, notes: Option<Notes>, seed: Seed) -> Run<'a, N> {
        let mut ends = Ends::new(how.demand, how.arrivals, how.clock, how.phases.warmup, seed);
        ends.notes = notes;
        Run { how, network, ends, now: 0, moved_at: 0, moved_sum: 0 }
    }

    fn run(mut self, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        let mut phases = self.how.phases;
        let all = self.how.clock.noc_from_pe(phases.warmup + phases.measure_max()) as f64;
        let mut tell = |now: u64| progress((now as f64 / all).min(1.0));
        let mut ended = (!tell(0)).then_some(Status::Stopped);
        if ended.is_some() {
            phases.warmup = 0; // Of many runs one that has not begun when all are to stop.
        }
        ended = ended.or_else(|| self.until(phases.warmup, |_| false, &mut tell));
        let start = self.mark(phases.warmup);
        let mut pe_end = phases.warmup;
        if ended.is_none() {
            (ended, pe_end) = self.measure(&start, &mut tell);
        }
        self.ends.close_window(pe_end);
        let end = self.mark(pe_end);
        if ended.is_none() && self.grew(&start, &end) {
            ended = Some(Status::Saturated);
        }
        let status = ended.unwrap_or_else(|| {
            let limit = pe_end + phases.drain_max;
            let stopped = self.until(limit, |run| run.ends.window_done(), &mut tell);
            let done = self.ends.window_done();
            stopped.unwrap_or(if done { Status::Stable } else { Status::Saturated })
        });
        self.outcome(status, &start, &end, pe_end - phases.warmup)
    }

    /// Measures samples until they have settled; says how the run ended when it did, and the
    /// processing elements' cycle reached.
    fn measure(
        &mut self,
        start: &Mark,
        tell: &mut dyn FnMut(u64) -> bool,
    ) -> (Option<Status>, u64) {
        let phases = self.how.phases;
        let mut before: Option<(f64, f64)> = None;
        let mut settled = 0;
        let mut pe_end = phases.warmup;
        for sample in 1..=phases.samples_max {
            pe_end += phases.sample;
            if let Some(status) = self.until(pe_end, |_| false, tell) {
                return (Some(status), pe_end);
            }
            let latency = self.ends.seen.latency.mean().unwrap_or(0.0);
            let rate = (self.ends.flits_delivered() - start.delivered) as f64 / sample as f64;
            let calm = before.is_none_or(|(latency_before, rate_before)| {
                (latency - latency_before).abs() <= SETTLED * latency
                    && (rate - rate_before).abs() <= SETTLED * rate
            });
            settled = if calm { settled + 1 } else { 0 };
            before = Some((latency, rate));
            let enough = settled >= SETTLED_SAMPLES.min(phases.samples_min);
            if (sample >= phases.samples_min && enough) || self.ends.all_done() {
                break;
            }
        }
        (None, pe_end)
    }

    /// Steps until the processing elements' cycle `pe_end` or until `done`; says how the run ended
    /// when it did.
    fn until(
        &mut self,
        pe_end: u64,
        done: impl Fn(&Self) -> bool,
        tell: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Status> {
        let end = self.how.clock.noc_from_pe(pe_end);
        while self.now < end {
            self.network.step(self.now, &mut self.ends);
            self.now += 1;
            if self.now.is_multiple_of(STALL_CYCLES) {
                if let Some(circle) = self.circle() {
                    return Some(Status::Deadlocked(circle));
                }
                if done(self) || self.ends.all_done() {
                    return None;
                }
                if self.now.is_multiple_of(LOOK_CYCLES) && !tell(self.now) {
                    return Some(Status::Stopped);
                }
            }
        }
        None
    }

    fn circle(&mut self) -> Option<Vec<String>> {
        let links = self.network.link_flits().iter().sum::<u64>();
        let moved = links + self.ends.flits_delivered() + self.network.flits_inside();
        if moved != self.moved_sum {
            self.moved_sum = moved;
            self.moved_at = self.now;
        }
        let still = self.now - self.moved_at >= STALL_CYCLES && self.network.flits_inside() > 0;
        let look = self.how.demand.unproven() && self.now.is_multiple_of(LOOK_CYCLES);
        if still || look { self.network.circle(&self.ends) } else { None }
    }

    fn mark(&self, pe_cycle: u64) -> Mark {
        Mark {
            noc_cycle: self.now,
            delivered: self.ends.flits_delivered(),
            offered: self.ends.flits_offered_before(pe_cycle),
            link_flits: self.network.link_flits().to_vec(),
            tile_flits: self.ends.sent().to_vec(),
        }
    }

    fn grew(&self, start: &Mark, end: &Mark) -> bool {
        let underway = |mark: &Mark| mark.offered as f64 - mark.delivered as f64;
        if matches!(self.how.arrivals, Arrivals::Trace(_)) {
            return false;
        }
        let burst = self.how.arrivals.burst_flits();
        let negligible = GROWTH_PACKETS_MAX * burst * self.how.demand.tiles() as f64;
        let share = GROWTH_MAX * (end.offered - start.offered) as f64;
        underway(end) - underway(start) > share.max(negligible)
    }

    fn outcome(self, status: Status, start: &Mark, end: &Mark, measure: u64) -> Outcome {
        let tile_cycles = (measure.max(1) * self.how.demand.tiles() as u64) as f64;
        let per_tile = |flits: u64| flits as f64 / tile_cycles;
        Outcome {
            status,
            offered: per_tile(end.offered - start.offered),
            accepted: per_tile(end.delivered - start.delivered),
            delivered_flits: end.delivered - start.delivered,
            link_flits: growth(&start.link_flits, &end.link_flits),
            tile_flits: growth(&start.tile_flits, &end.tile_flits),
            window_noc_cycles: end.noc_cycle - start.noc_cycle,
            window_pe_cycles: measure,
            flit_hops: self.network.link_flits().iter().sum(),
            noc_cycles: self.now,
            course: self.ends.course(),
            notes: self.ends.notes,
            seen: self.ends.seen,
        }
    }
}

fn growth(start: &[u64], end: &[u64]) -> Vec<u64> {
    end.iter().zip(start).map(|(end, start)| end - start).collect()
}

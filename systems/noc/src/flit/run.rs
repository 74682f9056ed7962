//! One run: warm up, measure, drain, and say honestly how it ended.

use super::Network;
use super::allocator::Set;
use super::arrivals::Arrivals;
use super::clock::Clock;
use super::control::{Control, Counts, Governor, Span};
use super::demand::Demand;
use super::ends::{self, Ends};
use super::grid::{Grid, PORTS, PORTS_MAX};
use super::halves::{self, Divisible, EndsHelp, Helper, Pace, Part};
use super::handshake::{HandshakeNetwork, HandshakeRouter};
use super::notes::Notes;
use super::outcome::{Outcome, Seen, Status};
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

impl Router {
    /// Flits in a cycle that a link carries and an element gives, and that an element takes.
    pub(crate) fn rates(self) -> (f64, f64) {
        match self {
            Router::Vc(_) => (1.0, 1.0),
            Router::Voq(voq) => (1.0, f64::from(voq.ejection)),
            Router::Handshake(_) => (0.5, 0.5),
        }
    }
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
    /// The two clocks, at the start.
    pub clock: Clock,
    /// How the network's follows the load; it stays as it is without.
    pub control: Option<&'a Control>,
    /// Its length.
    pub phases: Phases,
}

impl Simulation<'_> {
    /// Runs it. `progress` is told the share done now and then, and stops the run by `false`.
    pub fn run(&self, seed: Seed, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        self.run_how(Way::Whole(None), seed, progress)
    }

    /// The same with single flows and packets noted.
    pub fn run_noting(
        &self,
        notes: Option<Notes>,
        seed: Seed,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Outcome {
        self.run_how(Way::Whole(notes), seed, progress)
    }

    /// The same by two threads, for an equal outcome. What cannot be halved is run by one: other routers than those
    /// with virtual channels, and demands where routers or replies draw from what all share.
    pub fn run_in_two(&self, seed: Seed, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        let (demand, tiles) = (self.demand, self.grid.tiles());
        let shared = demand.is_drawn() || demand.enters_anywhere() || demand.replies().is_some();
        let way = if shared || tiles < 2 { Way::Whole(None) } else { Way::Halves };
        self.run_how(way, seed, progress)
    }

    fn run_how(&self, way: Way, seed: Seed, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        match self.router {
            Router::Vc(how) => {
                // Sets of one word where a router's channels fit into it, of two where not.
                let ports = if self.grid.ports() > PORTS { PORTS_MAX } else { PORTS };
                match (ports, ports * usize::from(how.vcs) > 64) {
                    (PORTS, false) => self.run_vc::<u64, PORTS, 64>(how, way, seed, progress),
                    (PORTS, true) => self.run_vc::<u128, PORTS, 128>(how, way, seed, progress),
                    (_, false) => self.run_vc::<u64, PORTS_MAX, 64>(how, way, seed, progress),
                    _ if self.grid.ports() <= 8 => {
                        self.run_vc::<u128, 8, 128>(how, way, seed, progress)
                    }
                    _ => self.run_vc::<u128, PORTS_MAX, 128>(how, way, seed, progress),
                }
            }
            Router::Voq(how) => {
                Run::whole(self, VoqNetwork::new(self.grid, how), way, seed).run(progress)
            }
            Router::Handshake(how) => {
                let network = HandshakeNetwork::new(self.grid, how, seed);
                Run::whole(self, network, way, seed).run(progress)
            }
        }
    }

    fn run_vc<S: Set, const PORTS: usize, const N: usize>(
        &self,
        how: VcRouter,
        way: Way,
        seed: Seed,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Outcome {
        let network = VcNetwork::<S, PORTS, N>::new(self.grid, how, self.demand);
        match way {
            Way::Halves => {
                let helper = Helper::new();
                std::thread::scope(|scope| {
                    scope.spawn(|| helper.work());
                    let _end = EndsHelp(&helper);
                    Run::halves(self, network, seed, &helper).run(progress)
                })
            }
            Way::Whole(_) => Run::whole(self, network, way, seed).run(progress),
        }
    }
}

/// In how many parts a network is run.
enum Way {
    /// In one, with single flows and packets noted if they are asked for.
    Whole(Option<Notes>),
    /// In two.
    Halves,
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

/// Computes cycles, from one to another, of all parts of a network.
type Advance<'a, N> = Box<dyn FnMut(&mut Vec<Part<'a, N>>, u64, u64) + 'a>;

struct Run<'a, N> {
    how: &'a Simulation<'a>,
    parts: Vec<Part<'a, N>>,
    /// Computes some cycles of all parts.
    advance: Advance<'a, N>,
    /// Flits that wait for each other in a circle, in words, if some do.
    circle_of: fn(&[Part<'a, N>]) -> Option<Vec<String>>,
    clock: Clock,
    governor: Option<Governor<'a>>,
    /// What ran at each factor since the window began; the last one goes on.
    spans: Vec<Span>,
    now: u64,
    moved_at: u64,
    moved_sum: u64,
}

impl<'a, N: Network> Run<'a, N> {
    fn new(
        how: &'a Simulation<'a>,
        parts: Vec<Part<'a, N>>,
        advance: Advance<'a, N>,
        circle_of: fn(&[Part<'a, N>]) -> Option<Vec<String>>,
    ) -> Run<'a, N> {
        let governor = how.control.map(|control| Governor::new(control, how.router));
        let (clock, spans) = (how.clock, Vec::new());
        Run {
            how,
            parts,
            advance,
            circle_of,
            clock,
            governor,
            spans,
            now: 0,
            moved_at: 0,
            moved_sum: 0,
        }
    }

    fn whole(how: &'a Simulation<'a>, network: N, way: Way, seed: Seed) -> Run<'a, N> {
        let mut ends = how.ends(seed, |_| true);
        if let Way::Whole(notes) = way {
            ends.notes = notes;
        }
        let advance = |parts: &mut Vec<Part<'_, N>>, from, to| {
            for Part { network, ends } in parts {
                (from..to).for_each(|now| network.step(now, ends));
            }
        };
        let circle_of = |parts: &[Part<'_, N>]| {
            parts.iter().find_map(|Part { network, ends }| network.circle(ends))
        };
        let parts = vec![Part { network, ends }];
        Run::new(how, parts, Box::new(advance), circle_of)
    }
}

impl<'a, N: Divisible + Clone> Run<'a, N> {
    fn halves(
        how: &'a Simulation<'a>,
        network: N,
        seed: Seed,
        helper: &'a Helper<'a, N>,
    ) -> Run<'a, N> {
        let (grid, tiles) = (how.grid, how.grid.tiles());
        let halves = [0..tiles / 2, tiles / 2..tiles];
        let part = |tiles: std::ops::Range<usize>| {
            let mut network = network.clone();
            network.keep(tiles.clone());
            let here = |element: u32| tiles.contains(&(grid.home(element).0 as usize));
            Part { network, ends: how.ends(seed, here) }
        };
        let circle_of = |parts: &[Part<'_, N>]| {
            let [one, other] = parts else { unreachable!("two halves") };
            one.network.joined(&other.network).circle(&one.ends)
        };
        let (parts, mut pace) = (halves.map(part).into(), Pace::default());
        let advance = move |parts: &mut Vec<_>, from, to| {
            halves::advance(parts, from, to, &mut pace, helper);
        };
        Run::new(how, parts, Box::new(advance), circle_of)
    }
}

impl<'a> Simulation<'a> {
    /// The ends of the elements that are `here`.
    fn ends(&self, seed: Seed, here: impl Fn(u32) -> bool) -> Ends<'a> {
        let what = (self.demand, self.arrivals);
        Ends::new(what, self.clock, self.phases.warmup, seed, here)
    }
}

impl<'a, N: Network> Run<'a, N> {
    /// The sum over all parts.
    fn sum<T: std::iter::Sum>(&self, count: impl Fn(&Ends<'a>) -> T) -> T {
        self.parts.iter().map(|part| count(&part.ends)).sum()
    }

    fn flits_delivered(&self) -> u64 {
        self.sum(Ends::flits_delivered)
    }

    fn flits_inside(&self) -> i64 {
        self.parts.iter().map(|part| part.network.flits_inside()).sum()
    }

    /// Flits that each link carried so far.
    fn link_flits(&self) -> Vec<u64> {
        added(self.parts.iter().map(|part| part.network.link_flits()))
    }

    /// What has been seen of packets so far.
    fn seen(&self) -> Seen {
        let mut all = Seen::new();
        self.parts.iter().for_each(|part| all.merge(&part.ends.seen));
        all
    }

    fn window_done(&self) -> bool {
        self.sum(Ends::measured_inside) == 0 && self.parts.iter().all(|it| it.ends.window_made())
    }

    /// Whether nothing is left to be made or delivered.
    fn all_done(&self) -> bool {
        self.sum(Ends::flits_underway) == 0 && self.parts.iter().all(|it| it.ends.all_made())
    }

    fn run(mut self, progress: &mut dyn FnMut(f64) -> bool) -> Outcome {
        let mut phases = self.how.phases;
        let all = (phases.warmup + phases.measure_max()) as f64;
        let mut tell = |pe_cycle: u64| progress((pe_cycle as f64 / all).min(1.0));
        let mut ended = (!tell(0)).then_some(Status::Stopped);
        if ended.is_some() {
            phases.warmup = 0; // Of many runs one that has not begun when all are to stop.
        }
        ended = ended.or_else(|| self.until(phases.warmup, |_| false, &mut tell));
        let start = self.mark(phases.warmup);
        self.begin_span(phases.warmup);
        let mut pe_end = phases.warmup;
        if ended.is_none() {
            (ended, pe_end) = self.measure(&start, &mut tell);
        }
        self.parts.iter_mut().for_each(|part| part.ends.close_window(pe_end));
        let end = self.mark(pe_end);
        self.end_span(pe_end);
        let mut spans = std::mem::take(&mut self.spans);
        if self.governor.is_none() {
            spans.clear();
        }
        if ended.is_none() && self.grew(&start, &end) {
            ended = Some(Status::Saturated);
        }
        let status = ended.unwrap_or_else(|| {
            let limit = pe_end + phases.drain_max;
            let stopped = self.until(limit, |run| run.window_done(), &mut tell);
            let done = self.window_done();
            stopped.unwrap_or(if done { Status::Stable } else { Status::Saturated })
        });
        let outcome = self.outcome(status, &start, &end, pe_end - phases.warmup);
        Outcome { spans, ..outcome }
    }

    /// From a processing elements' cycle on another factor holds, or the window begins.
    fn begin_span(&mut self, from: u64) {
        let (hops, entered) = (self.hops(), self.entered());
        self.spans.push(Span { alpha: self.clock.alpha(), from, pe_cycles: 0, hops, entered });
    }

    /// The last span has ended: what it has are differences from here on.
    fn end_span(&mut self, until: u64) {
        let (hops, entered) = (self.hops(), self.entered());
        let Some(span) = self.spans.last_mut() else { return };
        span.pe_cycles = until.saturating_sub(span.from);
        (span.hops, span.entered) = (hops - span.hops, entered - span.entered);
    }

    /// Flits that have entered the network.
    fn entered(&self) -> u64 {
        self.parts.iter().flat_map(|part| part.ends.sent()).sum()
    }

    /// Lets the clock follow the load, where it is due.
    fn govern(&mut self) {
        let pe_cycle = self.clock.pe_from_noc(self.now);
        let due = |governor: &&mut Governor<'_>| governor.due <= pe_cycle;
        if self.governor.as_mut().filter(due).is_none() {
            return;
        }
        let delivered = self.flits_delivered();
        let offered = self.sum(|ends| ends.flits_offered_before(pe_cycle));
        let counts = Counts {
            links: self.link_flits(),
            sent: added(self.parts.iter().map(|part| part.ends.sent())),
            received: added(self.parts.iter().map(|part| part.ends.received())),
            delivered,
            underway: offered - delivered,
        };
        let governor = self.governor.as_mut().expect("just looked at");
        let Some(alpha) = governor.decide(pe_cycle, self.clock.alpha(), counts) else { return };
        if !self.spans.is_empty() {
            self.end_span(pe_cycle);
        }
        let still = self.how.control.map_or(0, |control| control.transition);
        self.clock = self.clock.changed(Clock::slower_by(alpha), self.now, still);
        let (clock, now) = (self.clock, self.now);
        self.parts.iter_mut().for_each(|part| part.ends.retime(clock, now));
        if !self.spans.is_empty() {
            self.begin_span(pe_cycle);
        }
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
            let latency = self.seen().latency.mean().unwrap_or(0.0);
            let rate = (self.flits_delivered() - start.delivered) as f64 / sample as f64;
            let calm = before.is_none_or(|(latency_before, rate_before)| {
                (latency - latency_before).abs() <= SETTLED * latency
                    && (rate - rate_before).abs() <= SETTLED * rate
            });
            settled = if calm { settled + 1 } else { 0 };
            before = Some((latency, rate));
            let enough =
                settled >= SETTLED_SAMPLES.min(phases.samples_min) && !self.how.arrivals.vary();
            if (sample >= phases.samples_min && enough) || self.all_done() {
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
        loop {
            self.govern();
            let end = self.clock.noc_from_pe(pe_end);
            if self.now >= end {
                return None;
            }
            let due = self.governor.as_ref().map_or(end, |it| self.clock.noc_from_pe(it.due));
            let stop = end.min(due.max(self.now + 1));
            let next = (self.now + 1).next_multiple_of(STALL_CYCLES).min(stop);
            (self.advance)(&mut self.parts, self.now, next);
            self.now = next;
            if self.now.is_multiple_of(STALL_CYCLES) {
                if let Some(circle) = self.circle() {
                    return Some(Status::Deadlocked(circle));
                }
                if done(self) || self.all_done() {
                    return None;
                }
                let look = self.now.is_multiple_of(LOOK_CYCLES);
                if look && !tell(self.clock.pe_from_noc(self.now)) {
                    return Some(Status::Stopped);
                }
            }
        }
    }

    fn circle(&mut self) -> Option<Vec<String>> {
        let inside = self.flits_inside();
        let moved = self.hops() + self.flits_delivered() + inside as u64;
        if moved != self.moved_sum {
            self.moved_sum = moved;
            self.moved_at = self.now;
        }
        let still = self.now - self.moved_at >= STALL_CYCLES && inside > 0;
        let look = self.how.demand.unproven() && self.now.is_multiple_of(LOOK_CYCLES);
        if still || look { (self.circle_of)(&self.parts) } else { None }
    }

    /// Flits over links so far.
    fn hops(&self) -> u64 {
        self.parts.iter().flat_map(|part| part.network.link_flits()).sum()
    }

    fn mark(&self, pe_cycle: u64) -> Mark {
        Mark {
            noc_cycle: self.now,
            delivered: self.flits_delivered(),
            offered: self.sum(|ends| ends.flits_offered_before(pe_cycle)),
            link_flits: self.link_flits(),
            tile_flits: added(self.parts.iter().map(|part| part.ends.sent())),
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

    fn outcome(mut self, status: Status, start: &Mark, end: &Mark, measure: u64) -> Outcome {
        let tile_cycles = (measure.max(1) * self.how.demand.tiles() as u64) as f64;
        let per_tile = |flits: u64| flits as f64 / tile_cycles;
        let courses: Vec<Vec<(u64, u64)>> =
            self.parts.iter().map(|part| part.ends.course().to_vec()).collect();
        let courses: Vec<&[(u64, u64)]> = courses.iter().map(Vec::as_slice).collect();
        Outcome {
            status,
            offered: per_tile(end.offered - start.offered),
            accepted: per_tile(end.delivered - start.delivered),
            delivered_flits: end.delivered - start.delivered,
            link_flits: growth(&start.link_flits, &end.link_flits),
            tile_flits: growth(&start.tile_flits, &end.tile_flits),
            window_noc_cycles: end.noc_cycle - start.noc_cycle,
            window_pe_cycles: measure,
            flit_hops: self.hops(),
            noc_cycles: self.now,
            spans: Vec::new(),
            course: ends::course(&courses),
            notes: self.parts[0].ends.notes.take(),
            seen: self.seen(),
        }
    }
}

/// The sums of counts at the same places.
fn added<'n>(mut of: impl Iterator<Item = &'n [u64]>) -> Vec<u64> {
    let mut sum = of.next().map_or(Vec::new(), <[u64]>::to_vec);
    of.for_each(|more| sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more));
    sum
}

fn growth(start: &[u64], end: &[u64]) -> Vec<u64> {
    end.iter().zip(start).map(|(end, start)| end - start).collect()
}

//! One measurement for every mechanism: a body that travels there and back and reads the clock on each
//! side.
//!
//! Both cores read the same clock. One way is from before the source asks until the work runs at the
//! target, a round trip until it runs at home again; each contains one reading of the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebb_host::{clock, process};
use ebb_units::Time;
use hdrhistogram::Histogram;

use crate::mechanism::{Body, Case, Mechanism, Target, Way, all};
pub use crate::samples::Samples;
use crate::{Arrival, Location, SwitchError, Travel};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// CPU of the source.
    pub home: usize,
    /// CPU of the target; none where the machine, or this process, has but one.
    pub there: Option<usize>,
    /// Round trips to a target that is awake.
    pub trips: u32,
    /// Round trips to a target that sleeps, which take the time in which it falls asleep.
    pub trips_asleep: u32,
    /// Work of the source between an announcement and the hand-over.
    pub overlap: Duration,
    /// Longest time for one mechanism in one situation: a machine with much other work gives each core
    /// away for milliseconds at a time.
    pub longest: Duration,
}

impl Plan {
    /// On the first two CPUs that this process may use.
    ///
    /// # Errors
    /// When the system does not say which they are.
    pub fn here(trips: u32) -> std::io::Result<Plan> {
        let cpus = process::allowed_cpus()?;
        let home =
            *cpus.first().ok_or_else(|| std::io::Error::other("this process may use no CPU"))?;
        let trips_asleep = (trips / 20).clamp(20, 5_000);
        let overlap = Duration::from_micros(20);
        let longest = Duration::from_secs(10);
        Ok(Plan { home, there: cpus.get(1).copied(), trips, trips_asleep, overlap, longest })
    }
}

/// Percentiles of a span, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Median.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Percentiles {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// A mechanism in one situation.
#[derive(Clone, Debug)]
pub struct Measured {
    /// One way.
    pub one_way: Percentiles,
    /// There and back.
    pub round_trip: Percentiles,
    /// Processor time that the waiting side burns per round trip, ns.
    pub cpu_ns_waiting: u64,
    /// Round trips that count.
    pub trips: u64,
    /// Round trips that do not: see [`Samples::spoilt`].
    pub spoilt: u64,
    /// Median of one way in each turn, ns.
    pub by_turn: Vec<u64>,
}

impl Measured {
    fn of(samples: &Samples, waits: bool, by_turn: Vec<u64>) -> Measured {
        let trips = samples.round_trip.len();
        Measured {
            one_way: Percentiles::of(&samples.one_way),
            round_trip: Percentiles::of(&samples.round_trip),
            cpu_ns_waiting: if waits { samples.target_cpu / trips } else { 0 },
            trips,
            spoilt: samples.spoilt,
            by_turn,
        }
    }
}

/// A mechanism in a situation, and what came of measuring it.
pub type Row = (&'static dyn Mechanism, Case, Result<Measured, Unmeasured>);

/// Measures every mechanism in all its situations in turns, each with its part of the trips: what else the
/// machine does for a while then falls on all of them.
pub fn measure_all(plan: &Plan, turns: u32) -> Vec<Row> {
    let turns = turns.max(1);
    let part = Plan {
        trips: (plan.trips / turns).max(20),
        trips_asleep: (plan.trips_asleep / turns).max(20),
        longest: plan.longest / turns,
        ..*plan
    };
    let cases = all()
        .into_iter()
        .flat_map(|mechanism| mechanism.cases().iter().map(move |case| (mechanism, *case)));
    let cases: Vec<(&'static dyn Mechanism, Case)> = cases.collect();
    let mut sums: Vec<Option<(Samples, Vec<u64>)>> = vec![None; cases.len()];
    let mut errors: Vec<Option<Unmeasured>> = cases.iter().map(|_| None).collect();
    for _ in 0..turns {
        for (place, (mechanism, case)) in cases.iter().enumerate() {
            match sample(*mechanism, *case, &part) {
                Ok(samples) => {
                    let median = samples.one_way.value_at_quantile(0.5);
                    match &mut sums[place] {
                        Some((sum, by_turn)) => {
                            sum.add(&samples);
                            by_turn.push(median);
                        }
                        none => *none = Some((samples, vec![median])),
                    }
                }
                Err(error) => errors[place] = Some(error),
            }
        }
    }
    let sums = sums.into_iter().zip(errors);
    let rows = cases.into_iter().zip(sums).map(|((mechanism, case), (sum, error))| {
        let waits = case.cross && mechanism.has_waiter();
        let measured = match (sum, error) {
            // A turn that failed leaves fewer of them.
            (Some((sum, by_turn)), _) => Ok(Measured::of(&sum, waits, by_turn)),
            (None, error) => Err(error.unwrap_or(Unmeasured::NeverThere(case.target))),
        };
        (mechanism, case, measured)
    });
    rows.collect()
}

/// Measures one mechanism in one situation, on threads of its own.
///
/// # Errors
/// When a CPU is refused, or the target was lost; where the machine cannot show the situation, why.
pub fn measure(mechanism: &dyn Mechanism, case: Case, plan: &Plan) -> Result<Measured, Unmeasured> {
    let samples = sample(mechanism, case, plan)?;
    let waits = case.cross && mechanism.has_waiter();
    let by_turn = vec![samples.one_way.value_at_quantile(0.5)];
    Ok(Measured::of(&samples, waits, by_turn))
}

fn sample(mechanism: &dyn Mechanism, case: Case, plan: &Plan) -> Result<Samples, Unmeasured> {
    let there = match (case.cross, plan.there) {
        (false, _) => plan.home,
        (true, Some(there)) => there,
        (true, None) => return Err(Unmeasured::OneCpu),
    };
    let way = Way { home: plan.home, there, target: case.target };
    let body = body(mechanism, case, plan);
    let run = move || {
        let pinned = process::pin_to(way.home);
        pinned.map_err(|source| SwitchError::Cpu { cpu: way.home, source })?;
        // SAFETY: the body keeps histograms and numbers across its moves: all `Send`, none borrowed from
        // thread-local storage.
        unsafe { mechanism.run(way, body) }
    };
    let samples = std::thread::scope(|scope| scope.spawn(run).join());
    let samples = samples.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    if samples.round_trip.is_empty() {
        return Err(Unmeasured::NeverThere(case.target));
    }
    Ok(samples)
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum Unmeasured {
    /// Moving work between cores takes two of them.
    #[error("this process may use one CPU only: measurements between cores need two")]
    OneCpu,
    /// The situation never arose.
    #[error("the target was never {}: other work uses its CPU, or the hand-over failed", .0.name())]
    NeverThere(Target),
    /// A condition of the machine.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

/// What one reading of the clock takes, ns: part of every figure.
pub fn clock_ns() -> f64 {
    const READINGS: u32 = 10_000;
    let start = clock::monotonic();
    for _ in 1..READINGS {
        std::hint::black_box(clock::monotonic());
    }
    (clock::monotonic() - start).as_nanos() as f64 / f64::from(READINGS)
}

/// What a cache line takes from one core to the other and back, halved: the median, ns. The least that any
/// hand-over can take; in a virtual machine it changes with where the host puts its processors.
///
/// # Errors
/// When a CPU is refused.
pub fn line_ns(plan: &Plan) -> Result<u64, Unmeasured> {
    const TRIPS: u64 = 5_000;
    const LONGEST: Duration = Duration::from_millis(200);
    const OVER: u64 = u64::MAX;
    let there = plan.there.ok_or(Unmeasured::OneCpu)?;
    let pin = |cpu| process::pin_to(cpu).map_err(|source| SwitchError::Cpu { cpu, source });
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let after = |line: &Line, value| {
        loop {
            match line.0.load(Ordering::Acquire) {
                seen if seen == value => std::hint::spin_loop(),
                seen => return seen,
            }
        }
    };
    std::thread::scope(|scope| {
        let answer = || {
            // Answers also where it was refused its CPU, so that nobody waits for ever.
            let pinned = pin(there);
            let mut seen = 0;
            while seen != OVER {
                seen = after(&lines[0], seen);
                lines[1].0.store(seen, Ordering::Release);
            }
            pinned
        };
        let ask = || {
            let pinned = pin(plan.home);
            let mut spans = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("fits");
            let until = clock::monotonic() + LONGEST;
            for trip in 1..=TRIPS {
                let asked = clock::monotonic();
                lines[0].0.store(trip, Ordering::Release);
                after(&lines[1], trip - 1);
                let answered = clock::monotonic();
                spans.saturating_record(span(asked, answered));
                if answered >= until {
                    break;
                }
            }
            lines[0].0.store(OVER, Ordering::Release);
            pinned.map(|()| spans.value_at_quantile(0.5) / 2)
        };
        let (answer, ask) = (scope.spawn(answer), scope.spawn(ask));
        let [answered, asked] = [answer.join().map(|pinned| pinned.map(|()| 0)), ask.join()]
            .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        answered.and(asked).map_err(Unmeasured::from)
    })
}

/// A number in a line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// A queue has its own core as its target where both are the same.
fn places(mechanism: &dyn Mechanism, case: Case) -> (Location, Arrival) {
    let queue = mechanism.name() == "run-queue" && !case.cross;
    if queue { (Location::Home, Arrival::Home) } else { (Location::There, Arrival::There) }
}

fn body(mechanism: &dyn Mechanism, case: Case, plan: &Plan) -> Body {
    let (place, expected) = places(mechanism, case);
    let asleep = case.target == Target::Asleep;
    let early = asleep && mechanism.announces();
    let trips = if asleep { plan.trips_asleep } else { plan.trips };
    let (overlap, longest) = (plan.overlap, plan.longest);
    let settles = case.cross && mechanism.has_waiter();
    Box::new(move |travel| {
        // Up to a minute, in three digits; what takes longer counts as a minute.
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("fits");
        let mut seen =
            Samples { one_way: histogram(), round_trip: histogram(), target_cpu: 0, spoilt: 0 };
        let warm = trips / 10;
        let mut cpu_at_start = 0;
        let until = clock::monotonic() + longest;
        for trip in 0..warm + trips {
            let sleeps = !asleep || fall_asleep(travel, settles);
            if early {
                travel.announce();
                busy(overlap);
            }
            let asked = clock::monotonic();
            let arrival = travel.to(place);
            let there = clock::monotonic();
            let last = trip + 1 == warm + trips || there >= until;
            if trip == warm {
                cpu_at_start = clock::thread_cpu().as_nanos();
            } else if last {
                seen.target_cpu = clock::thread_cpu().as_nanos().saturating_sub(cpu_at_start);
            }
            let left = clock::monotonic();
            travel.to(Location::Home);
            let home = clock::monotonic();
            if arrival != expected || !sleeps {
                seen.spoilt += 1;
            } else if trip > warm {
                seen.one_way.saturating_record(span(asked, there));
                seen.round_trip.saturating_record(span(asked, there) + span(left, home));
            }
            if last {
                break;
            }
        }
        seen
    })
}

fn span(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

/// Waits until the target sleeps, and its core with it; false when it does not.
fn fall_asleep(travel: &dyn Travel, settles: bool) -> bool {
    const LONGEST: Duration = Duration::from_millis(20);
    const DEEP: Duration = Duration::from_micros(30);
    let until = clock::monotonic() + LONGEST;
    while !travel.target_sleeps() {
        if clock::monotonic() >= until {
            return false;
        }
        std::hint::spin_loop();
    }
    if settles {
        busy(DEEP);
    }
    travel.target_sleeps()
}

fn busy(span: Duration) {
    let until = clock::monotonic() + span;
    while clock::monotonic() < until {
        std::hint::spin_loop();
    }
}

//! Every placement up to symmetry where they are few, else the best of descents from several starts.

use ebb_scenario::Progress;

use super::model::{Layout, Outcome};
use super::problem::PlacementProblem;
use crate::error::ClusterError;

/// Placements that are tried one by one.
const TRIED_MAX: usize = 10_000;
/// Of no more threads than this.
const THREADS_MAX: usize = 8;
/// Starts of descents.
const STARTS: usize = 4;
/// Numbers of back-ends in a row that serve no better, after which no more are tried.
const STALE_MAX: u32 = 4;
/// What counts as better, relative.
const BETTER: f64 = 1e-9;

/// A placement and how good it is.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// The threads and cores.
    pub layout: Layout<'a>,
    /// The core of each thread.
    pub cores: Vec<usize>,
    /// What it comes to.
    pub outcome: Outcome,
    /// A rate that no placement of any allowed number of back-ends exceeds, in packets per second.
    pub bound_pps: f64,
    /// Whether every placement was looked at: then none is better.
    pub proven: bool,
}

/// Places the threads, and chooses how many back-ends there are where that is open.
///
/// # Errors
/// When whoever watches has had enough, or servers are not linked and nothing can be carried.
pub fn place<'a>(
    problem: &'a PlacementProblem,
    progress: &dyn Progress,
) -> Result<Placed<'a>, ClusterError> {
    let most = problem.cores().clamp(1, 64);
    let counts: Vec<u32> = match problem.back_ends {
        Some(count) => vec![count],
        None => (1..=most).collect(),
    };
    let mut best: Option<Placed<'a>> = None;
    let mut bound_pps: f64 = 0.0;
    let mut proven = true;
    let mut stale = 0;
    for (at, count) in counts.iter().enumerate() {
        progress.at(at as f64 / counts.len() as f64, "placements");
        if progress.stopped() {
            return Err(ClusterError::Stopped);
        }
        let layout = Layout::new(problem, *count);
        let bound = layout.bound_pps();
        if stale >= STALE_MAX {
            // The most of those left out is the first's: more of them need no less.
            bound_pps = bound_pps.max(bound);
            proven = false;
            break;
        }
        // More back-ends that could not be better are not looked at.
        if best.as_ref().is_some_and(|best| bound <= best.outcome.pps * (1.0 + BETTER)) {
            continue;
        }
        bound_pps = bound_pps.max(bound);
        let (cores, whole) =
            every(&layout).map_or_else(|| (descents(&layout), false), |c| (c, true));
        proven &= whole;
        let outcome = layout.judge(&cores);
        let better = |best: &Placed<'_>| outcome.pps > best.outcome.pps * (1.0 + BETTER);
        stale += 1;
        if best.as_ref().is_none_or(better) {
            stale = 0;
            best = Some(Placed { layout, cores, outcome, bound_pps, proven });
        }
    }
    let best = best.expect("at least one number of back-ends");
    let bound_pps = if proven { best.outcome.pps } else { bound_pps.max(best.outcome.pps) };
    Ok(Placed { bound_pps, proven, ..best })
}

/// The best of all placements, of those that differ by more than the names of cores; `None` where they
/// are too many.
fn every(layout: &Layout<'_>) -> Option<Vec<usize>> {
    let mut best: Option<(Vec<usize>, f64, usize)> = None;
    let mut cores = Vec::with_capacity(layout.threads.len());
    let mut tried = 0;
    if layout.threads.len() > THREADS_MAX {
        return None;
    }
    visit(layout, &mut cores, &mut tried, &mut best).then_some(())?;
    best.map(|best| best.0)
}

fn visit(
    layout: &Layout<'_>,
    cores: &mut Vec<usize>,
    tried: &mut usize,
    best: &mut Option<(Vec<usize>, f64, usize)>,
) -> bool {
    if cores.len() == layout.threads.len() {
        *tried += 1;
        if layout.holds(cores) {
            let pps = layout.judge(cores).pps;
            let machines = machines(layout, cores);
            let better = |(_, least, fewest): &(Vec<usize>, f64, usize)| {
                pps > least * (1.0 + BETTER)
                    || (pps >= least * (1.0 - BETTER) && machines < *fewest)
            };
            if best.as_ref().is_none_or(better) {
                *best = Some((cores.clone(), pps, machines));
            }
        }
        return *tried <= TRIED_MAX;
    }
    for core in 0..layout.places.len() {
        if !fresh(layout, cores, core) {
            continue;
        }
        cores.push(core);
        let go_on = visit(layout, cores, tried, best);
        cores.pop();
        if !go_on {
            return false;
        }
    }
    true
}

/// Whether a core is used already, or the first unused of its node: others would be the same by another
/// name.
fn fresh(layout: &Layout<'_>, cores: &[usize], core: usize) -> bool {
    let place = layout.places[core];
    let same = |other: &usize| {
        let other = layout.places[*other];
        (other.machine, other.node) == (place.machine, place.node)
    };
    cores.contains(&core) || (0..core).filter(same).all(|before| cores.contains(&before))
}

fn machines(layout: &Layout<'_>, cores: &[usize]) -> usize {
    let mut used: Vec<usize> = cores.iter().map(|core| layout.places[*core].machine).collect();
    used.sort_unstable();
    used.dedup();
    used.len()
}

/// Moves one thread, swaps two or moves a back-end as a whole while that helps, from several starts.
fn descents(layout: &Layout<'_>) -> Vec<usize> {
    let mut best: Option<(Vec<usize>, f64)> = None;
    for start in 0..STARTS {
        let mut cores = first(layout, start);
        let mut pps = layout.judge(&cores).pps;
        while let Some((next, more)) = step(layout, &cores, pps) {
            (cores, pps) = (next, more);
        }
        if best.as_ref().is_none_or(|best| pps > best.1 * (1.0 + BETTER)) {
            best = Some((cores, pps));
        }
    }
    best.expect("a start").0
}

/// The neediest threads first, each where least is asked for, beginning elsewhere each time.
fn first(layout: &Layout<'_>, start: usize) -> Vec<usize> {
    let needs = layout.needs();
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by(|a, b| needs[*b].total_cmp(&needs[*a]).then(a.cmp(b)));
    let mut load = vec![0.0_f64; layout.places.len()];
    let mut cores = vec![usize::MAX; needs.len()];
    let turn = start * layout.places.len() / STARTS;
    for thread in order {
        let one = layout.threads[thread];
        let partner = (0..cores.len()).find(|other| {
            let same = layout.threads[*other].number == one.number;
            let both = |role| role == super::Role::BackEnd || role == super::Role::Mover;
            *other != thread && same && both(one.role) && both(layout.threads[*other].role)
        });
        let home = partner.and_then(|other| layout.places.get(cores[other])).map(|p| p.machine);
        let allowed = |core: &usize| home.is_none_or(|home| layout.places[*core].machine == home);
        let all = (0..load.len()).map(|at| (at + turn) % load.len()).filter(allowed);
        let core = all.min_by(|a, b| load[*a].total_cmp(&load[*b])).expect("a core");
        load[core] += needs[thread];
        cores[thread] = core;
    }
    cores
}

fn step(layout: &Layout<'_>, cores: &[usize], pps: f64) -> Option<(Vec<usize>, f64)> {
    let mut best: Option<(Vec<usize>, f64)> = None;
    let mut consider = |next: Vec<usize>| {
        let most = best.as_ref().map_or(pps, |best| best.1);
        if layout.holds(&next) {
            let more = layout.judge(&next).pps;
            if more > most * (1.0 + BETTER) {
                best = Some((next, more));
            }
        }
    };
    for one in 0..cores.len() {
        for core in 0..layout.places.len() {
            let mut next = cores.to_vec();
            next[one] = core;
            consider(next);
        }
        for other in one + 1..cores.len() {
            let mut next = cores.to_vec();
            next.swap(one, other);
            consider(next);
        }
    }
    best
}

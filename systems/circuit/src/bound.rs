//! The most that any schedule could serve, certified by a linear program.
//!
//! A day of length `a` that connects a pair serves at most `min(a, demand)` of it. So whatever the
//! schedule, with `y` counting its days of each kind (length and matching), what it serves is at
//! most the optimum of
//!
//! ```text
//! maximise  sum over pairs of x
//! where     x <= demand,   x <= sum over days of y min(a, demand),
//!           sum over days of y (a + delta) <= window
//! ```
//!
//! with `y` allowed to be any number of 0 or more. Kinds of days are far too many to list; they are
//! added while one of them would help (column generation), which one is a heaviest matching for
//! each length. Only amounts of the demand need be tried as lengths: in between, what a day gains
//! is linear and so is its price. When none helps any more the program's value is the bound.
//!
//! Each port alone bounds what is served too ([`of_ports`]): a day connects it to one other, so of `n` days it
//! carries `window - n delta` at most, and not more than its `n` largest amounts. That takes no time, and
//! where one port is crowded it says more than the program, which may have a part of every day.

use ebb_lp::{Constraint, LpError, Program};
use ebb_scenario::Progress;

use crate::matching::heaviest;
use crate::{Demand, Window};

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bound {
    /// No schedule serves a greater share of the demand.
    pub served: f64,
    /// Rounds of adding days.
    pub rounds: usize,
    /// Whether no further day would have lowered it.
    pub tight: bool,
}

/// Beyond this many ports the program takes longer than it is worth, and [`of_ports`] is the bound.
pub const PORTS_MAX: usize = 24;

const ROUNDS_MAX: usize = 400;
/// The search ends when so many rounds have lowered the bound by less than [`PROGRESS_MIN`] of it.
const ROUNDS_IN_VAIN: usize = 60;
const PROGRESS_MIN: f64 = 1e-4;

/// The share of the demand that no schedule exceeds because of what single ports carry.
pub fn of_ports(demand: &Demand, window: Window) -> f64 {
    let (ports, total) = (demand.ports(), demand.total());
    if total <= 0.0 {
        return 1.0;
    }
    // The most that a port with these amounts carries.
    let most = |mut amounts: Vec<f64>| -> f64 {
        amounts.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut best) = (0.0, 0.0_f64);
        for (place, amount) in amounts.into_iter().enumerate() {
            sum += amount;
            let left = window.length - (place + 1) as f64 * window.delta;
            best = best.max(sum.min(left));
        }
        best
    };
    let of_input = |port| (0..ports).map(|other| demand.amount(port, other)).collect();
    let of_output = |port| (0..ports).map(|other| demand.amount(other, port)).collect();
    let inputs: f64 = (0..ports).map(|port| most(of_input(port))).sum();
    let outputs: f64 = (0..ports).map(|port| most(of_output(port))).sum();
    (inputs.min(outputs) / total).min(1.0)
}

/// The bound: of ports alone beyond [`PORTS_MAX`] ports, or where the program says less.
///
/// # Errors
/// When the solver gives up or is stopped.
pub fn bound(demand: &Demand, window: Window, progress: &dyn Progress) -> Result<Bound, LpError> {
    let (ports, total) = (demand.ports(), demand.total());
    let mut best = of_ports(demand, window);
    if ports > PORTS_MAX {
        return Ok(Bound { served: best, rounds: 0, tight: false });
    }
    if total <= 0.0 {
        return Ok(Bound { served: 1.0, rounds: 0, tight: true });
    }
    let mut master = Master::new(demand, window, progress);
    let lengths = lengths(demand, window);
    let (mut before, mut in_vain) = (best, 0);
    for rounds in 1..=ROUNDS_MAX {
        let solution = master.program.solve()?;
        // Of a minimum: what is served is the objective with its sign turned.
        let served = -solution.objective;
        let prices: Vec<f64> = master.pairs.iter().map(|row| solution.price(*row).abs()).collect();
        let time = solution.price(master.time).abs();
        let mut steepest = time;
        let mut fresh = Vec::new();
        for &length in &lengths {
            let worth = |(at, amount): (usize, &f64)| prices[at] * amount.min(length);
            let worth: Vec<f64> = demand.amounts().iter().enumerate().map(worth).collect();
            let (mates, sum) = heaviest(ports, &worth);
            let rate = sum / (length + window.delta);
            steepest = steepest.max(rate);
            if rate > time * (1.0 + 1e-7) + 1e-9 {
                fresh.push((rate, length, mates));
            }
        }
        // With time this dear no day helps: the prices are feasible in the dual program, so its
        // value is a bound whether or not the search goes on.
        let value = served + (steepest - time) * window.length;
        best = best.min(value / total);
        if fresh.is_empty() || best * total <= served * (1.0 + 1e-6) {
            return Ok(Bound { served: best, rounds, tight: true });
        }
        if best < before * (1.0 - PROGRESS_MIN) {
            (before, in_vain) = (best, 0);
        } else {
            in_vain += 1;
        }
        if in_vain == ROUNDS_IN_VAIN {
            return Ok(Bound { served: best, rounds, tight: false });
        }
        fresh.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, length, mates) in fresh.into_iter().take(8) {
            master.add(demand, window, length, &mates);
        }
    }
    Ok(Bound { served: best, rounds: ROUNDS_MAX, tight: false })
}

/// All lengths that a day may need to have: amounts, no longer than the window, and the longest
/// day that fits.
fn lengths(demand: &Demand, window: Window) -> Vec<f64> {
    let longest = (window.length - window.delta).max(0.0);
    let fit = |amount: &f64| amount.min(longest);
    let mut lengths: Vec<f64> = demand.amounts().iter().map(fit).filter(|a| *a > 0.0).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    lengths
}

struct Master<'a> {
    program: Program<'a>,
    pairs: Vec<Constraint>,
    time: Constraint,
}

impl<'a> Master<'a> {
    fn new(demand: &Demand, window: Window, progress: &'a dyn Progress) -> Master<'a> {
        let mut program = Program::linear();
        program.stop_when(move || progress.stopped());
        let mut pairs = Vec::with_capacity(demand.amounts().len());
        for amount in demand.amounts() {
            let served = program.column(-1.0, 0.0, *amount, &[]);
            pairs.push(program.row(f64::NEG_INFINITY, 0.0, &[(served, 1.0)]));
        }
        let time = program.row(f64::NEG_INFINITY, window.length, &[]);
        Master { program, pairs, time }
    }

    fn add(&mut self, demand: &Demand, window: Window, length: f64, mates: &[usize]) {
        let ports = demand.ports();
        let mut entries = vec![(self.time, length + window.delta)];
        for (from, to) in mates.iter().enumerate() {
            let carried = demand.amount(from, *to).min(length);
            if carried > 0.0 {
                entries.push((self.pairs[from * ports + to], -carried));
            }
        }
        self.program.column(0.0, 0.0, f64::INFINITY, &entries);
    }
}

#[cfg(test)]
mod tests {
    use ebb_scenario::Silent;

    use super::*;
    use crate::schedulers::ALL;

    #[test]
    fn no_scheduler_of_circuits_is_above_the_bound_and_eclipse_is_near() {
        let mut rng = ebb_des::Seed(5).stream("demand");
        for demand in [
            Demand::uniform(8),
            Demand::sparse(8, 2, 3, 0.7, &mut rng),
            Demand::hot_spot(8, 0, 0.4),
            Demand::from_fn(8, |from, to| if from == 2 && to != 2 { 1.0 } else { 0.0 }),
        ] {
            for delta in [0.01, 0.05] {
                let window = Window { length: 1.0, delta };
                let bound = bound(&demand, window, &Silent).expect("solved");
                assert!(bound.tight && bound.served <= 1.0 + 1e-9, "{bound:?}");
                let mut best = 0.0_f64;
                for scheduler in &ALL[..5] {
                    let served = scheduler.schedule(&demand, window).served(&demand);
                    let name = scheduler.name();
                    assert!(served <= bound.served + 1e-6, "{name} {served} above {bound:?}");
                    best = best.max(served);
                }
                assert!(best >= 0.8 * bound.served, "{best} of {bound:?}");
            }
        }
    }

    /// Two ports and one pair: the answer is known.
    #[test]
    fn one_pair_is_bounded_by_the_window_less_a_night() {
        let demand = Demand::new(2, vec![0.0, 2.0, 0.0, 0.0]).unwrap();
        let bound = bound(&demand, Window { length: 1.0, delta: 0.25 }, &Silent).unwrap();
        assert!((bound.served - 0.375).abs() < 1e-6, "{bound:?}");
    }

    /// All but one send to one, which ten nights keep from carrying it all.
    #[test]
    fn a_crowded_port_bounds_what_is_served() {
        let demand = Demand::from_fn(11, |from, to| if to == 0 && from > 0 { 0.1 } else { 0.0 });
        let window = Window { length: 1.0, delta: 0.01 };
        assert!((of_ports(&demand, window) - 0.9).abs() < 1e-12);
        let found = bound(&demand, window, &Silent).expect("solved");
        assert!(found.served <= 0.9 + 1e-9, "{found:?}");
        let large = Demand::uniform(PORTS_MAX + 8);
        let found = bound(&large, window, &Silent).expect("no program");
        assert!((found.rounds, found.tight) == (0, false) && found.served < 0.8, "{found:?}");
    }
}

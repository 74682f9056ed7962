//! The most that any schedule could serve, certified by prices.
//!
//! A day of length `a` that connects a pair serves at most `min(a, demand)` of it. Let the traffic of each pair have
//! a price from 0 to 1, and let no day gain more per time at these prices, nights included, than a rate
//! (`dearest`). Whatever the schedule, what it serves is at most
//!
//! ```text
//! sum over pairs of demand (1 - price)  +  rate window
//! ```
//!
//! because what it serves of a pair at its price the rate pays for, and of the rest it serves no more than the
//! demand. Any prices give a bound; the least of all is the optimum of the linear program whose columns are all
//! days (this is its dual). Here prices go down the subgradient of that sum: pairs that the dearest day serves get
//! cheaper, others dearer, in steps after Polyak (1969) towards what a schedule is known to serve. That ends within
//! a percent of the program's optimum in a small part of the time that a solver takes to find its columns.
//!
//! Each port alone bounds what is served too ([`of_ports`]): a day connects it to one other, so of `n` days it
//! carries `window - n delta` at most, and not more than its `n` largest amounts. Where one port is crowded that
//! says more than prices, which pay for a part of every day.

use ebb_scenario::Progress;

use crate::dearest::{Days, Dearest};
use crate::matching::EXACT_MAX;
use crate::schedulers::{self, Scheduler};
use crate::{Demand, Window};

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bound {
    /// No schedule serves a greater share of the demand.
    pub served: f64,
    /// Steps of the prices.
    pub steps: usize,
}

/// Beyond this many ports [`of_ports`] alone is the bound: heaviest matchings are only nearly so.
pub const PORTS_MAX: usize = EXACT_MAX;

/// A bound that is above what is served by no more than this share of it is good enough.
const NEAR_ENOUGH: f64 = 1e-3;
/// Steps get shorter by this factor when so many of them have not lowered the bound by [`PROGRESS_MIN`] of it.
const SHORTER: f64 = 0.7;
const STEPS_IN_VAIN: usize = 100;
const PROGRESS_MIN: f64 = 1e-4;
/// Where steps are shorter than this part of the first nothing is gained any more.
const SHORTEST: f64 = 3e-3;
/// Days are sought to this share of their rate, at every so manieth step among all lengths; between these among
/// those that were best of late.
const WITHIN: f64 = 3e-3;
const EXACTLY_EVERY: usize = 80;

/// What is kept of the direction from step to step.
const MEMORY: f64 = 0.7;
/// Steps do not aim below this share of the best bound.
const FAR: f64 = 0.9;

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

/// The bound; `None` where it was stopped.
pub fn bound(demand: &Demand, window: Window, progress: &dyn Progress) -> Option<Bound> {
    let (ports, total) = (demand.ports(), demand.total());
    let of_ports = of_ports(demand, window);
    if ports > PORTS_MAX || total <= 0.0 || window.length <= window.delta {
        return Some(Bound { served: of_ports, steps: 0 });
    }
    let all: [&dyn Scheduler; 2] = [&schedulers::Eclipse, &schedulers::RoundRobin];
    let reached = all.map(|scheduler| scheduler.schedule(demand, window));
    let [eclipse, _] = &reached;
    let reached = reached.iter().map(|found| found.carried(demand)).fold(0.0, f64::max);
    let mut descent = Descent::new(demand, window, eclipse.residual(demand));
    let mut steps = 0;
    while steps < steps_max(ports) {
        if progress.stopped() {
            return None;
        }
        steps += 1;
        let near = |value: f64| value.min(of_ports * total) <= reached * (1.0 + NEAR_ENOUGH);
        if near(descent.value) {
            descent.exactly(WITHIN);
        }
        if near(descent.proved) || !descent.step(reached) {
            break;
        }
    }
    descent.exactly(WITHIN / 3.0);
    Some(Bound { served: of_ports.min(descent.proved / total), steps })
}

/// As many steps as a few seconds hold.
fn steps_max(ports: usize) -> usize {
    let (most, of_64) = (6000, 3000);
    (of_64 * 64 * 64 / (ports * ports)).min(most)
}

/// Prices on their way.
struct Descent<'a> {
    days: Days<'a>,
    demand: &'a Demand,
    window: f64,
    prices: Vec<f64>,
    /// Where they go, a mean over the last subgradients.
    direction: Vec<f64>,
    /// The best so far, and the sum that they bound.
    best: Vec<f64>,
    value: f64,
    /// The least that is proved, by all lengths of days.
    proved: f64,
    /// Length of steps as a share of Polyak's.
    stride: f64,
    in_vain: usize,
    taken: usize,
}

impl<'a> Descent<'a> {
    /// Begins where pairs that a good schedule leaves something of are dear, and others as cheap as is best.
    fn new(demand: &'a Demand, window: Window, left: Vec<f64>) -> Descent<'a> {
        let mut descent = Descent {
            days: Days::of(demand, window),
            demand,
            window: window.length,
            prices: Vec::new(),
            direction: vec![0.0; left.len()],
            best: Vec::new(),
            value: f64::INFINITY,
            proved: f64::INFINITY,
            stride: 1.0,
            in_vain: 0,
            taken: 0,
        };
        for tenths in 1..=10 {
            let served = f64::from(tenths) / 10.0;
            let scarce = |(left, amount): (&f64, &f64)| *left > 1e-9 * amount;
            let price = |pair| if scarce(pair) { 1.0 } else { served };
            descent.prices = left.iter().zip(demand.amounts()).map(price).collect();
            let found = descent.days.dearest(&descent.prices, WITHIN);
            let value = descent.unpaid() + window.length * found.most;
            if value < descent.value {
                (descent.value, descent.best) = (value, descent.prices.clone());
            }
        }
        descent.proved = descent.value;
        descent.prices = descent.best.clone();
        descent
    }

    /// What the best prices bound, but for the share `within`; and the length that shows it is remembered.
    fn exactly(&mut self, within: f64) {
        let prices = std::mem::replace(&mut self.prices, self.best.clone());
        let found = self.days.dearest(&self.prices, within);
        self.value = self.unpaid() + self.window * found.most;
        self.proved = self.proved.min(self.value);
        self.prices = prices;
    }

    /// About what the prices bound, and a good day.
    fn look(&mut self) -> (f64, Dearest) {
        let found = self.days.usual(&self.prices);
        let value = self.unpaid() + self.window * found.rate;
        if value < self.value {
            (self.value, self.best) = (value, self.prices.clone());
        }
        (value, found)
    }

    fn unpaid(&self) -> f64 {
        let pairs = self.demand.amounts().iter().zip(&self.prices);
        pairs.map(|(amount, price)| amount * (1.0 - price)).sum()
    }

    /// One step; whether more are worth it.
    fn step(&mut self, reached: f64) -> bool {
        if self.taken % EXACTLY_EVERY == EXACTLY_EVERY - 1 {
            self.exactly(WITHIN);
        }
        let before = self.value;
        let (value, day) = self.look();
        self.taken += 1;
        self.in_vain =
            if self.value < before * (1.0 - PROGRESS_MIN) { 0 } else { self.in_vain + 1 };
        if self.in_vain == STEPS_IN_VAIN {
            (self.stride, self.in_vain) = (self.stride * SHORTER, 0);
            self.prices.clone_from(&self.best);
            self.direction.fill(0.0);
            return self.stride > SHORTEST;
        }
        let (ports, amounts) = (self.demand.ports(), self.demand.amounts());
        let time = day.length + self.days.delta();
        for (direction, amount) in self.direction.iter_mut().zip(amounts) {
            *direction = MEMORY * *direction - (1.0 - MEMORY) * amount;
        }
        for (from, to) in day.mates.iter().enumerate() {
            let at = from * ports + to;
            let gain = self.window * amounts[at].min(day.length) / time;
            self.direction[at] += (1.0 - MEMORY) * gain;
        }
        let steep: f64 = self.direction.iter().map(|it| it * it).sum();
        let size = self.stride * (value - reached.max(FAR * self.value)).max(0.0)
            / steep.max(f64::MIN_POSITIVE);
        for (price, direction) in self.prices.iter_mut().zip(&self.direction) {
            *price = (*price - size * direction).clamp(0.0, 1.0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use ebb_scenario::Silent;
    use proptest::prelude::*;

    use super::*;
    use crate::schedulers::ALL;

    /// The most, in units, that days of whole lengths serve of what is `left`, every set of days tried:
    /// for each permutation in turn every length of its day, or none.
    fn most_by_trying_all(
        permutations: &[Vec<usize>],
        left: &mut [u32],
        window: u32,
        night: u32,
    ) -> u32 {
        let Some((matching, others)) = permutations.split_first() else { return 0 };
        let mut most = most_by_trying_all(others, left, window, night);
        let ports = matching.len();
        for length in 1..=window.saturating_sub(night) {
            let before = left.to_vec();
            for (from, to) in matching.iter().enumerate() {
                let pair = &mut left[from * ports + to];
                *pair -= length.min(*pair);
            }
            let served = before.iter().sum::<u32>() - left.iter().sum::<u32>();
            let rest = most_by_trying_all(others, left, window - night - length, night);
            most = most.max(served + rest);
            left.copy_from_slice(&before);
        }
        most
    }

    fn permutations(ports: usize) -> Vec<Vec<usize>> {
        let shorter = if ports == 0 { return vec![Vec::new()] } else { permutations(ports - 1) };
        let longer = |short: &Vec<usize>| {
            let short = short.clone();
            (0..ports).map(move |place| {
                let mut long = short.clone();
                long.insert(place, ports - 1);
                long
            })
        };
        shorter.iter().flat_map(longer).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn no_schedule_at_all_is_above_the_bound(
            ports in 2usize..=4,
            draws in proptest::collection::vec(prop_oneof![Just(0u32), 1..9u32], 16),
            night in 1..4u32,
        ) {
            let units = if ports == 4 { 7 } else { 12 };
            let mut amounts = draws[..ports * ports].to_vec();
            prop_assume!(amounts.iter().any(|amount| *amount > 0));
            let total: u32 = amounts.iter().sum();
            let part = |amount: &u32| f64::from(*amount) / f64::from(units);
            let demand = Demand::new(ports, amounts.iter().map(part).collect()).expect("a demand");
            let window = Window { length: 1.0, delta: part(&night) };
            let found = bound(&demand, window, &Silent).expect("not stopped");
            let most = most_by_trying_all(&permutations(ports), &mut amounts, units, night);
            let served = f64::from(most) / f64::from(total);
            prop_assert!(served <= found.served + 1e-9, "{served} above {found:?}");
        }
    }

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
                let bound = bound(&demand, window, &Silent).expect("not stopped");
                assert!(bound.served <= 1.0 + 1e-9, "{bound:?}");
                let mut best = 0.0_f64;
                for scheduler in &ALL[..5] {
                    let served = scheduler.schedule(&demand, window).served(&demand);
                    let name = scheduler.name();
                    assert!(served <= bound.served + 1e-6, "{name} {served} above {bound:?}");
                    best = best.max(served);
                }
                assert!(best >= 0.95 * bound.served, "{best} of {bound:?}");
            }
        }
    }

    /// As many racks as a rack switch of circuits has ports, and as unlike amounts as real ones are.
    #[test]
    fn the_bound_of_64_racks_is_near_what_is_served() {
        let sparse = Demand::sparse(64, 4, 12, 0.7, &mut ebb_des::Seed(5).stream("demand"));
        let blurred = sparse.estimated(0.2, &mut ebb_des::Seed(5).stream("estimate"));
        let window = Window { length: 1.0, delta: 0.05 };
        let served = schedulers::Eclipse.schedule(&blurred, window).served(&blurred);
        let found = bound(&blurred, window, &Silent).expect("not stopped");
        assert!(served <= found.served && found.served <= 1.05 * served, "{served} {found:?}");
        assert!(found.served < of_ports(&blurred, window) - 0.005, "{found:?}");
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
        let found = bound(&demand, window, &Silent).expect("not stopped");
        assert!(found.served <= 0.9 + 1e-9, "{found:?}");
        let large = Demand::uniform(PORTS_MAX + 8);
        let found = bound(&large, window, &Silent).expect("not stopped");
        assert!(found.steps == 0 && found.served < 0.8, "{found:?}");
    }
}

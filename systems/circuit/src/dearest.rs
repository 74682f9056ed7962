//! Which day gains the most per time, where each pair's traffic has its price.
//!
//! A day of length `a` with matching `M` gains `sum over M of price min(a, demand)`. Only amounts of the demand need
//! be tried as lengths: in between the gain is linear and so is its price. Not all of these are tried: with longer
//! days no matching gains less, and no more than in proportion to the length. So what two lengths gain bounds all
//! between them.

use crate::matching::Heaviest;
use crate::{Demand, Window};

/// The day of greatest gain per time among those that were tried, and what none exceeds.
#[derive(Clone, Debug)]
pub(crate) struct Dearest {
    /// No day gains more per time.
    pub(crate) most: f64,
    /// What the best that was tried gains.
    pub(crate) rate: f64,
    /// Its length.
    pub(crate) length: f64,
    /// Its matching.
    pub(crate) mates: Vec<usize>,
    /// The place of its length.
    at: usize,
}

impl Dearest {
    const NONE: Dearest = Dearest {
        most: f64::NEG_INFINITY,
        rate: f64::NEG_INFINITY,
        length: 0.0,
        mates: Vec::new(),
        at: 0,
    };
}

/// How many lengths are remembered.
const LATE_MAX: usize = 5;

/// Searches days for one demand after the other prices.
pub(crate) struct Days<'a> {
    demand: &'a Demand,
    delta: f64,
    lengths: Vec<f64>,
    heaviest: Heaviest,
    worth: Vec<f64>,
    /// The places of lengths that were best, the last first.
    late: Vec<usize>,
}

/// A length by its place, and what the heaviest matching gains.
type Tried = (usize, f64);

impl<'a> Days<'a> {
    /// Of a demand with at least one amount above 0, in a window with room for a day. Up to
    /// [`crate::matching::EXACT_MAX`] ports matchings are the heaviest, and the rate a bound.
    pub(crate) fn of(demand: &'a Demand, window: Window) -> Days<'a> {
        let longest = (window.length - window.delta).max(0.0);
        let fit = |amount: &f64| amount.min(longest);
        let mut lengths: Vec<f64> =
            demand.amounts().iter().map(fit).filter(|length| *length > 0.0).collect();
        lengths.sort_by(f64::total_cmp);
        lengths.dedup();
        let heaviest = Heaviest::new(demand.ports());
        let worth = vec![0.0; demand.amounts().len()];
        Days { demand, delta: window.delta, lengths, heaviest, worth, late: Vec::new() }
    }

    /// Length of a night.
    pub(crate) fn delta(&self) -> f64 {
        self.delta
    }

    /// A day of one of the lengths that were best of late; of others nothing is said.
    pub(crate) fn usual(&mut self, prices: &[f64]) -> Dearest {
        let mut best = Dearest::NONE;
        for at in 0..self.late.len() {
            self.attempt(self.late[at], prices, &mut best);
        }
        Dearest { most: f64::INFINITY, ..best }
    }

    /// The best day at these prices but for the share `within`.
    pub(crate) fn dearest(&mut self, prices: &[f64], within: f64) -> Dearest {
        let last = self.lengths.len() - 1;
        let mut best = Dearest::NONE;
        let ends = [0, last].map(|at| self.attempt(at, prices, &mut best));
        let mut open = vec![(self.between(ends[0], ends[1]), ends[0], ends[1])];
        loop {
            let top = (0..open.len()).max_by(|a, b| open[*a].0.total_cmp(&open[*b].0));
            let wide = |top: &usize| open[*top].0 > best.rate * (1.0 + within);
            let Some(top) = top.filter(wide) else { break };
            let (_, low, high) = open.swap_remove(top);
            let middle = (self.lengths[low.0] * self.lengths[high.0]).sqrt();
            let at = self.lengths.partition_point(|length| *length < middle);
            let tried = self.attempt(at.clamp(low.0 + 1, high.0 - 1), prices, &mut best);
            for (low, high) in [(low, tried), (tried, high)] {
                let most = self.between(low, high);
                if most > best.rate {
                    open.push((most, low, high));
                }
            }
        }
        self.late.retain(|at| *at != best.at);
        self.late.insert(0, best.at);
        self.late.truncate(LATE_MAX);
        Dearest { most: open.iter().map(|(most, ..)| *most).fold(best.rate, f64::max), ..best }
    }

    fn attempt(&mut self, at: usize, prices: &[f64], best: &mut Dearest) -> Tried {
        let length = self.lengths[at];
        let pairs = self.worth.iter_mut().zip(prices).zip(self.demand.amounts());
        pairs.for_each(|((worth, price), amount)| *worth = price * amount.min(length));
        let (mates, sum) = self.heaviest.of(&self.worth);
        let rate = sum / (length + self.delta);
        if rate > best.rate {
            *best = Dearest { most: rate, rate, length, mates, at };
        }
        (at, sum)
    }

    /// The most that a length between two that were tried gains per time; 0 where there is none.
    fn between(&self, (low, below): Tried, (high, above): Tried) -> f64 {
        if high <= low + 1 {
            return 0.0;
        }
        let [shortest, longest] = [self.lengths[low + 1], self.lengths[high - 1]];
        // In proportion to the lower's it grows up to here, from where the upper's is less.
        let turn = if below > 0.0 { self.lengths[low] * above / below } else { shortest };
        above / (turn.clamp(shortest, longest) + self.delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::heaviest;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_length_gains_more_than_is_said(
            ports in 2usize..=7,
            draws in proptest::collection::vec((prop_oneof![Just(0.0), 0.001..1.0f64, Just(0.5)], 0.0..=1.0f64), 49),
            delta in 0.0..0.2f64,
            within in 0.0..0.1f64,
        ) {
            let (amounts, prices): (Vec<f64>, Vec<f64>) = draws[..ports * ports].iter().copied().unzip();
            prop_assume!(amounts.iter().any(|amount| *amount > 0.0));
            let demand = Demand::new(ports, amounts.clone()).expect("a demand");
            let window = Window { length: 1.0, delta };
            let found = Days::of(&demand, window).dearest(&prices, within);
            let rate = |length: f64| {
                let worth: Vec<f64> =
                    amounts.iter().zip(&prices).map(|(amount, price)| price * amount.min(length)).collect();
                heaviest(ports, &worth).1 / (length + delta)
            };
            let all = amounts.iter().map(|amount| amount.min(1.0 - delta)).filter(|length| *length > 0.0);
            let most = all.map(rate).fold(0.0, f64::max);
            prop_assert!(found.most >= most - 1e-12 && found.most <= most * (1.0 + within) + 1e-12);
            prop_assert!((rate(found.length) - found.rate).abs() < 1e-9);
        }
    }
}

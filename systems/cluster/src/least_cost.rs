//! Servers whose price and whose energy's price together are least: by branch and bound over boxes of
//! choices. More servers cost more and never draw more, so what a box's lower corner costs and its upper
//! corner draws is below every choice inside.

use std::collections::BinaryHeap;

use ebb_scenario::Progress;

use crate::boxes::Node;
use crate::demand::Levels;
use crate::designs::Design;
use crate::fleet::Fleet;
use crate::goal::SearchLimits;

/// Relative difference that is rounding.
const EXACT: f64 = 1e-9;
/// Levels beyond which they are bracketed: the bracket's width then enters the proven gap.
const LEVELS_MAX: usize = 8192;
/// What the design is called.
pub(crate) const NAME: &str = "least-cost";

struct Search<'a> {
    fleet: &'a Fleet,
    low: Levels,
    high: Levels,
    peak_mbps: f64,
    budget: f64,
    evaluations: usize,
}

/// The least total within `budget`, which binds the servers' price; `priced` are the loads weighted by what a
/// joule costs. `None` where no servers within it carry the peak.
pub(crate) fn least_cost(
    fleet: &Fleet,
    priced: &Levels,
    budget: f64,
    limits: SearchLimits,
    progress: &dyn Progress,
) -> Option<Design> {
    let peak_mbps = *priced.mbps.last()?;
    let (low, high) = priced.bracketed(LEVELS_MAX);
    let budget = budget * (1.0 + EXACT);
    let mut search = Search { fleet, low, high, peak_mbps, budget, evaluations: 0 };
    let (counts, total, bound) = search.run(limits.evaluations, progress)?;
    let gap = if bound > 0.0 { (total / bound - 1.0).max(0.0) } else { 0.0 };
    let proof_gap = if gap < 10.0 * EXACT { 0.0 } else { gap };
    Some(Design { name: NAME, counts, proof_gap, cheapest: proof_gap == 0.0 })
}

impl Search<'_> {
    fn total(&mut self, counts: &[u32]) -> f64 {
        self.evaluations += 1;
        self.fleet.price(counts) + self.fleet.joules(counts, &self.high)
    }

    fn bound(&mut self, low: &[u32], high: &[u32]) -> f64 {
        self.evaluations += 1;
        self.fleet.price(low) + self.fleet.joules(high, &self.low)
    }

    fn allowed(&self, counts: &[u32]) -> bool {
        self.fleet.price(counts) <= self.budget && self.fleet.carries(counts, self.peak_mbps)
    }

    /// Removes, adds or exchanges one server while that is cheaper.
    fn descend(&mut self, mut counts: Vec<u32>, most: &[u32]) -> (Vec<u32>, f64) {
        let mut total = self.total(&counts);
        loop {
            let mut next: Option<(Vec<u32>, f64)> = None;
            for from in 0..=counts.len() {
                for to in 0..=counts.len() {
                    let mut other = counts.clone();
                    if from < counts.len() {
                        let Some(fewer) = other[from].checked_sub(1) else { continue };
                        other[from] = fewer;
                    }
                    if to < counts.len() {
                        other[to] += 1;
                        if other[to] > most[to] {
                            continue;
                        }
                    }
                    if other == counts || !self.allowed(&other) {
                        continue;
                    }
                    let cost = self.total(&other);
                    if cost < next.as_ref().map_or(total, |next| next.1) * (1.0 - EXACT) {
                        next = Some((other, cost));
                    }
                }
            }
            match next {
                Some((other, cost)) => (counts, total) = (other, cost),
                None => return (counts, total),
            }
        }
    }

    /// Servers within the budget that carry the peak, by the most capacity for the price; where that is
    /// not enough, any that the box's search meets.
    fn first(&self, most: &[u32]) -> Option<Vec<u32>> {
        let mut order: Vec<usize> = (0..most.len()).collect();
        let merit = |at: &usize| self.fleet.groups[*at].mbps_per_price();
        order.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
        let mut counts = vec![0; most.len()];
        for at in order {
            while counts[at] < most[at] && !self.fleet.carries(&counts, self.peak_mbps) {
                counts[at] += 1;
            }
        }
        self.allowed(&counts).then_some(counts)
    }

    fn run(&mut self, most: usize, progress: &dyn Progress) -> Option<(Vec<u32>, f64, f64)> {
        let high = self.fleet.useful(self.peak_mbps);
        let mut best = self.first(&high).map(|first| self.descend(first, &high));
        self.evaluations = 0;
        let mut heap = BinaryHeap::new();
        let low = vec![0; high.len()];
        let mut bound_kept = f64::INFINITY;
        if self.fleet.carries(&high, self.peak_mbps) {
            let bound = self.bound(&low, &high);
            heap.push(Node { bound, turn: 0, low, high });
        }
        let mut turn = 0;
        while let Some(node) = heap.pop() {
            let least = best.as_ref().map_or(f64::INFINITY, |best| best.1);
            let done = self.evaluations >= most || progress.stopped();
            if node.bound >= least * (1.0 - EXACT) || (done && best.is_some()) {
                bound_kept = node.bound;
                break;
            }
            turn += 1;
            if turn % 64 == 1 {
                progress.at((self.evaluations as f64 / most as f64).min(1.0), "least total cost");
            }
            for corner in [&node.high, &node.low] {
                if self.allowed(corner) {
                    let total = self.total(corner);
                    if best.as_ref().is_none_or(|best| total < best.1) {
                        best = Some((corner.clone(), total));
                    }
                }
            }
            for (low, high) in halves(&node) {
                if self.fleet.price(&low) <= self.budget
                    && self.fleet.carries(&high, self.peak_mbps)
                {
                    let bound = self.bound(&low, &high).max(node.bound);
                    heap.push(Node { bound, turn: 2 * turn, low, high });
                }
            }
        }
        let (counts, total) = best?;
        Some((counts, total, bound_kept.min(total)))
    }
}

/// The halves of a box across its widest side; none of a single choice.
fn halves(node: &Node) -> Vec<(Vec<u32>, Vec<u32>)> {
    let width = |at: &usize| node.high[*at] - node.low[*at];
    let Some(at) = (0..node.low.len()).max_by_key(width).filter(|at| width(at) > 0) else {
        return Vec::new();
    };
    let middle = u32::midpoint(node.low[at], node.high[at]);
    let (mut low, mut high) = (node.low.clone(), node.high.clone());
    (high[at], low[at]) = (middle, middle + 1);
    vec![(low, node.high.clone()), (node.low.clone(), high)]
}

//! The goal program (Li 2012, eqs. 8.1 to 8.8): servers whose least energy over all samples is least
//! within a budget, and of those the cheapest.
//!
//! N_k alpha_t, with alpha_t between 0 and 1, must be whole for every group and sample: it is a whole
//! number of its own for each, and the program is a mixed-integer one of groups times samples. Given
//! the N_k it falls apart into samples, which [`Fleet::powers`] solves exactly and all at once. What
//! remains is a search over the N_k alone, by branch and bound over boxes of them: more servers never
//! draw more, so the box's upper corner bounds every choice inside it.

use std::collections::{BTreeMap, BinaryHeap};

use ebb_scenario::Progress;

use crate::boxes::Node;
use crate::demand::Levels;
use crate::fleet::Fleet;

/// Relative difference that is rounding.
const EXACT: f64 = 1e-9;
/// Levels beyond which they are bracketed: the bracket's width then enters the proven gap.
const LEVELS_MAX: usize = 8192;

/// How long the search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Choices of servers that are evaluated at most, for each of the two goals. The same on every
    /// machine, unlike a time.
    pub evaluations: usize,
}

impl Default for SearchLimits {
    fn default() -> SearchLimits {
        SearchLimits { evaluations: 1000 }
    }
}

/// The servers that the goal program chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// How many of each group.
    pub counts: Vec<u32>,
    /// How far its energy can be above the least within the budget, relative: 0 where proven least.
    pub gap: f64,
    /// Whether its price is proven least at that energy.
    pub cheapest: bool,
}

struct Search<'a> {
    fleet: &'a Fleet,
    low: Levels,
    high: Levels,
    exact: bool,
    peak_mbps: f64,
    budget: f64,
    evaluations: usize,
    known: BTreeMap<Vec<u32>, f64>,
}

/// Chooses servers for `levels` within `budget`; `None` when none within it carry the peak.
///
/// `progress` may end the search early; what it has found by then counts, with its gap.
pub fn goal(
    fleet: &Fleet,
    levels: &Levels,
    budget: f64,
    limits: SearchLimits,
    progress: &dyn Progress,
) -> Option<Goal> {
    let peak_mbps = *levels.mbps.last()?;
    if !fleet.least_price(peak_mbps).is_some_and(|least| least <= budget * (1.0 + EXACT)) {
        return None;
    }
    let flat = fleet.groups.iter().all(|group| group.slope() == 0.0);
    let capacities: Vec<f64> = fleet.groups.iter().map(|group| group.capacity_mbps).collect();
    let levels = if flat { levels.raised_to_sums(&capacities) } else { levels.clone() };
    let (low, high) = levels.bracketed(LEVELS_MAX);
    let exact = low == high;
    let mut search = Search {
        fleet,
        low,
        high,
        exact,
        peak_mbps,
        budget: budget * (1.0 + EXACT),
        evaluations: 0,
        known: BTreeMap::new(),
    };
    let (counts, joules, bound) = search.least_energy(limits.evaluations, progress)?;
    let gap = if bound > 0.0 { (joules / bound - 1.0).max(0.0) } else { 0.0 };
    let gap = if gap < 10.0 * EXACT { 0.0 } else { gap };
    search.evaluations = 0;
    let (counts, cheapest) = search.least_price(counts, joules, limits.evaluations, progress);
    Some(Goal { counts, gap, cheapest })
}

impl Search<'_> {
    /// Energy with the levels rounded up: what a choice surely needs.
    fn above(&mut self, counts: &[u32]) -> f64 {
        if let Some(known) = self.known.get(counts) {
            return *known;
        }
        self.evaluations += 1;
        let joules = self.fleet.joules(counts, &self.high);
        self.known.insert(counts.to_vec(), joules);
        joules
    }

    /// Energy with the levels rounded down: what no choice in the box falls below.
    fn below(&mut self, counts: &[u32]) -> f64 {
        if self.exact {
            return self.above(counts);
        }
        self.evaluations += 1;
        self.fleet.joules(counts, &self.low)
    }

    /// The corner of the box that the budget allows to each group alone.
    fn tightened(&self, low: &[u32], high: &[u32]) -> Option<Vec<u32>> {
        let left = self.budget - self.fleet.price(low);
        if left < 0.0 {
            return None;
        }
        let corner = |((group, low), high): ((&crate::Group, &u32), &u32)| {
            let more = if group.price > 0.0 { left / group.price } else { f64::INFINITY };
            low.saturating_add(more.min(f64::from(u32::MAX)) as u32).min(*high)
        };
        let pairs = self.fleet.groups.iter().zip(low).zip(high);
        let corner: Vec<u32> = pairs.map(corner).collect();
        self.fleet.carries(&corner, self.peak_mbps).then_some(corner)
    }

    /// A good choice below `counts` within the budget: drops the server that saves the most money for
    /// the energy it costs until the rest can be paid for.
    fn trimmed(&mut self, counts: &[u32], floor: &[u32]) -> Option<Vec<u32>> {
        let mut counts = counts.to_vec();
        let mut joules = self.above(&counts);
        while self.fleet.price(&counts) > self.budget {
            let mut best: Option<(f64, usize, f64)> = None;
            for index in 0..counts.len() {
                let price = self.fleet.groups[index].price;
                if counts[index] <= floor[index] || price <= 0.0 {
                    continue;
                }
                counts[index] -= 1;
                if self.fleet.carries(&counts, self.peak_mbps) {
                    let without = self.above(&counts);
                    let dear = (without - joules) / price;
                    if best.is_none_or(|best| dear < best.0) {
                        best = Some((dear, index, without));
                    }
                }
                counts[index] += 1;
            }
            let (_, index, without) = best?;
            counts[index] -= 1;
            joules = without;
        }
        Some(counts)
    }

    /// The choice of least energy, that energy, and what none falls below.
    fn least_energy(
        &mut self,
        most: usize,
        progress: &dyn Progress,
    ) -> Option<(Vec<u32>, f64, f64)> {
        let high = self.fleet.useful(self.peak_mbps);
        let low = vec![0; high.len()];
        let corner = self.tightened(&low, &high)?;
        let mut best: Option<(Vec<u32>, f64)> = None;
        let mut bound_kept = f64::INFINITY;
        let mut heap = BinaryHeap::new();
        let bound = self.below(&corner);
        heap.push(Node { bound, turn: 0, low, high: corner });
        let mut turn = 0;
        while let Some(node) = heap.pop() {
            let least = best.as_ref().map_or(f64::INFINITY, |best| best.1);
            let done = self.evaluations >= most || progress.stopped();
            if node.bound >= least * (1.0 - EXACT) || (done && best.is_some()) {
                bound_kept = bound_kept.min(node.bound);
                break;
            }
            turn += 1;
            if turn % 64 == 1 {
                progress.at((self.evaluations as f64 / most as f64).min(1.0), "least energy");
            }
            let affordable = self.fleet.price(&node.high) <= self.budget;
            let candidate = if affordable {
                Some(node.high.clone())
            } else if turn == 1 || turn % 16 == 0 {
                self.trimmed(&node.high, &node.low)
            } else {
                None
            };
            if let Some(counts) = candidate {
                let joules = self.above(&counts);
                if best.as_ref().is_none_or(|best| joules < best.1) {
                    best = Some((counts, joules));
                }
            }
            if affordable {
                bound_kept = bound_kept.min(node.bound);
                continue;
            }
            for (low, high) in split(&node, self.fleet) {
                let Some(high) = self.tightened(&low, &high) else { continue };
                let bound = self.below(&high).max(node.bound);
                heap.push(Node { bound, turn: turn * 2, low, high });
            }
        }
        let (counts, joules) = best?;
        Some((counts, joules, bound_kept.min(joules)))
    }

    /// The cheapest choice that needs no more than `joules`, and whether that is proven.
    fn least_price(
        &mut self,
        first: Vec<u32>,
        joules: f64,
        most: usize,
        progress: &dyn Progress,
    ) -> (Vec<u32>, bool) {
        let enough = joules * (1.0 + EXACT);
        let mut best = self.pruned(first, enough);
        let high = self.fleet.useful(self.peak_mbps);
        let mut heap = BinaryHeap::new();
        heap.push(Node { bound: 0.0, turn: 0, low: vec![0; high.len()], high });
        let mut turn = 0;
        while let Some(node) = heap.pop() {
            let least = self.fleet.price(&best);
            if node.bound >= least * (1.0 - EXACT) {
                return (best, true);
            }
            if self.evaluations >= most || progress.stopped() {
                return (best, false);
            }
            turn += 1;
            if turn % 64 == 1 {
                progress.at((self.evaluations as f64 / most as f64).min(1.0), "least price");
            }
            if self.above(&node.low) <= enough {
                best = node.low;
                continue;
            }
            for (low, high) in split(&node, self.fleet) {
                let price = self.fleet.price(&low);
                if price < least * (1.0 - EXACT) && self.above(&high) <= enough {
                    heap.push(Node { bound: price, turn: turn * 2, low, high });
                }
            }
        }
        (best, true)
    }

    /// Without the servers whose absence costs no energy, the dearest first.
    fn pruned(&mut self, mut counts: Vec<u32>, enough: f64) -> Vec<u32> {
        let mut order: Vec<usize> = (0..counts.len()).collect();
        let price = |index: &usize| self.fleet.groups[*index].price;
        order.sort_by(|a, b| price(b).total_cmp(&price(a)));
        for index in order {
            while counts[index] > 0 {
                counts[index] -= 1;
                if self.above(&counts) > enough {
                    counts[index] += 1;
                    break;
                }
            }
        }
        counts
    }
}

/// The two halves of a box, across the group whose range costs most.
fn split(node: &Node, fleet: &Fleet) -> Vec<(Vec<u32>, Vec<u32>)> {
    let width = |index: &usize| {
        let range = node.high[*index] - node.low[*index];
        f64::from(range) * fleet.groups[*index].price.max(1e-6)
    };
    let widest = (0..node.low.len()).max_by(|a, b| width(a).total_cmp(&width(b)));
    let Some(at) = widest.filter(|at| node.high[*at] > node.low[*at]) else { return Vec::new() };
    let middle = u32::midpoint(node.low[at], node.high[at]);
    let (mut low, mut high) = (node.low.clone(), node.high.clone());
    high[at] = middle;
    low[at] = middle + 1;
    vec![(low, node.high.clone()), (node.low.clone(), high)]
}

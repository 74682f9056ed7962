//! The best allocation of whole flows, by branch and bound: exact where flows are few.

use super::state::{Item, State};

/// More paths than these are not tried.
const ITEMS_MAX: usize = 64;
/// Places in the tree looked at before the search is given up.
const NODES_MAX: usize = 2_000_000;
/// A branch must promise to be better by this, relatively.
const BETTER: f64 = 1e-12;

/// Moves the flows of `state` to the best allocation over all its planes, never to a worse one than
/// it holds; `false` where it was not proven that there is none better.
///
/// Flows are placed one after another, largest first. Where some are placed, plane k has a fullest
/// link u_k and rate x hops W_k, and those still to be placed have R. A branch is left where either
/// bound says that it holds nothing better:
/// - the fullest link of all flows together, T, is shared out: U_k >= u_k with sum of U_k >= T, and
///   the power is at least sum of `U_k^2` `W_k` + R x least of `U_k^2`;
/// - each flow to be placed fills its path on some plane, and pays at least for that.
pub(super) fn exact(state: &mut State) -> bool {
    if state.items.len() > ITEMS_MAX {
        return false;
    }
    let fits = |state: &State| state.operations().is_some();
    let known = if fits(state) { state.power() } else { f64::INFINITY };
    let mut search = Search::new(state, known);
    let ended = search.place(0, 0);
    if let Some(best) = search.best_planes.take() {
        let order = state.by_rate.clone();
        for (&item, plane) in order.iter().zip(best) {
            if state.plane[item] != plane {
                state.shift(item, plane);
            }
        }
    }
    ended
}

struct Search {
    /// By falling rate.
    items: Vec<Item>,
    /// Rate x hops of the items from each on.
    rest: Vec<f64>,
    /// The fullest link of all items together.
    together: f64,
    loads: Vec<Vec<f64>>,
    /// The fullest link of each plane, no less than `floor`.
    fullest: Vec<f64>,
    weights: Vec<f64>,
    plane: Vec<usize>,
    best: f64,
    best_planes: Option<Vec<usize>>,
    nodes: usize,
}

impl Search {
    fn new(state: &State, best: f64) -> Search {
        let items: Vec<Item> =
            state.by_rate.iter().map(|&item| state.items[item].clone()).collect();
        let mut rest = vec![0.0; items.len() + 1];
        for at in (0..items.len()).rev() {
            rest[at] = rest[at + 1] + items[at].weight();
        }
        let mut all = vec![0.0; state.links()];
        items.iter().for_each(|item| item.path.iter().for_each(|&link| all[link] += item.rate));
        let planes = state.planes();
        Search {
            plane: vec![0; items.len()],
            items,
            rest,
            together: all.into_iter().fold(0.0, f64::max),
            loads: vec![vec![0.0; state.links()]; planes],
            fullest: vec![state.floor(); planes],
            weights: vec![0.0; planes],
            best,
            best_planes: None,
            nodes: 0,
        }
    }

    /// Tries all planes for the items from `at` on, `used` planes having something; `false` where
    /// it gave up.
    fn place(&mut self, at: usize, used: usize) -> bool {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return false;
        }
        let limit = self.best * (1.0 - BETTER);
        if self.shared_out(self.rest[at]) >= limit || self.path_by_path(at) >= limit {
            return true;
        }
        if at == self.items.len() {
            self.best = self.fullest.iter().zip(&self.weights).map(|(u, w)| u * u * w).sum();
            self.best_planes = Some(self.plane.clone());
            return true;
        }
        let open = (used + 1).min(self.loads.len());
        let mut planes: Vec<(f64, usize)> =
            (0..open).map(|plane| (self.power_with(at, plane), plane)).collect();
        planes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (power, plane) in planes {
            if power < self.best * (1.0 - BETTER) && !self.place_on(at, plane, used) {
                return false;
            }
        }
        true
    }

    fn place_on(&mut self, at: usize, plane: usize, used: usize) -> bool {
        let (rate, path) = (self.items[at].rate, self.items[at].path.clone());
        let before: Vec<f64> = path.iter().map(|&link| self.loads[plane][link]).collect();
        let (fullest, weight) = (self.fullest[plane], self.weights[plane]);
        self.fullest[plane] = self.fullest_with(at, plane);
        self.weights[plane] += self.items[at].weight();
        path.iter().for_each(|&link| self.loads[plane][link] += rate);
        self.plane[at] = plane;
        let ended = self.place(at + 1, used.max(plane + 1));
        path.iter().zip(before).for_each(|(&link, load)| self.loads[plane][link] = load);
        (self.fullest[plane], self.weights[plane]) = (fullest, weight);
        ended
    }

    fn fullest_with(&self, item: usize, plane: usize) -> f64 {
        let Item { rate, path } = &self.items[item];
        let loads = &self.loads[plane];
        path.iter().map(|&link| loads[link] + rate).fold(self.fullest[plane], f64::max)
    }

    /// The power of what is placed and `item` on `plane`; infinite where that overloads it.
    fn power_with(&self, item: usize, plane: usize) -> f64 {
        let fullest = self.fullest_with(item, plane);
        if fullest > 1.0 + crate::routes::CAPACITY_SLACK {
            return f64::INFINITY;
        }
        let power = |at: usize| {
            let (u, more) = if at == plane {
                (fullest, self.items[item].weight())
            } else {
                (self.fullest[at], 0.0)
            };
            u * u * (self.weights[at] + more)
        };
        (0..self.weights.len()).map(power).sum()
    }

    /// The bound from the fullest link of all: the least over which plane would be the cheapest.
    fn shared_out(&self, rest: f64) -> f64 {
        let bound = |cheapest: usize| self.shared_out_with(cheapest, rest);
        (0..self.weights.len()).map(bound).fold(f64::INFINITY, f64::min)
    }

    /// The least of sum of U_k^2 A_k with U_k >= u_k and sum of U_k >= T, where A_k is what is on
    /// plane k and, on the plane `cheapest`, the rest too: U_k = max(u_k, lambda / A_k).
    fn shared_out_with(&self, cheapest: usize, rest: f64) -> f64 {
        let planes = self.weights.len();
        let weight =
            |plane: usize| self.weights[plane] + if plane == cheapest { rest } else { 0.0 };
        let mut fixed = 0_u64;
        loop {
            let is_fixed = |plane: usize| fixed >> plane & 1 == 1;
            let (mut left, mut pace) = (self.together, 0.0);
            for plane in 0..planes {
                if is_fixed(plane) {
                    left -= self.fullest[plane];
                } else {
                    pace += 1.0 / weight(plane);
                }
            }
            let share = if pace > 0.0 { left / pace } else { 0.0 };
            let short =
                |&plane: &usize| !is_fixed(plane) && share / weight(plane) < self.fullest[plane];
            let newly = (0..planes).filter(short).fold(0, |all, plane| all | 1 << plane);
            if newly == 0 {
                let power = |plane: usize| {
                    let weight = weight(plane);
                    let u = self.fullest[plane];
                    let u = if is_fixed(plane) { u } else { u.max(share / weight) };
                    if weight > 0.0 { u * u * weight } else { 0.0 }
                };
                return (0..planes).map(power).sum();
            }
            fixed |= newly;
        }
    }

    /// The bound from the paths of the items from `at` on.
    fn path_by_path(&self, at: usize) -> f64 {
        let planes = self.weights.len();
        let placed: f64 = (0..planes).map(|k| self.fullest[k].powi(2) * self.weights[k]).sum();
        let pays = |item: usize| {
            let least =
                (0..planes).map(|k| self.fullest_with(item, k)).fold(f64::INFINITY, f64::min);
            least * least * self.items[item].weight()
        };
        placed + (at..self.items.len()).map(pays).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Allocation;
    use crate::{Mesh, Operation, Traffic, VoltageRange, routing};
    use ebb_des::Seed;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        /// The search agrees with trying every allocation, on two planes and on three.
        #[test]
        fn the_best_is_the_best_of_all(
            ends in proptest::collection::vec((0..6usize, 0..6usize, 0.05..1.0f64), 2..9),
            planes in 1..4usize,
            load in 0.3..1.6f64,
        ) {
            let mesh = Mesh::new(2, 3).expect("a mesh");
            let mut traffic = Traffic::silent(6);
            ends.iter().for_each(|&(from, to, rate)| traffic.add(from, to, rate));
            let route = |traffic: &Traffic| {
                routing::routing("xy").expect("xy").route(&mesh, traffic, Seed(1)).expect("routed")
            };
            let most = route(&traffic).loads(&mesh).into_iter().fold(0.0, f64::max);
            if most == 0.0 {
                return Ok(());
            }
            let routes = route(&traffic.scaled(load / most));
            let range = VoltageRange::new(3.0).expect("a range");
            let count = routes.flows.len();
            let mut best: Option<f64> = None;
            for which in 0..planes.pow(count as u32) {
                let on: Vec<usize> =
                    (0..count).map(|at| which / planes.pow(at as u32) % planes).collect();
                let power: Option<f64> = routes
                    .parts(&on, planes)
                    .iter()
                    .map(|part| Operation::of(&part.loads(&mesh), part.hop_rate(), range))
                    .map(|seen| seen.map(|seen| seen.power))
                    .sum();
                best = [best, power].into_iter().flatten().min_by(f64::total_cmp);
            }
            let found = Allocation::Best.allocate(&mesh, &routes, range, planes, Seed(1));
            prop_assert!(found.proven);
            match (best, found.power()) {
                (Some(best), Some(power)) => prop_assert!((power / best - 1.0).abs() < 1e-9),
                (best, power) => prop_assert_eq!(best, power),
            }
        }
    }
}

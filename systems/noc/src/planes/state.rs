//! Flows on planes: who is where, what each plane carries and costs.

use super::loads::Loads;
use crate::{LinkId, Mesh, Operation, Path, Routes, VoltageRange};

/// A flow, or a flow's part that a splitting routing sends over one path: it stays whole.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) rate: f64,
    pub(super) path: Path,
}

impl Item {
    /// Rate x hops.
    pub(super) fn weight(&self) -> f64 {
        self.rate * self.path.len() as f64
    }
}

/// The flows and where they are.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) items: Vec<Item>,
    /// Items by falling rate; of equal ones the earlier first.
    pub(super) by_rate: Vec<usize>,
    /// For each link, the items that use it, by falling rate.
    users: Vec<Vec<usize>>,
    /// The plane of each item.
    pub(super) plane: Vec<usize>,
    loads: Vec<Loads>,
    weights: Vec<f64>,
    range: VoltageRange,
}

impl State {
    /// All flows on plane 0 of `planes`.
    pub(super) fn new(mesh: &Mesh, routes: &Routes, range: VoltageRange, planes: usize) -> State {
        let parts = routes.flows.iter().flat_map(|routed| {
            let rate = routed.flow.rate;
            routed.paths.iter().map(move |way| (rate * way.share, way.path.clone()))
        });
        let items: Vec<Item> = parts.map(|(rate, path)| Item { rate, path }).collect();
        let links = mesh.links().len();
        let mut by_rate: Vec<usize> = (0..items.len()).collect();
        by_rate.sort_by(|&a, &b| items[b].rate.total_cmp(&items[a].rate));
        let mut users = vec![Vec::new(); links];
        for &item in &by_rate {
            items[item].path.iter().for_each(|&link| users[link].push(item));
        }
        let mut loads = vec![Loads::new(links); planes];
        items.iter().for_each(|item| loads[0].add(&item.path, item.rate));
        let mut weights = vec![0.0; planes];
        weights[0] = items.iter().map(Item::weight).sum();
        State { plane: vec![0; items.len()], items, by_rate, users, loads, weights, range }
    }

    /// How many planes there are.
    pub(super) fn planes(&self) -> usize {
        self.loads.len()
    }

    /// The load that the lowest voltage carries.
    pub(super) fn floor(&self) -> f64 {
        self.range.floor()
    }

    /// BL: the load of a plane's fullest link.
    pub(super) fn fullest(&self, plane: usize) -> f64 {
        self.loads[plane].fullest()
    }

    /// Moves an item to another plane.
    pub(super) fn shift(&mut self, item: usize, to: usize) {
        let from = std::mem::replace(&mut self.plane[item], to);
        let Item { rate, path } = &self.items[item];
        self.loads[from].add(path, -rate);
        self.loads[to].add(path, *rate);
        let weight = self.items[item].weight();
        self.weights[from] -= weight;
        self.weights[to] += weight;
    }

    /// Sum over the planes of rate x hops / alpha^2. An overloaded plane is costed as if its
    /// voltage could be raised, so that leaving the overload always pays.
    pub(super) fn power(&self) -> f64 {
        (0..self.planes()).map(|plane| self.power_of(plane)).sum()
    }

    fn power_of(&self, plane: usize) -> f64 {
        let u = self.fullest(plane).max(self.range.floor());
        u * u * self.weights[plane].max(0.0)
    }

    /// Of the items on plane 0 that use one of its fullest links and are not `done`, the largest.
    /// `heads` remembers for each link how many of its users are done with.
    pub(super) fn largest_of_bottleneck(
        &self,
        done: &[bool],
        heads: &mut [usize],
    ) -> Option<usize> {
        let mut best: Option<usize> = None;
        self.loads[0].fullest_links(|link| {
            let users = &self.users[link];
            let gone = |item: usize| done[item] || self.plane[item] != 0;
            while users.get(heads[link]).is_some_and(|&item| gone(item)) {
                heads[link] += 1;
            }
            if let Some(&item) = users.get(heads[link]) {
                let better = |best: usize| {
                    let (here, there) = (self.items[item].rate, self.items[best].rate);
                    here > there || (here == there && item < best)
                };
                if best.is_none_or(better) {
                    best = Some(item);
                }
            }
        });
        best
    }

    /// How many links there are.
    pub(super) fn links(&self) -> usize {
        self.users.len()
    }

    /// The fullest link of each plane.
    pub(super) fn link_loads(&self, plane: usize) -> Vec<f64> {
        self.loads[plane].to_vec()
    }

    /// What each plane does, computed afresh from the flows; `None` where one is overloaded.
    pub(super) fn operations(&self) -> Option<Vec<Operation>> {
        let operation = |plane: usize| {
            let mut loads = vec![0.0; self.links()];
            let mut weight = 0.0;
            for (item, _) in self.items.iter().zip(&self.plane).filter(|(_, at)| **at == plane) {
                item.path.iter().for_each(|&link: &LinkId| loads[link] += item.rate);
                weight += item.weight();
            }
            Operation::of(&loads, weight, self.range)
        };
        (0..self.planes()).map(operation).collect()
    }
}

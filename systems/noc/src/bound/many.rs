//! Any number of planes: cells of the capacities ([`super::cone`]) are parted until flow and bound meet.
//!
//! Where a cell's lowest place promises less than the best flow known, programs are solved there at the
//! costs of all corners of the cell. Where that changes little the cell is parted: across the longest
//! edge of its simplex, which makes a new corner, or in the middle of its interval of u_0. Planes are
//! alike, so only u_0 >= u_1 >= ... is looked at.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use ebb_scenario::Progress;

use super::cone::{Cell, Corner, Line, Weights};
use super::pricing::distance_rate;
use super::search::Search;
use super::{BoundError, game};

/// How long a search may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// How near flow and bound must come, relative to the power.
    pub(super) gap: f64,
    /// Programs solved and cells looked at before the gap that is left is reported as it is.
    pub(super) solves_max: usize,
    pub(super) cells_max: usize,
}

/// Where prices show that nothing fits, so many times as high ones show that the power is too large.
const STEEP: f64 = 1e6;

/// How a cell was parted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Not, and proven by these shares of its corners' lines.
    Leaf(Weights),
    /// Nothing is in it: the last plane is below the lowest voltage.
    Empty,
    /// At this capacity of plane 0, into a part below and one above.
    Halved(f64, [usize; 2]),
    /// By a new corner between two of its corners, by their place in it, into a part without the first
    /// and one without the second.
    Parted { between: (usize, usize), corner: usize, parts: [usize; 2] },
}

/// Why nothing is below a bound: the corners with their lines, and how the whole was parted.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) corners: Vec<Corner>,
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Open {
    bound: f64,
    cell: Cell,
    node: usize,
    weights: Weights,
    /// How many lines its corners had when its bound was found.
    seen: usize,
    /// How often programs were solved for it.
    looked: usize,
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lowest bound is the greatest, so that a heap gives it first; ties by age.
impl Ord for Open {
    fn cmp(&self, other: &Open) -> Ordering {
        other.bound.total_cmp(&self.bound).then_with(|| other.node.cmp(&self.node))
    }
}

struct Cone<'s, 'a> {
    search: &'s mut Search<'a>,
    effort: Effort,
    corners: Vec<Corner>,
    /// The corner between two others.
    between: BTreeMap<(usize, usize), usize>,
    nodes: Vec<Node>,
    heap: BinaryHeap<Open>,
}

/// Solves programs on `planes` planes until flow and bound meet; the bound and its proof.
pub(super) fn close(
    search: &mut Search<'_>,
    planes: usize,
    effort: Effort,
    progress: &dyn Progress,
) -> Result<(f64, Proof), BoundError> {
    let (low, high) = (search.low, search.scale.max(search.low));
    let least = (low / high).powi(2);
    let cone = Cone {
        search,
        effort,
        corners: Vec::new(),
        between: BTreeMap::new(),
        nodes: Vec::new(),
        heap: BinaryHeap::new(),
    };
    cone.run(planes, least, (low, high), progress)
}

impl Cone<'_, '_> {
    fn known(&self) -> f64 {
        self.search.best.as_ref().map_or(f64::INFINITY, |best| best.power)
    }

    fn enough(&self) -> f64 {
        self.known() * (1.0 - self.effort.gap)
    }

    fn run(
        mut self,
        planes: usize,
        least: f64,
        (low, high): (f64, f64),
        progress: &dyn Progress,
    ) -> Result<(f64, Proof), BoundError> {
        for lowered in 0..planes {
            let costs =
                (0..planes).map(|plane| if plane + lowered >= planes { least } else { 1.0 });
            self.open(costs.collect(), &vec![high; planes])?;
        }
        self.descend()?;
        let root = Cell { corners: (0..planes).collect(), u: (low, high), floor: low };
        self.add(root);
        let (mut cells, begun) = (0, self.search.solves);
        let mut lower = None;
        while let Some(mut open) = self.heap.pop() {
            if open.seen < self.lines(&open.cell) {
                self.see(&mut open);
                self.heap.push(open);
                continue;
            }
            cells += 1;
            let spent = cells > self.effort.cells_max
                || self.search.solves - begun > self.effort.solves_max
                || progress.stopped();
            if cells % 256 == 0 {
                let gap = 1.0 - open.bound / self.known();
                let note = format!("bound: gap {gap:.1e}, {} programs", self.search.solves);
                progress.at(0.0, &note);
            }
            // Should the solver give up, what is proven by then stands.
            if open.bound >= self.enough() || spent || self.refine(&mut open).is_err() {
                lower = Some(open.bound.min(self.known()));
                self.heap.push(open);
                break;
            }
        }
        for open in std::mem::take(&mut self.heap) {
            self.nodes[open.node] = Node::Leaf(open.weights);
        }
        let lower = lower.unwrap_or_else(|| self.known()).max(0.0);
        Ok((lower, Proof { corners: self.corners, nodes: self.nodes }))
    }

    /// How many lines the corners of a cell have.
    fn lines(&self, cell: &Cell) -> usize {
        cell.corners.iter().map(|&corner| self.corners[corner].lines.len()).sum()
    }

    fn see(&self, open: &mut Open) {
        let (bound, weights) = open.cell.bound(&self.corners, self.enough(), game::best_means);
        if bound > open.bound || open.weights.is_empty() {
            (open.bound, open.weights) = (bound, weights);
        }
        open.seen = self.lines(&open.cell);
    }

    /// Puts a cell among those that are open; its node.
    fn add(&mut self, cell: Cell) -> usize {
        let node = self.nodes.len();
        self.nodes.push(Node::Empty);
        if !cell.is_empty(&self.corners) {
            let (bound, weights, seen, looked) = (0.0, Weights::new(), 0, 0);
            let mut open = Open { bound, cell, node, weights, seen, looked };
            self.see(&mut open);
            self.heap.push(open);
        }
        node
    }

    /// Learns more about a cell's lowest place and puts it back, or parts it.
    fn refine(&mut self, open: &mut Open) -> Result<(), BoundError> {
        let (shares, place, power) = open.cell.low_place(&self.corners);
        let target = self.known() * (1.0 - 0.3 * self.effort.gap);
        if power < target && open.looked < 3 {
            open.looked += 1;
            let near = open.cell.corners.iter().zip(&shares).filter(|(_, share)| **share > 1e-9);
            for (&corner, _) in near {
                self.learn(corner, &place)?;
            }
            let (_, _, after) = open.cell.low_place(&self.corners);
            if after - power > 0.25 * (target - power) {
                self.heap.push(open.clone());
                return Ok(());
            }
        }
        self.part(open)
    }

    /// Parts a cell where it is widest.
    fn part(&mut self, open: &Open) -> Result<(), BoundError> {
        let cell = &open.cell;
        let ratio = |at: usize, plane| self.corners[cell.corners[at]].ratio(plane);
        let planes = self.corners[0].costs.len();
        let (mut longest, mut edge) = (0.0, (0, 0, 0));
        for a in 0..cell.corners.len() {
            for b in a + 1..cell.corners.len() {
                for plane in 1..planes {
                    let length = (ratio(a, plane) - ratio(b, plane)).abs();
                    if length > longest {
                        (longest, edge) = (length, (a, b, plane));
                    }
                }
            }
        }
        let last = (0..cell.corners.len()).map(|at| ratio(at, planes - 1)).fold(0.0, f64::max);
        let from = cell.u.0.max((cell.floor / last).min(cell.u.1));
        if (cell.u.1 - from) / cell.u.1 > longest {
            let middle = (from + cell.u.1) / 2.0;
            let below = self.add(Cell { u: (cell.u.0, middle), ..cell.clone() });
            let above = self.add(Cell { u: (middle, cell.u.1), ..cell.clone() });
            self.nodes[open.node] = Node::Halved(middle, [below, above]);
            return Ok(());
        }
        let (a, b, plane) = edge;
        let corner = self.corner_between(cell.corners[a], cell.corners[b], plane, open)?;
        let mut parts = [0; 2];
        for (part, gone) in parts.iter_mut().zip([a, b]) {
            let mut corners = cell.corners.clone();
            corners[gone] = corner;
            *part = self.add(Cell { corners, ..cell.clone() });
        }
        self.nodes[open.node] = Node::Parted { between: (a, b), corner, parts };
        Ok(())
    }

    /// The corner between two, where the ratio of `plane` is in the middle.
    fn corner_between(
        &mut self,
        a: usize,
        b: usize,
        plane: usize,
        open: &Open,
    ) -> Result<usize, BoundError> {
        let key = (a.min(b), a.max(b));
        if let Some(&corner) = self.between.get(&key) {
            return Ok(corner);
        }
        let (from, to) = (&self.corners[a], &self.corners[b]);
        let middle = (from.ratio(plane) + to.ratio(plane)) / 2.0;
        let wide = to.costs[plane] - from.costs[plane];
        let part = (middle * middle - from.costs[plane]) / wide;
        let costs: Vec<f64> =
            from.costs.iter().zip(&to.costs).map(|(a, b)| a + part * (b - a)).collect();
        let (_, place, _) = open.cell.low_place(&self.corners);
        self.between.insert(key, self.corners.len());
        self.open(costs, &place)
    }

    /// Makes a corner and looks at a place from it.
    fn open(&mut self, costs: Vec<f64>, place: &[f64]) -> Result<usize, BoundError> {
        let links = self.search.ways.mesh().links().len();
        let none = vec![vec![0.0; links]; costs.len()];
        let line = self.line(&costs, &none, 1.0);
        self.corners.push(Corner { costs, lines: vec![line] });
        let corner = self.corners.len() - 1;
        self.learn(corner, place)?;
        Ok(corner)
    }

    /// Solves a program at a place's capacities and a corner's costs.
    fn learn(&mut self, corner: usize, place: &[f64]) -> Result<(), BoundError> {
        let costs = self.corners[corner].costs.clone();
        let before = self.known();
        let prices = self.search.probe(&costs, place)?;
        let line = self.line(&costs, &prices, 1.0);
        let steep = self.line(&costs, &prices, STEEP);
        let fits_not = steep.at(place) > 2.0 * line.at(place).abs();
        for line in [Some(line), fits_not.then_some(steep)].into_iter().flatten() {
            if !self.corners[corner].lines.contains(&line) {
                self.corners[corner].lines.push(line);
            }
        }
        if self.known() < before { self.descend() } else { Ok(()) }
    }

    /// From the best flow to a better one, while its own capacities and costs permit one.
    fn descend(&mut self) -> Result<(), BoundError> {
        for _ in 0..20 {
            let Some(best) = &self.search.best else { return Ok(()) };
            let (before, u) = (best.power, best.capacities.clone());
            let costs: Vec<f64> = u.iter().map(|at| at * at / (u[0] * u[0])).collect();
            self.search.probe(&costs, &u)?;
            if self.known() > before * (1.0 - 1e-6) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What `factor` times the prices prove, from shortest paths alone.
    fn line(&self, costs: &[f64], prices: &[Vec<f64>], factor: f64) -> Line {
        let prices: Vec<Vec<f64>> = prices
            .iter()
            .map(|plane| plane.iter().map(|price| factor * price.max(0.0)).collect())
            .collect();
        let lengths: Vec<Vec<f64>> = prices
            .iter()
            .zip(costs)
            .map(|(prices, cost)| prices.iter().map(|price| cost + price).collect())
            .collect();
        let flows = distance_rate(self.search.ways, &self.search.flows, &lengths);
        let worth = prices.iter().map(|plane| plane.iter().sum()).collect();
        Line { flows, worth, prices }
    }
}

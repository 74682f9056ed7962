//! Two planes to the end: regions of the capacities are parted until flow and bound meet.
//!
//! A region lies between two neighbouring rays ([`super::ray`]). Where its lowest place promises
//! less than the best flow known, programs are solved there at the costs of both rays, and if the
//! promise holds, a ray is put through it; where it promises no less, the region is halved. Should
//! the solver give up, what is proven by then stands.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ebb_scenario::Progress;

use super::pricing::distance_rate;
use super::ray::{Capacities, Line, Ray, Region, Sector};
use super::search::Search;
use super::{BoundError, game};

/// How near flow and bound must come, relative to the power.
const GAP: f64 = 2e-10;
/// Programs solved and regions looked at before the gap that is left is reported as it is.
const SOLVES_MAX: usize = 1_500;
const REGIONS_MAX: usize = 12_000;
/// Rays whose ratios are this near, relatively, have none between them.
const RAYS_NEAR: f64 = 1e-7;
/// Where prices show that nothing fits, so many times as high ones show that the power is too large.
const STEEP: f64 = 1e6;

#[derive(Clone, Debug)]
struct Cell {
    bound: f64,
    region: Region,
    /// The version of the rays that the bound has seen.
    seen: usize,
}

impl PartialEq for Cell {
    fn eq(&self, other: &Cell) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cell {}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Cell) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lowest bound is the greatest, so that a heap gives it first; ties by place.
impl Ord for Cell {
    fn cmp(&self, other: &Cell) -> Ordering {
        let place = |cell: &Cell| (cell.region.u.0.to_bits(), cell.region.ratio.0.to_bits());
        other.bound.total_cmp(&self.bound).then_with(|| place(self).cmp(&place(other)))
    }
}

struct Fan<'s, 'a> {
    search: &'s mut Search<'a>,
    /// By rising ratio.
    rays: Vec<Ray>,
    /// Changes with every line.
    version: usize,
    heap: BinaryHeap<Cell>,
}

/// Solves programs on two planes until flow and bound meet; the bound.
pub(super) fn close(search: &mut Search<'_>, progress: &dyn Progress) -> Result<f64, BoundError> {
    let (low, high) = (search.low, search.scale.max(search.low));
    let least = low / high;
    let mut fan = Fan { search, rays: Vec::new(), version: 0, heap: BinaryHeap::new() };
    let known = fan.search.best.as_ref().map(|best| (best.capacities[0], best.capacities[1]));
    let best = known.map(|(a, b)| Capacities { u: a.max(b), ratio: a.min(b) / a.max(b) });
    for place in [Capacities { u: high, ratio: least }, Capacities { u: high, ratio: 1.0 }] {
        if fan.rays.iter().all(|ray| ray.ratio < place.ratio) {
            fan.open(place)?;
        }
    }
    if let Some(place) = best.filter(|place| place.ratio > least * 1.01 && place.ratio < 0.99) {
        fan.open(place)?;
    }
    let region =
        Region { u: (fan.mean_load().clamp(low, high), high), ratio: (least, 1.0), floor: low };
    fan.heap.push(Cell { bound: 0.0, region, seen: 0 });
    fan.run(progress)
}

impl Fan<'_, '_> {
    /// The mean load of the links of both planes when all flows take shortest paths: the fuller
    /// plane cannot do with less.
    fn mean_load(&self) -> f64 {
        let links = self.search.ways.mesh().links().len();
        let hop_rate = distance_rate(self.search.ways, &self.search.flows, &[vec![1.0; links]]);
        hop_rate / (2.0 * links as f64) * (1.0 - 1e-12)
    }

    fn known(&self) -> f64 {
        self.search.best.as_ref().map_or(f64::INFINITY, |best| best.power)
    }

    fn run(&mut self, progress: &dyn Progress) -> Result<f64, BoundError> {
        let mut regions = 0;
        while let Some(mut cell) = self.heap.pop() {
            if cell.seen < self.version {
                self.see(&mut cell);
                continue;
            }
            regions += 1;
            let known = self.known();
            let spent =
                regions > REGIONS_MAX || self.search.solves > SOLVES_MAX || progress.stopped();
            if cell.bound >= known * (1.0 - GAP) || spent {
                return Ok(cell.bound.min(known));
            }
            if regions % 256 == 0 {
                let gap = 1.0 - cell.bound / known;
                let note = format!("bound: gap {gap:.1e}, {} programs", self.search.solves);
                progress.at(0.0, &note);
            }
            let place = cell.region.low_place(&self.sector(&cell.region));
            if self.promises(&cell.region, place) {
                match self.look(&cell.region, place) {
                    Ok(true) => {
                        self.heap.push(cell);
                        continue;
                    }
                    Ok(false) => {}
                    Err(_) => return Ok(cell.bound.min(known)),
                }
            }
            for region in cell.region.halves() {
                self.see(&mut Cell { region, ..cell });
            }
        }
        Ok(self.known())
    }

    /// The rays around a region none of which is inside.
    fn sector(&self, region: &Region) -> Sector<'_> {
        let from = self.rays.partition_point(|ray| ray.ratio <= region.ratio.0).max(1) - 1;
        let to = (from + 1).min(self.rays.len() - 1);
        Sector { from: &self.rays[from], to: &self.rays[to] }
    }

    /// Gives a region the bound that the rays prove now, and puts it back; where a ray goes through
    /// it, its parts.
    fn see(&mut self, cell: &mut Cell) {
        if cell.region.is_empty() {
            return;
        }
        let to = self.sector(&cell.region).to.ratio;
        if to < cell.region.ratio.1 && to > cell.region.ratio.0 {
            for region in cell.region.parted(to) {
                self.see(&mut Cell { region, ..*cell });
            }
            return;
        }
        let known = self.known() * (1.0 - GAP);
        let bound = cell.region.bound(&self.sector(&cell.region), known, best_means);
        cell.bound = cell.bound.max(bound);
        cell.seen = self.version;
        self.heap.push(cell.clone());
    }

    /// Whether a place promises less than the best flow needs.
    fn promises(&self, region: &Region, place: Capacities) -> bool {
        self.sector(region).at(place) < self.known() * (1.0 - 0.1 * GAP)
    }

    /// Learns more about a promising place; `false` where nothing came of it.
    fn look(&mut self, region: &Region, place: Capacities) -> Result<bool, BoundError> {
        let sector = self.sector(region);
        let (from, to) = (sector.from.ratio, sector.to.ratio);
        let (part, before) = (sector.part(place.ratio), sector.at(place));
        let distance = self.known() - before;
        for (part, ratio) in [(1.0 - part, from), (part, to)] {
            if part > 1e-9 {
                self.learn(ratio, place)?;
            }
        }
        let rose = self.sector(region).at(place) - before;
        if rose > 0.25 * distance || !self.promises(region, place) {
            return Ok(true);
        }
        if to - from > RAYS_NEAR * to {
            let margin = 0.02 * (to - from);
            let inside = place.ratio.clamp(from + margin, to - margin);
            self.open(Capacities { ratio: inside, ..place })?;
            return Ok(true);
        }
        Ok(rose > 1e-12 * before)
    }

    /// Puts a ray through a place.
    fn open(&mut self, place: Capacities) -> Result<(), BoundError> {
        let at = self.rays.partition_point(|ray| ray.ratio < place.ratio);
        self.rays.insert(at, Ray { ratio: place.ratio, lines: Vec::new() });
        let search = &self.search;
        let (links, squared) = (search.ways.mesh().links().len(), place.ratio * place.ratio);
        let lengths = [vec![1.0; links], vec![squared; links]];
        let flows = distance_rate(search.ways, &search.flows, &lengths);
        self.rays[at].lines.push(Line { flows, worth: [0.0; 2] });
        self.learn(place.ratio, place)
    }

    /// Solves the program at a place's capacities and a ray's costs.
    fn learn(&mut self, ratio: f64, place: Capacities) -> Result<(), BoundError> {
        let costs = [1.0, ratio * ratio];
        let prices = self.search.probe(&costs, &[place.u, place.u * place.ratio])?;
        let line = self.line(costs, &prices, 1.0);
        let steep = self.line(costs, &prices, STEEP);
        let ray = self.rays.iter_mut().find(|ray| ray.ratio == ratio).expect("the ray is open");
        let fits_not = steep.at(place) > 2.0 * line.at(place).abs();
        for line in [Some(line), fits_not.then_some(steep)].into_iter().flatten() {
            if !ray.lines.contains(&line) {
                ray.lines.push(line);
            }
        }
        self.version += 1;
        Ok(())
    }

    /// What `factor` times the prices prove, from shortest paths alone.
    fn line(&self, costs: [f64; 2], prices: &[Vec<f64>], factor: f64) -> Line {
        let lengths: Vec<Vec<f64>> = prices
            .iter()
            .zip(costs)
            .map(|(prices, cost)| prices.iter().map(|price| cost + factor * price).collect())
            .collect();
        let flows = distance_rate(self.search.ways, &self.search.flows, &lengths);
        let worth = |plane: usize| factor * prices[plane].iter().sum::<f64>();
        Line { flows, worth: [worth(0), worth(1)] }
    }
}

/// The mean of the lines of each of two rays whose least coefficient is greatest.
fn best_means(from: &[Vec<f64>], to: &[Vec<f64>]) -> Option<(Vec<f64>, Vec<f64>)> {
    let [from, to] = game::best_means(&[from, to])?.try_into().ok()?;
    Some((from, to))
}

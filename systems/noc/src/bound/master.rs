//! The restricted program of column generation: paths that may be used, links that may be full.
//!
//! Each commodity (source, destination) has a key path that carries whatever its other paths do
//! not. That removes its conservation row: another path becomes a column between 0 and the rate,
//! whose entries are what it loads less what it takes off the key path. Only a commodity with two
//! or more such columns needs a row (their sum is at most the rate), and only links that are full
//! or nearly so need one. At 16 x 16 that is some hundred rows where the plain form has 66,000.
//!
//! A plane's capacity is a column too, so that every program here has a solution.

use ebb_lp::{Column, Constraint, LpError, Program};
use ebb_scenario::Progress;

use crate::{Flow, LinkId, Mesh, Path, Routed, Share};

/// What a plane's capacity may be and costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plane {
    /// What a unit of rate x hops costs.
    pub(super) hop_cost: f64,
    /// The least capacity.
    pub(super) low: f64,
    /// What each unit above `low` costs.
    pub(super) price: f64,
}

/// A commodity.
#[derive(Clone, Debug)]
struct Commodity {
    flow: Flow,
    key: Path,
    /// Its columns.
    ways: Vec<usize>,
    /// Sum of its columns <= rate, once there are two.
    row: Option<Constraint>,
}

/// A path other than the key path, or the key path's way on another plane.
#[derive(Clone, Debug)]
struct Way {
    commodity: usize,
    plane: usize,
    path: Path,
    column: Column,
}

/// What the restricted program answered.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The load of each link of each plane.
    pub(super) loads: Vec<Vec<f64>>,
    /// Sum of rate x hops of each plane.
    pub(super) hop_rate: Vec<f64>,
    /// The price of each link of each plane, none negative.
    pub(super) prices: Vec<Vec<f64>>,
    /// What each column carries; never negative, together at most the rate.
    carried: Vec<f64>,
}

/// The restricted program.
#[derive(Debug)]
pub(super) struct Master<'a> {
    mesh: &'a Mesh,
    program: Program<'a>,
    planes: Vec<(Plane, Column)>,
    commodities: Vec<Commodity>,
    ways: Vec<Way>,
    /// For each plane and link, its row once it has one.
    rows: Vec<Vec<Option<Constraint>>>,
    /// For each plane and link, the columns that change its load and by how much per unit.
    users: Vec<Vec<Vec<(Column, f64)>>>,
    /// The load of the key paths alone, all on plane 0.
    base: Vec<f64>,
}

impl<'a> Master<'a> {
    /// A program in which every commodity takes its key path.
    pub(super) fn new(
        mesh: &'a Mesh,
        keys: Vec<(Flow, Path)>,
        planes: &[Plane],
        progress: &'a dyn Progress,
    ) -> Master<'a> {
        let mut program = Program::linear();
        program.stop_when(move || progress.stopped());
        let links = mesh.links().len();
        let capacity =
            |plane: &Plane| (*plane, program.column(plane.price, plane.low, f64::INFINITY, &[]));
        let planes: Vec<_> = planes.iter().map(capacity).collect();
        let mut base = vec![0.0; links];
        for (flow, key) in &keys {
            key.iter().for_each(|&link| base[link] += flow.rate);
        }
        let commodity = |(flow, key)| Commodity { flow, key, ways: Vec::new(), row: None };
        Master {
            mesh,
            program,
            commodities: keys.into_iter().map(commodity).collect(),
            ways: Vec::new(),
            rows: vec![vec![None; links]; planes.len()],
            users: vec![vec![Vec::new(); links]; planes.len()],
            planes,
            base,
        }
    }

    /// Changes what a plane costs.
    pub(super) fn set_plane(&mut self, at: usize, plane: Plane) {
        let (old, column) = &mut self.planes[at];
        let hop_cost_changed = old.hop_cost != plane.hop_cost;
        *old = plane;
        self.program.set_cost(*column, plane.price);
        self.program.set_bounds(*column, plane.low, f64::INFINITY);
        if hop_cost_changed {
            for way in 0..self.ways.len() {
                let cost = self.cost(self.ways[way].commodity, self.ways[way].plane, way);
                self.program.set_cost(self.ways[way].column, cost);
            }
        }
    }

    fn cost(&self, commodity: usize, plane: usize, way: usize) -> f64 {
        let key = self.commodities[commodity].key.len() as f64;
        let hops = self.ways[way].path.len() as f64;
        hops * self.planes[plane].0.hop_cost - key * self.planes[0].0.hop_cost
    }

    /// Gives a link of a plane its row, if it has none.
    pub(super) fn watch(&mut self, plane: usize, link: LinkId) {
        if self.rows[plane][link].is_none() {
            let mut entries = self.users[plane][link].clone();
            entries.push((self.planes[plane].1, -1.0));
            let base = if plane == 0 { self.base[link] } else { 0.0 };
            self.rows[plane][link] = Some(self.program.row(f64::NEG_INFINITY, -base, &entries));
        }
    }

    /// Gives a commodity another way.
    pub(super) fn add_way(&mut self, commodity: usize, plane: usize, path: Path) {
        let changes = self.changes(commodity, plane, &path);
        let mut entries: Vec<(Constraint, f64)> = Vec::with_capacity(changes.len() + 1);
        for &((at, link), change) in &changes {
            entries.extend(self.rows[at][link].map(|row| (row, change)));
        }
        let rate = self.commodities[commodity].flow.rate;
        if let [only] = self.commodities[commodity].ways[..] {
            let first = self.ways[only].column;
            let row = self.program.row(f64::NEG_INFINITY, rate, &[(first, 1.0)]);
            self.commodities[commodity].row = Some(row);
        }
        entries.extend(self.commodities[commodity].row.map(|row| (row, 1.0)));
        let key = self.commodities[commodity].key.len() as f64;
        let cost =
            path.len() as f64 * self.planes[plane].0.hop_cost - key * self.planes[0].0.hop_cost;
        let column = self.program.column(cost, 0.0, rate, &entries);
        for ((at, link), change) in changes {
            self.users[at][link].push((column, change));
        }
        self.commodities[commodity].ways.push(self.ways.len());
        self.ways.push(Way { commodity, plane, path, column });
    }

    /// By how much a unit on `path` instead of the key path changes each link's load.
    fn changes(&self, commodity: usize, plane: usize, path: &Path) -> Vec<((usize, LinkId), f64)> {
        let key = &self.commodities[commodity].key;
        let more = path.iter().filter(|link| plane != 0 || !key.contains(link));
        let less = key.iter().filter(|link| plane != 0 || !path.contains(link));
        more.map(|&link| ((plane, link), 1.0)).chain(less.map(|&link| ((0, link), -1.0))).collect()
    }

    /// How many commodities there are.
    pub(super) fn commodities(&self) -> usize {
        self.commodities.len()
    }

    /// The least of what a commodity's ways cost per unit, with the links' `lengths` per plane.
    pub(super) fn cheapest(&self, commodity: usize, lengths: &[Vec<f64>]) -> f64 {
        let length =
            |plane: usize, path: &Path| path.iter().map(|&link| lengths[plane][link]).sum();
        let ways = &self.commodities[commodity].ways;
        let others = ways.iter().map(|&way| length(self.ways[way].plane, &self.ways[way].path));
        others.fold(length(0, &self.commodities[commodity].key), f64::min)
    }

    /// Columns and rows of the program.
    pub(super) fn size(&self) -> (usize, usize) {
        self.program.size()
    }

    /// The best use of the ways there are.
    pub(super) fn solve(&mut self) -> Result<Point, LpError> {
        let solution = self.program.solve()?;
        let mut carried: Vec<f64> =
            self.ways.iter().map(|way| solution.value(way.column).max(0.0)).collect();
        for commodity in &self.commodities {
            let total: f64 = commodity.ways.iter().map(|&way| carried[way]).sum();
            if total > commodity.flow.rate {
                let factor = commodity.flow.rate / total;
                commodity.ways.iter().for_each(|&way| carried[way] *= factor);
            }
        }
        let price =
            |row: &Option<Constraint>| row.map_or(0.0, |row| (-solution.price(row)).max(0.0));
        let prices = self.rows.iter().map(|rows| rows.iter().map(price).collect()).collect();
        let (loads, hop_rate) = self.loads(&carried);
        Ok(Point { loads, hop_rate, prices, carried })
    }

    fn loads(&self, carried: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut loads = vec![vec![0.0; self.mesh.links().len()]; self.planes.len()];
        let mut hop_rate = vec![0.0; self.planes.len()];
        let mut put = |plane: usize, path: &Path, rate: f64| {
            path.iter().for_each(|&link| loads[plane][link] += rate);
            hop_rate[plane] += rate * path.len() as f64;
        };
        for commodity in &self.commodities {
            let mut rest = commodity.flow.rate;
            for &way in &commodity.ways {
                put(self.ways[way].plane, &self.ways[way].path, carried[way]);
                rest -= carried[way];
            }
            put(0, &commodity.key, rest.max(0.0));
        }
        (loads, hop_rate)
    }

    /// The ways of every commodity at `point`, for each plane.
    pub(super) fn routes(&self, point: &Point, scale: f64) -> Vec<Vec<Routed>> {
        let mut routes = vec![Vec::new(); self.planes.len()];
        for commodity in &self.commodities {
            let flow = commodity.flow;
            let mut paths: Vec<Vec<Share>> = vec![Vec::new(); self.planes.len()];
            let mut rest = flow.rate;
            for &way in &commodity.ways {
                let share = point.carried[way] / flow.rate;
                rest -= point.carried[way];
                if share > 0.0 {
                    let path = self.ways[way].path.clone();
                    paths[self.ways[way].plane].push(Share { share, path });
                }
            }
            if rest > 0.0 {
                paths[0].push(Share { share: rest / flow.rate, path: commodity.key.clone() });
            }
            for (plane, paths) in
                paths.into_iter().enumerate().filter(|(_, paths)| !paths.is_empty())
            {
                let flow = Flow { rate: flow.rate * scale, ..flow };
                routes[plane].push(Routed { flow, paths });
            }
        }
        routes
    }
}

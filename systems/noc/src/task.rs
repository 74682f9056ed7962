//! Task graphs: which task sends how much to which, and where the tasks sit on the mesh.

use ebb_des::Seed;
use ebb_scenario::{ScenarioError, csv::Table};
use rand::Rng as _;

use crate::{Mesh, Node, Traffic};

/// Tasks and what they send to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskGraph {
    /// Their names, in order of appearance.
    pub tasks: Vec<String>,
    /// Sender, receiver, rate in whatever unit the file uses.
    pub edges: Vec<(usize, usize, f64)>,
}

/// The tile of each task.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mapping {
    /// In the order of the tasks.
    pub tiles: Vec<Node>,
    /// Sum of rate x hops, in the graph's unit.
    pub cost: f64,
}

/// More tasks than tiles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{tasks} tasks do not fit on {tiles} tiles; use a larger mesh")]
pub struct TooManyTasks {
    /// Tasks of the graph.
    pub tasks: usize,
    /// Tiles of the mesh.
    pub tiles: usize,
}

impl TaskGraph {
    /// Reads a CSV file with the columns `src`, `dst` and a rate (`MBps`, `rate`, `weight` or
    /// `demand`).
    ///
    /// # Errors
    /// When a column is missing, a rate is negative, or a task sends to itself.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<TaskGraph, ScenarioError> {
        let table = Table::parse(file, bytes)?;
        let from = table.column(&["src", "source", "from"])?;
        let to = table.column(&["dst", "destination", "to"])?;
        let rate = table.column(&["mbps", "rate", "weight", "demand"])?;
        let mut graph = TaskGraph { tasks: Vec::new(), edges: Vec::new() };
        for row in 0..table.len() {
            let ends = [from, to].map(|column| graph.task(table.text(row, column)));
            if ends[0] == ends[1] {
                let message = format!("`{}` sends to itself", table.text(row, from));
                return Err(table.fault(row, to, &message, "another task"));
            }
            graph.edges.push((ends[0], ends[1], table.non_negative(row, rate)?));
        }
        Ok(graph)
    }

    fn task(&mut self, name: &str) -> usize {
        let at = self.tasks.iter().position(|have| have == name);
        at.unwrap_or_else(|| {
            self.tasks.push(name.to_owned());
            self.tasks.len() - 1
        })
    }

    /// The traffic of the tasks at their tiles; those on one tile talk for nothing.
    pub fn traffic(&self, mesh: &Mesh, mapping: &Mapping) -> Traffic {
        let mut traffic = Traffic::silent(mesh.nodes());
        for &(from, to, rate) in &self.edges {
            traffic.add(mapping.tiles[from], mapping.tiles[to], rate);
        }
        traffic
    }

    /// A mapping of least known cost, one task a tile: simulated annealing over swaps of tiles,
    /// with restarts. A function of graph, mesh and seed alone.
    ///
    /// # Errors
    /// When there are more tasks than tiles.
    pub fn mapped(&self, mesh: &Mesh, seed: Seed) -> Result<Mapping, TooManyTasks> {
        let (tasks, tiles) = (self.tasks.len(), mesh.nodes());
        if tasks > tiles {
            return Err(TooManyTasks { tasks, tiles });
        }
        let mut random = seed.stream("mapping");
        let search = Search::new(self, mesh);
        let mut best = Mapping { tiles: (0..tasks).collect(), cost: f64::INFINITY };
        for _ in 0..RESTARTS {
            let found = search.anneal(&mut random);
            if found.cost < best.cost * (1.0 - 1e-12) {
                best = found;
            }
        }
        best.tiles.truncate(tasks);
        Ok(best)
    }
}

const RESTARTS: usize = 24;
/// Swaps tried in a restart, per pair of tiles.
const TRIES: usize = 120;

/// What the search needs to know of graph and mesh.
struct Search {
    tiles: usize,
    hops: Vec<Vec<f64>>,
    /// For each place in the permutation (tasks, then empty tiles), its neighbours and the rates
    /// of both ways together.
    near: Vec<Vec<(usize, f64)>>,
    mean: f64,
}

impl Search {
    fn new(graph: &TaskGraph, mesh: &Mesh) -> Search {
        let tiles = mesh.nodes();
        let mut both = vec![vec![0.0; tiles]; tiles];
        for &(from, to, rate) in &graph.edges {
            both[from][to] += rate;
            both[to][from] += rate;
        }
        let sparse = |row: &Vec<f64>| {
            row.iter().copied().enumerate().filter(|(_, rate)| *rate > 0.0).collect()
        };
        let far = tiles as f64 * 2.0;
        let hops = |from: usize| {
            mesh.distances(from).iter().map(|hops| hops.map_or(far, |hops| hops as f64)).collect()
        };
        let total: f64 = graph.edges.iter().map(|(_, _, rate)| rate).sum();
        Search {
            tiles,
            hops: (0..tiles).map(hops).collect(),
            near: both.iter().map(sparse).collect(),
            mean: total / graph.edges.len().max(1) as f64,
        }
    }

    fn anneal(&self, random: &mut ebb_des::Rng) -> Mapping {
        use rand::seq::SliceRandom;
        let mut place: Vec<usize> = (0..self.tiles).collect();
        place.shuffle(random);
        let tries = TRIES * self.tiles * self.tiles;
        let (hot, cold) = (2.0 * self.mean, self.mean / 500.0);
        let mut temperature = hot;
        let cooling = (cold / hot).powf(1.0 / tries as f64);
        for _ in 0..tries {
            let (a, b) = (random.random_range(0..self.tiles), random.random_range(0..self.tiles));
            let draw: f64 = random.random();
            let change = self.change(&place, a, b);
            if change <= 0.0 || -temperature * draw.ln() > change {
                place.swap(a, b);
            }
            temperature *= cooling;
        }
        self.descend(&mut place);
        Mapping { cost: self.cost(&place), tiles: place }
    }

    fn descend(&self, place: &mut [usize]) {
        let mut improved = true;
        while improved {
            improved = false;
            for a in 0..self.tiles {
                for b in a + 1..self.tiles {
                    if self.change(place, a, b) < -1e-9 * self.mean {
                        place.swap(a, b);
                        improved = true;
                    }
                }
            }
        }
    }

    /// By how much the cost changes when `a` and `b` change places.
    fn change(&self, place: &[usize], a: usize, b: usize) -> f64 {
        let part = |one: usize, other: usize| -> f64 {
            let (old, new) = (&self.hops[place[one]], &self.hops[place[other]]);
            let others = self.near[one].iter().filter(|(to, _)| *to != other);
            others.map(|&(to, rate)| rate * (new[place[to]] - old[place[to]])).sum()
        };
        if a == b { 0.0 } else { part(a, b) + part(b, a) }
    }

    fn cost(&self, place: &[usize]) -> f64 {
        let sum: f64 = self
            .near
            .iter()
            .enumerate()
            .map(|(from, near)| {
                near.iter().map(|&(to, rate)| rate * self.hops[place[from]][place[to]]).sum::<f64>()
            })
            .sum();
        sum / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_tasks_lies_side_by_side() {
        let file = b"src,dst,rate\na,b,3\nb,c,2\nc,d,1\n";
        let graph = TaskGraph::parse("chain.csv", file).expect("read");
        assert_eq!(graph.tasks, ["a", "b", "c", "d"]);
        let mesh = Mesh::new(2, 2).expect("mesh");
        let mapping = graph.mapped(&mesh, Seed(1)).expect("fits");
        assert_eq!(mapping.cost, 6.0);
        let traffic = graph.traffic(&mesh, &mapping);
        assert_eq!(traffic.hop_rate(&mesh), Ok(6.0));
        let small = Mesh::new(1, 3).expect("mesh");
        assert_eq!(graph.mapped(&small, Seed(1)), Err(TooManyTasks { tasks: 4, tiles: 3 }));
    }

    #[test]
    fn faults_name_their_line() {
        let refused = |text: &str| TaskGraph::parse("t.csv", text.as_bytes()).expect_err("refused");
        assert!(refused("src,dst,rate\na,b,-1\n").to_string().contains("t.csv:2"));
        assert!(refused("src,dst,rate\na,a,1\n").to_string().contains("sends to itself"));
        assert!(refused("src,dst\na,b\n").to_string().contains("no column"));
    }
}

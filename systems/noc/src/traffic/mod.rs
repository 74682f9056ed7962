//! Traffic matrices: how much each tile sends to each other one, in units of a link's capacity.

mod pattern;

pub use pattern::Pattern;

use crate::{Mesh, Node, TopologyError};

/// A traffic matrix. Rates are in units of the capacity mu of a link at full voltage; the diagonal
/// is zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    nodes: usize,
    rates: Vec<f64>,
}

/// What one tile sends to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The sender.
    pub source: Node,
    /// The receiver.
    pub destination: Node,
    /// How much, in units of a link's capacity; above zero.
    pub rate: f64,
}

/// A traffic matrix that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// The matrix has another size than the mesh.
    #[error(
        "the traffic matrix does not fit a mesh of {nodes} tiles: expected {nodes} rows of \
        {nodes} numbers, found {rows} rows of {columns}"
    )]
    Shape {
        /// Rows found.
        rows: usize,
        /// Numbers in the first row of another length than wanted.
        columns: usize,
        /// Tiles of the mesh.
        nodes: usize,
    },
    /// A rate below zero or none at all.
    #[error("the rate {rate} from tile {from} to tile {to} is negative or not a number")]
    Rate {
        /// The sender.
        from: Node,
        /// The receiver.
        to: Node,
        /// The rate found.
        rate: f64,
    },
    /// A tile that sends to itself.
    #[error("tile {node} sends {rate} to itself; the diagonal must be zero")]
    Diagonal {
        /// The tile.
        node: Node,
        /// The rate found.
        rate: f64,
    },
    /// Nothing is sent.
    #[error("the traffic matrix is empty: no tile sends anything")]
    Empty,
}

impl Traffic {
    /// Nobody sends anything.
    pub fn silent(nodes: usize) -> Traffic {
        Traffic { nodes, rates: vec![0.0; nodes * nodes] }
    }

    /// From rows: row = source, column = destination.
    ///
    /// # Errors
    /// When it is not `nodes` rows of `nodes` numbers, a rate is negative or not finite, or a tile
    /// sends to itself.
    pub fn from_rows(nodes: usize, rows: &[Vec<f64>]) -> Result<Traffic, TrafficError> {
        let odd = rows.iter().find(|row| row.len() != nodes).map(Vec::len);
        if rows.len() != nodes || odd.is_some() {
            let columns = odd.unwrap_or(nodes);
            return Err(TrafficError::Shape { rows: rows.len(), columns, nodes });
        }
        let mut traffic = Traffic::silent(nodes);
        for (from, row) in rows.iter().enumerate() {
            for (to, &rate) in row.iter().enumerate() {
                if !(rate.is_finite() && rate >= 0.0) {
                    return Err(TrafficError::Rate { from, to, rate });
                }
                if from == to && rate != 0.0 {
                    return Err(TrafficError::Diagonal { node: from, rate });
                }
                traffic.rates[from * nodes + to] = rate;
            }
        }
        Ok(traffic)
    }

    /// How many tiles.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// What `source` sends to `destination`.
    pub fn rate(&self, source: Node, destination: Node) -> f64 {
        self.rates[source * self.nodes + destination]
    }

    /// Adds to what `source` sends to `destination`; what a tile sends to itself is dropped.
    pub fn add(&mut self, source: Node, destination: Node, rate: f64) {
        if source != destination {
            self.rates[source * self.nodes + destination] += rate;
        }
    }

    /// All that is sent.
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// The same with every rate times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Traffic {
        let rates = self.rates.iter().map(|rate| rate * factor).collect();
        Traffic { nodes: self.nodes, rates }
    }

    /// What is sent, by source, then destination.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + '_ {
        let nodes = self.nodes;
        let sent = self.rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0);
        sent.map(move |(at, &rate)| Flow { source: at / nodes, destination: at % nodes, rate })
    }

    /// Sum of rate x links of the shortest path: the power of minimal routing at full voltage.
    ///
    /// # Errors
    /// When no path joins two tiles that talk.
    pub fn hop_rate(&self, mesh: &Mesh) -> Result<f64, TopologyError> {
        let mut sum = 0.0;
        for from in 0..self.nodes {
            let distance = mesh.distances(from);
            for to in (0..self.nodes).filter(|&to| self.rate(from, to) > 0.0) {
                let hops = distance[to].ok_or(TopologyError::Disconnected { from, to })?;
                sum += self.rate(from, to) * hops as f64;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_that_cannot_be_are_named() {
        let rows = |text: &[&[f64]]| text.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        let error = |text: &[&[f64]]| Traffic::from_rows(2, &rows(text)).expect_err("refused");
        assert_eq!(error(&[&[0.0, 1.0]]), TrafficError::Shape { rows: 1, columns: 2, nodes: 2 });
        assert_eq!(
            error(&[&[0.0, 1.0], &[1.0]]),
            TrafficError::Shape { rows: 2, columns: 1, nodes: 2 }
        );
        assert!(error(&[&[0.0, -1.0], &[0.0, 0.0]]).to_string().contains("negative"));
        assert!(matches!(error(&[&[0.0, f64::NAN], &[0.0, 0.0]]), TrafficError::Rate { .. }));
        assert!(matches!(error(&[&[2.0, 1.0], &[0.0, 0.0]]), TrafficError::Diagonal { .. }));
    }

    #[test]
    fn flows_come_in_order_and_scale() {
        let mut traffic = Traffic::silent(3);
        traffic.add(2, 0, 0.5);
        traffic.add(0, 1, 0.25);
        traffic.add(1, 1, 9.0);
        let flows: Vec<_> = traffic.scaled(2.0).flows().collect();
        assert_eq!(flows[0], Flow { source: 0, destination: 1, rate: 0.5 });
        assert_eq!(flows[1], Flow { source: 2, destination: 0, rate: 1.0 });
        let row = Mesh::new(1, 3).expect("a row");
        assert_eq!(traffic.hop_rate(&row), Ok(0.25 + 2.0 * 0.5));
    }
}

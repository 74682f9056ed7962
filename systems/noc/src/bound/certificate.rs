//! A proof about several planes that needs no solver: link prices at several costs, and how the planes'
//! capacities are parted into cells, each with the mean of proofs that holds there ([`super::cone`]).

use serde::Serialize;

use super::cone::Weights;
use super::many::{Node, Proof};

/// Why no routing on several planes needs less than `lower`: `docs/verify_bound.py` verifies it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanesCertificate {
    /// What it proves, in units of rate x hops.
    pub lower: f64,
    /// Costs of a hop on the planes, and what is known there. The first, as many as there are planes, are
    /// the corners of the whole.
    pub corners: Vec<CertifiedCorner>,
    /// How the whole, the first of them, was parted.
    pub nodes: Vec<CertifiedNode>,
}

/// Costs of a hop on each plane, 1 on the first, and prices that prove something there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CertifiedCorner {
    /// Squares of the planes' capacities relative to the first plane's.
    pub costs: Vec<f64>,
    /// Sets of prices: of each link of each plane.
    pub prices: Vec<Vec<Vec<f64>>>,
}

/// A cell of the planes' capacities.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum CertifiedNode {
    /// Proven by the mean of each corner's sets of prices with these shares.
    Leaf {
        /// For each of the cell's corners, places among its sets of prices and their shares.
        weights: Vec<Vec<(usize, f64)>>,
    },
    /// Below the lowest voltage.
    Empty {
        /// `true`.
        empty: bool,
    },
    /// Parted where the first plane has this capacity.
    Halved {
        /// The capacity.
        at: f64,
        /// The nodes below and above.
        parts: [usize; 2],
    },
    /// Parted by a corner between two of its corners.
    Parted {
        /// Their places among the cell's corners.
        between: [usize; 2],
        /// The new corner.
        corner: usize,
        /// The nodes with the new corner in place of the first, and of the second.
        parts: [usize; 2],
    },
}

impl PlanesCertificate {
    /// From a proof whose rates and capacities are multiplied by `scale`.
    pub(super) fn of(proof: Proof, lower: f64, scale: f64) -> PlanesCertificate {
        let used = used(&proof);
        let corners = proof.corners.iter().zip(&used).map(|(corner, used)| CertifiedCorner {
            costs: corner.costs.clone(),
            prices: used.iter().map(|&line| corner.lines[line].prices.clone()).collect(),
        });
        let node = |(cell, node): (&Vec<usize>, &Node)| match node {
            Node::Leaf(weights) => CertifiedNode::Leaf {
                weights: cell
                    .iter()
                    .zip(weights)
                    .map(|(&corner, parts)| {
                        let place =
                            |line: usize| used[corner].partition_point(|&other| other < line);
                        parts.iter().map(|&(line, part)| (place(line), part)).collect()
                    })
                    .collect(),
            },
            Node::Empty => CertifiedNode::Empty { empty: true },
            Node::Halved(at, parts) => CertifiedNode::Halved { at: at / scale, parts: *parts },
            Node::Parted { between, corner, parts } => CertifiedNode::Parted {
                between: [between.0, between.1],
                corner: *corner,
                parts: *parts,
            },
        };
        let cells = cells(&proof);
        let nodes = cells.iter().zip(&proof.nodes).map(node).collect();
        PlanesCertificate {
            lower: lower / (scale * scale * scale),
            corners: corners.collect(),
            nodes,
        }
    }
}

/// The corners of every node's cell.
fn cells(proof: &Proof) -> Vec<Vec<usize>> {
    let planes = proof.corners[0].costs.len();
    let mut cells = vec![Vec::new(); proof.nodes.len()];
    cells[0] = (0..planes).collect();
    for (at, node) in proof.nodes.iter().enumerate() {
        match node {
            Node::Leaf(_) | Node::Empty => {}
            Node::Halved(_, parts) => {
                parts.iter().for_each(|&part| cells[part] = cells[at].clone())
            }
            Node::Parted { between, corner, parts } => {
                for (&part, gone) in parts.iter().zip([between.0, between.1]) {
                    cells[part] = cells[at].clone();
                    cells[part][gone] = *corner;
                }
            }
        }
    }
    cells
}

/// The lines of every corner that some leaf uses, in order.
fn used(proof: &Proof) -> Vec<Vec<usize>> {
    let mut used: Vec<Vec<usize>> = vec![Vec::new(); proof.corners.len()];
    let mut note = |cell: &Vec<usize>, weights: &Weights| {
        for (&corner, parts) in cell.iter().zip(weights) {
            used[corner].extend(parts.iter().map(|(line, _)| line));
        }
    };
    for (cell, node) in cells(proof).iter().zip(&proof.nodes) {
        if let Node::Leaf(weights) = node {
            note(cell, weights);
        }
    }
    for lines in &mut used {
        lines.sort_unstable();
        lines.dedup();
    }
    used
}

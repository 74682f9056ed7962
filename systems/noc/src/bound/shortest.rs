//! Shortest paths under link prices: what turns prices into a bound and into new columns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{LinkId, Mesh, Node, Path};

/// Distances and last links from one source; its memory is used again for the next.
#[derive(Clone, Debug)]
pub(super) struct Shortest {
    distance: Vec<f64>,
    last: Vec<Option<LinkId>>,
    /// Distances as bits, which order as the numbers do, for they are never negative.
    heap: BinaryHeap<Reverse<(u64, Node)>>,
}

impl Shortest {
    pub(super) fn new(mesh: &Mesh) -> Shortest {
        let nodes = mesh.nodes();
        let (distance, last) = (vec![f64::INFINITY; nodes], vec![None; nodes]);
        Shortest { distance, last, heap: BinaryHeap::new() }
    }

    /// Dijkstra's algorithm from `source` with the links' `lengths`, none negative.
    pub(super) fn run(&mut self, mesh: &Mesh, source: Node, lengths: &[f64]) {
        self.distance.fill(f64::INFINITY);
        self.last.fill(None);
        self.distance[source] = 0.0;
        self.heap.push(Reverse((0, source)));
        while let Some(Reverse((bits, node))) = self.heap.pop() {
            let here = f64::from_bits(bits);
            if here > self.distance[node] {
                continue;
            }
            for link in mesh.leaving(node) {
                let (to, there) = (mesh.links()[link].to, here + lengths[link]);
                if there < self.distance[to] {
                    self.distance[to] = there;
                    self.last[to] = Some(link);
                    self.heap.push(Reverse((there.to_bits(), to)));
                }
            }
        }
    }

    /// How far a tile is; infinite where no path leads.
    pub(super) fn distance(&self, to: Node) -> f64 {
        self.distance[to]
    }

    /// The links of the path to a tile.
    pub(super) fn path(&self, mesh: &Mesh, to: Node) -> Path {
        let mut path = Path::new();
        let mut at = to;
        while let Some(link) = self.last[at] {
            path.push(link);
            at = mesh.links()[link].from;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_turn_paths_aside() {
        let mesh = Mesh::new(2, 2).expect("mesh");
        let mut lengths = vec![1.0; mesh.links().len()];
        let mut shortest = Shortest::new(&mesh);
        shortest.run(&mesh, 0, &lengths);
        assert_eq!((shortest.distance(3), shortest.path(&mesh, 3).len()), (2.0, 2));
        let dear = mesh.link(0, crate::Direction::East).expect("a link");
        lengths[dear] = 5.0;
        shortest.run(&mesh, 0, &lengths);
        assert_eq!((shortest.distance(1), shortest.path(&mesh, 1).len()), (3.0, 3));
        assert!(!shortest.path(&mesh, 1).contains(&dear));
    }
}

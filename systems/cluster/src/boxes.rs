//! Boxes of choices of servers that are still to be searched, best first.

use std::cmp::Ordering;

/// A box of choices with what bounds it; a heap's greatest is the one to look at next.
pub(crate) struct Node {
    /// Nothing inside is below.
    pub(crate) bound: f64,
    /// When it was made, among its search's nodes.
    pub(crate) turn: usize,
    /// The fewest servers of each group.
    pub(crate) low: Vec<u32>,
    /// The most.
    pub(crate) high: Vec<u32>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Node) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The heap's greatest is the box with the least bound; of equal ones the newest, which is deepest.
impl Ord for Node {
    fn cmp(&self, other: &Node) -> Ordering {
        other.bound.total_cmp(&self.bound).then(self.turn.cmp(&other.turn))
    }
}

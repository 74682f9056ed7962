//! Cycles of a dependency graph: which channels are on one, and one to show.

use std::collections::VecDeque;

/// A graph whose nodes are numbered densely.
pub trait Graph {
    /// A channel.
    type Node: Copy + Ord;

    /// Its nodes, in order.
    fn nodes(&self) -> impl Iterator<Item = Self::Node> + '_;

    /// Numbers of nodes are below this.
    fn bound(&self) -> usize;

    /// The number of a node.
    fn index(&self, node: Self::Node) -> usize;

    /// The first node that `from` waits for at or after a position, and the position after it;
    /// positions begin at 0 and are the graph's own. `None` when there is no further one.
    fn next_after(&self, from: Self::Node, position: u32) -> Option<(Self::Node, u32)>;
}

/// What is cyclic in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycles<N> {
    /// How many channels are on some cycle.
    pub channels: u64,
    /// A shortest cycle through the lowest channel of the smallest knot, in order: each channel
    /// waits for the next and the last for the first. Empty when there is none.
    pub example: Vec<N>,
}

impl<N> Default for Cycles<N> {
    fn default() -> Cycles<N> {
        Cycles { channels: 0, example: Vec::new() }
    }
}

impl<N: Copy + Ord> Cycles<N> {
    /// Looks for cycles. Time and memory are linear in channels and edges.
    #[must_use]
    pub fn of<G: Graph<Node = N>>(graph: &G) -> Cycles<N> {
        let knots = knots(graph);
        let channels = knots.iter().map(|knot| knot.len() as u64).sum();
        let smallest = knots.iter().min_by_key(|knot| (knot.len(), knot[0]));
        let example = smallest.map(|knot| shortest(graph, knot[0])).unwrap_or_default();
        Cycles { channels, example }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_acyclic(&self) -> bool {
        self.channels == 0
    }
}

/// Every channel on a cycle.
#[must_use]
pub fn on_cycles<G: Graph>(graph: &G) -> Vec<G::Node> {
    let mut channels = knots(graph).concat();
    channels.sort_unstable();
    channels
}

/// The strongly connected components with a cycle, each sorted (Tarjan 1972, without recursion).
fn knots<G: Graph>(graph: &G) -> Vec<Vec<G::Node>> {
    const UNSEEN: u32 = 0;
    const CLOSED: u32 = u32::MAX;
    let mut low = vec![UNSEEN; graph.bound()];
    let (mut number, mut open, mut found) = (0, Vec::new(), Vec::new());
    let mut calls: Vec<(G::Node, u32, u32)> = Vec::new();
    for start in graph.nodes() {
        if low[graph.index(start)] != UNSEEN {
            continue;
        }
        number += 1;
        low[graph.index(start)] = number;
        open.push(start);
        calls.push((start, number, 0));
        while let Some((channel, own, position)) = calls.last_mut() {
            let (channel, own) = (*channel, *own);
            if let Some((next, after)) = graph.next_after(channel, *position) {
                *position = after;
                match low[graph.index(next)] {
                    UNSEEN => {
                        number += 1;
                        low[graph.index(next)] = number;
                        open.push(next);
                        calls.push((next, number, 0));
                    }
                    CLOSED => {}
                    seen => low[graph.index(channel)] = low[graph.index(channel)].min(seen),
                }
                continue;
            }
            calls.pop();
            let reached = low[graph.index(channel)];
            if let Some((parent, ..)) = calls.last() {
                low[graph.index(*parent)] = low[graph.index(*parent)].min(reached);
            }
            if reached == own {
                let first = open.iter().rposition(|other| *other == channel).unwrap_or(0);
                let mut knot = open.split_off(first);
                knot.iter().for_each(|member| low[graph.index(*member)] = CLOSED);
                if knot.len() > 1 || successors(graph, channel).any(|next| next == channel) {
                    knot.sort_unstable();
                    found.push(knot);
                }
            }
        }
    }
    found
}

/// A shortest cycle through a channel that is on one, by breadth-first search.
fn shortest<G: Graph>(graph: &G, start: G::Node) -> Vec<G::Node> {
    let mut before = std::collections::BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(channel) = queue.pop_front() {
        for next in successors(graph, channel) {
            if next == start {
                let mut cycle = vec![channel];
                while let Some(previous) = before.get(&cycle[cycle.len() - 1]) {
                    cycle.push(*previous);
                }
                cycle.reverse();
                return cycle;
            }
            if let std::collections::btree_map::Entry::Vacant(place) = before.entry(next) {
                place.insert(channel);
                queue.push_back(next);
            }
        }
    }
    Vec::new()
}

fn successors<G: Graph>(graph: &G, from: G::Node) -> impl Iterator<Item = G::Node> + '_ {
    let mut position = 0;
    std::iter::from_fn(move || {
        let (next, after) = graph.next_after(from, position)?;
        position = after;
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lists(Vec<Vec<usize>>);

    impl Graph for Lists {
        type Node = usize;
        fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
            0..self.0.len()
        }
        fn bound(&self) -> usize {
            self.0.len()
        }
        fn index(&self, node: usize) -> usize {
            node
        }
        fn next_after(&self, from: usize, position: u32) -> Option<(usize, u32)> {
            self.0[from].get(position as usize).map(|next| (*next, position + 1))
        }
    }

    #[test]
    fn the_smallest_knot_is_shown() {
        let open = Lists(vec![vec![1, 2], vec![2], vec![]]);
        assert_eq!(Cycles::of(&open), Cycles::default());
        let knots = Lists(vec![vec![1], vec![2], vec![0], vec![4, 0], vec![3], vec![5]]);
        let cycles = Cycles::of(&knots);
        assert_eq!((cycles.channels, cycles.example), (6, vec![5]));
        assert_eq!(on_cycles(&knots), [0, 1, 2, 3, 4, 5]);
    }
}

//! Cycles of a dependency graph: which channels are on one, and one to show.

use std::collections::VecDeque;

use super::{Channel, DependencyGraph};

/// What is cyclic in a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// How many channels are on some cycle.
    pub channels: u64,
    /// A shortest cycle through the lowest channel of the smallest knot, in order: each channel
    /// waits for the next and the last for the first. Empty when there is none.
    pub example: Vec<Channel>,
}

impl Cycles {
    /// Looks for cycles. Time and memory are linear in channels and edges.
    #[must_use]
    pub fn of(graph: &DependencyGraph) -> Cycles {
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
pub fn on_cycles(graph: &DependencyGraph) -> Vec<Channel> {
    let mut channels = knots(graph).concat();
    channels.sort_unstable();
    channels
}

/// The strongly connected components with a cycle, each sorted (Tarjan 1972, without recursion).
fn knots(graph: &DependencyGraph) -> Vec<Vec<Channel>> {
    const UNSEEN: u32 = 0;
    const CLOSED: u32 = u32::MAX;
    let mut low = vec![UNSEEN; graph.channel_bound()];
    let (mut number, mut open, mut found) = (0, Vec::new(), Vec::new());
    let mut calls: Vec<(Channel, u32, u32)> = Vec::new();
    for start in graph.channels() {
        if low[start.index()] != UNSEEN {
            continue;
        }
        number += 1;
        low[start.index()] = number;
        open.push(start);
        calls.push((start, number, 0));
        while let Some((channel, own, position)) = calls.last_mut() {
            let (channel, own) = (*channel, *own);
            if let Some((next, after)) = graph.next_successor(channel, *position) {
                *position = after;
                match low[next.index()] {
                    UNSEEN => {
                        number += 1;
                        low[next.index()] = number;
                        open.push(next);
                        calls.push((next, number, 0));
                    }
                    CLOSED => {}
                    seen => low[channel.index()] = low[channel.index()].min(seen),
                }
                continue;
            }
            calls.pop();
            let reached = low[channel.index()];
            if let Some((parent, ..)) = calls.last() {
                low[parent.index()] = low[parent.index()].min(reached);
            }
            if reached == own {
                let first = open.iter().rposition(|other| *other == channel).unwrap_or(0);
                let mut knot = open.split_off(first);
                knot.iter().for_each(|member| low[member.index()] = CLOSED);
                if knot.len() > 1 || graph.contains(channel, channel) {
                    knot.sort_unstable();
                    found.push(knot);
                }
            }
        }
    }
    found
}

/// A shortest cycle through a channel that is on one, by breadth-first search.
fn shortest(graph: &DependencyGraph, start: Channel) -> Vec<Channel> {
    let mut before = std::collections::BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(channel) = queue.pop_front() {
        for next in graph.successors(channel) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{SwitchId, grid};

    fn ring_graph(closed: bool) -> (crate::Topology, DependencyGraph) {
        let ring = grid::torus(&[5], 1).expect("a ring");
        let mut graph = DependencyGraph::new(&ring);
        for switch in 0..if closed { 5 } else { 4 } {
            graph.insert(Channel::new(&ring, SwitchId(switch), 1, 0), 1, 0);
            graph.insert(Channel::new(&ring, SwitchId(switch), 1, 0), 3, 0);
        }
        (ring, graph)
    }

    #[test]
    fn a_closed_ring_is_a_cycle_and_an_open_one_is_not() {
        let (_, open) = ring_graph(false);
        assert_eq!(Cycles::of(&open), Cycles::default());
        let (ring, closed) = ring_graph(true);
        let cycles = Cycles::of(&closed);
        assert_eq!(cycles.channels, 5);
        let expected: Vec<Channel> =
            (0..5).map(|switch| Channel::new(&ring, SwitchId(switch), 1, 0)).collect();
        assert_eq!(cycles.example, expected);
    }

    #[test]
    fn the_smallest_knot_is_shown() {
        let (ring, mut graph) = ring_graph(true);
        let there = Channel::new(&ring, SwitchId(2), 1, 4);
        let back = Channel::new(&ring, SwitchId(3), 2, 4);
        graph.insert(there, 2, 4);
        graph.insert(back, 1, 4);
        let cycles = Cycles::of(&graph);
        assert_eq!(cycles.channels, 7);
        assert_eq!(cycles.example, [there, back]);
    }
}

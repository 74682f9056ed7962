//! Cycles of a dependency graph: which channels are on one, and one to show.

use super::Channel;

pub use ebb_deadlock::cycle::on_cycles;

/// What is cyclic in a graph of channels.
pub type Cycles = ebb_deadlock::Cycles<Channel>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependency::{Channel, DependencyGraph};
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

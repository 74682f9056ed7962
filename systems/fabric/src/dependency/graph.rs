//! The graph as bit masks: for each channel in use, for each port of the switch it ends at, which
//! lanes packets go on to.

use crate::dependency::Channel;
use crate::tables::{LANES, Lane};
use crate::topology::{Peer, PortNumber, Topology};

const NONE: u32 = u32::MAX;

/// Which channels wait for which. An edge leads from a channel to one that leaves the switch where
/// the first ends.
#[derive(Clone, Debug)]
pub struct DependencyGraph {
    /// Dense index of the first port and number of ports of the switch behind each port; no ports
    /// where there is a host or nothing.
    behind: Vec<(u32, PortNumber)>,
    /// Where the masks of a channel begin, by [`Channel::lane_index`].
    row: Vec<u32>,
    masks: Vec<u16>,
    used: Vec<u16>,
    edges: u64,
}

impl DependencyGraph {
    /// A graph without edges over the channels of a fabric.
    #[must_use]
    pub fn new(topology: &Topology) -> DependencyGraph {
        let ports = topology.port_count();
        let behind = |index| match topology.peer_at(index) {
            Peer::Switch(switch, _) => {
                (topology.port_index(switch, 1) as u32, topology.switch(switch).ports)
            }
            Peer::Nothing | Peer::Host(_) => (0, 0),
        };
        DependencyGraph {
            behind: (0..ports).map(behind).collect(),
            row: vec![NONE; ports * LANES],
            masks: Vec::new(),
            used: vec![0; ports],
            edges: 0,
        }
    }

    /// Notes that packets use a channel.
    pub fn touch(&mut self, channel: Channel) {
        self.used[channel.port_index()] |= 1 << channel.lane();
    }

    /// Whether packets use a channel.
    #[must_use]
    pub fn uses(&self, channel: Channel) -> bool {
        self.used[channel.port_index()] >> channel.lane() & 1 == 1
    }

    /// Adds the edge from a channel to a lane of an output of the switch where it ends. Returns
    /// whether the edge is new.
    ///
    /// # Panics
    /// When the channel does not end at a switch with that port.
    pub fn insert(&mut self, from: Channel, output: PortNumber, lane: Lane) -> bool {
        let (first, ports) = self.behind[from.port_index()];
        assert!(output >= 1 && output <= ports, "the channel ends at a switch of {ports} ports");
        let row = &mut self.row[from.lane_index(self.behind.len())];
        if *row == NONE {
            *row = self.masks.len() as u32;
            self.masks.resize(self.masks.len() + usize::from(ports), 0);
        }
        let mask = &mut self.masks[*row as usize + usize::from(output) - 1];
        if *mask >> lane & 1 == 1 {
            return false;
        }
        *mask |= 1 << lane;
        self.edges += 1;
        self.touch(from);
        self.touch(Channel::at(first as usize + usize::from(output) - 1, lane));
        true
    }

    /// Whether one channel waits for another.
    #[must_use]
    pub fn contains(&self, from: Channel, to: Channel) -> bool {
        self.successors(from).any(|channel| channel == to)
    }

    /// What a channel waits for, in order of port and lane.
    pub fn successors(&self, from: Channel) -> impl Iterator<Item = Channel> + '_ {
        let (first, ports) = self.behind[from.port_index()];
        let row = self.row[from.lane_index(self.behind.len())];
        let ports = if row == NONE { 0 } else { usize::from(ports) };
        (0..ports).flat_map(move |port| {
            let mut mask = self.masks[row as usize + port];
            std::iter::from_fn(move || {
                let lane = (mask != 0).then(|| mask.trailing_zeros() as Lane)?;
                mask &= mask - 1;
                Some(Channel::at(first as usize + port, lane))
            })
        })
    }

    /// The first successor at or after a position in a channel's row, and the position after it.
    /// A position is `port * 16 + lane`, from 0; `None` when there is no further successor.
    #[must_use]
    pub(crate) fn next_successor(&self, from: Channel, position: u32) -> Option<(Channel, u32)> {
        let row = self.row[from.lane_index(self.behind.len())];
        if row == NONE {
            return None;
        }
        let (first, ports) = self.behind[from.port_index()];
        let (mut port, mut skip) = (position >> 4, position & 15);
        while port < u32::from(ports) {
            let mask = self.masks[(row + port) as usize] >> skip << skip;
            if mask != 0 {
                let lane = mask.trailing_zeros();
                let channel = Channel::at((first + port) as usize, lane as Lane);
                let after = if lane == 15 { (port + 1) << 4 } else { port << 4 | (lane + 1) };
                return Some((channel, after));
            }
            (port, skip) = (port + 1, 0);
        }
        None
    }

    /// Adds every edge of another graph over the same fabric.
    ///
    /// # Panics
    /// When the other graph is over another fabric.
    pub fn merge(&mut self, other: &DependencyGraph) {
        assert!(self.behind == other.behind, "both graphs are over one fabric");
        for (mine, theirs) in self.used.iter_mut().zip(&other.used) {
            *mine |= theirs;
        }
        for from in other.channels() {
            let first = other.behind[from.port_index()].0 as usize;
            for to in other.successors(from) {
                self.insert(from, (to.port_index() - first) as PortNumber + 1, to.lane());
            }
        }
    }

    /// The part of the graph in which packets stay on one lane.
    #[must_use]
    pub fn within_lane(&self, lane: Lane) -> DependencyGraph {
        let mut part = DependencyGraph {
            behind: self.behind.clone(),
            row: self.row.clone(),
            masks: self.masks.clone(),
            used: self.used.iter().map(|lanes| lanes & 1 << lane).collect(),
            edges: 0,
        };
        part.masks.iter_mut().for_each(|mask| *mask &= 1 << lane);
        let edges = part.channels().map(|channel| part.successors(channel).count() as u64).sum();
        part.edges = edges;
        part
    }

    /// The channels in use, in order.
    pub fn channels(&self) -> impl Iterator<Item = Channel> + '_ {
        self.used.iter().enumerate().flat_map(|(port, lanes)| {
            let lanes = *lanes;
            (0..LANES as Lane)
                .filter(move |lane| lanes >> lane & 1 == 1)
                .map(move |lane| Channel::at(port, lane))
        })
    }

    /// The lanes in use on any link, bit `n` for lane `n`.
    #[must_use]
    pub fn lanes(&self) -> u16 {
        self.used.iter().fold(0, |all, lanes| all | lanes)
    }

    /// How many edges there are.
    #[must_use]
    pub fn edge_count(&self) -> u64 {
        self.edges
    }

    /// How many channels there could be: the range of [`Channel::index`].
    #[must_use]
    pub fn channel_bound(&self) -> usize {
        self.row.len()
    }
}

impl ebb_deadlock::Graph for DependencyGraph {
    type Node = Channel;

    fn nodes(&self) -> impl Iterator<Item = Channel> + '_ {
        self.channels()
    }

    fn bound(&self) -> usize {
        self.channel_bound()
    }

    fn index(&self, node: Channel) -> usize {
        node.index()
    }

    fn next_after(&self, from: Channel, position: u32) -> Option<(Channel, u32)> {
        self.next_successor(from, position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{SwitchId, grid};

    #[test]
    fn edges_come_back_in_order_and_once() {
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let from = Channel::new(&torus, SwitchId(0), 1, 2);
        let mut graph = DependencyGraph::new(&torus);
        for (port, lane, new) in [(3, 15, true), (3, 0, true), (1, 7, true), (3, 0, false)] {
            assert_eq!(graph.insert(from, port, lane), new);
        }
        let channel = |port, lane| Channel::new(&torus, SwitchId(1), port, lane);
        let expected = [channel(1, 7), channel(3, 0), channel(3, 15)];
        assert_eq!(graph.successors(from).collect::<Vec<_>>(), expected);
        let (mut position, mut stepped) = (0, Vec::new());
        while let Some((channel, after)) = graph.next_successor(from, position) {
            stepped.push(channel);
            position = after;
        }
        assert_eq!(stepped, expected);
        assert_eq!((graph.edge_count(), graph.channels().count()), (3, 4));
        assert_eq!(graph.lanes(), 1 << 15 | 1 << 7 | 1 << 2 | 1);
        let mut other = DependencyGraph::new(&torus);
        other.merge(&graph);
        other.merge(&graph);
        assert_eq!(other.successors(from).collect::<Vec<_>>(), expected);
        assert_eq!(other.edge_count(), 3);
    }
}

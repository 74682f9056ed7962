//! Graphs that know nothing of ports and addresses, as fabrics: what the readers of [`super::graphml`],
//! [`super::sndlib`] and [`super::node_link`] share.
//!
//! Every node is a switch unless it is said to be a host; every edge is a cable. Ports that are not given
//! are the lowest free ones, in the order of the edges.

use std::collections::BTreeMap;

use crate::topology::{Builder, Host, PortNumber, Switch, SwitchId, Topology, TopologyError};

/// A node.
#[derive(Clone, Debug, Default)]
pub(super) struct Vertex {
    pub(super) id: String,
    /// What people call it, the id where that is missing.
    pub(super) label: Option<String>,
    pub(super) is_host: bool,
    /// Hosts that hang on it.
    pub(super) hosts: Option<u32>,
    pub(super) ports: Option<u32>,
    /// Where it stands in the file.
    pub(super) line: usize,
}

/// An edge between nodes by their places among the vertices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) ends: [usize; 2],
    pub(super) ports: [Option<u32>; 2],
    /// Whether the file says that it goes one way.
    pub(super) directed: bool,
    pub(super) line: usize,
}

/// A graph as it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) vertices: Vec<Vertex>,
    pub(super) edges: Vec<Edge>,
    /// What the file says and has no effect.
    pub(super) notes: Vec<String>,
}

/// What is wrong, and on which line.
pub(super) type Fault = (usize, String);

impl Graph {
    /// The fabric. Switches that do not say how many hosts they have get `hosts_per_switch`, unless the
    /// graph has hosts of its own.
    pub(super) fn topology(mut self, hosts_per_switch: u32) -> Result<Topology, Fault> {
        self.leave_loops_out();
        self.join_both_ways()?;
        let mut degree = vec![0u32; self.vertices.len()];
        self.edges.iter().flat_map(|edge| edge.ends).for_each(|end| degree[end] += 1);
        let own_hosts = self.vertices.iter().any(|vertex| vertex.is_host);
        let default = if own_hosts { 0 } else { hosts_per_switch };
        let mut builder = Builder::new();
        let mut switches: Vec<Option<SwitchId>> = vec![None; self.vertices.len()];
        let mut wanted = Vec::new();
        for (place, vertex) in self.vertices.iter().enumerate().filter(|(_, it)| !it.is_host) {
            let fault = |error: TopologyError| (vertex.line, error.to_string());
            let hosts = vertex.hosts.unwrap_or(default);
            let ports = vertex.ports.unwrap_or(degree[place].saturating_add(hosts));
            let ports = crate::topology::port_total(ports).map_err(fault)?;
            let guid = 0x20_0000 + builder.switch_count() as u64;
            let name = vertex.label.clone().unwrap_or_else(|| vertex.id.clone());
            let switch = builder.switch(Switch { guid, name, lid: 0, ports });
            switches[place] = Some(switch);
            wanted.push((vertex.line, switch, hosts));
        }
        self.cables(&mut builder, &switches)?;
        for (line, switch, hosts) in wanted {
            for _ in 0..hosts {
                let port =
                    builder.free_port(switch).ok_or((line, "all ports are used".to_owned()))?;
                builder.plain_host(switch, port).map_err(|error| (line, error.to_string()))?;
            }
        }
        self.notes.drain(..).for_each(|note| builder.note(note));
        builder.finish().map_err(|error| (1, error.to_string()))
    }

    /// An edge from a node to itself is no link of a network.
    fn leave_loops_out(&mut self) {
        let before = self.edges.len();
        self.edges.retain(|edge| edge.ends[0] != edge.ends[1]);
        match before - self.edges.len() {
            0 => {}
            1 => self.notes.push("an edge from a node to itself is ignored".to_owned()),
            count => self.notes.push(format!("{count} edges from nodes to themselves are ignored")),
        }
    }

    /// Directed graphs list a cable once, or once for each way: then the second is the same cable.
    fn join_both_ways(&mut self) -> Result<(), Fault> {
        let directed = |edge: &&Edge| edge.directed;
        let mut ways: BTreeMap<[usize; 2], usize> = BTreeMap::new();
        self.edges
            .iter()
            .filter(directed)
            .for_each(|edge| *ways.entry(edge.ends).or_default() += 1);
        let count = |[from, to]: [usize; 2]| ways.get(&[from, to]).copied().unwrap_or(0);
        let paired = |edge: &&Edge| count(edge.ends) == count([edge.ends[1], edge.ends[0]]);
        let lone = |edge: &&Edge| count([edge.ends[1], edge.ends[0]]) == 0;
        let of_these = || self.edges.iter().filter(directed);
        if of_these().all(|edge| lone(&edge)) {
            return Ok(());
        }
        if let Some(edge) = of_these().find(|edge| !paired(edge)) {
            let [from, to] = edge.ends.map(|end| &self.vertices[end].id);
            let what = format!(
                "the edge from `{from}` to `{to}` has no reverse edge, but others have: a link \
                has both directions"
            );
            return Err((edge.line, what));
        }
        let before = self.edges.len();
        let mut met: BTreeMap<[usize; 2], Vec<usize>> = BTreeMap::new();
        let mut kept: Vec<Edge> = Vec::with_capacity(before);
        for edge in &self.edges {
            let [from, to] = edge.ends;
            let back = met.get_mut(&[to, from]).filter(|_| edge.directed).and_then(Vec::pop);
            match back {
                // What only the way back says of the ports is said of the cable.
                Some(first) => {
                    let ports = &mut kept[first].ports;
                    *ports = [ports[0].or(edge.ports[1]), ports[1].or(edge.ports[0])];
                }
                None => {
                    if edge.directed {
                        met.entry(edge.ends).or_default().push(kept.len());
                    }
                    kept.push(*edge);
                }
            }
        }
        let joined = before - kept.len();
        self.notes
            .push(format!("{joined} edges are the reverse of another edge: one cable for both"));
        self.edges = kept;
        Ok(())
    }

    fn cables(&self, builder: &mut Builder, switches: &[Option<SwitchId>]) -> Result<(), Fault> {
        // What is fixed first, so that others find what is left.
        let mut edges: Vec<&Edge> = self.edges.iter().collect();
        edges.sort_by_key(|edge| edge.ports[0].is_none() && edge.ports[1].is_none());
        let mut hosts = 0u64;
        for edge in edges {
            let take = |builder: &Builder, switch, given: Option<u32>| {
                let given = given.map(|port| port.min(255) as PortNumber);
                let port = given.or_else(|| builder.free_port(switch));
                port.ok_or((edge.line, "all ports are used".to_owned()))
            };
            let built = match edge.ends.map(|end| switches[end]) {
                [Some(a), Some(b)] => {
                    let here = take(builder, a, edge.ports[0])?;
                    let there = take(builder, b, edge.ports[1])?;
                    builder.cable((a, here), (b, there))
                }
                [None, None] => return Err((edge.line, "a cable between two hosts".to_owned())),
                [one, two] => {
                    let (switch, at) = one.map_or((two, 1), |switch| (Some(switch), 0));
                    let switch = switch.expect("one of them is a switch");
                    let port = take(builder, switch, edge.ports[at])?;
                    let vertex = &self.vertices[edge.ends[1 - at]];
                    let name = vertex.label.clone().unwrap_or_else(|| vertex.id.clone());
                    let node_guid = 0x1000_0000 + 2 * hosts;
                    hosts += 1;
                    let (guid, node_port, lid, lmc) = (node_guid + 1, 1, 0, 0);
                    let host = Host { guid, node_guid, node_port, name, lid, lmc, switch, port };
                    builder.host(host).map(drop)
                }
            };
            built.map_err(|error| (edge.line, error.to_string()))?;
        }
        Ok(())
    }
}

/// A note that names the data of a kind of things which have no effect; nothing where there are none.
pub(super) fn without_effect<'a>(
    what: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let names: std::collections::BTreeSet<&str> = names.into_iter().collect();
    let listed: Vec<&str> = names.into_iter().collect();
    (!listed.is_empty()).then(|| format!("ignored, of {what}: {}", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(count: usize, pairs: &[(usize, usize)], directed: bool) -> Graph {
        let vertex = |id: usize| Vertex { id: format!("n{id}"), ..Vertex::default() };
        let edge = |&(from, to): &(usize, usize)| Edge {
            ends: [from, to],
            ports: [None; 2],
            directed,
            line: 1,
        };
        Graph {
            vertices: (0..count).map(vertex).collect(),
            edges: pairs.iter().map(edge).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn one_way_among_both_ways_is_refused() {
        let mixed = graph(3, &[(0, 1), (1, 0), (1, 2)], true);
        let (_, what) = mixed.topology(1).expect_err("one edge has none back");
        assert!(what.contains("from `n1` to `n2` has no reverse edge"), "{what}");
        let uneven = graph(2, &[(0, 1), (0, 1), (1, 0)], true);
        assert!(uneven.topology(1).is_err());
        let undirected = graph(2, &[(0, 1), (1, 0)], false);
        assert_eq!(undirected.topology(1).expect("two cables").links().count(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn both_ways_are_as_many_cables_as_one(
            pairs in prop::collection::vec((0usize..6, 0usize..6), 1..12)
        ) {
            let once = graph(6, &pairs, false).topology(1).expect("a graph");
            let twice: Vec<_> = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
            let both = graph(6, &twice, true).topology(1).expect("the same graph");
            prop_assert_eq!(once.links().count(), both.links().count());
            let loops = pairs.iter().filter(|(a, b)| a == b).count();
            prop_assert_eq!(once.links().count(), pairs.len() - loops);
            prop_assert_eq!(once.notes().is_empty(), loops == 0);
        }
    }
}

//! What several routing functions share: distances, targets, loads.

use std::collections::VecDeque;

use crate::tables::Forwarding;
use crate::topology::{Lid, Owner, Peer, PortNumber, SwitchId, Topology};

/// Number of a switch that cannot be reached.
pub(crate) const FAR: u32 = u32::MAX;

/// An address, the switch where packets for it leave the network of switches, and the port there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) lid: Lid,
    pub(crate) switch: SwitchId,
    pub(crate) port: PortNumber,
}

/// Every address in use.
pub(crate) fn targets(topology: &Topology) -> impl Iterator<Item = Target> + '_ {
    (1..=topology.top_lid()).filter_map(|lid| match topology.owner(lid) {
        Owner::Nobody => None,
        Owner::Switch(switch) => Some(Target { lid, switch, port: 0 }),
        Owner::Host(host) => {
            let host = topology.host(host);
            Some(Target { lid, switch: host.switch, port: host.port })
        }
    })
}

/// Distances in links from every switch to one.
pub(crate) fn distances(topology: &Topology, to: SwitchId) -> Vec<u32> {
    let mut distance = vec![FAR; topology.switches().len()];
    distance[to.index()] = 0;
    let mut queue = VecDeque::from([to]);
    while let Some(switch) = queue.pop_front() {
        for (_, other, _) in topology.neighbours(switch) {
            if distance[other.index()] == FAR {
                distance[other.index()] = distance[switch.index()] + 1;
                queue.push_back(other);
            }
        }
    }
    distance
}

/// A switch from which no other is far: least eccentricity, then most cables, then lowest number.
pub(crate) fn centre(topology: &Topology) -> SwitchId {
    let key = |switch: &SwitchId| {
        let distance = distances(topology, *switch);
        let reached = distance.iter().filter(|distance| **distance != FAR);
        let unreached = distance.len() - reached.clone().count();
        let cables = topology.neighbours(*switch).count();
        (unreached, reached.max().copied(), std::cmp::Reverse(cables), *switch)
    };
    topology.switch_ids().min_by_key(key).unwrap_or(SwitchId(0))
}

/// How many addresses each port already carries, so that ties go to the least used.
pub(crate) struct PortLoad(Vec<u32>);

impl PortLoad {
    pub(crate) fn new(topology: &Topology) -> PortLoad {
        PortLoad(vec![0; topology.port_count()])
    }

    pub(crate) fn of(&self, topology: &Topology, switch: SwitchId, port: PortNumber) -> u32 {
        self.0[topology.port_index(switch, port)]
    }

    /// What the port of a dense index carries.
    pub(crate) fn at(&self, index: usize) -> u32 {
        self.0[index]
    }

    /// Counts so many more on the port of a dense index.
    pub(crate) fn add(&mut self, index: usize, more: u32) {
        self.0[index] += more;
    }

    /// The most that any port carries.
    pub(crate) fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The least used of some ports, which is then used once more.
    pub(crate) fn pick(
        &mut self,
        topology: &Topology,
        switch: SwitchId,
        ports: impl Iterator<Item = PortNumber>,
    ) -> Option<PortNumber> {
        let port = ports.min_by_key(|port| (self.of(topology, switch, *port), *port))?;
        self.0[topology.port_index(switch, port)] += 1;
        Some(port)
    }
}

/// Shortest paths to one target for the switches that have no entry yet.
pub(crate) fn fill_shortest(
    topology: &Topology,
    forwarding: &mut Forwarding,
    load: &mut PortLoad,
    target: Target,
) {
    let distance = distances(topology, target.switch);
    for switch in topology.switch_ids() {
        if switch == target.switch {
            forwarding.set(switch, target.lid, Some(target.port));
        } else if forwarding.get(switch, target.lid).is_none() {
            let own = distance[switch.index()];
            let closer = topology
                .neighbours(switch)
                .filter(|(_, other, _)| own != FAR && distance[other.index()] + 1 == own);
            let port = load.pick(topology, switch, closer.map(|(port, ..)| port));
            forwarding.set(switch, target.lid, port);
        }
    }
}

/// The dense port indices that packets from a switch pass until they leave at the target's switch;
/// `None` when an entry is missing or packets do not get there.
pub(crate) fn ports_to(
    topology: &Topology,
    forwarding: &Forwarding,
    from: SwitchId,
    target: Target,
) -> Option<Vec<usize>> {
    let (mut at, mut ports) = (from, Vec::new());
    while at != target.switch {
        let port = forwarding.get(at, target.lid).filter(|port| *port != 0)?;
        let Peer::Switch(next, _) = topology.peer(at, port) else { return None };
        ports.push(topology.port_index(at, port));
        at = next;
        if ports.len() > topology.switches().len() {
            return None;
        }
    }
    Some(ports)
}

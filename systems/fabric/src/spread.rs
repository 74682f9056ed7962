//! Packets that take, at every switch, whichever port the table has for one of their target's addresses:
//! whether they always arrive and cannot deadlock.
//!
//! A packet's way may then change between the ways to all addresses from one switch to the next, so what
//! holds for each address by itself says little. All states that any choice can reach are explored; when
//! the dependencies found have no cycle, no choice can deadlock (Dally and Seitz 1987), and since a circle
//! of switches is a cycle of channels, every packet arrives.

use std::collections::BTreeSet;

use ebb_deadlock::OnlineOrder;

use crate::dependency::ChannelLabel;
use crate::tables::{LANES, Tables};
use crate::topology::{Host, HostId, Peer, SwitchId, Topology};

/// Why switches must not choose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// Lanes that depend on ports.
    #[error(
        "the lane tables were changed since a reset; adaptive routing needs lane = service level"
    )]
    Lanes,
    /// A switch without a port for an address.
    #[error("switch {switch} has no path to an address of {host} that a choice may use")]
    Lost {
        /// The switch.
        switch: String,
        /// The host.
        host: String,
    },
    /// A circle of waiting.
    #[error("choices can make packets wait for each other in a cycle: {}", ring(.0))]
    Cycle(Vec<ChannelLabel>),
}

fn ring(places: &[ChannelLabel]) -> String {
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" -> ")
}

/// Proves that switches may choose among the ports for all addresses of a host.
///
/// # Errors
/// When they may not.
pub fn prove(topology: &Topology, tables: &Tables) -> Result<(), SpreadError> {
    if !tables.lanes.is_identity() {
        return Err(SpreadError::Lanes);
    }
    let mut order = OnlineOrder::new();
    for (index, host) in topology.hosts().iter().enumerate() {
        let mut by_level: Vec<BTreeSet<SwitchId>> = vec![BTreeSet::new(); LANES];
        for source in topology.host_ids().filter(|source| *source != HostId(index as u32)) {
            if let Some(level) = tables.levels.level(source, host.lid) {
                by_level[usize::from(level)].insert(topology.host(source).switch);
            }
        }
        for (level, starts) in by_level.into_iter().enumerate() {
            explore(topology, tables, host, (level, starts), &mut order)?;
        }
    }
    Ok(())
}

/// Adds the dependencies of all packets to one host on one level that begin at the switches `starts`.
fn explore(
    topology: &Topology,
    tables: &Tables,
    host: &Host,
    (level, starts): (usize, BTreeSet<SwitchId>),
    order: &mut OnlineOrder<usize>,
) -> Result<(), SpreadError> {
    let mut seen = BTreeSet::new();
    let mut stack: Vec<(Option<usize>, SwitchId)> =
        starts.into_iter().map(|at| (None, at)).collect();
    while let Some((before, switch)) = stack.pop() {
        let lost = || SpreadError::Lost {
            switch: topology.switch(switch).name.clone(),
            host: host.name.clone(),
        };
        let ports: BTreeSet<Option<u8>> =
            host.lids().map(|lid| tables.forwarding.get(switch, lid)).collect();
        for port in ports {
            let port = port.filter(|port| *port > 0).ok_or_else(lost)?;
            let channel = topology.port_index(switch, port) * LANES + level;
            if let Some(before) = before {
                order.add(before, channel).map_err(|closed| {
                    let place = |channel: &usize| {
                        let (switch, port) = topology.port_at(channel / LANES);
                        ChannelLabel::of(topology, switch, port, (channel % LANES) as u8)
                    };
                    SpreadError::Cycle(closed.cycle.iter().map(place).collect())
                })?;
            }
            match topology.peer(switch, port) {
                Peer::Switch(next, _) if seen.insert(channel) => stack.push((Some(channel), next)),
                Peer::Switch(..) => {}
                Peer::Host(_) if (switch, port) == (host.switch, host.port) => {}
                Peer::Host(_) | Peer::Nothing => return Err(lost()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Options, by_name, route};
    use crate::topology::{grid, tree};

    fn tables(name: &str, topology: &Topology) -> Tables {
        route(by_name(name).expect("known"), topology, &Options::default()).expect("sound").0
    }

    #[test]
    fn trees_may_choose_and_rings_may_not() {
        let pods = tree::Pods::of_radix(4).build().expect("a tree").with_lmc(2).expect("addresses");
        assert_eq!(prove(&pods, &tables("up-down", &pods)), Ok(()));
        // Clockwise to the first address and the other way to the second: each way is fine by itself
        // only on lanes of its own, and a choice can turn round and round.
        let ring = grid::torus(&[4], 1).expect("a ring").with_lmc(1).expect("addresses");
        let mut both = Tables::empty(&ring);
        for host in ring.hosts() {
            for switch in ring.switch_ids() {
                for (lid, port) in host.lids().zip([1, 2]) {
                    let port = if switch == host.switch { host.port } else { port };
                    both.forwarding.set(switch, lid, Some(port));
                }
            }
        }
        let Err(SpreadError::Cycle(cycle)) = prove(&ring, &both) else { panic!("no cycle") };
        assert!(cycle.len() >= 2, "{cycle:?}");
        both.forwarding.set(SwitchId(0), ring.hosts()[2].lid, None);
        assert!(matches!(
            prove(&ring, &both),
            Err(SpreadError::Lost { .. } | SpreadError::Cycle(_))
        ));
    }
}

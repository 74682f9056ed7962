//! The tables as they are, for people: what the workers forward by, not what was meant.

use std::net::IpAddr;

use ebb_graph::PortId;
use ipnet::IpNet;

use super::hops::Key;
use super::{Decision, FibWriter, InterfaceId};

/// One entry of the prefix tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Destinations it is for.
    pub prefix: IpNet,
    /// A neighbour's own entry where no route to the address was set.
    pub is_neighbour: bool,
    /// What happens to packets, in the words of [`FibWriter::lookup`].
    pub decision: Decision,
}

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its address.
    pub address: IpAddr,
    /// The interface on which it is.
    pub interface: InterfaceId,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Whether packets for the address itself go to it: a route may lead elsewhere.
    pub is_entered: bool,
}

impl FibWriter {
    /// The entries inside `within` (`None`: all), IPv4 first, in the order of their prefixes.
    pub fn entries(&self, within: Option<IpNet>) -> impl Iterator<Item = Entry> {
        let inside = move |prefix: &IpNet| within.is_none_or(|within| within.contains(prefix));
        let v4 = self.v4.iter().map(|(bits, len, hop)| {
            let address = IpAddr::V4(bits.into());
            (IpNet::new(address, len).expect("a stored length"), hop)
        });
        let v6 = self.v6.iter().map(|(bits, len, hop)| {
            let address = IpAddr::V6(bits.into());
            (IpNet::new(address, len).expect("a stored length"), hop)
        });
        let all = v4.chain(v6).filter(move |(prefix, _)| inside(prefix));
        all.map(|(prefix, hop)| Entry {
            prefix,
            is_neighbour: prefix.prefix_len() == prefix.max_prefix_len()
                && !self.hidden.contains_key(&prefix.addr())
                && self.entered_at(prefix.addr()).is_some(),
            decision: self.describe(self.fib.table.read(hop), prefix.addr()),
        })
    }

    /// All neighbours, by address.
    pub fn known_neighbours(&self) -> impl Iterator<Item = Known> {
        self.neighbours.iter().map(|((address, interface), neighbour)| Known {
            address: *address,
            interface: *interface,
            mac: neighbour.mac,
            is_entered: neighbour.entered,
        })
    }

    /// Interfaces with the port and the VLAN of each.
    pub fn interfaces(&self) -> impl Iterator<Item = (InterfaceId, PortId, u16)> {
        self.interfaces.iter().map(|(id, interface)| (*id, interface.port, interface.vlan))
    }

    /// Numbers under which next hops are counted
    /// ([`RouteCounters::next_hop`](super::RouteCounters::next_hop)), with interface and gateway;
    /// `None` stands for the neighbours on the interface's own subnets that are not resolved.
    pub fn next_hops(&self) -> impl Iterator<Item = (u32, InterfaceId, Option<IpAddr>)> {
        self.hops.all().filter_map(|(index, key)| match key {
            Key::Neighbour(interface, address) | Key::Limited(interface, address, _) => {
                Some((index, *interface, Some(*address)))
            }
            Key::OnLink(interface) => Some((index, *interface, None)),
            Key::Fixed(_) | Key::Group(_) => None,
        })
    }

    /// Numbers that were given to other next hops since the last call: what was counted under them
    /// before is not theirs.
    pub fn take_renumbered(&mut self) -> Vec<u32> {
        self.hops.take_renumbered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Interface, Target};

    #[test]
    fn the_view_has_every_route_and_neighbour_once() {
        let (mut fib, _) = FibWriter::new();
        let id = InterfaceId(0);
        let interface = Interface {
            port: PortId(0),
            vlan: 0,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            addresses: vec!["10.0.0.1/24".parse().unwrap()],
        };
        fib.set_interface(id, interface);
        fib.set_route("10.0.0.0/24".parse().unwrap(), &Target::OnLink(id)).unwrap();
        fib.set_route(
            "10.1.0.0/16".parse().unwrap(),
            &Target::via(id, "10.0.0.2".parse().unwrap()),
        )
        .unwrap();
        fib.set_route("2001:db8::/32".parse().unwrap(), &Target::Blackhole).unwrap();
        fib.set_neighbour(id, "10.0.0.2".parse().unwrap(), [2; 6]);
        fib.publish();
        let all: Vec<String> = fib
            .entries(None)
            .map(|e| format!("{} {} {}", e.prefix, e.is_neighbour, e.decision))
            .collect();
        assert_eq!(
            all,
            [
                "10.0.0.0/24 false 10.0.0.0 on interface 0 (unresolved)",
                "10.0.0.2/32 true 10.0.0.2 on interface 0 (02:02:02:02:02:02)",
                "10.1.0.0/16 false 10.0.0.2 on interface 0 (02:02:02:02:02:02)",
                "2001:db8::/32 false blackhole",
            ]
        );
        let inside = fib.entries(Some("10.0.0.0/16".parse().unwrap()));
        assert_eq!(inside.count(), 2);
        assert_eq!(fib.entries(Some("2001:db8:1::/48".parse().unwrap())).count(), 0);
        let known: Vec<Known> = fib.known_neighbours().collect();
        assert!(known.len() == 1 && known[0].is_entered, "{known:?}");
        let hops: Vec<_> = fib.next_hops().map(|(_, _, gateway)| gateway).collect();
        assert_eq!(hops.len(), 2);
        assert!(hops.contains(&None) && hops.contains(&"10.0.0.2".parse().ok()));
    }
}

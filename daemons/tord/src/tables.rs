//! A rack's forwarding table: its hosts' prefixes, the other racks, the switch's own addresses, in the tables of
//! the router (`ebb_apps::route`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ebb_apps::route::{Fib, FibError, FibWriter, Interface, InterfaceId, Target};
use ebb_graph::PortId;
use ipnet::IpNet;

use crate::addresses::rack_mac;

/// The uplink's port, and the number of the first interface to hosts.
pub const UPLINK: usize = 0;
/// See [`UPLINK`].
pub const FIRST_HOST: usize = 1;

/// What the kernel says of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its own Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet that it sends, bytes.
    pub mtu: u32,
    /// Whether packets can pass.
    pub up: bool,
    /// The switch's addresses there, with the lengths of their networks.
    pub addresses: Vec<IpNet>,
}

/// See the module. Ports are numbered: the uplink, then the interfaces to hosts in their order.
pub struct Tables {
    rack: u8,
    writer: FibWriter,
    hosts: Vec<Vec<IpNet>>,
    own: BTreeSet<IpAddr>,
}

fn interface_of(port: usize) -> InterfaceId {
    InterfaceId(port as u16)
}

/// Stands for the switch of another rack: nobody else sees this address.
fn gateway(rack: u8) -> IpAddr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xeb, 0, u16::from(rack)).into()
}

impl Tables {
    /// A rack's: the prefixes behind each interface to hosts, and where everybody else is. No interface is
    /// there yet.
    ///
    /// # Errors
    /// When there are more prefixes than fit.
    pub fn new(
        rack: u8,
        hosts: Vec<Vec<IpNet>>,
        remotes: &[(IpNet, u8)],
    ) -> Result<(Tables, Arc<Fib>), FibError> {
        let (mut writer, fib) = FibWriter::new();
        for (prefix, to) in remotes {
            writer.set_route(*prefix, &Target::via(interface_of(UPLINK), gateway(*to)))?;
            writer.set_neighbour(interface_of(UPLINK), gateway(*to), rack_mac(*to));
        }
        for (at, prefixes) in hosts.iter().enumerate() {
            for prefix in prefixes {
                writer.set_route(*prefix, &Target::OnLink(interface_of(FIRST_HOST + at)))?;
            }
        }
        writer.publish();
        Ok((Tables { rack, writer, hosts, own: BTreeSet::new() }, fib))
    }

    /// An interface is there, or has changed.
    pub fn set_port(&mut self, port: usize, facts: &Facts) {
        let mac = if port == UPLINK { rack_mac(self.rack) } else { facts.mac };
        let interface = Interface {
            port: PortId(port as u8),
            vlan: 0,
            mac,
            mtu: u16::try_from(facts.mtu).unwrap_or(u16::MAX),
            up: facts.up,
            addresses: facts.addresses.clone(),
        };
        self.writer.set_interface(interface_of(port), interface);
    }

    /// Another interface has an interface's name, or none: what was known behind the former does not hold.
    pub fn lose_hosts(&mut self, port: usize) {
        if port != UPLINK {
            self.writer.remove_interface(interface_of(port));
        }
    }

    /// Packets to these addresses are for the switch itself.
    ///
    /// # Errors
    /// When there are more than fit; the others hold.
    pub fn set_own(&mut self, own: &BTreeSet<IpAddr>) -> Result<(), FibError> {
        for gone in self.own.difference(own) {
            self.writer.remove_route(IpNet::from(*gone));
            let exact = |prefixes: &Vec<IpNet>| prefixes.contains(&IpNet::from(*gone));
            if let Some(at) = self.hosts.iter().position(exact) {
                let target = Target::OnLink(interface_of(FIRST_HOST + at));
                self.writer.set_route(IpNet::from(*gone), &target)?;
            }
        }
        for new in own.difference(&self.own) {
            self.writer.set_route(IpNet::from(*new), &Target::Kernel)?;
        }
        self.own.clone_from(own);
        Ok(())
    }

    /// Frames to a host go to this Ethernet address.
    pub fn learn(&mut self, port: usize, address: IpAddr, mac: [u8; 6]) {
        self.writer.set_neighbour(interface_of(port), address, mac);
    }

    /// Nobody knows where a host is.
    pub fn forget(&mut self, port: usize, address: IpAddr) {
        self.writer.remove_neighbour(interface_of(port), address);
    }

    /// Makes all changes visible.
    pub fn publish(&mut self) {
        self.writer.publish();
    }

    /// What becomes of packets to this address, in words.
    #[cfg(test)]
    fn fate(&self, address: &str) -> String {
        self.writer.lookup(address.parse().expect("an address")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a prefix")
    }

    #[test]
    fn the_longest_match_decides_and_own_addresses_are_the_switchs() {
        let hosts =
            vec![vec![net("10.77.0.0/24"), net("10.9.0.1/32")], vec![net("10.77.0.128/25")]];
        let remotes = [(net("10.77.1.0/24"), 1), (net("10.77.0.0/16"), 2)];
        let (mut tables, _fib) = Tables::new(0, hosts, &remotes).expect("room");
        for port in 0..3 {
            let mac = [2, 0, 0, 0, 0, port as u8];
            tables.set_port(port, &Facts { mac, mtu: 1500, up: true, addresses: Vec::new() });
        }
        tables.publish();
        for (address, fate) in [
            ("10.77.0.5", "10.77.0.5 on interface 1 (unresolved)"),
            ("10.77.0.200", "10.77.0.200 on interface 2 (unresolved)"),
            ("10.77.1.9", "fe80::eb:0:1 on interface 0 (02:eb:00:00:00:01)"),
            ("10.77.9.9", "fe80::eb:0:2 on interface 0 (02:eb:00:00:00:02)"),
            ("192.0.2.1", "no route"),
        ] {
            assert_eq!(tables.fate(address), fate, "{address}");
        }
        let own = |texts: &[&str]| texts.iter().map(|t| t.parse().expect("an address")).collect();
        tables.set_own(&own(&["10.77.0.1", "10.9.0.1", "10.77.1.1"])).expect("room");
        assert_eq!(["10.77.0.1", "10.9.0.1", "10.77.1.1"].map(|a| tables.fate(a)), ["kernel"; 3]);
        tables.set_own(&own(&["10.77.0.1"])).expect("room");
        assert_eq!(tables.fate("10.9.0.1"), "10.9.0.1 on interface 1 (unresolved)");
        tables.learn(1, "10.77.0.5".parse().expect("an address"), [2, 0, 0, 0, 0, 5]);
        assert_eq!(tables.fate("10.77.0.5"), "10.77.0.5 on interface 1 (02:00:00:00:00:05)");
        tables.lose_hosts(1);
        assert_eq!(tables.fate("10.77.0.5"), "link down");
    }
}

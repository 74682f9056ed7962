//! The interfaces as the nodes see them: one immutable picture, replaced whole.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Interface, InterfaceId, ReversePath};

/// Where a frame belongs, by port and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    pub id: InterfaceId,
    /// The own MAC address as [`word_of`] has it.
    pub mac: u64,
    pub reverse_path: ReversePath,
}

/// A MAC address as the first word of a frame with two bytes behind it: compared at once.
pub(super) fn word_of([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[derive(Debug, Default)]
struct PortMap {
    untagged: Option<Attached>,
    /// Positions in `tagged` plus one by VLAN identifier, 0 for none; empty without VLANs.
    index: Vec<u16>,
    tagged: Vec<Attached>,
}

/// All interfaces.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    ports: Vec<PortMap>,
    all: BTreeMap<InterfaceId, Interface>,
}

impl Interfaces {
    pub(super) fn new(
        all: BTreeMap<InterfaceId, Interface>,
        filters: &BTreeMap<InterfaceId, ReversePath>,
    ) -> Interfaces {
        let count = all.values().map(|interface| usize::from(interface.port.0) + 1).max();
        let mut ports: Vec<PortMap> = (0..count.unwrap_or(0)).map(|_| PortMap::default()).collect();
        for (&id, interface) in &all {
            let map = &mut ports[usize::from(interface.port.0)];
            let reverse_path = filters.get(&id).copied().unwrap_or_default();
            let attached = Attached { id, mac: word_of(interface.mac), reverse_path };
            if interface.vlan == 0 {
                map.untagged = Some(attached);
                continue;
            }
            map.index.resize(4096, 0);
            map.tagged.push(attached);
            map.index[usize::from(interface.vlan & 0xfff)] = map.tagged.len() as u16;
        }
        Interfaces { ports, all }
    }

    /// The interface of a port that takes frames of a VLAN (0 for untagged).
    #[inline]
    pub(super) fn attached(&self, port: u8, vlan: u16) -> Option<Attached> {
        let map = self.ports.get(usize::from(port))?;
        if vlan == 0 {
            return map.untagged;
        }
        let position = usize::from(*map.index.get(usize::from(vlan))?).checked_sub(1)?;
        Some(map.tagged[position])
    }

    /// The interface of a port that takes untagged frames.
    #[inline(always)]
    pub(super) fn plain(&self, port: u8) -> Option<&Attached> {
        self.ports.get(usize::from(port))?.untagged.as_ref()
    }

    /// The interface's address to speak from to `peer`: one whose subnet holds the peer, else the
    /// first of the peer's family that is not link-local.
    pub(super) fn source_for(&self, id: InterfaceId, peer: IpAddr) -> Option<IpAddr> {
        let addresses = &self.all.get(&id)?.addresses;
        let usable = |net: &&IpNet| match (net.addr(), peer) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(own), IpAddr::V6(_)) => !own.is_unicast_link_local(),
            _ => false,
        };
        let near = addresses.iter().filter(usable).find(|net| net.contains(&peer));
        near.or_else(|| addresses.iter().find(usable)).map(|net| net.addr())
    }

    /// The first address of any interface to speak from to `peer`, in order of interface numbers.
    pub(super) fn any_source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        self.all.keys().find_map(|id| self.source_for(*id, peer))
    }
}

#[cfg(test)]
mod tests {
    use ebb_graph::PortId;

    use super::*;

    fn interface(port: u8, vlan: u16, addresses: &[&str]) -> Interface {
        Interface {
            port: PortId(port),
            vlan,
            mac: [2, 0, 0, 0, port, vlan as u8],
            mtu: 1500,
            up: true,
            addresses: addresses.iter().map(|text| text.parse().expect("a prefix")).collect(),
        }
    }

    #[test]
    fn frames_find_their_interface_and_errors_their_source() {
        let interfaces = Interfaces::new(
            BTreeMap::from([
                (InterfaceId(1), interface(0, 0, &["fe80::1/64", "192.0.2.1/24"])),
                (
                    InterfaceId(5),
                    interface(0, 7, &["10.0.0.1/24", "10.0.1.1/24", "2001:db8::1/64"]),
                ),
            ]),
            &BTreeMap::new(),
        );
        let id = |port, vlan| interfaces.attached(port, vlan).map(|attached| attached.id.0);
        assert_eq!([id(0, 0), id(0, 7), id(0, 8), id(1, 0)], [Some(1), Some(5), None, None]);
        let source = |id, peer: &str| {
            let peer = peer.parse().expect("an address");
            interfaces.source_for(InterfaceId(id), peer).map(|address| address.to_string())
        };
        assert_eq!(source(5, "10.0.1.9").as_deref(), Some("10.0.1.1"));
        assert_eq!(source(5, "203.0.113.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(source(1, "2001:db8::2"), None, "link-local only");
    }
}

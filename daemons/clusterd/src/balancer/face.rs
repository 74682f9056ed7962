//! What the cluster looks like from outside, and where its back-ends are inside.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// One of the cluster's links to the world, with the segment inside that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Interface to the outside.
    pub outside: String,
    /// Interface to the segment on which the back-ends are.
    pub inside: String,
    /// The address that neighbours know the cluster by on this link.
    pub mac: Mac,
    /// The cluster's own addresses on this link, with their subnets; all back-ends have the same.
    pub addresses: Vec<IpNet>,
    /// Address of the balancer on the segment that probes are sent from and routed back to.
    pub probe: IpAddr,
    /// The Ethernet address that belongs to it, which back-ends have as a permanent neighbour.
    pub probe_mac: Mac,
}

impl Side {
    /// Whether an address is the cluster's own on this link.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.addr() == address)
    }
}

/// A back-end as the balancer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// Its name; rows of the steering table are in ascending order of names.
    pub name: String,
    /// Its Ethernet address on each side's segment.
    pub macs: Vec<Mac>,
    /// Its share of the flows relative to the others'.
    pub weight: u32,
}

/// Everything that the balancer's forwarding goes by, besides the steering table.
#[derive(Clone, Debug)]
pub struct Face {
    /// The links.
    pub sides: Vec<Side>,
    /// In ascending order of names.
    pub back_ends: Vec<BackEnd>,
    rows: BTreeMap<Mac, u16>,
}

impl Face {
    /// # Panics
    /// When a back-end has not one address for each side.
    pub fn new(sides: Vec<Side>, mut back_ends: Vec<BackEnd>) -> Face {
        back_ends.sort_by(|a, b| a.name.cmp(&b.name));
        let mut rows = BTreeMap::new();
        for (row, back_end) in back_ends.iter().enumerate() {
            assert_eq!(back_end.macs.len(), sides.len(), "an address for each side");
            rows.extend(back_end.macs.iter().map(|mac| (*mac, row as u16)));
        }
        Face { sides, back_ends, rows }
    }

    /// Whose Ethernet address that is.
    pub fn row_of(&self, mac: &Mac) -> Option<u16> {
        self.rows.get(mac).copied()
    }

    /// Weights by name.
    pub fn weights(&self) -> BTreeMap<String, u32> {
        self.back_ends.iter().map(|one| (one.name.clone(), one.weight)).collect()
    }
}

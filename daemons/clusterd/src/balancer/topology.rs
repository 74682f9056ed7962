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
    /// The addresses that neighbours know the cluster by on this link, one for each balancer: whoever
    /// is responsible for one takes what is sent to it.
    pub macs: Vec<Mac>,
    /// The cluster's own addresses on this link, with their subnets; all back-ends have the same.
    pub addresses: Vec<IpNet>,
    /// The addresses on the segment that probes are sent from and routed back to, one for each balancer.
    pub probes: Vec<IpAddr>,
    /// The Ethernet addresses that probes are sent from on the segment, one for each balancer.
    pub probe_macs: Vec<Mac>,
}

impl Side {
    /// Whether an address is the cluster's own on this link.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.addr() == address)
    }
}

/// A back-end as the balancer sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackEnd {
    /// Its name; rows of the steering table are in ascending order of names.
    pub name: String,
    /// Its Ethernet address on each side's segment.
    pub macs: Vec<Mac>,
    /// Its share of the flows relative to the others'.
    pub weight: u32,
    /// What it carries, packets per second, both directions together.
    pub capacity_pps: f64,
}

/// Everything that the balancer's forwarding goes by, besides the steering table.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The links.
    pub sides: Vec<Side>,
    /// In ascending order of names.
    pub back_ends: Vec<BackEnd>,
    /// Which of the balancers this is.
    pub me: usize,
    rows: BTreeMap<Mac, u16>,
}

impl Topology {
    /// For balancer number `me`.
    ///
    /// # Panics
    /// When a back-end has not one address for each side, or a side none for each balancer.
    pub fn new(sides: Vec<Side>, mut back_ends: Vec<BackEnd>, me: usize) -> Topology {
        for side in &sides {
            assert!(me < side.macs.len() && side.macs.len() == side.probe_macs.len());
            assert_eq!(side.probes.len(), side.macs.len(), "as many addresses for probes");
            assert_eq!(side.macs.len(), sides[0].macs.len(), "as many balancers on each side");
        }
        back_ends.sort_by(|a, b| a.name.cmp(&b.name));
        let mut rows = BTreeMap::new();
        for (row, back_end) in back_ends.iter().enumerate() {
            assert_eq!(back_end.macs.len(), sides.len(), "an address for each side");
            rows.extend(back_end.macs.iter().map(|mac| (*mac, row as u16)));
        }
        Topology { sides, back_ends, me, rows }
    }

    /// How many balancers there are.
    pub fn balancers(&self) -> usize {
        self.sides.first().map_or(1, |side| side.macs.len())
    }

    /// The address that this balancer's probes come from.
    pub fn probe_mac(&self, side: usize) -> Mac {
        self.sides[side].probe_macs[self.me]
    }

    /// The address that this balancer's probes come back to.
    pub fn probe(&self, side: usize) -> IpAddr {
        self.sides[side].probes[self.me]
    }

    /// Whether nobody else on a link may have an address: the cluster has it, or probes come back to it.
    pub fn claims(&self, side: usize, address: IpAddr) -> bool {
        let side = &self.sides[side];
        side.owns(address) || side.probes.contains(&address)
    }

    /// Whether an Ethernet address is a balancer's or a back-end's.
    pub fn is_ours(&self, side: usize, mac: &Mac) -> bool {
        let side = &self.sides[side];
        side.macs.contains(mac) || side.probe_macs.contains(mac) || self.row_of(mac).is_some()
    }

    /// Which balancer's address carries what goes to a host.
    pub fn carrier(&self, host: &Mac) -> usize {
        self.spread(host)
    }

    /// Which balancer's address a neighbour with this address is told: the same whether it asks or is
    /// asked, so that it is never told another.
    pub fn told(&self, neighbour: IpAddr) -> usize {
        match neighbour {
            IpAddr::V4(address) => self.spread(&address.octets()),
            IpAddr::V6(address) => self.spread(&address.octets()),
        }
    }

    /// FNV-1a, its high half folded into the low one, which alone has too little of the last bytes.
    fn spread(&self, bytes: &[u8]) -> usize {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
        ((hash ^ hash >> 32) % self.balancers() as u64) as usize
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

//! The kernel's own policy on forwarded packets, and who carries it out.
//!
//! Packets that a worker forwards never see the kernel's stack, so whatever the kernel would do to
//! them there has to be done here or left to the kernel. Reverse-path filters are the workers'
//! business; what concerns any other mechanism is left to the kernel before a worker sees it, by
//! interface and family or by prefix, for the XDP program decides ([`KernelPolicy`]).
//!
//! [`evaluate`] is pure: facts in, verdict out. [`Follower`] keeps both in step with the kernel.

mod evaluate;
mod follow;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_apps::route::ReversePath;
use ebb_graph::PortId;
use ebb_host::netlink::policy::{Chain, Discipline, Rule, Switches, Transforms};
use ebb_ports::afxdp::{KernelPolicy, REASONS};
use serde::{Deserialize, Serialize};

pub use crate::place::Place;
use crate::status::PolicyObject;

pub use evaluate::evaluate;
pub use follow::{Follower, survey};

/// A mechanism by which the kernel decides on forwarded packets. The number is the reason by which
/// the XDP program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Mechanism {
    /// Forwarding switches, global and per interface.
    Forwarding = 1,
    /// Routing rules beyond the three that Linux starts with.
    Rules = 2,
    /// IPsec policies.
    Xfrm = 3,
    /// Chains of nftables and iptables.
    Netfilter = 4,
    /// Filters and queueing disciplines that hold traffic back.
    Tc = 5,
    /// Interfaces that belong to a VRF, bridge or bond.
    Vrf = 6,
    /// Reverse-path filters: the workers' business, on the kernel path the network stack's.
    RpFilter = 7,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 7] = [
        Mechanism::Forwarding,
        Mechanism::Rules,
        Mechanism::Xfrm,
        Mechanism::Netfilter,
        Mechanism::Tc,
        Mechanism::Vrf,
        Mechanism::RpFilter,
    ];

    /// The name in configurations, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Forwarding => "forwarding",
            Mechanism::Rules => "rules",
            Mechanism::Xfrm => "xfrm",
            Mechanism::Netfilter => "netfilter",
            Mechanism::Tc => "tc",
            Mechanism::Vrf => "vrf",
            Mechanism::RpFilter => "rp_filter",
        }
    }
}

/// An XDP program's counts by mechanism; those that are 0 are left out.
pub fn by_mechanism(counts: &[u64; REASONS]) -> BTreeMap<String, u64> {
    let count = |mechanism: &Mechanism| {
        let count = counts[*mechanism as usize];
        (count > 0).then(|| (mechanism.name().to_owned(), count))
    };
    Mechanism::ALL.iter().filter_map(count).collect()
}

/// What the kernel says of its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Routing rules of both families.
    pub rules: Vec<Rule>,
    /// Switches by interface.
    pub switches: Vec<Switches>,
    /// IPsec policies.
    pub transforms: Transforms,
    /// Chains of packet filters.
    pub chains: Vec<Chain>,
    /// Traffic control at the places.
    pub disciplines: Vec<Discipline>,
}

/// What follows from the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What each port leaves to the kernel; ports that leave nothing are absent.
    pub ports: BTreeMap<PortId, KernelPolicy>,
    /// Reverse-path filters by link; those that are off are absent.
    pub reverse_path: BTreeMap<u32, ReversePath>,
    /// What was found and what becomes of it, for people.
    pub objects: Vec<PolicyObject>,
}

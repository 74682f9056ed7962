//! The kernel's own policy on forwarded packets, and who carries it out.
//!
//! Packets that a worker forwards never see the kernel's stack, so whatever the kernel would do to
//! them there has to be done here or left to the kernel. Reverse-path filters are the workers'
//! business; what concerns any other mechanism is left to the kernel before a worker sees it, by
//! interface and family or by prefix, for the XDP program decides ([`KernelPolicy`]). The kernel path carries
//! more: the kernel's own look-up follows its rules, packets leave through the disciplines of their interface, and
//! those of connections that its packet filters have accepted pass (`accepted`).
//!
//! [`evaluate`] is pure: facts in, verdict out. [`Follower`] keeps both in step with the kernel.

mod accepted;
mod chains;
mod compile;
mod evaluate;
mod follow;
mod judge;
mod objects;
mod rules;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
mod transforms;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ebb_apps::route::ReversePath;
use ebb_graph::PortId;
use ebb_host::netlink::policy::{Chain, Discipline, Rule, Ruleset, Source, Switches, Transforms};
use ebb_ports::afxdp::{KernelPolicy, REASONS, UNHELD};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use crate::interface::RouterInterface;
use crate::status::{PolicyEffect, PolicyObject};

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
    /// Reverse-path filters, the workers' business, on the kernel path the network stack's; and networks that are
    /// the host's own, from which the kernel takes no packets whatever the filters are.
    RpFilter = 7,
    /// Any of them, where the policy has not been judged yet or could not be taken over.
    Unheld = UNHELD,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 8] = [
        Mechanism::Forwarding,
        Mechanism::Rules,
        Mechanism::Xfrm,
        Mechanism::Netfilter,
        Mechanism::Tc,
        Mechanism::Vrf,
        Mechanism::RpFilter,
        Mechanism::Unheld,
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
            Mechanism::Unheld => "unheld",
        }
    }

    /// Whether an operator may wish it to be passed over. Not of what belongs to other interfaces, of which no
    /// worker takes packets, nor of what nobody knows.
    pub const fn may_be_ignored(self) -> bool {
        !matches!(self, Mechanism::Vrf | Mechanism::Unheld)
    }

    /// The one with this number.
    pub(crate) fn of(reason: u8) -> Mechanism {
        let mut all = Mechanism::ALL.into_iter();
        all.find(|mechanism| *mechanism as u8 == reason).unwrap_or(Mechanism::Unheld)
    }

    /// The one that a source of policy tells of; the switches are reverse-path filters' as well.
    fn of_source(source: Source) -> Mechanism {
        match source {
            Source::Rules => Mechanism::Rules,
            Source::Switches => Mechanism::Forwarding,
            Source::Transforms => Mechanism::Xfrm,
            Source::Netfilter => Mechanism::Netfilter,
            Source::TrafficControl => Mechanism::Tc,
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

/// Objects as they are where some port is on the kernel path, or none is, and its program knows the kernel's connections,
/// or does not: what nobody carries is left to the kernel.
pub fn as_carried(
    objects: Arc<Vec<PolicyObject>>,
    some_port: bool,
    knows_connections: bool,
) -> Arc<Vec<PolicyObject>> {
    let by_connections = |one: &PolicyObject| one.mechanism == Mechanism::Netfilter.name();
    let is_left = |one: &PolicyObject| {
        one.effect == PolicyEffect::Carried
            && (!some_port || !knows_connections && by_connections(one))
    };
    if !objects.iter().any(is_left) {
        return objects;
    }
    let left = |one: &PolicyObject| match is_left(one) {
        false => one.clone(),
        true => PolicyObject {
            effect: PolicyEffect::Kernel,
            concerns: match some_port && by_connections(one) {
                true => {
                    "all packets, as programs cannot look up connections in this kernel".to_owned()
                }
                false => one.concerns.clone(),
            },
            ..one.clone()
        },
    };
    Arc::new(objects.iter().map(left).collect())
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
    /// The rules of those that are nftables'.
    pub ruleset: Ruleset,
    /// Traffic control at the places.
    pub disciplines: Vec<Discipline>,
    /// Interfaces that take in no IPv6.
    pub without_v6: BTreeSet<String>,
    /// IPv4 networks whose every address is the host's own: nobody else may send from there.
    pub local_networks: Vec<IpNet>,
    /// What could not be read, and why.
    pub unread: BTreeMap<Source, String>,
}

/// What follows from the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What each port leaves to the kernel whose packets workers forward. Nobody has judged what comes in at ports
    /// that are absent.
    pub ports: BTreeMap<PortId, KernelPolicy>,
    /// What it leaves to the kernel if it is on the kernel path.
    pub kernel_path: BTreeMap<PortId, KernelPolicy>,
    /// Links at whose sending side something looks at packets or holds them back.
    pub sending: BTreeSet<u32>,
    /// Reverse-path filters by link; those that are off are absent.
    pub reverse_path: BTreeMap<u32, ReversePath>,
    /// What was found and what becomes of it, for people.
    pub objects: Vec<PolicyObject>,
}

//! Which packets belong into which tunnel: pairs of prefixes, the longest first (RFC 4301 section 4.4.1).
//!
//! Neighbours: `node` asks for every packet. A few prefixes are compared one by one.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Bounds, Selector};

/// What of a packet's addresses is compared: IPv4's in the same form, under one more bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    bits: u128,
    mask: u128,
    is_v4: bool,
}

impl Prefix {
    fn new(net: IpNet) -> Prefix {
        let (bits, width) = match net.network() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let host_bits = width - u32::from(net.prefix_len());
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Prefix { bits, mask, is_v4: width == 32 }
    }

    #[inline(always)]
    fn holds(&self, address: u128) -> bool {
        address & self.mask == self.bits
    }
}

/// Two ends of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) is_v4: bool,
}

impl Ends {
    fn back(self) -> Ends {
        Ends { source: self.destination, destination: self.source, is_v4: self.is_v4 }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    remote: Prefix,
    /// Of either version; of which there is none, all addresses.
    local: Vec<Prefix>,
    /// Parts of the remote prefix for which that is not true.
    outside: Vec<Prefix>,
    /// None: they pass as they are.
    tunnel: Option<usize>,
}

/// What never leaves its link, whoever asks for all addresses.
const ON_LINK: [&str; 5] =
    ["169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"];

/// Parts of a remote prefix whose packets stay outside the tunnel: its own prefixes, as far as they are longer, those
/// that are to stay, the `ends` of tunnels, where keys are exchanged, and what never leaves its link.
pub fn outside(remote: &IpNet, local: &[IpNet], clear: &[IpNet], ends: &[IpAddr]) -> Vec<IpNet> {
    let is_longer = |net: &IpNet| net.prefix_len() > remote.prefix_len();
    let on_link = ON_LINK.iter().map(|text| text.parse().expect("a prefix"));
    let ends = ends.iter().copied().map(IpNet::from);
    let longer = local.iter().copied().chain(on_link).chain(ends).filter(is_longer);
    longer.chain(clear.iter().copied()).filter(|net| remote.contains(net)).collect()
}

/// All tunnels' rules; the first that matches decides.
#[derive(Clone, Debug)]
pub(super) struct Policy(Vec<Rule>);

impl Policy {
    pub(super) fn new(tunnels: &[Bounds]) -> Policy {
        let mut rules: Vec<(u8, Rule)> = Vec::new();
        let own = tunnels.iter().map(|tunnel| tunnel.local);
        // Who is behind a default route has no other way to exchange keys. A peer's address that a prefix of the
        // network behind it holds is meant to be reached through the tunnel.
        let own: Vec<IpAddr> = own.collect();
        let peers = tunnels.iter().map(|tunnel| tunnel.remote);
        let all: Vec<IpAddr> = own.iter().copied().chain(peers).collect();
        for (number, tunnel) in tunnels.iter().enumerate() {
            let local: Vec<Prefix> =
                tunnel.local_prefixes.iter().copied().map(Prefix::new).collect();
            rules.extend(tunnel.remote_prefixes.iter().map(|net| {
                let ends = if net.prefix_len() == 0 { &all } else { &own };
                let outside = outside(net, &tunnel.local_prefixes, &tunnel.clear_prefixes, ends);
                let rule = Rule {
                    remote: Prefix::new(*net),
                    local: local.clone(),
                    outside: outside.into_iter().map(Prefix::new).collect(),
                    tunnel: Some(number),
                };
                (net.prefix_len(), rule)
            }));
        }
        rules.sort_by_key(|(len, _)| core::cmp::Reverse(*len));
        Policy(rules.into_iter().map(|(_, rule)| rule).collect())
    }

    /// With rules behind its own, in their order, whose tunnels have numbers from `first` on. What is for `own` addresses
    /// does not leave.
    pub(super) fn and(&self, selectors: &[Selector], first: usize, own: &[IpAddr]) -> Policy {
        let own: Vec<Prefix> = own.iter().map(|end| Prefix::new(IpNet::from(*end))).collect();
        let rule = |one: &Selector| Rule {
            remote: Prefix::new(one.remote),
            local: vec![Prefix::new(one.local)],
            outside: own.clone(),
            tunnel: one.tunnel.map(|tunnel| first + tunnel),
        };
        Policy(self.0.iter().cloned().chain(selectors.iter().map(rule)).collect())
    }

    /// The tunnel that a packet has to leave by.
    #[inline]
    pub(super) fn outbound(&self, ends: Ends) -> Option<usize> {
        let matches = |rule: &&Rule| {
            rule.remote.is_v4 == ends.is_v4
                && rule.remote.holds(ends.destination)
                && (rule.local.is_empty()
                    || rule
                        .local
                        .iter()
                        .any(|one| one.is_v4 == ends.is_v4 && one.holds(ends.source)))
                && !rule
                    .outside
                    .iter()
                    .any(|one| one.is_v4 == ends.is_v4 && one.holds(ends.destination))
        };
        self.0.iter().find(matches).and_then(|rule| rule.tunnel)
    }

    /// The tunnel that a packet has to come by.
    #[inline]
    pub(super) fn inbound(&self, ends: Ends) -> Option<usize> {
        self.outbound(ends.back())
    }
}

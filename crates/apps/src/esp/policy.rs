//! Which packets belong into which tunnel: pairs of prefixes, the longest first (RFC 4301 section 4.4.1).
//!
//! Neighbours: `node` asks for every packet. A few prefixes are compared one by one.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Tunnel;

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

#[derive(Debug)]
struct Rule {
    remote: Prefix,
    /// Of either version; of which there is none, all addresses.
    local: Vec<Prefix>,
    tunnel: usize,
}

/// All tunnels' rules.
#[derive(Debug)]
pub(super) struct Policy(Vec<Rule>);

impl Policy {
    pub(super) fn new(tunnels: &[Tunnel]) -> Policy {
        let mut rules: Vec<(u8, Rule)> = Vec::new();
        for (number, tunnel) in tunnels.iter().enumerate() {
            let local: Vec<Prefix> =
                tunnel.local_prefixes.iter().copied().map(Prefix::new).collect();
            rules.extend(tunnel.remote_prefixes.iter().map(|net| {
                let rule = Rule { remote: Prefix::new(*net), local: local.clone(), tunnel: number };
                (net.prefix_len(), rule)
            }));
        }
        rules.sort_by_key(|(len, _)| core::cmp::Reverse(*len));
        Policy(rules.into_iter().map(|(_, rule)| rule).collect())
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
        };
        self.0.iter().find(matches).map(|rule| rule.tunnel)
    }

    /// The tunnel that a packet has to come by.
    #[inline]
    pub(super) fn inbound(&self, ends: Ends) -> Option<usize> {
        self.outbound(ends.back())
    }
}

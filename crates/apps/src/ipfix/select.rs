//! Which flows are counted: those to or from one of some prefixes.
//!
//! Room: numbers; knows of flows only where their addresses stand.

use ipnet::IpNet;

use super::flow::Key;

/// Flows to or from addresses of some prefixes, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// First and last address of each range, ascending and apart.
    v4: Box<[(u128, u128)]>,
    v6: Box<[(u128, u128)]>,
}

impl Selection {
    /// Those of these prefixes; of none: all.
    pub fn of(prefixes: &[IpNet]) -> Selection {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for net in IpNet::aggregate(&prefixes.to_vec()) {
            match net {
                IpNet::V4(net) => v4.push((
                    u128::from(net.network().to_bits()),
                    u128::from(net.broadcast().to_bits()),
                )),
                IpNet::V6(net) => v6.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        v4.sort_unstable();
        v6.sort_unstable();
        Selection { v4: v4.into(), v6: v6.into() }
    }

    /// Whether all flows are.
    #[inline]
    pub(super) fn is_all(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether a flow is.
    #[inline]
    pub(super) fn has(&self, key: &Key) -> bool {
        let [a, b, c, d, _] = *key;
        self.holds(a, b) || self.holds(c, d)
    }

    /// An address as keys have it: of IPv4 as an IPv4-mapped one, which is in no prefix of IPv6.
    #[inline]
    fn holds(&self, high: u64, low: u64) -> bool {
        match high == 0 && low >> 32 == 0xffff {
            true => is_in(&self.v4, u128::from(low as u32)),
            false => is_in(&self.v6, u128::from(high) << 64 | u128::from(low)),
        }
    }
}

#[inline]
fn is_in(ranges: &[(u128, u128)], address: u128) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind > 0 && address <= ranges[behind - 1].1
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    fn words(address: IpAddr) -> [u64; 2] {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64]
    }

    fn key(source: IpAddr, destination: IpAddr) -> Key {
        let ([a, b], [c, d]) = (words(source), words(destination));
        [a, b, c, d, 0]
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn either_end_selects_and_versions_stay_apart() {
        let some = Selection::of(&nets(&["10.1.0.0/16", "2001:db8:1::/48"]));
        let has = |source: &str, destination: &str| {
            some.has(&key(source.parse().unwrap(), destination.parse().unwrap()))
        };
        assert!(has("10.1.0.0", "192.0.2.1") && has("192.0.2.1", "10.1.255.255"));
        assert!(!has("10.0.255.255", "10.2.0.0"));
        assert!(has("2001:db8:1::", "2001:db8:2::1") && !has("2001:db8:2::1", "2001:db8:3::1"));
        let v4 = Selection::of(&nets(&["0.0.0.0/0"]));
        assert!(!v4.has(&key("::1".parse().unwrap(), "2001:db8::1".parse().unwrap())));
        let v6 = Selection::of(&nets(&["::/0"]));
        assert!(!v6.has(&key("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap())));
        assert!(Selection::of(&[]).is_all());
    }

    proptest! {
        #[test]
        fn it_is_what_a_look_at_each_prefix_says(
            prefixes in proptest::collection::vec((any::<u32>(), 0u8..=32), 1..20),
            ends in proptest::collection::vec((any::<u32>(), any::<u32>()), 1..50),
        ) {
            let net = |(bits, len): &(u32, u8)| {
                IpNet::new(Ipv4Addr::from_bits(*bits).into(), *len).unwrap().trunc()
            };
            let nets: Vec<IpNet> = prefixes.iter().map(net).collect();
            let selection = Selection::of(&nets);
            let near = prefixes.iter().map(|(bits, _)| (*bits, !*bits));
            for (source, destination) in ends.into_iter().chain(near) {
                let [source, destination] =
                    [source, destination].map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
                let wanted =
                    nets.iter().any(|net| net.contains(&source) || net.contains(&destination));
                prop_assert_eq!(selection.has(&key(source, destination)), wanted);
            }
        }
    }
}

//! Route tables that resemble the Internet's.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rand::{Rng, SeedableRng};

use crate::Random;

/// Prefixes of each length in a full IPv4 table of 2026 (Route Views), /8 to /24.
#[rustfmt::skip]
const IPV4_LENGTHS: [(u8, u32); 17] = [
    (8, 8), (9, 6), (10, 31), (11, 95), (12, 257), (13, 493), (14, 1120), (15, 2455),
    (16, 9332), (17, 6735), (18, 11825), (19, 22075), (20, 33264), (21, 46064), (22, 103676), (23, 103717),
    (24, 218667),
];

/// Prefixes of each length in a full IPv6 table of 2026 (Route Views), /20 to /64.
#[rustfmt::skip]
const IPV6_LENGTHS: [(u8, u32); 45] = [
    (20, 10), (21, 7), (22, 15), (23, 21), (24, 52), (25, 41), (26, 69), (27, 65),
    (28, 175), (29, 10410), (30, 974), (31, 1523), (32, 28341), (33, 1808), (34, 2173), (35, 2580),
    (36, 4860), (37, 2673), (38, 3330), (39, 3739), (40, 8021), (41, 3762), (42, 4368), (43, 5099),
    (44, 9835), (45, 5009), (46, 6329), (47, 9632), (48, 41327), (49, 386), (50, 405), (51, 417),
    (52, 520), (53, 492), (54, 386), (55, 362), (56, 457), (57, 384), (58, 537), (59, 683),
    (60, 800), (61, 835), (62, 869), (63, 891), (64, 1712),
];

/// How large a table to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// IPv4 prefixes, at most 1,000,000.
    pub ipv4: u32,
    /// IPv6 prefixes, at most 1,000,000.
    pub ipv6: u32,
}

/// IPv4 space that never holds a drawn route: private, shared, loopback, link-local, documentation
/// and benchmarking prefixes (RFC 6890).
const IPV4_RESERVED: [(u32, u8); 10] = [
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc000_0200, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
];

/// Draws distinct prefixes with the lengths of a full table, IPv4 first, each family in ascending
/// order; nested prefixes occur as they do in the Internet's table. The same specification and
/// seed give the same table.
///
/// IPv4 routes lie in 1.0.0.0 to 223.255.255.255 outside reserved space, IPv6 routes in 2000::/3
/// outside 2001:db8::/32.
///
/// # Panics
/// When more than a million of either family are asked for.
pub fn draw_routes(spec: RouteSpec, seed: u64) -> Vec<IpNet> {
    assert!(spec.ipv4 <= 1_000_000 && spec.ipv6 <= 1_000_000, "a million routes at most");
    let mut random = Random::seed_from_u64(seed);
    let mut four = BTreeSet::new();
    let total = IPV4_LENGTHS.iter().map(|(_, count)| count).sum();
    while four.len() < spec.ipv4 as usize {
        let len = draw_length(&IPV4_LENGTHS, total, &mut random);
        let address = random.random_range(0x0100_0000..0xe000_0000u32);
        let net = Ipv4Net::new(Ipv4Addr::from(address), len).expect("a length up to 24").trunc();
        if !touches_reserved(net) {
            four.insert(net);
        }
    }
    let mut six = BTreeSet::new();
    let total = IPV6_LENGTHS.iter().map(|(_, count)| count).sum();
    let documentation =
        Ipv6Net::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32).expect("32");
    while six.len() < spec.ipv6 as usize {
        let len = draw_length(&IPV6_LENGTHS, total, &mut random);
        let address = random.random::<u128>() >> 3 | 1 << 125;
        let net = Ipv6Net::new(Ipv6Addr::from(address), len).expect("a length up to 64").trunc();
        if !net.contains(&documentation) && !documentation.contains(&net) {
            six.insert(net);
        }
    }
    four.into_iter().map(IpNet::V4).chain(six.into_iter().map(IpNet::V6)).collect()
}

fn draw_length(lengths: &[(u8, u32)], total: u32, random: &mut Random) -> u8 {
    let mut ticket = random.random_range(0..total);
    for (len, count) in lengths {
        if ticket < *count {
            return *len;
        }
        ticket -= count;
    }
    unreachable!("a ticket beyond the total")
}

fn touches_reserved(net: Ipv4Net) -> bool {
    IPV4_RESERVED.iter().any(|(address, len)| {
        let shared = net.prefix_len().min(*len);
        (u32::from(net.network()) ^ address) >> (32 - shared) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_large_as_asked_and_resembles_the_internet() {
        let spec = RouteSpec { ipv4: 80_000, ipv6: 20_000 };
        let table = draw_routes(spec, 7);
        assert_eq!(table.len(), 100_000);
        assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "distinct and in order");
        let share = |six: bool, len: u8| {
            let all = table.iter().filter(|net| net.addr().is_ipv6() == six);
            let (some, count) = all.fold((0, 0), |(some, count), net| {
                (some + u32::from(net.prefix_len() == len), count + 1)
            });
            f64::from(some) / f64::from(count)
        };
        assert!((share(false, 24) - 0.39).abs() < 0.02, "{}", share(false, 24));
        assert!((share(true, 48) - 0.25).abs() < 0.03, "{}", share(true, 48));
        assert_eq!(table, draw_routes(spec, 7));
        assert_ne!(table, draw_routes(spec, 8));
    }

    #[test]
    fn routes_leave_reserved_space_alone() {
        let reserved: Vec<IpNet> = ["10.0.0.0/8", "127.0.0.0/8", "192.168.0.0/16", "198.18.0.0/15"]
            .map(|net| net.parse().expect("a prefix"))
            .into();
        for net in draw_routes(RouteSpec { ipv4: 50_000, ipv6: 1 }, 3) {
            assert!(reserved.iter().all(|other| !other.contains(&net) && !net.contains(other)));
        }
    }
}

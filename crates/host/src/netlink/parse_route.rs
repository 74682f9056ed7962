//! Routes and next-hop objects. A full table passes through here, so nothing is allocated for a
//! route of one hop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::abi::*;
use super::frame::{Fault, Parsed, attributes, ip_of, u16_of, u32_of};
use super::types::{Hops, NextHopObject, NextHopTarget, Route, RouteHop, RouteKind};

/// `struct rtmsg`. Routes of other families (MPLS, multicast routing) and cached clones are
/// skipped. A route of which something is not understood is of kind [`RouteKind::Other`].
pub(super) fn route(body: &[u8]) -> Parsed<Option<Route>> {
    let (fixed, rest) = body.split_first_chunk::<12>().ok_or(Fault("route header"))?;
    let flags = u32_of(&fixed[8..12])?;
    let unspecified: IpAddr = match fixed[0] {
        AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return Ok(None),
    };
    if flags & RTM_F_CLONED != 0 {
        return Ok(None);
    }
    let v6 = fixed[0] == AF_INET6;
    let (mut destination, mut source) = (unspecified, unspecified);
    let (mut metric, mut table, mut nexthop_id) = (0, u32::from(fixed[4]), None);
    let (mut mtu, mut lifetime_ms, mut preference) = (0, None, 0);
    let mut digest = digest_of(FNV_START, &[fixed[6], (flags & RTNH_F_ONLINK) as u8]);
    let mut hop = hop_with_flags(flags);
    let mut hops = Hops::new();
    let mut understood = true;
    attributes(rest, |kind, value| {
        match kind {
            RTA_DST => destination = ip_of(value)?,
            RTA_SRC => source = ip_of(value)?,
            RTA_PRIORITY => metric = u32_of(value)?,
            RTA_TABLE => table = u32_of(value)?,
            RTA_NH_ID => nexthop_id = Some(u32_of(value)?),
            RTA_PREFSRC | RTA_METRICS | RTA_FLOW => digest = digest_of(digest, value),
            _ => {}
        }
        let rest = match kind {
            RTA_MULTIPATH => multipath(value, &mut hops),
            RTA_METRICS => forwarding_mtu(value).map(|found| mtu = found),
            RTA_CACHEINFO => life(value).map(|found| lifetime_ms = found),
            RTA_PREF => preferred(value).map(|found| preference = found),
            _ => hop_attribute(kind, value, &mut hop),
        };
        understood &= rest.is_ok() && kind <= RTA_KNOWN_MAX;
        Ok(())
    })?;
    if hops.is_empty() && (hop.link.is_some() || hop.gateway.is_some()) {
        hops.push(hop);
    }
    if !understood {
        hops.clear();
    }
    let family = unspecified.is_ipv4();
    if destination.is_ipv4() != family || source.is_ipv4() != family {
        return Err(Fault("destination or source of another family"));
    }
    let prefix = IpNet::new(destination, fixed[1]).map_err(|_| Fault("route prefix length"))?;
    let source = IpNet::new(source, fixed[2]).map_err(|_| Fault("source prefix length"))?;
    Ok(Some(Route {
        prefix: prefix.trunc(),
        kind: if understood { kind_of(fixed[7]) } else { RouteKind::Other },
        metric,
        table,
        tos: fixed[3],
        protocol: fixed[5],
        source: (fixed[2] != 0).then(|| source.trunc()),
        lifetime_ms: lifetime_ms.filter(|_| v6),
        preference,
        digest: if v6 { 0 } else { digest },
        mtu,
        hops,
        nexthop_id,
    }))
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds bytes to a digest (FNV-1a).
fn digest_of(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// `struct rta_cacheinfo`: the third word is what is left, in hundredths of a second, 0 for no end.
fn life(value: &[u8]) -> Parsed<Option<i64>> {
    let left = u32_of(value.get(8..).unwrap_or_default())?.cast_signed();
    Ok((left != 0).then(|| i64::from(left) * 10))
}

/// `ICMPV6_ROUTER_PREF_*`: two bits with a sign.
fn preferred(value: &[u8]) -> Parsed<i8> {
    match value {
        [1, ..] => Ok(1),
        [3, ..] => Ok(-1),
        [_, ..] => Ok(0),
        [] => Err(Fault("router preference")),
    }
}

/// `ip_dst_mtu_maybe_forward` takes a route's MTU; its sister for IPv6 only a locked one, but then `ip6_finish_output`
/// refuses what is longer all the same.
fn forwarding_mtu(metrics: &[u8]) -> Parsed<u32> {
    let mut mtu = 0;
    attributes(metrics, |kind, value| {
        if kind == RTAX_MTU {
            mtu = u32_of(value)?;
        }
        Ok(())
    })?;
    Ok(mtu)
}

fn kind_of(kind: u8) -> RouteKind {
    match kind {
        libc::RTN_UNICAST => RouteKind::Unicast,
        libc::RTN_LOCAL | libc::RTN_ANYCAST => RouteKind::Local,
        libc::RTN_BROADCAST => RouteKind::Broadcast,
        libc::RTN_MULTICAST => RouteKind::Multicast,
        libc::RTN_BLACKHOLE => RouteKind::Blackhole,
        libc::RTN_UNREACHABLE => RouteKind::Unreachable,
        libc::RTN_PROHIBIT => RouteKind::Prohibit,
        _ => RouteKind::Other,
    }
}

fn hop_with_flags(flags: u32) -> RouteHop {
    RouteHop {
        onlink: flags & RTNH_F_ONLINK != 0,
        dead: flags & RTNH_F_DEAD != 0,
        linkdown: flags & RTNH_F_LINKDOWN != 0,
        ..RouteHop::new(None, None)
    }
}

fn hop_attribute(kind: u16, value: &[u8], hop: &mut RouteHop) -> Parsed<()> {
    match kind {
        RTA_OIF => hop.link = Some(u32_of(value)?),
        RTA_GATEWAY => hop.gateway = Some(ip_of(value)?),
        RTA_VIA => {
            // A 16-bit family, then the address.
            let (_, address) = value.split_at_checked(2).ok_or(Fault("via"))?;
            hop.gateway = Some(ip_of(address)?);
        }
        RTA_ENCAP => hop.encapsulated = true,
        _ => {}
    }
    Ok(())
}

/// A sequence of `struct rtnexthop`, each with attributes of its own.
fn multipath(mut rest: &[u8], hops: &mut Hops) -> Parsed<()> {
    while !rest.is_empty() {
        let (fixed, _) = rest.split_first_chunk::<8>().ok_or(Fault("multipath hop header"))?;
        let len = usize::from(u16_of(fixed)?);
        if !(8..=rest.len()).contains(&len) {
            return Err(Fault("multipath hop length"));
        }
        let mut hop = hop_with_flags(u32::from(fixed[2]));
        hop.weight = u16::from(fixed[3]) + 1;
        hop.link = Some(u32_of(&fixed[4..8])?).filter(|&index| index != 0);
        attributes(&rest[8..len], |kind, value| hop_attribute(kind, value, &mut hop))?;
        hops.push(hop);
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    Ok(())
}

/// `struct nhmsg`. Objects for bridge forwarding are skipped.
pub(super) fn next_hop(body: &[u8]) -> Parsed<Option<NextHopObject>> {
    let (fixed, rest) = body.split_first_chunk::<8>().ok_or(Fault("next-hop header"))?;
    let mut hop = hop_with_flags(u32_of(&fixed[4..8])?);
    let (mut id, mut group, mut blackhole, mut bridge) = (None, None, false, false);
    let mut understood = true;
    attributes(rest, |kind, value| {
        match kind {
            NHA_ID => id = Some(u32_of(value)?),
            NHA_GROUP => group = Some(members(value)?),
            NHA_BLACKHOLE => blackhole = true,
            NHA_OIF => hop.link = Some(u32_of(value)?),
            NHA_GATEWAY => hop.gateway = Some(ip_of(value)?),
            NHA_ENCAP => hop.encapsulated = true,
            NHA_FDB => bridge = true,
            _ => understood &= kind <= NHA_KNOWN_MAX,
        }
        Ok(())
    })?;
    if bridge {
        return Ok(None);
    }
    let target = match group {
        // Of a group without members nobody knows the way: the kernel's.
        _ if !understood => NextHopTarget::Group(Vec::new()),
        Some(members) => NextHopTarget::Group(members),
        None if blackhole => NextHopTarget::Blackhole,
        None => NextHopTarget::Hop(hop),
    };
    Ok(Some(NextHopObject { id: id.ok_or(Fault("next hop without an identifier"))?, target }))
}

/// `struct nexthop_grp`: identifier, weight less one (its high byte since Linux 6.13), padding.
fn members(value: &[u8]) -> Parsed<Vec<(u32, u16)>> {
    let (members, []) = value.as_chunks::<8>() else {
        return Err(Fault("next-hop group length"));
    };
    let member = |m: &[u8; 8]| {
        let id = u32::from_ne_bytes([m[0], m[1], m[2], m[3]]);
        (id, u16::from_le_bytes([m[4], m[5]]).saturating_add(1))
    };
    Ok(members.iter().map(member).collect())
}

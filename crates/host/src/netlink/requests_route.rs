//! Routes in bulk, and next-hop objects.

use std::io;
use std::net::IpAddr;

use libc::{RTM_DELROUTE, RTM_NEWROUTE};

use super::abi::*;
use super::frame::{Builder, Messages};
use super::requests::{Requests, SEND_LEN, family_of};
use super::socket::{Received, acknowledged};
use super::types::{Error, NextHopObject, NextHopTarget, Result, Route, RouteHop, RouteKind};

/// A change to the kernel's routes.
#[derive(Clone, Debug)]
pub enum RouteChange {
    /// Add; refused when a route with the same prefix, metric, table and TOS exists.
    Add(Route),
    /// Add, or take the place of the first such route.
    Replace(Route),
    /// Add behind such routes; for IPv6 a further hop of theirs.
    Append(Route),
    /// Remove; hops that are given must match.
    Delete(Route),
}

/// A change the kernel declined.
#[derive(Debug)]
pub struct RouteRefusal {
    /// Position in the changes handed in.
    pub index: usize,
    /// The errno.
    pub source: io::Error,
    /// The kernel's own explanation, may be empty.
    pub message: String,
}

impl Requests {
    /// Makes the changes in order, many per system call, and returns those refused.
    ///
    /// # Errors
    /// When the socket fails; how many changes were made is then unknown.
    pub fn change_routes(
        &mut self,
        changes: impl IntoIterator<Item = RouteChange>,
    ) -> Result<Vec<RouteRefusal>> {
        let mut refusals = Vec::new();
        let mut builder = Builder::default();
        let mut changes = changes.into_iter().enumerate().peekable();
        let (mut first, mut first_seq) = (0, 0);
        while let Some((index, change)) = changes.next() {
            let seq = self.socket.next_seq();
            if builder.bytes.is_empty() {
                (first, first_seq) = (index, seq);
            }
            // Success is confirmed once per batch; a refusal is reported by itself.
            let last = builder.bytes.len() >= SEND_LEN - 4096 || changes.peek().is_none();
            push_change(&mut builder, seq, if last { ACK } else { 0 }, &change);
            if last {
                self.socket.send(&builder.bytes)?;
                builder.bytes.clear();
                self.collect(first, first_seq, seq, &mut refusals)?;
            }
        }
        Ok(refusals)
    }

    /// Reads answers until the one to `last`.
    fn collect(
        &mut self,
        first: usize,
        first_seq: u32,
        last: u32,
        refusals: &mut Vec<RouteRefusal>,
    ) -> Result<()> {
        loop {
            let len = match self.socket.receive(true)? {
                Received::Bytes(len) => len,
                Received::Nothing => continue,
                Received::Overrun => {
                    let source = io::Error::from_raw_os_error(libc::ENOBUFS);
                    return Err(Error::Socket { operation: "acknowledgement", source });
                }
            };
            for message in Messages::new(self.socket.received(len)) {
                let (header, body) = message?;
                let position = header.seq.wrapping_sub(first_seq);
                if header.kind != ERROR || position > last.wrapping_sub(first_seq) {
                    continue;
                }
                let (errno, message) = acknowledged(header, body);
                if errno != 0 {
                    let source = io::Error::from_raw_os_error(errno);
                    let index = first + position as usize;
                    refusals.push(RouteRefusal { index, source, message });
                }
                if header.seq == last {
                    return Ok(());
                }
            }
        }
    }

    /// Makes or replaces a next-hop object.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_next_hop(&mut self, object: &NextHopObject) -> Result<()> {
        let mut fixed = [0; 8];
        if let NextHopTarget::Hop(hop) = &object.target {
            fixed[0] = hop.gateway.map_or(AF_INET, family_of);
            fixed[4..].copy_from_slice(&hop_flags(hop).to_ne_bytes());
        } else if object.target == NextHopTarget::Blackhole {
            fixed[0] = AF_INET;
        }
        self.ask(
            || format!("set next hop {}", object.id),
            NEW_NEXTHOP,
            CREATE | REPLACE,
            &fixed,
            |b| push_next_hop(b, object),
        )
    }

    /// Removes a next-hop object and the routes that use it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_next_hop(&mut self, id: u32) -> Result<()> {
        self.ask(
            || format!("delete next hop {id}"),
            DEL_NEXTHOP,
            0,
            &[0; 8],
            |b| {
                b.u32(NHA_ID, id);
            },
        )
    }
}

fn push_next_hop(b: &mut Builder, object: &NextHopObject) {
    b.u32(NHA_ID, object.id);
    match &object.target {
        NextHopTarget::Blackhole => {
            b.attribute(NHA_BLACKHOLE, &[]);
        }
        NextHopTarget::Group(members) => {
            let mut value = Vec::with_capacity(members.len() * 8);
            for &(id, weight) in members {
                value.extend(id.to_ne_bytes());
                value.extend(weight.saturating_sub(1).to_le_bytes());
                value.extend([0; 2]);
            }
            b.attribute(NHA_GROUP, &value);
        }
        NextHopTarget::Hop(hop) => {
            if let Some(link) = hop.link {
                b.u32(NHA_OIF, link);
            }
            if let Some(gateway) = hop.gateway {
                b.ip(NHA_GATEWAY, gateway);
            }
        }
    }
}

fn push_change(b: &mut Builder, seq: u32, ack: u16, change: &RouteChange) {
    let (kind, flags, route) = match change {
        RouteChange::Add(route) => (RTM_NEWROUTE, CREATE | EXCLUSIVE, route),
        RouteChange::Replace(route) => (RTM_NEWROUTE, CREATE | REPLACE, route),
        RouteChange::Append(route) => (RTM_NEWROUTE, CREATE | APPEND, route),
        RouteChange::Delete(route) => (RTM_DELROUTE, 0, route),
    };
    let mut fixed = route_header(route, kind == RTM_DELROUTE);
    if let [hop] = route.hops[..] {
        fixed[8..].copy_from_slice(&hop_flags(&hop).to_ne_bytes());
    }
    b.begin(kind, REQUEST | ack | flags, seq, &fixed);
    if route.prefix.prefix_len() != 0 {
        b.ip(RTA_DST, route.prefix.addr());
    }
    if route.table > 255 {
        b.u32(RTA_TABLE, route.table);
    }
    if route.metric != 0 {
        b.u32(RTA_PRIORITY, route.metric);
    }
    match (route.nexthop_id, &route.hops[..]) {
        (Some(id), _) => {
            b.u32(RTA_NH_ID, id);
        }
        (None, []) => {}
        (None, [hop]) => push_hop(b, route, hop),
        (None, hops) => {
            b.nested(RTA_MULTIPATH, |b| {
                for hop in hops {
                    push_multipath_hop(b, route, hop);
                }
            });
        }
    }
    b.end();
}

/// `struct rtmsg`.
fn route_header(route: &Route, delete: bool) -> [u8; 12] {
    let kind = match route.kind {
        RouteKind::Unicast => libc::RTN_UNICAST,
        RouteKind::Local => libc::RTN_LOCAL,
        RouteKind::Broadcast => libc::RTN_BROADCAST,
        RouteKind::Multicast => libc::RTN_MULTICAST,
        RouteKind::Blackhole => libc::RTN_BLACKHOLE,
        RouteKind::Unreachable => libc::RTN_UNREACHABLE,
        RouteKind::Prohibit => libc::RTN_PROHIBIT,
        RouteKind::Other => libc::RTN_THROW,
    };
    // An IPv4 route without a gateway is to the link itself; any scope matches on removal.
    let direct = route.nexthop_id.is_none()
        && route.kind == RouteKind::Unicast
        && !route.hops.is_empty()
        && route.hops.iter().all(|hop| hop.gateway.is_none());
    let scope = match (delete, direct, route.kind) {
        (true, ..) => libc::RT_SCOPE_NOWHERE,
        (_, true, _) | (_, _, RouteKind::Broadcast) => libc::RT_SCOPE_LINK,
        (_, _, RouteKind::Local) => libc::RT_SCOPE_HOST,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    let table = u8::try_from(route.table).unwrap_or(libc::RT_TABLE_UNSPEC);
    let mut fixed = [0; 12];
    fixed[..8].copy_from_slice(&[
        family_of(route.prefix.addr()),
        route.prefix.prefix_len(),
        0,
        route.tos,
        table,
        route.protocol,
        scope,
        kind,
    ]);
    fixed
}

fn hop_flags(hop: &RouteHop) -> u32 {
    if hop.onlink { RTNH_F_ONLINK } else { 0 }
}

fn push_hop(b: &mut Builder, route: &Route, hop: &RouteHop) {
    if let Some(link) = hop.link {
        b.u32(RTA_OIF, link);
    }
    push_gateway(b, route, hop);
}

fn push_gateway(b: &mut Builder, route: &Route, hop: &RouteHop) {
    match hop.gateway {
        Some(IpAddr::V6(gateway)) if route.prefix.addr().is_ipv4() => {
            let mut via = u16::from(AF_INET6).to_ne_bytes().to_vec();
            via.extend(gateway.octets());
            b.attribute(RTA_VIA, &via);
        }
        Some(gateway) => {
            b.ip(RTA_GATEWAY, gateway);
        }
        None => {}
    }
}

/// `struct rtnexthop` with its attributes; the kernel takes weights up to 256.
fn push_multipath_hop(b: &mut Builder, route: &Route, hop: &RouteHop) {
    let at = b.bytes.len();
    let weight = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    b.bytes.extend([0, 0, hop_flags(hop) as u8, weight]);
    b.bytes.extend(hop.link.unwrap_or(0).to_ne_bytes());
    push_gateway(b, route, hop);
    let padded = b.bytes.len().next_multiple_of(4);
    b.bytes.resize(padded, 0);
    let len = u16::try_from(padded - at).expect("a hop takes some 30 bytes");
    b.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
}

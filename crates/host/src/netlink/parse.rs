//! From bytes to events, without a socket.

use ipnet::IpNet;
use libc::{
    RTM_DELADDR, RTM_DELLINK, RTM_DELNEIGH, RTM_DELROUTE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH,
    RTM_NEWROUTE,
};

use super::abi::*;
use super::frame::{Fault, Header, Messages, Parsed, attributes, ip_of, mac_of, u16_of, u32_of};
use super::parse_link::{gone, link};
use super::parse_route::{next_hop, route};
use super::types::{Address, Error, Event, Neighbour, NeighbourState, Result};

/// Calls `each` with the events in one datagram as it came from a route netlink socket, and
/// returns their number. Messages of other families and kinds are skipped.
///
/// # Errors
/// [`Error::Malformed`] at the first length or attribute that does not fit; the events before it
/// have been reported. No input panics.
pub fn parse(bytes: &[u8], each: &mut dyn FnMut(Event)) -> Result<usize> {
    let mut count = 0;
    let mut messages = Messages::new(bytes);
    loop {
        let offset = messages.offset;
        let Some(message) = messages.next() else { return Ok(count) };
        let (header, body) = message?;
        match event(header, body) {
            Ok(None) => {}
            Ok(Some(event)) => {
                each(event);
                count += 1;
            }
            Err(Fault(what)) => return Err(Error::Malformed { what, offset }),
        }
    }
}

/// The event one message stands for, if any.
#[inline]
pub(super) fn event(header: Header, body: &[u8]) -> Parsed<Option<Event>> {
    Ok(match header.kind {
        RTM_NEWROUTE => route(body)?.map(|route| Event::Route {
            route,
            // In dump replies these bits mean something else.
            replace: header.flags & (REPLACE | MULTI) == REPLACE,
            append: header.flags & (APPEND | MULTI) == APPEND,
        }),
        RTM_DELROUTE => route(body)?.map(Event::RouteGone),
        RTM_NEWNEIGH => neighbour(body)?.map(Event::Neighbour),
        RTM_DELNEIGH => neighbour(body)?.map(Event::NeighbourGone),
        RTM_NEWLINK => link(body)?.map(Event::Link),
        RTM_DELLINK => gone(body)?,
        RTM_NEWADDR => address(body)?.map(Event::Address),
        RTM_DELADDR => address(body)?.map(Event::AddressGone),
        NEW_NEXTHOP => next_hop(body)?.map(Event::NextHop),
        DEL_NEXTHOP => next_hop(body)?.map(|next_hop| Event::NextHopGone(next_hop.id)),
        _ => None,
    })
}

/// `struct ifaddrmsg`.
fn address(body: &[u8]) -> Parsed<Option<Address>> {
    let (fixed, rest) = body.split_first_chunk::<8>().ok_or(Fault("address header"))?;
    if !matches!(fixed[0], AF_INET | AF_INET6) {
        return Ok(None);
    }
    let mut flags = u32::from(fixed[2]);
    let (mut address, mut local) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            IFA_ADDRESS => address = Some(ip_of(value)?),
            IFA_LOCAL => local = Some(ip_of(value)?),
            IFA_FLAGS => flags = u32_of(value)?,
            _ => {}
        }
        Ok(())
    })?;
    let own = local.or(address).ok_or(Fault("address without an address"))?;
    Ok(Some(Address {
        link: u32_of(&fixed[4..8])?,
        address: IpNet::new(own, fixed[1]).map_err(|_| Fault("address prefix length"))?,
        peer: address.filter(|&address| address != own),
        tentative: flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) != 0,
    }))
}

/// `struct ndmsg`. Forwarding entries of bridges share the number and are skipped.
fn neighbour(body: &[u8]) -> Parsed<Option<Neighbour>> {
    let (fixed, rest) = body.split_first_chunk::<12>().ok_or(Fault("neighbour header"))?;
    if !matches!(fixed[0], AF_INET | AF_INET6) {
        return Ok(None);
    }
    let (mut address, mut mac) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            NDA_DST => address = Some(ip_of(value)?),
            NDA_LLADDR => mac = mac_of(value),
            _ => {}
        }
        Ok(())
    })?;
    let state = neighbour_state(u16_of(&fixed[8..10])?);
    let valid = !matches!(
        state,
        NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed
    );
    Ok(Some(Neighbour {
        link: u32_of(&fixed[4..8])?,
        address: address.ok_or(Fault("neighbour without an address"))?,
        mac,
        state,
        usable: valid && mac.is_some(),
    }))
}

fn neighbour_state(bits: u16) -> NeighbourState {
    match bits {
        libc::NUD_INCOMPLETE => NeighbourState::Incomplete,
        libc::NUD_REACHABLE => NeighbourState::Reachable,
        libc::NUD_STALE => NeighbourState::Stale,
        libc::NUD_DELAY => NeighbourState::Delay,
        libc::NUD_PROBE => NeighbourState::Probe,
        libc::NUD_FAILED => NeighbourState::Failed,
        libc::NUD_NOARP => NeighbourState::NoArp,
        libc::NUD_PERMANENT => NeighbourState::Permanent,
        _ => NeighbourState::None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Builder;
    use super::super::types::RouteKind;
    use super::*;

    #[test]
    fn a_bridges_messages_about_its_ports_are_passed_over() {
        for kind in [RTM_NEWLINK, RTM_DELLINK, RTM_NEWNEIGH] {
            let mut fixed = [0; 16];
            fixed[0] = libc::AF_BRIDGE as u8;
            let mut builder = Builder::default();
            builder.begin(kind, 0, 0, &fixed).end();
            assert_eq!(parse(&builder.bytes, &mut |event| panic!("{event:?}")).unwrap(), 0);
        }
    }

    #[test]
    fn a_route_of_which_something_is_not_understood_is_the_kernels() {
        let route = |kind: u16, value: &[u8]| {
            let mut fixed = [0; 12];
            (fixed[0], fixed[1], fixed[4], fixed[7]) = (AF_INET, 8, 254, libc::RTN_UNICAST);
            let mut builder = Builder::default();
            builder.begin(RTM_NEWROUTE, 0, 0, &fixed).attribute(RTA_DST, &[10, 0, 0, 0]);
            builder.u32(RTA_OIF, 2).attribute(kind, value).end();
            let Event::Route { route, .. } = only_event(&builder) else { panic!("a route") };
            (route.kind, route.hops.len())
        };
        assert_eq!(route(RTA_PRIORITY, &[1, 0, 0, 0]), (RouteKind::Unicast, 1));
        assert_eq!(route(RTA_KNOWN_MAX + 1, &[1]), (RouteKind::Other, 0), "a newer kernel's");
        assert_eq!(route(RTA_MULTIPATH, &[9]), (RouteKind::Other, 0), "a piece of a hop");
    }

    #[test]
    fn a_route_tells_its_life_and_its_preference() {
        let route = |left: i32, preference: u8| {
            let mut fixed = [0; 12];
            (fixed[0], fixed[4], fixed[7]) = (AF_INET6, 254, libc::RTN_UNICAST);
            let mut info = [0; 32];
            info[8..12].copy_from_slice(&left.to_ne_bytes());
            let mut builder = Builder::default();
            builder.begin(RTM_NEWROUTE, 0, 0, &fixed).u32(RTA_OIF, 2);
            builder.attribute(RTA_CACHEINFO, &info).attribute(RTA_PREF, &[preference]).end();
            let Event::Route { route, .. } = only_event(&builder) else { panic!("a route") };
            (route.lifetime_ms, route.preference)
        };
        assert_eq!(route(0, 0), (None, 0));
        assert_eq!(route(250, 1), (Some(2500), 1));
        assert_eq!(route(-7, 3), (Some(-70), -1), "it has ended");
    }

    #[test]
    fn a_destination_must_fit_its_prefix_length() {
        let mut fixed = [0; 12];
        (fixed[0], fixed[1]) = (AF_INET, 33);
        let mut builder = Builder::default();
        builder.begin(RTM_NEWROUTE, 0, 0, &fixed).attribute(RTA_DST, &[10, 0, 0, 0]).end();
        assert!(parse(&builder.bytes, &mut |event| panic!("{event:?}")).is_err());
    }
}

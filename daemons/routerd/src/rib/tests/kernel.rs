//! A kernel in miniature: the same operations, the same order among routes, the same silences.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_apps::route::Interface;
use ebb_graph::PortId;
use ebb_host::netlink::{
    Address, Event, Link, Neighbour, NeighbourState, NextHopObject, NextHopTarget, Part, Route,
    RouteHop, RouteKind,
};
use ipnet::IpNet;
use proptest::prelude::*;

use super::Fate;
use crate::rib::prefixes::{is_kernels, kernel_prefixes};

/// Protocols of routing daemons and of router advertisements, and the default metric of IPv6.
const DAEMON: u8 = 12;
const ADVERTISED: u8 = 9;
const METRIC_V6: u32 = 1024;

/// Links: two ports, a VLAN on the first, and one that is no port.
const LINKS: [u32; 4] = [2, 3, 4, 5];

const PREFIXES: [&str; 13] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3/32",
    "127.1.0.0/16",
    "192.0.2.0/24",
    "::/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1::1/128",
    "fe80::/64",
    "ff00::/8",
];

/// Addresses in and beside every prefix.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let list = [
        "10.1.2.3",
        "10.1.2.4",
        "10.1.3.1",
        "10.2.0.1",
        "127.1.0.1",
        "192.0.2.1",
        "8.8.8.8",
        "224.0.0.5",
        "255.255.255.255",
        "2001:db8:1::1",
        "2001:db8:1::2",
        "2001:db8:2::1",
        "fe80::1",
        "ff02::1",
        "::1",
        "2002::1",
    ];
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// How a route is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    Append,
    Replace,
}

/// What can happen.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Add { prefix: usize, metric: u32, table: u32, kind: u8, tos: u8, hops: Vec<(u8, u8)>, how: How },
    Delete { which: usize },
    AddByObject { prefix: usize, id: u32 },
    Switch { link: usize, on: bool },
    Carrier { link: usize, on: bool },
    Remove { link: usize },
    Master { link: usize, set: bool },
    SetObject { id: u32, link: usize, gateway: u8 },
    SetGroup { members: Vec<u32> },
    RemoveObject { id: u32 },
    Address { link: usize, set: bool },
    Neighbour { link: usize, last: u8, set: bool },
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![Just(How::Plain), Just(How::Append), Just(How::Replace)];
    let table = prop_oneof![8 => Just(254u32), 1 => Just(255), 1 => Just(253), 1 => Just(100)];
    let tos = prop_oneof![9 => Just(0u8), 1 => Just(16)];
    let hops = proptest::collection::vec((0..4u8, 0..4u8), 1..3);
    let add = (0..PREFIXES.len(), 0..2u32, table, 0..12u8, tos, hops, how).prop_map(
        |(prefix, metric, table, kind, tos, hops, how)| Op::Add {
            prefix,
            metric,
            table,
            kind,
            tos,
            hops,
            how,
        },
    );
    prop_oneof![
        8 => add,
        4 => any::<usize>().prop_map(|which| Op::Delete { which }),
        2 => (0..PREFIXES.len(), 1..4u32).prop_map(|(prefix, id)| Op::AddByObject { prefix, id }),
        3 => (0..4usize, any::<bool>()).prop_map(|(link, on)| Op::Switch { link, on }),
        1 => (0..4usize, any::<bool>()).prop_map(|(link, on)| Op::Carrier { link, on }),
        1 => (0..4usize).prop_map(|link| Op::Remove { link }),
        1 => (0..4usize, any::<bool>()).prop_map(|(link, set)| Op::Master { link, set }),
        1 => (1..3u32, 0..4usize, 0..4u8)
            .prop_map(|(id, link, gateway)| Op::SetObject { id, link, gateway }),
        1 => proptest::collection::vec(1..3u32, 1..3).prop_map(|members| Op::SetGroup { members }),
        1 => (1..4u32).prop_map(|id| Op::RemoveObject { id }),
        1 => (0..4usize, any::<bool>()).prop_map(|(link, set)| Op::Address { link, set }),
        1 => (0..4usize, 0..3u8, any::<bool>())
            .prop_map(|(link, last, set)| Op::Neighbour { link, last, set }),
    ]
}

/// The kernel.
pub(crate) struct Kernel {
    links: BTreeMap<u32, Link>,
    addresses: Vec<Address>,
    neighbours: Vec<Neighbour>,
    objects: BTreeMap<u32, NextHopTarget>,
    /// In the kernel's order for each prefix.
    pub(crate) routes: Vec<Route>,
}

fn link(index: u32) -> Link {
    let names = ["p0", "p1", "p0.7", "other"];
    let vlan = index == 4;
    Link {
        index,
        name: names[index as usize - 2].to_owned(),
        mac: Some([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        up: true,
        admin_up: true,
        parent: vlan.then_some(2),
        vlan: vlan.then_some(7),
        kind: vlan.then(|| "vlan".to_owned()),
        ..Link::default()
    }
}

impl Kernel {
    pub(crate) fn new() -> Kernel {
        Kernel {
            links: LINKS.iter().map(|index| (*index, link(*index))).collect(),
            addresses: Vec::new(),
            neighbours: Vec::new(),
            objects: BTreeMap::new(),
            routes: Vec::new(),
        }
    }

    fn is_on(&self, index: Option<u32>) -> bool {
        index.and_then(|index| self.links.get(&index)).is_some_and(|link| link.admin_up)
    }

    pub(crate) fn dump(&self, part: Part) -> Vec<Event> {
        let route =
            |route: &Route| Event::Route { route: route.clone(), replace: false, append: false };
        let family = |v4: bool| {
            self.routes.iter().filter(move |r| r.prefix.addr().is_ipv4() == v4).map(route).collect()
        };
        match part {
            Part::Links => self.links.values().cloned().map(Event::Link).collect(),
            Part::Addresses => self.addresses.iter().copied().map(Event::Address).collect(),
            Part::NextHops => {
                let object = |(id, target): (&u32, &NextHopTarget)| {
                    Event::NextHop(NextHopObject { id: *id, target: target.clone() })
                };
                self.objects.iter().map(object).collect()
            }
            Part::Neighbours => self.neighbours.iter().copied().map(Event::Neighbour).collect(),
            Part::Routes4 => family(true),
            Part::Routes6 => family(false),
        }
    }

    /// Does it and says what the kernel would.
    pub(crate) fn carry_out(&mut self, op: &Op) -> Vec<Event> {
        match op {
            Op::Add { .. } => self.add(op),
            Op::AddByObject { prefix, id } => {
                let prefix: IpNet = PREFIXES[*prefix].parse().unwrap();
                if !self.objects.contains_key(id) {
                    return Vec::new();
                }
                let route = Route { nexthop_id: Some(*id), ..Route::unicast(prefix, []) };
                self.insert(route, How::Plain)
            }
            Op::Delete { which } => {
                if self.routes.is_empty() {
                    return Vec::new();
                }
                self.delete(which % self.routes.len(), which / self.routes.len())
            }
            Op::Switch { link, on } => self.switch(LINKS[*link], *on),
            Op::Carrier { link, on } => {
                let index = LINKS[*link];
                let Some(link) = self.links.get_mut(&index).filter(|link| link.admin_up) else {
                    return Vec::new();
                };
                link.up = *on;
                let event = Event::Link(link.clone());
                if !on {
                    self.flush_objects(index);
                }
                vec![event]
            }
            Op::Remove { link } => self.remove_or_make(LINKS[*link]),
            Op::Master { link, set } => {
                let Some(link) = self.links.get_mut(&LINKS[*link]) else { return Vec::new() };
                link.master = set.then_some(9);
                vec![Event::Link(link.clone())]
            }
            Op::SetObject { id, link, gateway } => {
                let index = LINKS[*link];
                if !self.links.get(&index).is_some_and(|link| link.up) {
                    return Vec::new();
                }
                let hop = RouteHop::new(Some(index), gateway_of(*gateway, true));
                self.set_object(*id, NextHopTarget::Hop(hop))
            }
            Op::SetGroup { members } => {
                let mut members: Vec<(u32, u16)> = members.iter().map(|id| (*id, 2)).collect();
                members.dedup();
                if members.iter().any(|(id, _)| !self.objects.contains_key(id)) {
                    return Vec::new();
                }
                self.set_object(3, NextHopTarget::Group(members))
            }
            Op::RemoveObject { id } => {
                let known = self.objects.contains_key(id);
                self.remove_object(*id);
                if known { vec![Event::NextHopGone(*id)] } else { Vec::new() }
            }
            Op::Address { link, set } => self.address(LINKS[*link], *set),
            Op::Neighbour { link, last, set } => self.neighbour(LINKS[*link], *last, *set),
        }
    }

    /// A route, or one way of those that are merged, whoever made it.
    fn delete(&mut self, at: usize, which: usize) -> Vec<Event> {
        let route = &mut self.routes[at];
        let part = !route.prefix.addr().is_ipv4() && route.hops.len() > 1 && which % 2 == 1;
        if !part {
            return vec![Event::RouteGone(self.routes.remove(at))];
        }
        let gone = route.hops.remove(which / 2 % route.hops.len());
        let hops = [gone].into_iter().collect();
        vec![Event::RouteGone(Route { hops, protocol: DAEMON, ..route.clone() })]
    }

    fn set_object(&mut self, id: u32, target: NextHopTarget) -> Vec<Event> {
        self.objects.insert(id, target.clone());
        vec![Event::NextHop(NextHopObject { id, target })]
    }

    fn add(&mut self, op: &Op) -> Vec<Event> {
        let Op::Add { prefix, metric, table, kind, tos, hops, how } = op else { unreachable!() };
        let prefix: IpNet = PREFIXES[*prefix].parse().unwrap();
        let v4 = prefix.addr().is_ipv4();
        let protocol = match kind {
            3 if !v4 => ADVERTISED,
            4 | 5 => DAEMON,
            _ => libc::RTPROT_STATIC,
        };
        let metric = if v4 { *metric } else { METRIC_V6 + *metric };
        let kind = match kind {
            _ if *table == 255 => RouteKind::Local,
            0 => RouteKind::Blackhole,
            1 => RouteKind::Unreachable,
            2 => RouteKind::Other,
            _ => RouteKind::Unicast,
        };
        let single = kind == RouteKind::Local || protocol == ADVERTISED;
        let hops = if single { &hops[..1] } else { &hops[..] };
        let several = hops.len() > 1;
        let unicast = matches!(kind, RouteKind::Unicast | RouteKind::Local);
        let hops = hops.iter().filter(|_| unicast).map(|(link, gateway)| {
            // Several IPv6 hops must have gateways to make one route.
            let gateway = if several && !v4 { gateway | 1 } else { *gateway };
            let hop = RouteHop::new(Some(LINKS[usize::from(*link)]), gateway_of(gateway, v4));
            RouteHop { weight: if several { u16::from(*link) + 1 } else { 1 }, ..hop }
        });
        let mut hops: Vec<RouteHop> = hops.collect();
        hops.dedup_by_key(|hop| (hop.link, hop.gateway));
        if !hops.iter().all(|hop| self.is_on(hop.link)) {
            return Vec::new();
        }
        let tos = if v4 { *tos } else { 0 };
        let route =
            Route { kind, metric, table: *table, tos, protocol, ..Route::unicast(prefix, hops) };
        self.insert(route, *how)
    }

    fn insert(&mut self, route: Route, how: How) -> Vec<Event> {
        let v4 = route.prefix.addr().is_ipv4();
        let rival = |other: &Route| key(other) == key(&route);
        let event = |route: &Route, replace, append| {
            vec![Event::Route { route: route.clone(), replace, append }]
        };
        if how == How::Replace {
            let alike = |other: &Route| rival(other) && (v4 || merges(other) == merges(&route));
            let first = self.routes.iter().position(alike);
            if let Some(at) = first.or_else(|| self.routes.iter().position(rival)) {
                let elsewhere = |(index, other): (usize, &Route)| {
                    index != at && (*other == route || shares(other, &route))
                };
                if self.routes.iter().enumerate().any(elsewhere) {
                    return Vec::new();
                }
                self.routes[at] = route.clone();
                return event(&route, true, false);
            }
        }
        let shared = |other: &Route| shares(other, &route) && !(merges(other) && merges(&route));
        if self.routes.contains(&route) || self.routes.iter().any(shared) {
            return Vec::new();
        }
        if !v4 && merges(&route) {
            let sibling =
                self.routes.iter_mut().find(|other| key(other) == key(&route) && merges(other));
            if let Some(sibling) = sibling {
                let known = |hop: &RouteHop| {
                    sibling.hops.iter().any(|o| (o.link, o.gateway) == (hop.link, hop.gateway))
                };
                let new: Vec<RouteHop> =
                    route.hops.iter().filter(|hop| !known(hop)).copied().collect();
                if new.is_empty() {
                    return Vec::new();
                }
                sibling.hops.extend(new);
                let sibling = sibling.clone();
                return event(&sibling, false, how == How::Append);
            }
        }
        let last = how == How::Append || !v4;
        let place = self.routes.partition_point(|other| {
            key(other) < key(&route) || (last && key(other) == key(&route))
        });
        self.routes.insert(place, route.clone());
        event(&route, false, how == How::Append)
    }

    fn switch(&mut self, index: u32, on: bool) -> Vec<Event> {
        let Some(link) = self.links.get_mut(&index) else { return Vec::new() };
        let was_on = std::mem::replace(&mut link.admin_up, on);
        link.up = on;
        let mut events = vec![Event::Link(link.clone())];
        if was_on && !on {
            self.flush_objects(index);
            let routes = std::mem::take(&mut self.routes);
            for route in routes {
                let v4 = route.prefix.addr().is_ipv4();
                let on_it = route.hops.iter().any(|hop| hop.link == Some(index));
                let dead = on_it && !route.hops.iter().any(|hop| self.is_on(hop.link));
                if !dead || (v4 && route.kind == RouteKind::Local) {
                    self.routes.push(route);
                } else if !v4 {
                    events.push(Event::RouteGone(route));
                }
            }
        }
        events
    }

    fn remove_or_make(&mut self, index: u32) -> Vec<Event> {
        if !self.links.contains_key(&index) {
            if index == 4 && !self.links.contains_key(&2) {
                return Vec::new();
            }
            self.links.insert(index, link(index));
            return vec![Event::Link(link(index))];
        }
        let mut events = Vec::new();
        if index == 2 && self.links.contains_key(&4) {
            events.extend(self.remove_or_make(4));
        }
        events.extend(self.switch(index, false));
        self.routes.retain_mut(|route| {
            let lost = |hop: &RouteHop| hop.link == Some(index);
            if !route.hops.iter().any(lost) {
                return true;
            }
            if route.prefix.addr().is_ipv4() {
                return false;
            }
            let gone = route.hops.iter().copied().filter(lost).collect();
            events.push(Event::RouteGone(Route { hops: gone, ..route.clone() }));
            route.hops.retain(|hop| !lost(hop));
            !route.hops.is_empty()
        });
        for neighbour in self.neighbours.extract_if(.., |neighbour| neighbour.link == index) {
            events.push(Event::NeighbourGone(neighbour));
        }
        for address in self.addresses.extract_if(.., |address| address.link == index) {
            events.push(Event::AddressGone(address));
        }
        self.links.remove(&index);
        events.push(Event::LinkGone(index));
        events
    }

    /// Silently, with their routes.
    fn flush_objects(&mut self, index: u32) {
        let through = |target: &NextHopTarget| matches!(target, NextHopTarget::Hop(hop) if hop.link == Some(index));
        let gone: Vec<u32> =
            self.objects.iter().filter(|(_, t)| through(t)).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove_object(id);
        }
    }

    fn remove_object(&mut self, id: u32) {
        self.objects.remove(&id);
        self.routes.retain(|route| route.nexthop_id != Some(id));
        let mut empty = Vec::new();
        for (group, target) in &mut self.objects {
            if let NextHopTarget::Group(members) = target {
                members.retain(|(member, _)| *member != id);
                if members.is_empty() {
                    empty.push(*group);
                }
            }
        }
        for group in empty {
            self.remove_object(group);
        }
    }

    fn address(&mut self, link: u32, set: bool) -> Vec<Event> {
        if !self.links.contains_key(&link) {
            return Vec::new();
        }
        let net: IpNet = format!("10.9.{link}.1/24").parse().unwrap();
        let address = Address { link, address: net, peer: None, tentative: false };
        let known = self.addresses.contains(&address);
        self.addresses.retain(|other| *other != address);
        if set {
            self.addresses.push(address);
            vec![Event::Address(address)]
        } else if known {
            vec![Event::AddressGone(address)]
        } else {
            Vec::new()
        }
    }

    fn neighbour(&mut self, link: u32, last: u8, set: bool) -> Vec<Event> {
        if !self.is_on(Some(link)) {
            return Vec::new();
        }
        let address: IpAddr = format!("10.9.{link}.{}", last + 2).parse().unwrap();
        self.neighbours.retain(|other| (other.link, other.address) != (link, address));
        let state = if set { NeighbourState::Reachable } else { NeighbourState::Failed };
        let mac = set.then_some([2, 1, 0, 0, link as u8, last]);
        let neighbour = Neighbour { link, address, mac, state, usable: set };
        self.neighbours.push(neighbour);
        vec![Event::Neighbour(neighbour)]
    }

    fn place(&self, index: u32) -> Option<(PortId, u16)> {
        let free = |index: u32| self.links.get(&index).is_some_and(|link| link.master.is_none());
        match index {
            2 if free(2) => Some((PortId(0), 0)),
            3 if free(3) => Some((PortId(1), 0)),
            4 if free(4) && free(2) => Some((PortId(0), 7)),
            _ => None,
        }
    }

    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        let interface = |link: &Link| {
            let (port, vlan) = self.place(link.index)?;
            let own = self.addresses.iter().filter(|address| address.link == link.index);
            Some(Interface {
                port,
                vlan,
                mac: link.mac.unwrap(),
                mtu: 1500,
                up: link.up,
                addresses: own.map(|address| address.address).collect(),
            })
        };
        let mut interfaces: Vec<_> = self.links.values().filter_map(interface).collect();
        interfaces.sort_by_key(|interface| (interface.port, interface.vlan));
        interfaces
    }

    pub(crate) fn neighbours_on_ports(&self) -> BTreeMap<(PortId, u16, IpAddr), [u8; 6]> {
        let of = self.neighbours.iter().filter(|neighbour| neighbour.usable);
        of.filter_map(|neighbour| {
            let (port, vlan) = self.place(neighbour.link)?;
            Some(((port, vlan, neighbour.address), neighbour.mac?))
        })
        .collect()
    }

    /// What the kernel's tables say, read from the first rule to the last.
    pub(crate) fn fate(&self, address: IpAddr) -> Fate {
        if kernel_prefixes().iter().any(|prefix| prefix.contains(&address)) {
            return Fate::Kernel;
        }
        for table in [255, 254, 253] {
            let matching = |route: &&Route| {
                route.table == table && route.prefix.contains(&address) && !is_kernels(route.prefix)
            };
            let longest = self.routes.iter().filter(matching).map(|r| r.prefix.prefix_len()).max();
            let Some(len) = longest else { continue };
            let best: Vec<&Route> = self
                .routes
                .iter()
                .filter(matching)
                .filter(|r| r.prefix.prefix_len() == len)
                .collect();
            if best.iter().any(|route| route.tos != 0) {
                return Fate::Kernel;
            }
            return self.fate_of(best[0]);
        }
        Fate::Nowhere
    }

    fn fate_of(&self, route: &Route) -> Fate {
        match route.kind {
            RouteKind::Unicast => {}
            RouteKind::Blackhole => return Fate::Blackhole,
            RouteKind::Unreachable => return Fate::Unreachable,
            _ => return Fate::Kernel,
        }
        let hop_of = |id: &u32| match &self.objects[id] {
            NextHopTarget::Hop(hop) => *hop,
            other => panic!("a member that is no hop: {other:?}"),
        };
        let hops: Vec<RouteHop> = match route.nexthop_id.map(|id| (&self.objects[&id], id)) {
            None => route.hops.to_vec(),
            Some((NextHopTarget::Hop(hop), _)) => vec![*hop],
            Some((NextHopTarget::Group(members), _)) => members
                .iter()
                .map(|(id, weight)| RouteHop { weight: *weight, ..hop_of(id) })
                .collect(),
            Some((NextHopTarget::Blackhole, _)) => return Fate::Blackhole,
        };
        let single = hops.len() == 1;
        let way = |hop: &RouteHop| {
            let (port, vlan) = self.place(hop.link?)?;
            let weight = if single { 1 } else { hop.weight };
            (single || hop.gateway.is_some()).then_some((port, vlan, hop.gateway, weight))
        };
        hops.iter().map(way).collect::<Option<Vec<_>>>().map_or(Fate::Kernel, Fate::Ways)
    }
}

/// Even numbers: on link.
fn gateway_of(number: u8, v4: bool) -> Option<IpAddr> {
    let text = if v4 { format!("10.9.2.{number}") } else { format!("fe80::{number}") };
    (number % 2 == 1).then(|| text.parse().unwrap())
}

/// Routes of one prefix are kept by table, TOS from high to low, metric.
fn key(route: &Route) -> (IpNet, u8, u8, u32) {
    let rank = match route.table {
        255 => 0,
        254 => 1,
        253 => 2,
        _ => 3,
    };
    (route.prefix, rank, u8::MAX - route.tos, route.metric)
}

/// Whether two IPv6 routes of one place have a way in common, which the kernel refuses
/// (`rt6_duplicate_nexthop`). All of those that lead nowhere lead through the loopback interface.
fn shares(one: &Route, other: &Route) -> bool {
    let way = |hop: &RouteHop| (hop.link, hop.gateway);
    let known = |hop: &RouteHop| other.hops.iter().any(|o| way(o) == way(hop));
    let bare = one.hops.is_empty() && other.hops.is_empty();
    !one.prefix.addr().is_ipv4()
        && key(one) == key(other)
        && one.nexthop_id == other.nexthop_id
        && (one.nexthop_id.is_some() || bare || one.hops.iter().any(known))
}

fn merges(route: &Route) -> bool {
    route.prefix.addr().is_ipv6()
        && route.protocol != ADVERTISED
        && route.kind == RouteKind::Unicast
        && route.nexthop_id.is_none()
        && !route.hops.is_empty()
        && route.hops.iter().all(|hop| hop.gateway.is_some())
}

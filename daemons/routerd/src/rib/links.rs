//! Links, their addresses and neighbours, and which of them are the router's interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ebb_apps::route::{Interface, InterfaceId};
use ebb_graph::PortId;
use ebb_host::netlink::{Address, Elsewhere, Link, Neighbour, NeighbourState, NextHopTarget};
use ipnet::IpNet;

use super::claims::Claims;
use super::{PortVlan, Tables, Update};
use crate::interface::RouterInterface;

/// What is known of links.
#[derive(Debug)]
pub(super) struct Links {
    ports: Vec<Port>,
    links: BTreeMap<u32, Link>,
    claims: Claims,
    /// Who takes the frames of a link, in words.
    claimed: BTreeMap<u32, String>,
    addresses: BTreeMap<u32, BTreeSet<IpNet>>,
    neighbours: BTreeMap<(u32, IpAddr), [u8; 6]>,
    pub(super) next_hops: BTreeMap<u32, NextHopTarget>,
    /// Next-hop objects of which nobody knows whether they are still there.
    pub(super) doubtful: BTreeSet<u32>,
    /// Interfaces by link, present ones.
    present: BTreeMap<u32, InterfaceId>,
    /// Numbers given to (port, VLAN), for good.
    numbers: BTreeMap<(PortId, u16), InterfaceId>,
    pub(super) stale: Vec<(u32, IpAddr)>,
    reported_addresses: Option<Vec<IpAddr>>,
    addresses_changed: bool,
    ports_changed: bool,
    /// What [`Links::places`] says may be something else now.
    pub(super) places_changed: bool,
}

#[derive(Debug)]
struct Port {
    id: PortId,
    name: String,
    /// Its link while there is one; a link keeps its port when it is renamed.
    link: Option<u32>,
    /// Counts the links it had: another may have the former one's index.
    incarnation: u32,
    reported: Reported,
}

/// What was said of a port last.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// Up, gone, which link.
    state: Option<(bool, bool, u32)>,
    macs: Option<Vec<[u8; 6]>>,
    vlans: Option<Vec<PortVlan>>,
    name: Option<String>,
    claimed: Option<String>,
}

impl Port {
    fn new((id, name): &(PortId, String)) -> Port {
        let reported = Reported::default();
        Port { id: *id, name: name.clone(), link: None, incarnation: 0, reported }
    }

    fn take(&mut self, link: u32) {
        self.link = Some(link);
        self.incarnation += 1;
    }

    /// Whether the link is the one that the configuration means.
    fn is_named(&self, link: &Link) -> bool {
        link.name == self.name || link.alternative_names.contains(&self.name)
    }
}

impl Links {
    pub(super) fn new(ports: &[(PortId, String)]) -> Links {
        Links {
            ports: ports.iter().map(Port::new).collect(),
            links: BTreeMap::new(),
            claims: Claims::default(),
            claimed: BTreeMap::new(),
            addresses: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            next_hops: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            present: BTreeMap::new(),
            numbers: BTreeMap::new(),
            stale: Vec::new(),
            reported_addresses: None,
            addresses_changed: true,
            ports_changed: true,
            places_changed: true,
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Link> {
        self.links.get(&index)
    }

    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> {
        self.links.keys().copied()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = (u32, IpNet)> {
        self.addresses.iter().flat_map(|(link, nets)| nets.iter().map(|net| (*link, *net)))
    }

    pub(super) fn neighbours(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.neighbours.keys().copied()
    }

    pub(super) fn interface_of(&self, link: u32) -> Option<InterfaceId> {
        self.present.get(&link).copied()
    }

    pub(super) fn link_of(&self, id: InterfaceId) -> Option<u32> {
        self.present.iter().find(|(_, present)| **present == id).map(|(link, _)| *link)
    }

    pub(super) fn places(&self) -> Vec<RouterInterface> {
        let on = |index: u32| self.ports.iter().find(|port| port.link == Some(index));
        let place = |link: &Link| {
            let (port, vlan, of_parent) = match (on(link.index), link.parent.and_then(on)) {
                (Some(port), _) => (port, 0, None),
                (None, Some(port)) if link.kind.as_deref() == Some("vlan") => {
                    (port, link.vlan?, link.parent.and_then(|parent| self.links.get(&parent)))
                }
                _ => return None,
            };
            let own = self.addresses.get(&link.index).into_iter().flatten();
            Some(RouterInterface {
                link: link.index,
                name: link.name.clone(),
                port: port.id,
                vlan,
                enslaved: self.is_taken(link)
                    || of_parent.is_some_and(|parent| self.is_taken(parent)),
                has_v4: own.clone().any(|net| net.addr().is_ipv4()),
            })
        };
        self.links.values().filter_map(place).collect()
    }

    pub(super) fn interfaces(&self) -> usize {
        self.present.len()
    }

    /// Doubts the next-hop objects that lead through a link; whether there are any.
    pub(super) fn doubt_next_hops(&mut self, link: u32) -> bool {
        let uses = |target: &NextHopTarget| matches!(target, NextHopTarget::Hop(hop) if hop.link == Some(link));
        let through = self.next_hops.iter().filter(|(_, target)| uses(target));
        let doubted: Vec<u32> = through.map(|(id, _)| *id).collect();
        self.doubtful.extend(&doubted);
        !doubted.is_empty()
    }

    /// Whether its frames are another interface's.
    fn is_taken(&self, link: &Link) -> bool {
        link.master.is_some() || self.claimed.contains_key(&link.index)
    }

    /// Finds out anew who takes a link's frames; returns as [`Links::set_link`].
    fn reclaim(&mut self, index: u32, out: &mut impl Tables) -> Vec<u32> {
        let link = self.links.get(&index);
        let by = link.and_then(|link| self.claims.on(link, &self.links));
        let before = match by.clone() {
            Some(by) => self.claimed.insert(index, by),
            None => self.claimed.remove(&index),
        };
        if before == by { Vec::new() } else { self.review(index, out) }
    }

    /// The port and VLAN a link stands for: ports themselves and 802.1Q interfaces on them, unless
    /// a bridge, bond or VRF owns them or another interface takes their frames.
    fn place(&self, link: &Link) -> Option<(PortId, u16)> {
        if self.is_taken(link) {
            return None;
        }
        let on = |index: u32| self.ports.iter().find(|port| port.link == Some(index));
        if let Some(port) = on(link.index) {
            return Some((port.id, 0));
        }
        let vlan = link.vlan.filter(|id| link.kind.as_deref() == Some("vlan") && *id != 0)?;
        let port = on(link.parent?)?;
        let parent = self.links.get(&link.parent?)?;
        (!self.is_taken(parent)).then_some((port.id, vlan))
    }

    /// Goes on with other ports; returns as [`Links::set_link`].
    pub(super) fn set_ports(
        &mut self,
        ports: &[(PortId, String)],
        out: &mut impl Tables,
    ) -> Vec<u32> {
        let former = std::mem::replace(&mut self.ports, ports.iter().map(Port::new).collect());
        for port in &mut self.ports {
            if let Some(old) = former.iter().find(|old| old.id == port.id && old.name == port.name)
            {
                (port.link, port.incarnation) = (old.link, old.incarnation);
                port.reported = old.reported.clone();
            }
        }
        let _ = self.seek();
        self.ports_changed = true;
        self.places_changed = true;
        // All that go before any that come: numbers may pass from one to another.
        let mut moved = BTreeSet::new();
        let present: Vec<(u32, InterfaceId)> =
            self.present.iter().map(|(link, id)| (*link, *id)).collect();
        for (link, id) in present {
            if self.wanted(link).map(|(wanted, _)| wanted) != Some(id) {
                self.present.remove(&link);
                out.remove_interface(id);
                moved.insert(link);
            }
        }
        let links: Vec<u32> = self.links.keys().copied().collect();
        let mut reviewed = Vec::new();
        for link in links {
            self.review_one(link, &mut reviewed, out);
        }
        moved.extend(reviewed);
        moved.into_iter().collect()
    }

    /// The interface that workers have of a link. They give tags no priority: a VLAN that does is the kernel's.
    fn wanted(&mut self, link: u32) -> Option<(InterfaceId, (PortId, u16))> {
        let link = self.links.get(&link).filter(|link| !link.priorities)?;
        let place = self.place(link)?;
        Some((self.number(place)?, place))
    }

    /// Enters a link; returns the links whose interface appeared or disappeared.
    pub(super) fn set_link(&mut self, link: Link, out: &mut impl Tables) -> Vec<u32> {
        let (index, parent) = (link.index, link.parent);
        let before = self.links.insert(index, link);
        let _ = self.seek();
        let mut moved = self.review(index, out);
        let parents = before.and_then(|link| link.parent).into_iter().chain(parent);
        for link in [index].into_iter().chain(parents) {
            moved.extend(self.reclaim(link, out));
        }
        moved
    }

    /// Gives ports without a link the one that has their name, and returns those links. One that was
    /// renamed stays with its port, and another may have the name meanwhile.
    fn seek(&mut self) -> Vec<u32> {
        let mut taken = Vec::new();
        for place in 0..self.ports.len() {
            if self.ports[place].link.is_some() {
                continue;
            }
            let others = |index: u32| self.ports.iter().any(|port| port.link == Some(index));
            let mut free = self.links.values().filter(|link| !others(link.index));
            let found = free.find(|link| self.ports[place].is_named(link)).map(|link| link.index);
            if let Some(index) = found {
                self.ports[place].take(index);
                taken.push(index);
            }
        }
        taken
    }

    /// A link goes into another namespace; returns as [`Links::set_link`].
    pub(super) fn move_link(
        &mut self,
        index: u32,
        to: Elsewhere,
        out: &mut impl Tables,
    ) -> Vec<u32> {
        if let Some(link) = self.links.get(&index) {
            self.claims.moved(link, to);
        }
        self.remove_link(index, out)
    }

    /// See [`super::Rib::elsewhere`].
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = Elsewhere> {
        self.claims.elsewhere()
    }

    /// An interface in another namespace is no more; returns as [`Links::set_link`].
    pub(super) fn end_elsewhere(&mut self, gone: Elsewhere, out: &mut impl Tables) -> Vec<u32> {
        let parent = self.claims.end(gone);
        parent.map_or_else(Vec::new, |parent| self.reclaim(parent, out))
    }

    /// Ports and VLANs on them that take frames for all stations for somebody who may be a socket.
    pub(super) fn listened_to(&self) -> Vec<u32> {
        let of_port = |link: &&Link| {
            let is = |index: u32| self.ports.iter().any(|port| port.link == Some(index));
            is(link.index) || link.vlan.is_some() && link.parent.is_some_and(is)
        };
        let unexplained = |link: &&Link| self.claims.unexplained(link, &self.links) > 0;
        self.links.values().filter(of_port).filter(unexplained).map(|link| link.index).collect()
    }

    /// So many sockets listen there; returns as [`Links::set_link`].
    pub(super) fn set_listeners(
        &mut self,
        link: u32,
        count: u32,
        out: &mut impl Tables,
    ) -> Vec<u32> {
        match self.claims.set_listeners(link, count) {
            true => self.reclaim(link, out),
            false => Vec::new(),
        }
    }

    /// Removes a link with its addresses and neighbours; returns as [`Links::set_link`].
    pub(super) fn remove_link(&mut self, index: u32, out: &mut impl Tables) -> Vec<u32> {
        let parent = self.links.remove(&index).and_then(|link| link.parent);
        self.claims.forget(index);
        self.claimed.remove(&index);
        self.addresses_changed |= self.addresses.remove(&index).is_some();
        self.places_changed = true;
        for port in self.ports.iter_mut().filter(|port| port.link == Some(index)) {
            port.link = None;
        }
        let mut moved = self.review(index, out);
        // Another may have had the name all along.
        for link in self.seek() {
            moved.extend(self.review(link, out));
        }
        moved.extend(parent.into_iter().flat_map(|parent| self.reclaim(parent, out)));
        self.neighbours.retain(|(link, _), _| *link != index);
        moved
    }

    /// Compares the interfaces of a link and of the VLANs on it with what exists.
    fn review(&mut self, index: u32, out: &mut impl Tables) -> Vec<u32> {
        self.ports_changed = true;
        self.places_changed = true;
        let on_it = |link: &&Link| link.parent == Some(index) && link.vlan.is_some();
        let vlans: Vec<u32> = self
            .links
            .values()
            .filter(on_it)
            .map(|link| link.index)
            .filter(|i| *i != index)
            .collect();
        let mut moved = Vec::new();
        for link in [index].into_iter().chain(vlans) {
            self.review_one(link, &mut moved, out);
        }
        moved
    }

    /// Compares one link's interface with what exists; adds the links whose interface appeared or disappeared.
    /// A link whose place another has waits until that one goes, of which a lost message may not have told.
    fn review_one(&mut self, link: u32, moved: &mut Vec<u32>, out: &mut impl Tables) {
        let wanted = self.wanted(link);
        let free = |id| self.link_of(id).is_none_or(|other| other == link);
        let wanted = wanted.filter(|(id, _)| free(*id));
        let before = self.present.get(&link).copied();
        let former = before.filter(|id| Some(*id) != wanted.map(|(id, _)| id));
        if let Some(id) = former {
            self.present.remove(&link);
            out.remove_interface(id);
            moved.push(link);
        }
        if let Some((id, place)) = wanted {
            out.set_interface(id, self.interface(link, place));
            if before != Some(id) {
                self.enter(link, id, out);
                moved.push(link);
            }
        }
        let waits =
            |other: &&Link| self.place(other).and_then(|place| self.known_number(place)) == former;
        let mut others = self.links.values().filter(|_| former.is_some());
        if let Some(next) = others.find(waits).map(|other| other.index) {
            self.review_one(next, moved, out);
        }
    }

    /// A link stands for an interface from now on.
    fn enter(&mut self, link: u32, id: InterfaceId, out: &mut impl Tables) {
        self.present.insert(link, id);
        let known = self.neighbours.range((link, LOWEST)..);
        for ((_, address), mac) in known.take_while(|((on, _), _)| *on == link) {
            out.set_neighbour(id, *address, *mac);
        }
    }

    /// Untagged interfaces have their port's number, VLANs the next free one above 255; a pair
    /// that comes back gets its number back. None when all are taken.
    fn number(&mut self, (port, vlan): (PortId, u16)) -> Option<InterfaceId> {
        if let Some(id) = self.known_number((port, vlan)) {
            return Some(id);
        }
        let id = InterfaceId(u16::try_from(256 + self.numbers.len()).ok()?);
        self.numbers.insert((port, vlan), id);
        Some(id)
    }

    fn known_number(&self, (port, vlan): (PortId, u16)) -> Option<InterfaceId> {
        match vlan {
            0 => Some(InterfaceId(u16::from(port.0))),
            _ => self.numbers.get(&(port, vlan)).copied(),
        }
    }

    fn interface(&self, index: u32, (port, vlan): (PortId, u16)) -> Interface {
        let link = &self.links[&index];
        Interface {
            port,
            vlan,
            mac: link.mac.unwrap_or_default(),
            mtu: u16::try_from(link.mtu).unwrap_or(u16::MAX),
            up: link.up,
            addresses: self.addresses.get(&index).into_iter().flatten().copied().collect(),
        }
    }

    fn announce(&self, index: u32, out: &mut impl Tables) {
        let Some(id) = self.interface_of(index) else { return };
        let Some(place) = self.links.get(&index).and_then(|link| self.place(link)) else { return };
        out.set_interface(id, self.interface(index, place));
    }

    pub(super) fn set_address(&mut self, address: &Address, out: &mut impl Tables) {
        if self.addresses.entry(address.link).or_default().insert(address.address) {
            self.addresses_changed = true;
            self.places_changed = true;
            self.announce(address.link, out);
        }
    }

    pub(super) fn remove_address(&mut self, address: &Address, out: &mut impl Tables) {
        self.remove_address_of(address.link, address.address, out);
    }

    pub(super) fn remove_address_of(&mut self, link: u32, net: IpNet, out: &mut impl Tables) {
        if self.addresses.get_mut(&link).is_some_and(|nets| nets.remove(&net)) {
            self.addresses_changed = true;
            self.places_changed = true;
            self.announce(link, out);
        }
    }

    pub(super) fn set_neighbour(&mut self, neighbour: &Neighbour, out: &mut impl Tables) {
        let (link, address) = (neighbour.link, neighbour.address);
        let Some(mac) = neighbour.mac.filter(|_| neighbour.usable && !address.is_multicast())
        else {
            return self.remove_neighbour(link, address, out);
        };
        let changed = self.neighbours.insert((link, address), mac) != Some(mac);
        let Some(id) = self.interface_of(link) else { return };
        if changed {
            out.set_neighbour(id, address, mac);
        }
        if neighbour.state == NeighbourState::Stale {
            self.stale.push((link, address));
        }
    }

    pub(super) fn remove_neighbour(&mut self, link: u32, address: IpAddr, out: &mut impl Tables) {
        if self.neighbours.remove(&(link, address)).is_some()
            && let Some(id) = self.interface_of(link)
        {
            out.remove_neighbour(id, address);
        }
    }

    pub(super) fn take_updates(&mut self) -> Vec<Update> {
        let mut updates = Vec::new();
        if std::mem::take(&mut self.ports_changed) {
            self.port_updates(&mut updates);
        }
        if std::mem::take(&mut self.addresses_changed) {
            let all: BTreeSet<IpAddr> = self.addresses().map(|(_, net)| net.addr()).collect();
            let all: Vec<IpAddr> = all.into_iter().collect();
            if self.reported_addresses.as_ref() != Some(&all) {
                updates.push(Update::LocalAddresses(all.clone()));
                self.reported_addresses = Some(all);
            }
        }
        updates
    }

    fn port_updates(&mut self, updates: &mut Vec<Update>) {
        let places = |port: PortId| {
            let on = self.links.values().filter_map(|link| Some((self.place(link)?, link)));
            on.filter(move |((other, _), _)| *other == port)
        };
        let said = |port: &Port| {
            let macs: BTreeSet<[u8; 6]> =
                places(port.id).filter_map(|(_, link)| link.mac).collect();
            let vlan = |((_, id), link): ((PortId, u16), &Link)| PortVlan {
                id,
                link: link.index,
                by_workers: !link.priorities,
            };
            let vlans: BTreeSet<PortVlan> =
                places(port.id).map(vlan).filter(|vlan| vlan.id != 0).collect();
            let link = port.link.and_then(|index| self.links.get(&index));
            Reported {
                state: Some((link.is_some_and(|link| link.up), link.is_none(), port.incarnation)),
                macs: Some(macs.into_iter().collect()),
                vlans: Some(vlans.into_iter().collect()),
                name: link.map(|link| link.name.clone()),
                claimed: link.and_then(|link| self.claimed.get(&link.index).cloned()),
            }
        };
        let all: Vec<Reported> = self.ports.iter().map(said).collect();
        for (port, now) in self.ports.iter_mut().zip(all) {
            let before = std::mem::replace(&mut port.reported, now.clone());
            difference(port.id, before, now, updates);
        }
    }
}

/// What is to be said of a port of which `before` was said last.
fn difference(port: PortId, before: Reported, now: Reported, updates: &mut Vec<Update>) {
    if before.name != now.name
        && let Some(name) = now.name
    {
        updates.push(Update::Name(port, name));
    }
    if before.state != now.state
        && let Some((up, gone, incarnation)) = now.state
    {
        let other = before.state.is_some_and(|(_, gone, former)| !gone && former != incarnation);
        if other && !gone {
            updates.push(Update::Link { port, up: false, gone: true });
        }
        updates.push(Update::Link { port, up, gone });
    }
    if before.claimed != now.claimed {
        updates.push(Update::Claimed(port, now.claimed));
    }
    if before.macs != now.macs {
        updates.push(Update::Macs(port, now.macs.unwrap_or_default()));
    }
    if before.vlans != now.vlans {
        updates.push(Update::Vlans(port, now.vlans.unwrap_or_default()));
    }
}

/// The least of all addresses.
const LOWEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

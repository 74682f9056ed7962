//! A model of the kernel's tables that turns netlink events into changes of the forwarding tables.
//!
//! Room: pure. Events come in, calls of [`Tables`] go out; sockets are the business of
//! `sync`. What the kernel does without saying so is inferred here: IPv4 routes vanish
//! when their link goes down, routes vanish with their next-hop object. What cannot be inferred is
//! asked for again ([`Rib::wanted`]) and compared by mark and sweep while forwarding goes on.
//!
//! Tables `local`, `main` and `default` count, in this order, as in the rules that Linux starts
//! with; further rules and tables are the kernel's own business and are not seen. Whatever only
//! the kernel can decide goes to the kernel: routes for some TOS values or sources, encapsulation,
//! interfaces that are no ports or belong to a bridge, bond or VRF, multicast and broadcast.

mod candidate;
mod claims;
mod links;
mod order;
mod prefixes;
mod resync;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ebb_apps::route::{FibError, FibWriter, Interface, InterfaceId, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{Elsewhere, Event, NextHopTarget, Part, Route, TABLE_LOCAL, TABLE_MAIN};
use ipnet::IpNet;

use candidate::{Candidate, Slots};
use links::Links;
use prefixes::Prefixes;
pub(crate) use prefixes::is_kernels as is_reserved;
use resync::Resync;

use crate::place::Place;

/// Where changes go.
pub trait Tables {
    /// Adds or changes an interface.
    fn set_interface(&mut self, id: InterfaceId, interface: Interface);
    /// Removes an interface and its neighbours.
    fn remove_interface(&mut self, id: InterfaceId);
    /// Adds or replaces a route.
    ///
    /// # Errors
    /// When a table is full; the former route stays.
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError>;
    /// Removes a route; whether there was one.
    fn remove_route(&mut self, prefix: IpNet) -> bool;
    /// Makes a neighbour known or changes its MAC address.
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]);
    /// Forgets a neighbour.
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr);
}

impl Tables for FibWriter {
    fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        FibWriter::set_interface(self, id, interface);
    }
    fn remove_interface(&mut self, id: InterfaceId) {
        FibWriter::remove_interface(self, id);
    }
    fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        FibWriter::set_route(self, prefix, target)
    }
    fn remove_route(&mut self, prefix: IpNet) -> bool {
        FibWriter::remove_route(self, prefix)
    }
    fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        FibWriter::set_neighbour(self, interface, address, mac);
    }
    fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        FibWriter::remove_neighbour(self, interface, address);
    }
}

/// Tables for those who only want to know what [`Rib`] makes of links.
pub struct Nowhere;

impl Tables for Nowhere {
    fn set_interface(&mut self, _: InterfaceId, _: Interface) {}
    fn remove_interface(&mut self, _: InterfaceId) {}
    fn set_route(&mut self, _: IpNet, _: &Target) -> Result<(), FibError> {
        Ok(())
    }
    fn remove_route(&mut self, _: IpNet) -> bool {
        false
    }
    fn set_neighbour(&mut self, _: InterfaceId, _: IpAddr, _: [u8; 6]) {}
    fn remove_neighbour(&mut self, _: InterfaceId, _: IpAddr) {}
}

/// What a dump covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// One part.
    Part(Part),
}

/// What the ports' lower halves must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// All addresses of the host, sorted.
    LocalAddresses(Vec<IpAddr>),
    /// The MAC addresses on which this port's interfaces receive, sorted; none while the port
    /// belongs to a bridge, bond or VRF or another interface takes its frames, so that all its
    /// packets are the kernel's.
    Macs(PortId, Vec<[u8; 6]>),
    /// The VLANs of this port that are interfaces of the router, sorted: all others' packets are the
    /// kernel's.
    Vlans(PortId, Vec<u16>),
    /// The name that the port's link has now.
    Name(PortId, String),
    /// Who takes the port's frames, in words; none when nobody does any more.
    Claimed(PortId, Option<String>),
    /// The port's link went up or down, disappeared or came back.
    Link {
        /// The port.
        port: PortId,
        /// Administratively up, with carrier.
        up: bool,
        /// There is no such interface.
        gone: bool,
    },
}

/// The model; see the module.
#[derive(Debug)]
pub struct Rib {
    links: Links,
    prefixes: Prefixes,
    slots: Slots,
    resync: Resync,
    /// Routes that did not fit the forwarding tables and were left to the kernel or dropped.
    refused: u64,
    changes: u64,
}

impl Rib {
    /// A model in which nothing exists yet, for these ports by the names of their links.
    pub fn new(ports: &[(PortId, String)]) -> Rib {
        Rib {
            links: Links::new(ports),
            prefixes: Prefixes::default(),
            slots: Slots::default(),
            resync: Resync::default(),
            refused: 0,
            changes: 0,
        }
    }

    /// Enters into `out` what never changes: multicast, broadcast, loopback and IPv6 link-local
    /// destinations are the kernel's.
    pub fn start(&mut self, out: &mut impl Tables) {
        for prefix in prefixes::kernel_prefixes() {
            if out.set_route(prefix, &Target::Kernel).is_err() {
                self.refused += 1;
            }
        }
    }

    /// Goes on with other ports; routes follow.
    pub fn set_ports(&mut self, ports: &[(PortId, String)], out: &mut impl Tables) {
        let moved = self.links.set_ports(ports, out);
        self.retarget_links(&moved, out);
    }

    /// Takes over one event.
    pub fn apply(&mut self, event: &Event, out: &mut impl Tables) {
        self.changes += 1;
        self.resync.seen(event);
        match event {
            Event::Link(link) => {
                let before = self.links.get(link.index).map(|link| (link.admin_up, link.up));
                let moved = self.links.set_link(link.clone(), out);
                self.retarget_links(&moved, out);
                self.link_state_changed(link.index, before, (link.admin_up, link.up), out);
            }
            Event::LinkGone(index) => {
                let moved = self.links.remove_link(*index, out);
                self.link_gone(*index, &moved, out);
            }
            Event::LinkMoved { index, to } => {
                let moved = self.links.move_link(*index, *to, out);
                self.link_gone(*index, &moved, out);
            }
            Event::Address(address) => {
                if address.tentative {
                    self.links.remove_address(address, out);
                } else {
                    self.links.set_address(address, out);
                }
            }
            Event::AddressGone(address) => {
                self.links.remove_address(address, out);
                // IPv4 routes that prefer the address as their source vanish unannounced.
                if address.address.addr().is_ipv4() && self.slots.any_static4() {
                    self.resync.want(Part::Routes4);
                }
            }
            Event::Neighbour(neighbour) => self.links.set_neighbour(neighbour, out),
            Event::NeighbourGone(gone) => self.links.remove_neighbour(gone.link, gone.address, out),
            Event::NextHop(object) => {
                self.links.next_hops.insert(object.id, object.target.clone());
                self.retarget(Candidate::by_object, out);
            }
            Event::NextHopGone(id) => self.next_hop_gone(*id, out),
            Event::Route { route, replace, append } => {
                self.add_route(route, *replace, *append, out);
            }
            Event::RouteGone(route) => self.remove_route(route, out),
            Event::Overrun => {
                if self.resync.lost() {
                    self.prefixes.unconfirm(self.resync.routes());
                }
            }
        }
    }

    /// Begins a dump: what it does not confirm until [`Rib::finish`] is gone.
    pub fn begin(&mut self, scope: Scope) {
        self.resync.begin(scope, &self.links);
        self.prefixes.unconfirm(self.resync.routes());
    }

    /// Ends a dump.
    pub fn finish(&mut self, out: &mut impl Tables) {
        let gone = self.resync.finish();
        for link in gone.links {
            let moved = self.links.remove_link(link, out);
            self.link_gone(link, &moved, out);
        }
        for (link, address) in gone.addresses {
            self.links.remove_address_of(link, address, out);
        }
        for id in gone.next_hops {
            self.next_hop_gone(id, out);
        }
        if gone.next_hops_listed {
            // Announced and, with its object, silently gone before the objects were listed.
            let orphans = self.slots.orphans(&self.links);
            self.drop_slots(&orphans, out);
        }
        for (link, address) in gone.neighbours {
            self.links.remove_neighbour(link, address, out);
        }
        for key in self.prefixes.unconfirmed(gone.routes) {
            self.edit(key, out, |list, _| {
                let before = list.len();
                let gone = list.iter().copied().filter(|entry| !entry.confirmed).collect();
                list.retain(|entry| entry.confirmed);
                assert!(list.len() < before, "a prefix without unconfirmed routes was listed");
                order::Edit { removed: gone, ..order::Edit::default() }
            });
        }
    }

    /// What has to be dumped again, if anything.
    pub fn wanted(&mut self) -> Option<Scope> {
        self.resync.wanted()
    }

    /// What changed for the ports since the last call.
    pub fn take_updates(&mut self) -> Vec<Update> {
        self.links.take_updates()
    }

    /// Interfaces on the ports that lie in other namespaces, where their end is not heard of.
    pub fn elsewhere(&self) -> Vec<Elsewhere> {
        self.links.elsewhere().collect()
    }

    /// One of them is no more.
    pub fn end_elsewhere(&mut self, gone: Elsewhere, out: &mut impl Tables) {
        let moved = self.links.end_elsewhere(gone, out);
        self.retarget_links(&moved, out);
    }

    /// Links that take frames for all stations, maybe for sockets that listen.
    pub fn listened_to(&self) -> Vec<u32> {
        self.links.listened_to()
    }

    /// So many sockets listen on a link to frames for all stations.
    pub fn set_listeners(&mut self, link: u32, count: u32, out: &mut impl Tables) {
        let moved = self.links.set_listeners(link, count, out);
        self.retarget_links(&moved, out);
    }

    /// Neighbours on our interfaces whose confirmation has run out since the last call, as link
    /// and address: whoever forwards past the kernel must ask it to confirm them.
    pub fn take_stale(&mut self) -> Vec<(u32, IpAddr)> {
        std::mem::take(&mut self.links.stale)
    }

    /// Index of the link that an interface stands for.
    pub fn link_of(&self, id: InterfaceId) -> Option<u32> {
        self.links.link_of(id)
    }

    /// The interface that a link stands for.
    pub fn interface_of(&self, link: u32) -> Option<InterfaceId> {
        self.links.interface_of(link)
    }

    /// Where packets come in: ports and the VLANs on them, also those that belong to a VRF, bridge
    /// or bond. In order of links.
    pub fn places(&self) -> Vec<Place> {
        self.links.places()
    }

    /// Whether links or their addresses have changed since the last call.
    pub fn take_places_changed(&mut self) -> bool {
        std::mem::take(&mut self.links.places_changed)
    }

    /// Name of the link that an interface stands for.
    pub fn name_of(&self, id: InterfaceId) -> Option<&str> {
        self.links.link_of(id).and_then(|index| self.links.get(index)).map(|link| &link.name[..])
    }

    /// The longest prefix that decides about an address; none where there is no route.
    pub fn prefix_of(&self, address: IpAddr) -> Option<IpNet> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = |len| IpNet::new(address, len).map(|net| net.trunc()).ok();
        let decides = |net: &IpNet| {
            let key = (*net).into();
            let list = self.prefixes.list(key);
            prefixes::kernel_prefixes().contains(net)
                || self.prefixes.winner(key, &list, &self.slots).target(&self.slots).is_some()
        };
        (0..=bits).rev().filter_map(prefix).find(decides)
    }

    /// Events taken over so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Routes that found no place in the forwarding tables so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Number of interfaces, that is of ports and VLANs in use.
    pub fn interfaces(&self) -> usize {
        self.links.interfaces()
    }

    fn add_route(&mut self, route: &Route, replace: bool, append: bool, out: &mut impl Tables) {
        let Some(candidate) = Candidate::of(route) else { return };
        if prefixes::is_kernels(route.prefix) {
            return;
        }
        let slot = self.slots.intern(candidate, &self.links);
        let dump = self.resync.covers(route.prefix);
        self.edit(prefixes::Key::from(route.prefix), out, |list, slots| {
            order::insert(list, slot, slots, order::Mode { replace, append, dump })
        });
        self.slots.drop_unused(slot);
    }

    fn remove_route(&mut self, route: &Route, out: &mut impl Tables) {
        let Some(candidate) = Candidate::of(route) else { return };
        let key = prefixes::Key::from(route.prefix);
        let rest = order::remainder(&candidate, self.prefixes.list(key), &self.slots);
        let added = match rest {
            order::Rest::Unknown => return,
            order::Rest::Nothing => None,
            order::Rest::Hops(rest) => Some(self.slots.intern(rest, &self.links)),
        };
        self.edit(key, out, |list, slots| order::remove(list, &candidate, added, slots));
    }

    /// Changes one prefix's list of candidates and carries the outcome to `out`.
    fn edit(
        &mut self,
        key: prefixes::Key,
        out: &mut impl Tables,
        change: impl FnOnce(&mut Vec<prefixes::Entry>, &Slots) -> order::Edit,
    ) {
        let mut list = self.prefixes.take(key);
        let before = self.prefixes.winner(key, &list, &self.slots);
        let wide_before = self.prefixes.note_wide(key, &list, &self.slots);
        let edit = change(&mut list, &self.slots);
        let wide_after = self.prefixes.note_wide(key, &list, &self.slots);
        let after = self.prefixes.winner(key, &list, &self.slots);
        let target_before = before.target(&self.slots);
        let target_after = after.target(&self.slots);
        if target_before != target_after {
            self.refused += put(out, key.prefix(), target_after);
        }
        let part = if key.is_v4() { Part::Routes4 } else { Part::Routes6 };
        self.resync.want_if(part, edit.guessed);
        if let Some(added) = edit.added {
            self.slots.hold(added);
        }
        for removed in edit.removed {
            self.slots.release(removed.slot);
        }
        self.prefixes.put_back(key, list);
        if wide_before != wide_after {
            self.review(key.prefix(), wide_before.local != wide_after.local, out);
        }
    }

    /// A table of higher rank changed at `prefix`: what it hides or hid inside is set again.
    fn review(&mut self, prefix: IpNet, all_tables: bool, out: &mut impl Tables) {
        for key in self.prefixes.within(prefix, all_tables) {
            let list = self.prefixes.list(key);
            let target = self.prefixes.winner(key, &list, &self.slots).target(&self.slots);
            self.refused += put(out, key.prefix(), target);
        }
    }

    fn retarget_links(&mut self, moved: &[u32], out: &mut impl Tables) {
        if !moved.is_empty() {
            self.retarget(|_| true, out);
        }
    }

    /// Links or next-hop objects mean something else now: those routes that may depend on them
    /// follow.
    fn retarget(&mut self, depends: impl Fn(&Candidate) -> bool, out: &mut impl Tables) {
        let changed = self.slots.retarget(depends, &self.links);
        if changed.is_empty() {
            return;
        }
        for key in self.prefixes.won_by(&changed) {
            let list = self.prefixes.list(key);
            let target = self.prefixes.winner(key, &list, &self.slots).target(&self.slots);
            self.refused += put(out, key.prefix(), target);
        }
    }

    fn link_state_changed(
        &mut self,
        index: u32,
        before: Option<(bool, bool)>,
        after: (bool, bool),
        out: &mut impl Tables,
    ) {
        let Some((was_admin_up, was_up)) = before else { return };
        if was_up && !after.1 {
            self.next_hops_lost(index);
        }
        if was_admin_up && !after.0 {
            let dead = self.slots.dead_with(index, &self.links);
            self.drop_slots(&dead, out);
        }
    }

    /// The kernel removes next-hop objects with their link, and their routes with them, silently.
    fn next_hops_lost(&mut self, link: u32) {
        self.resync.want_if(Part::NextHops, self.links.next_hop_uses(link));
        // In a dump, what is known of the objects may be older than what is known of the routes:
        // any route with an object may be concerned.
        if self.resync.is_running() && self.slots.any_by_object() {
            self.resync.want_all();
        }
    }

    fn link_gone(&mut self, index: u32, moved: &[u32], out: &mut impl Tables) {
        self.next_hops_lost(index);
        let dead = self.slots.gone_with(index);
        self.drop_slots(&dead, out);
        self.retarget_links(moved, out);
    }

    /// An object goes, with its routes and the groups that it leaves empty.
    fn next_hop_gone(&mut self, id: u32, out: &mut impl Tables) {
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            self.links.next_hops.remove(&id);
            for (group, target) in &mut self.links.next_hops {
                let NextHopTarget::Group(members) = target else { continue };
                let before = members.len();
                members.retain(|(member, _)| *member != id);
                if members.is_empty() && before > 0 {
                    gone.push(*group);
                }
            }
            let dead = self.slots.of_next_hop(id);
            self.drop_slots(&dead, out);
        }
        self.retarget(Candidate::by_object, out);
    }

    /// Removes every route that is one of these.
    fn drop_slots(&mut self, dead: &[u32], out: &mut impl Tables) {
        if dead.is_empty() {
            return;
        }
        for key in self.prefixes.containing(dead) {
            self.edit(key, out, |list, _| {
                let gone =
                    list.iter().copied().filter(|entry| dead.contains(&entry.slot)).collect();
                list.retain(|entry| !dead.contains(&entry.slot));
                order::Edit { removed: gone, ..order::Edit::default() }
            });
        }
    }
}

/// Preference of a table: lower first. Other tables are not followed.
fn rank(table: u32) -> Option<u8> {
    match table {
        TABLE_LOCAL => Some(0),
        TABLE_MAIN => Some(1),
        253 => Some(2),
        _ => None,
    }
}

/// Sets or removes; a route that finds no place is left to the kernel, or dropped from the tables
/// where even that has no place. Returns how many were refused.
fn put(out: &mut impl Tables, prefix: IpNet, target: Option<&Target>) -> u64 {
    let Some(target) = target else {
        out.remove_route(prefix);
        return 0;
    };
    let Err(error) = out.set_route(prefix, target) else { return 0 };
    tracing::warn!(%prefix, %error, "no place for a route; the kernel forwards it");
    if out.set_route(prefix, &Target::Kernel).is_err() {
        out.remove_route(prefix);
    }
    1
}

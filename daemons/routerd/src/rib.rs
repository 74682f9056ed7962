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
mod lifetimes;
mod links;
mod objects;
mod order;
mod prefixes;
mod resync;
mod room;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use ebb_apps::route::{InterfaceId, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{Elsewhere, Event, Part, Route, TABLE_LOCAL, TABLE_MAIN};
use ebb_units::Time;
use ipnet::IpNet;

use candidate::{Candidate, Slots};
use links::Links;
use prefixes::Prefixes;
pub(crate) use prefixes::is_kernels as is_reserved;
use resync::Resync;
use room::put;
pub use tables::{Nowhere, Tables};

use crate::interface::RouterInterface;

/// What a dump covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// One part.
    Part(Part),
}

/// A VLAN interface on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortVlan {
    /// Its identifier.
    pub id: u16,
    /// Index of its link.
    pub link: u32,
    /// Workers serve it: its tags have no priority.
    pub by_workers: bool,
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
    Vlans(PortId, Vec<PortVlan>),
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
    /// Routes that did not fit the forwarding tables and were left to the kernel.
    refused: u64,
    changes: u64,
    now: Time,
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
            now: Time::ZERO,
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

    /// It is `now`: what ends by itself until then has ended. To be called before events are taken over, which
    /// tell spans of time, and when [`Rib::next`] says so.
    pub fn pass(&mut self, now: Time, out: &mut impl Tables) {
        self.now = self.now.max(now);
        for key in self.prefixes.lifetimes.pass(self.now) {
            self.put_again(key, out);
        }
        let asks = self.prefixes.lifetimes.asks(self.now);
        self.resync.want_if(Part::Routes6, asks);
    }

    /// When something ends by itself, or is to be looked at, next.
    pub fn next(&self) -> Option<Time> {
        self.prefixes.lifetimes.next()
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
                self.link_state(link.index, before, (link.admin_up, link.up), out);
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
                self.next_hop(object);
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

    /// This part is read from now on: plain routes of IPv4 that come beside another are announced, not listed.
    pub(crate) fn lists(&mut self, part: Part) {
        self.resync.announces4 = part != Part::Routes4;
    }

    /// Ends a dump.
    pub fn finish(&mut self, out: &mut impl Tables) {
        self.finish_without(&[], out);
    }

    /// Ends a dump of which these parts could not be read to their end: what they did not show stays known as
    /// it was, and they are wanted again.
    pub fn finish_without(&mut self, unread: &[Part], out: &mut impl Tables) {
        let gone = self.resync.finish(unread);
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
            self.next_hops_listed(out);
        }
        for (link, address) in gone.neighbours {
            self.links.remove_neighbour(link, address, out);
        }
        if gone.routes.v6 {
            for key in std::mem::take(&mut self.prefixes.unsure) {
                self.put_again(key, out);
            }
        }
        for key in self.prefixes.unconfirmed(gone.routes) {
            self.sweep(key, out);
        }
    }

    /// Removes what a dump did not show of one prefix.
    fn sweep(&mut self, key: prefixes::Key, out: &mut impl Tables) {
        self.edit(key, out, |list, slots| {
            let hides = |entry: &prefixes::Entry| order::may_hide(list, entry, slots);
            let gone: Vec<_> =
                list.iter().copied().filter(|entry| !entry.confirmed && !hides(entry)).collect();
            list.retain(|entry| !gone.contains(entry));
            order::Edit { removed: gone, ..order::Edit::default() }
        });
        let list = self.prefixes.list(key);
        let best = order::best(&list, &self.slots);
        if list.iter().any(|entry| !entry.confirmed && Some(entry.slot) == best) {
            self.doubt(key, out);
        }
    }

    /// IPv6 prefixes with routes that are merged with each other.
    pub(crate) fn merged(&self) -> HashSet<IpNet> {
        self.prefixes.containing(&self.slots.merged()).into_iter().map(|key| key.prefix()).collect()
    }

    /// So many ways lead to a prefix of [`Rib::merged`], or nobody can tell: if as many are known, they are all; if as many
    /// were listed, those that might have been left out of the list are gone.
    pub(crate) fn count_ways(&mut self, to: IpNet, ways: Option<usize>, out: &mut impl Tables) {
        let key = prefixes::Key::from(to);
        let list = self.prefixes.list(key);
        let of = |entry: &prefixes::Entry| self.slots.candidate(entry.slot).hops.len().max(1);
        let known: usize = list.iter().map(of).sum();
        let listed: usize = list.iter().filter(|entry| entry.confirmed).map(of).sum();
        if ways != Some(known) && ways != Some(listed) {
            return self.doubt(key, out);
        }
        if ways != Some(known) {
            self.edit(key, out, |list, _| {
                let removed = list.extract_if(.., |entry| !entry.confirmed).collect();
                order::Edit { removed, ..order::Edit::default() }
            });
        }
        if self.prefixes.unsure.remove(&key) {
            self.put_again(key, out);
        }
    }

    /// There may be more of a prefix than is known: its packets are the kernel's until all was asked for.
    fn doubt(&mut self, key: prefixes::Key, out: &mut impl Tables) {
        self.prefixes.unsure.insert(key);
        self.put_again(key, out);
    }

    /// Sets a prefix as it stands.
    fn put_again(&mut self, key: prefixes::Key, out: &mut impl Tables) {
        let list = self.prefixes.list(key);
        let target = self.prefixes.winner(key, &list, &self.slots).target(&self.slots);
        let held = put(out, key.prefix(), target);
        self.note(key, held, out);
    }

    /// Whether something has to be dumped again.
    pub fn wants(&self) -> bool {
        self.resync.wants()
    }

    /// A part has to be dumped again.
    pub fn want(&mut self, part: Part) {
        self.resync.want(part);
    }

    /// What has to be dumped again, if anything; it then counts as done.
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
    pub fn places(&self) -> Vec<RouterInterface> {
        self.links.places()
    }

    /// IPv4 networks whose every address is the host's own (`ip route add local ...`).
    pub fn local_networks(&self) -> Vec<IpNet> {
        self.prefixes.local_networks()
    }

    /// The least MTU that a route has of its own, IPv4's first.
    pub fn least_route_mtus(&self) -> [Option<u32>; 2] {
        [false, true].map(|v6| self.slots.least_mtu(v6))
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
        let Some(mut candidate) = Candidate::of(route) else { return };
        if prefixes::is_kernels(route.prefix) {
            return;
        }
        let key = prefixes::Key::from(route.prefix);
        let dump = self.resync.covers(route.prefix);
        if candidate.v6 && !replace {
            candidate = order::known_as(candidate, &self.prefixes.list(key), &self.slots, dump);
        }
        let (v6, several) = (candidate.v6, candidate.hops.len() > 1);
        let unsure = replace && self.may_have_lost_rivals(key, &candidate);
        let slot = self.slots.intern(candidate, &self.links);
        let before = self.prefixes.lifetimes.end(key, slot);
        let announced = dump && !v6 && self.resync.announces4;
        let mode = order::Mode { replace, append, dump, announced };
        let edited = self.edit(key, out, |list, slots| order::insert(list, slot, slots, mode));
        if v6 {
            let inherits = edited.mortal && !replace && !dump;
            let left = route.lifetime_ms;
            let end =
                self.end_of(left, several, inherits).or(before.filter(|end| self.is_now(*end)));
            self.set_end(key, slot, end, out);
            if (edited.guessed || unsure) && replace {
                self.doubt(key, out);
            }
        }
        self.resync.want_if(if v6 { Part::Routes6 } else { Part::Routes4 }, unsure);
        self.slots.drop_unused(slot);
    }

    /// When a route ends of whose life so much is left. Of routes that are merged the kernel tells one life
    /// and goes by all: it decides.
    fn end_of(&self, left_ms: Option<i64>, several: bool, inherits: bool) -> Option<Time> {
        match left_ms.map(u64::try_from) {
            None if inherits => Some(lifetimes::OVER),
            None => None,
            Some(Ok(left)) if !several => Some(self.now + Duration::from_millis(left)),
            Some(_) => Some(lifetimes::OVER),
        }
    }

    /// In the moment of its end a route looks as if it had none.
    fn is_now(&self, end: Time) -> bool {
        const MOMENT: Duration = Duration::from_millis(100);
        end < self.now + MOMENT && self.now < end + MOMENT
    }

    fn set_end(&mut self, key: prefixes::Key, slot: u32, end: Option<Time>, out: &mut impl Tables) {
        let lifetimes = &mut self.prefixes.lifetimes;
        let stands = self.slots.is_held(slot);
        if (end.is_some() && stands) || lifetimes.end(key, slot).is_some() {
            lifetimes.set(key, slot, end.filter(|_| stands));
            self.put_again(key, out);
        }
    }

    fn remove_route(&mut self, route: &Route, out: &mut impl Tables) {
        let Some(candidate) = Candidate::of(route) else { return };
        let key = prefixes::Key::from(route.prefix);
        let list = self.prefixes.list(key);
        let rest = order::remainder(&candidate, &list, &self.slots);
        let added = match rest {
            order::Rest::Unknown => return,
            order::Rest::Nothing => None,
            order::Rest::Hops(rest) => Some(self.slots.intern(rest, &self.links)),
        };
        let uncovers = order::uncovers(&candidate, &list, added, &self.slots);
        let edited =
            self.edit(key, out, |list, slots| order::remove(list, &candidate, added, slots));
        if let (Some(rest), true) = (added, edited.mortal) {
            self.set_end(key, rest, Some(lifetimes::OVER), out);
            self.resync.want(Part::Routes6);
        }
        if uncovers {
            self.resync.want(Part::Routes6);
            self.doubt(key, out);
        }
    }

    /// Changes one prefix's list of candidates and carries the outcome to `out`.
    fn edit(
        &mut self,
        key: prefixes::Key,
        out: &mut impl Tables,
        change: impl FnOnce(&mut Vec<prefixes::Entry>, &Slots) -> order::Edit,
    ) -> Edited {
        let mut list = self.prefixes.take(key);
        let before = self.prefixes.winner(key, &list, &self.slots);
        let wide_before = self.prefixes.note_wide(key, &list, &self.slots);
        let edit = change(&mut list, &self.slots);
        let mut mortal = false;
        if !self.prefixes.lifetimes.is_empty() {
            for removed in &edit.removed {
                mortal |= self.prefixes.lifetimes.remove(key, removed.slot);
            }
        }
        let wide_after = self.prefixes.note_wide(key, &list, &self.slots);
        let after = self.prefixes.winner(key, &list, &self.slots);
        let target_before = before.target(&self.slots);
        let target_after = after.target(&self.slots);
        let differs = target_before != target_after;
        let held = differs.then(|| put(out, key.prefix(), target_after));
        let part = if key.is_v4() { Part::Routes4 } else { Part::Routes6 };
        // Of what is in doubt the last known route has gone: if nothing else shows, nothing was hidden.
        let bare = list.is_empty() && self.prefixes.unsure.contains(&key);
        self.resync.want_if(part, edit.guessed || bare);
        if let Some(added) = edit.added {
            self.slots.hold(added);
        }
        for removed in edit.removed {
            self.slots.release(removed.slot);
        }
        self.prefixes.put_back(key, list);
        if let Some(held) = held {
            self.note(key, held, out);
        }
        if wide_before != wide_after {
            self.review(key.prefix(), wide_before.local != wide_after.local, out);
        }
        Edited { guessed: edit.guessed, mortal }
    }

    /// A table of higher rank changed at `prefix`: what it hides or hid inside is set again.
    fn review(&mut self, prefix: IpNet, all_tables: bool, out: &mut impl Tables) {
        for key in self.prefixes.within(prefix, all_tables) {
            self.put_again(key, out);
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
        for key in self.prefixes.won_by(&changed, &self.slots) {
            self.put_again(key, out);
        }
    }
}

/// What came of a change of a prefix's candidates.
struct Edited {
    guessed: bool,
    /// A candidate that ends by itself was replaced or removed.
    mortal: bool,
}

/// Whether routes of a table count here.
pub(crate) fn is_followed(table: u32) -> bool {
    rank(table).is_some()
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

//! The forwarding tables as the control thread changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebb_graph::PortId;
use ebb_lpm::{Ipv4Writer, Ipv6Writer};
use ipnet::IpNet;

use super::hops::{Hops, Key};
use super::interfaces::Interfaces;
use super::table::{Kind, NextHop};
use super::{Decision, Fib, FibError, Interface, InterfaceId, Path, ReversePath, Target};

/// The one hand that changes a [`Fib`].
///
/// Two things live in the prefix tables: the routes that were set, and for every neighbour on a
/// connected subnet a host entry of its own, so that the fast path does one lookup for both. A
/// host entry stands exactly while the longest route over the neighbour's address is an
/// [`Target::OnLink`] of its interface; where that route is to the single address, the entry stands
/// in its place, and the route is kept beside the table.
#[derive(Debug)]
pub struct FibWriter {
    pub(super) fib: Arc<Fib>,
    pub(super) v4: Ipv4Writer,
    pub(super) v6: Ipv6Writer,
    pub(super) hops: Hops,
    pub(super) interfaces: BTreeMap<InterfaceId, Interface>,
    pub(super) neighbours: BTreeMap<(IpAddr, InterfaceId), Neighbour>,
    /// Host entries in the prefix tables.
    hosts: usize,
    /// Next hops, held, of the routes to single addresses in whose place host entries stand.
    pub(super) hidden: BTreeMap<IpAddr, u32>,
    /// The last target set and its next hop: full tables repeat themselves.
    last: Option<Last>,
    interfaces_changed: bool,
    overheads: BTreeMap<PortId, u16>,
    filters: BTreeMap<InterfaceId, ReversePath>,
    /// Next hops with an MTU of their own, some of which may be out of use.
    limited: BTreeSet<(InterfaceId, IpAddr, u16)>,
}

#[derive(Debug)]
struct Last {
    target: Target,
    hop: u32,
    /// [`Hops::freed`] at that time: while it stands, `hop` means what it meant.
    freed: u64,
}

#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) mac: [u8; 6],
    /// Whether it has a host entry.
    pub(super) entered: bool,
}

/// The next hop that a path with a gateway leads to.
fn key_of(path: &Path) -> Option<Key> {
    let gateway = path.gateway?;
    Some(match path.mtu {
        None => Key::Neighbour(path.interface, gateway),
        Some(mtu) => Key::Limited(path.interface, gateway, mtu),
    })
}

impl FibWriter {
    /// An empty table and its writer.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (FibWriter, Arc<Fib>) {
        let (v4, v4_lpm) = Ipv4Writer::new();
        let (v6, v6_lpm) = Ipv6Writer::new();
        let fib = Arc::new(Fib::new(v4_lpm, v6_lpm));
        let writer = FibWriter {
            hops: Hops::new(&fib),
            fib: fib.clone(),
            v4,
            v6,
            interfaces: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            hosts: 0,
            hidden: BTreeMap::new(),
            last: None,
            overheads: BTreeMap::new(),
            interfaces_changed: false,
            filters: BTreeMap::new(),
            limited: BTreeSet::new(),
        };
        (writer, fib)
    }

    /// Packets that leave by this port become so many bytes longer ([`crate::Application::overhead`]): its
    /// interfaces, which come later, have smaller MTUs.
    pub fn set_overhead(&mut self, port: PortId, bytes: u16) {
        self.overheads.insert(port, bytes);
    }

    /// Adds or changes an interface; wholly visible after [`FibWriter::publish`].
    pub fn set_interface(&mut self, id: InterfaceId, mut interface: Interface) {
        let overhead = self.overheads.get(&interface.port).copied().unwrap_or(0);
        interface.mtu = interface.mtu.saturating_sub(overhead);
        let before = self.interfaces.insert(id, interface);
        if before.as_ref() != self.interfaces.get(&id) {
            self.interface_changed(id);
        }
    }

    /// Removes an interface and its neighbours; wholly visible after [`FibWriter::publish`].
    /// Routes through it stay and lead nowhere until they are changed.
    pub fn remove_interface(&mut self, id: InterfaceId) {
        if self.interfaces.remove(&id).is_none() {
            return;
        }
        let gone: Vec<IpAddr> = self
            .neighbours
            .keys()
            .filter(|(_, interface)| *interface == id)
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            self.remove_neighbour(id, address);
        }
        self.interface_changed(id);
    }

    fn interface_changed(&mut self, id: InterfaceId) {
        self.interfaces_changed = true;
        for index in self.hops.on_interface(id) {
            self.write_hop(index);
        }
        for index in self.hops.groups() {
            self.write_hop(index);
        }
    }

    /// Sets what interfaces ask of their packets' sources, whether they exist yet or not; all
    /// others ask nothing. Visible after [`FibWriter::publish`].
    pub fn set_reverse_paths(&mut self, filters: BTreeMap<InterfaceId, ReversePath>) {
        self.interfaces_changed |= self.filters != filters;
        self.filters = filters;
    }

    /// Adds or replaces a route; visible at once. Bits beyond the prefix length are ignored.
    ///
    /// # Errors
    /// When a table is full or the target has no path; the former route stays.
    pub fn set_route(&mut self, prefix: IpNet, target: &Target) -> Result<(), FibError> {
        let hop = self.intern_target(target)?;
        let host = (prefix.prefix_len() == prefix.max_prefix_len()).then(|| prefix.addr());
        if host.is_some_and(|address| self.hidden.get(&address) == Some(&hop)) {
            return Ok(());
        }
        self.hops.hold(hop);
        match self.insert(prefix, hop) {
            Ok(former) => {
                if let Some(address) = host {
                    self.yield_host_entry(address);
                }
                if let Some(former) = former {
                    self.hops.release(former);
                }
                self.review_neighbours(prefix);
                Ok(())
            }
            Err(error) => {
                self.hops.release(hop);
                Err(error)
            }
        }
    }

    /// Removes a route, at once; whether there was one.
    pub fn remove_route(&mut self, prefix: IpNet) -> bool {
        let is_host = prefix.prefix_len() == prefix.max_prefix_len();
        let former = if is_host && self.entered_at(prefix.addr()).is_some() {
            self.hidden.remove(&prefix.addr())
        } else {
            self.remove(prefix)
        };
        let Some(former) = former else { return false };
        self.hops.release(former);
        self.review_neighbours(prefix);
        true
    }

    /// Makes a neighbour known or changes its MAC address; wholly visible after
    /// [`FibWriter::publish`].
    pub fn set_neighbour(&mut self, interface: InterfaceId, address: IpAddr, mac: [u8; 6]) {
        let key = (address, interface);
        match self.neighbours.get_mut(&key) {
            Some(neighbour) if neighbour.mac == mac => return,
            Some(neighbour) => neighbour.mac = mac,
            None => {
                self.neighbours.insert(key, Neighbour { mac, entered: false });
            }
        }
        self.write_adjacency(interface, address);
        self.review_neighbour(key);
    }

    /// Forgets a neighbour that failed or is gone; wholly visible after [`FibWriter::publish`].
    pub fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr) {
        let Some(neighbour) = self.neighbours.remove(&(address, interface)) else { return };
        if neighbour.entered {
            self.remove_host_entry(address);
        }
        self.write_adjacency(interface, address);
    }

    /// Makes changes of interfaces and neighbours visible, and lets packets go that waited for
    /// them.
    pub fn publish(&mut self) {
        if core::mem::take(&mut self.interfaces_changed) {
            self.fib
                .interfaces
                .store(Arc::new(Interfaces::new(self.interfaces.clone(), &self.filters)));
        }
        self.fib.generation.fetch_add(1, Ordering::Release);
    }

    /// Number of routes, without the host entries of neighbours.
    pub fn routes(&self) -> usize {
        self.v4.len() + self.v6.len() - self.hosts + self.hidden.len()
    }

    /// Number of neighbours known.
    pub fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// What happens to packets for `address` at present.
    pub fn lookup(&self, address: IpAddr) -> Decision {
        self.describe(self.fib.next_hop(address), address)
    }

    pub(super) fn describe(&self, hop: NextHop, destination: IpAddr) -> Decision {
        match hop.kind {
            Kind::NoRoute => Decision::NoRoute,
            Kind::Kernel => Decision::Kernel,
            Kind::Blackhole => Decision::Blackhole,
            Kind::Unreachable => Decision::Unreachable,
            Kind::Prohibit => Decision::Prohibit,
            Kind::Down => Decision::Down,
            Kind::Resolve => {
                Decision::Resolve { interface: hop.interface, address: hop.neighbour() }
            }
            Kind::OnLink => Decision::Resolve { interface: hop.interface, address: destination },
            Kind::Forward => Decision::Forward {
                interface: hop.interface,
                address: hop.neighbour(),
                mac: hop.mac(),
            },
            Kind::Group => {
                let mut counts = BTreeMap::<u32, u16>::new();
                for member in self.fib.table.group(hop.address as u16) {
                    *counts.entry(member).or_default() += 1;
                }
                let part = |(member, count)| {
                    (self.describe(self.fib.table.read(member), destination), count)
                };
                Decision::Balance(counts.into_iter().map(part).collect())
            }
        }
    }

    /// The next hop of a target, made if it is new. Not held yet.
    fn intern_target(&mut self, target: &Target) -> Result<u32, FibError> {
        if let Some(last) = &self.last
            && last.target == *target
            && last.freed == self.hops.freed()
        {
            return Ok(last.hop);
        }
        let key = match target {
            Target::Kernel => Key::Fixed(Kind::Kernel),
            Target::Blackhole => Key::Fixed(Kind::Blackhole),
            Target::Unreachable => Key::Fixed(Kind::Unreachable),
            Target::Prohibit => Key::Fixed(Kind::Prohibit),
            Target::OnLink(interface) => Key::OnLink(*interface),
            Target::Paths(paths) => match &paths[..] {
                [] => return Err(FibError::NoPaths),
                [only] => key_of(only).unwrap_or(Key::OnLink(only.interface)),
                several => return self.intern_group(target, several),
            },
        };
        let hop = self.intern(key)?;
        Ok(self.remember(target, hop))
    }

    /// The next hop of several paths. Its members are held until the group holds them, so that none is
    /// left over when there is no place for all.
    fn intern_group(&mut self, target: &Target, paths: &[Path]) -> Result<u32, FibError> {
        let mut members = Vec::with_capacity(paths.len());
        let mut interned = Ok(());
        for path in paths {
            match self.intern(key_of(path).unwrap_or(Key::Fixed(Kind::Kernel))) {
                Ok(member) => {
                    self.hops.hold(member);
                    members.push((member, path.weight.max(1)));
                }
                Err(error) => {
                    interned = Err(error);
                    break;
                }
            }
        }
        let group = interned.and_then(|()| self.intern(Key::Group(members.clone())));
        for (member, _) in members {
            self.hops.release(member);
        }
        Ok(self.remember(target, group?))
    }

    fn remember(&mut self, target: &Target, hop: u32) -> u32 {
        self.last = Some(Last { target: target.clone(), hop, freed: self.hops.freed() });
        hop
    }

    fn intern(&mut self, key: Key) -> Result<u32, FibError> {
        let (hop, is_new) = self.hops.intern(key)?;
        if is_new {
            if let Key::Limited(interface, address, mtu) = *self.hops.key(hop) {
                self.limited.insert((interface, address, mtu));
            }
            self.write_hop(hop);
        }
        Ok(hop)
    }

    /// Brings a next hop's line in the shared table up to date.
    fn write_hop(&mut self, index: u32) {
        let hop = match self.hops.key(index) {
            Key::Fixed(_) => return,
            Key::Group(_) => {
                let up = |member: &Key| match member {
                    Key::Neighbour(interface, _)
                    | Key::Limited(interface, ..)
                    | Key::OnLink(interface) => {
                        self.interfaces.get(interface).is_some_and(|interface| interface.up)
                    }
                    Key::Fixed(_) | Key::Group(_) => true,
                };
                let buckets = self.hops.buckets(index, up);
                let group = self.hops.group_number(index);
                self.fib.table.write_group(group, &buckets);
                NextHop { address: u128::from(group), ..NextHop::plain(Kind::Group) }
            }
            Key::OnLink(interface) => self.hop_through(*interface, None),
            Key::Neighbour(id, address) => self.hop_to(*id, *address),
            Key::Limited(id, address, mtu) => {
                let hop = self.hop_to(*id, *address);
                NextHop { mtu: hop.mtu.min(*mtu), ..hop }
            }
        };
        self.fib.table.write(index, hop);
    }

    fn hop_to(&self, id: InterfaceId, address: IpAddr) -> NextHop {
        let mut hop = self.hop_through(id, Some(address));
        hop.address_is_v4 = address.is_ipv4();
        hop.address = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        hop
    }

    /// The next hop through an interface to one neighbour, or to any.
    fn hop_through(&self, id: InterfaceId, address: Option<IpAddr>) -> NextHop {
        let Some(interface) = self.interfaces.get(&id).filter(|interface| interface.up) else {
            return NextHop { interface: id, ..NextHop::plain(Kind::Down) };
        };
        let neighbour = address.and_then(|address| self.neighbours.get(&(address, id)));
        let (kind, mac) = match (address, neighbour) {
            (None, _) => (Kind::OnLink, [0; 6]),
            (Some(_), None) => (Kind::Resolve, [0; 6]),
            (Some(_), Some(neighbour)) => (Kind::Forward, neighbour.mac),
        };
        NextHop {
            port: interface.port,
            tagged: interface.vlan != 0,
            mtu: interface.mtu,
            interface: id,
            head: NextHop::head(mac, interface.mac, interface.vlan),
            ..NextHop::plain(kind)
        }
    }

    fn write_adjacency(&mut self, interface: InterfaceId, address: IpAddr) {
        if let Some(index) = self.hops.find(&Key::Neighbour(interface, address)) {
            self.write_hop(index);
        }
        let all = (interface, address, 0)..=(interface, address, u16::MAX);
        for (_, _, mtu) in self.limited.range(all).copied().collect::<Vec<_>>() {
            match self.hops.find(&Key::Limited(interface, address, mtu)) {
                Some(index) => self.write_hop(index),
                None => _ = self.limited.remove(&(interface, address, mtu)),
            }
        }
    }

    /// Looks again at the host entries of all neighbours inside a prefix whose route changed.
    fn review_neighbours(&mut self, prefix: IpNet) {
        if self.neighbours.is_empty() {
            return;
        }
        let first = (prefix.network(), InterfaceId(0));
        let last = (prefix.broadcast(), InterfaceId(u16::MAX));
        let inside: Vec<_> = self.neighbours.range(first..=last).map(|(key, _)| *key).collect();
        for key in inside {
            self.review_neighbour(key);
        }
    }

    /// Enters or removes a neighbour's host entry, as the route that covers it demands.
    fn review_neighbour(&mut self, key: (IpAddr, InterfaceId)) {
        let (address, interface) = key;
        let entered_by = self.entered_at(address);
        let cover = self.cover(address, entered_by.is_some());
        let wanted = cover.is_some_and(|hop| *self.hops.key(hop) == Key::OnLink(interface));
        if wanted == (entered_by == Some(interface)) {
            return;
        }
        if !wanted {
            self.remove_host_entry(address);
            self.mark(key, false);
            return;
        }
        if let Some(other) = entered_by {
            self.remove_host_entry(address);
            self.mark((address, other), false);
        }
        // Without a free next hop or prefix the neighbour stays behind its on-link route, whose
        // packets then wait in vain: the same as an unknown neighbour.
        let Ok(hop) = self.intern(Key::Neighbour(interface, address)) else { return };
        self.hops.hold(hop);
        match self.insert(IpNet::from(address), hop) {
            Ok(route) => {
                self.hidden.extend(route.map(|route| (address, route)));
                self.hosts += 1;
                self.mark(key, true);
            }
            Err(_) => self.hops.release(hop),
        }
    }

    fn mark(&mut self, key: (IpAddr, InterfaceId), entered: bool) {
        if let Some(neighbour) = self.neighbours.get_mut(&key) {
            neighbour.entered = entered;
        }
    }

    /// The interface whose neighbour has a host entry for `address`.
    pub(super) fn entered_at(&self, address: IpAddr) -> Option<InterfaceId> {
        if self.hosts == 0 {
            return None;
        }
        self.neighbours
            .range((address, InterfaceId(0))..=(address, InterfaceId(u16::MAX)))
            .find(|(_, neighbour)| neighbour.entered)
            .map(|((_, interface), _)| *interface)
    }

    /// Notes that an explicit route has just replaced a neighbour's host entry.
    fn yield_host_entry(&mut self, address: IpAddr) {
        if let Some(interface) = self.entered_at(address) {
            self.mark((address, interface), false);
            self.hosts -= 1;
            if let Some(former) = self.hidden.remove(&address) {
                self.hops.release(former);
            }
        }
    }

    /// Takes a host entry out; the route to the address, if there is one, takes its place again.
    fn remove_host_entry(&mut self, address: IpAddr) {
        let prefix = IpNet::from(address);
        let route = self.hidden.remove(&address);
        // A prefix that stands gets another value in place, which takes no room.
        let restored = route.map(|hop| (hop, self.insert(prefix, hop)));
        let former = match restored {
            Some((_, Ok(former))) => former,
            Some((hop, Err(_))) => {
                self.hops.release(hop);
                self.remove(prefix)
            }
            None => self.remove(prefix),
        };
        if let Some(former) = former {
            self.hops.release(former);
        }
        self.hosts -= 1;
    }

    /// The next hop of the longest route over `address`, host entries left out.
    fn cover(&self, address: IpAddr, has_host_entry: bool) -> Option<u32> {
        if let Some(hop) = self.hidden.get(&address) {
            return Some(*hop);
        }
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (0..=bits).rev().skip(usize::from(has_host_entry)).find_map(|len| {
            let prefix = IpNet::new(address, len).expect("a length within the address").trunc();
            match prefix {
                IpNet::V4(prefix) => self.v4.get(prefix.addr().to_bits(), len),
                IpNet::V6(prefix) => self.v6.get(prefix.addr().to_bits(), len),
            }
        })
    }

    fn insert(&mut self, prefix: IpNet, hop: u32) -> Result<Option<u32>, FibError> {
        let inserted = match prefix {
            IpNet::V4(net) => self.v4.insert(net.network().to_bits(), net.prefix_len(), hop),
            IpNet::V6(net) => self.v6.insert(net.network().to_bits(), net.prefix_len(), hop),
        };
        // Length and bits are right by the type.
        inserted.map_err(|_| FibError::PrefixesExhausted)
    }

    fn remove(&mut self, prefix: IpNet) -> Option<u32> {
        match prefix {
            IpNet::V4(net) => self.v4.remove(net.network().to_bits(), net.prefix_len()),
            IpNet::V6(net) => self.v6.remove(net.network().to_bits(), net.prefix_len()),
        }
    }
}

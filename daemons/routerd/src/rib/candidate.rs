//! Routes without their prefixes, each kept once: a full table has hundreds of thousands of
//! prefixes and a handful of these.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ebb_apps::route::{Path, Target};
use ebb_host::netlink::{NextHopTarget, Route, RouteHop, RouteKind};
use ipnet::IpNet;

use super::links::Links;
use super::rank;

/// One way to a destination, as far as it matters for identity and forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    pub(super) link: Option<u32>,
    pub(super) gateway: Option<IpAddr>,
    weight: u16,
    encapsulated: bool,
}

impl Hop {
    pub(super) fn same_way(&self, other: &Hop) -> bool {
        (self.link, self.gateway, self.encapsulated)
            == (other.link, other.gateway, other.encapsulated)
    }
}

impl From<&RouteHop> for Hop {
    fn from(hop: &RouteHop) -> Hop {
        Hop {
            link: hop.link,
            gateway: hop.gateway,
            weight: hop.weight,
            encapsulated: hop.encapsulated,
        }
    }
}

/// A route without its prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    pub(super) v6: bool,
    /// Of its table.
    pub(super) rank: u8,
    pub(super) metric: u32,
    pub(super) tos: u8,
    /// As number, see [`kind_number`].
    kind: u8,
    protocol: u8,
    source: Option<IpNet>,
    nexthop_id: Option<u32>,
    /// See [`Route::preference`].
    pub(super) preference: i8,
    /// It is merged of routes whose preferences were not all the same.
    pub(super) mixed: bool,
    /// See [`Route::digest`].
    digest: u64,
    /// 0: the interface's.
    mtu: u32,
    /// Empty where a next-hop object says it.
    pub(super) hops: Vec<Hop>,
}

impl Candidate {
    /// None for tables that are not followed.
    pub(super) fn of(route: &Route) -> Option<Candidate> {
        let hops = match route.nexthop_id {
            Some(_) => Vec::new(),
            None => route.hops.iter().map(Hop::from).collect(),
        };
        Some(Candidate {
            v6: route.prefix.addr().is_ipv6(),
            rank: rank(route.table)?,
            metric: route.metric,
            tos: route.tos,
            kind: kind_number(route.kind),
            protocol: route.protocol,
            source: route.source,
            nexthop_id: route.nexthop_id,
            preference: route.preference,
            mixed: false,
            digest: route.digest,
            mtu: route.mtu,
            hops,
        })
    }

    /// Its family and the MTU that it has of its own.
    fn own_mtu(&self) -> Option<(bool, u32)> {
        (self.mtu > 0).then_some((self.v6, self.mtu))
    }

    /// Whether a next-hop object says where packets go.
    pub(super) fn by_object(&self) -> bool {
        self.nexthop_id.is_some()
    }

    pub(super) fn with_hops(&self, hops: Vec<Hop>) -> Candidate {
        Candidate { hops, ..self.clone() }
    }

    /// Whether some packets to the prefix may not take this route although it is the best.
    pub(super) fn conditional(&self) -> bool {
        self.tos != 0 || self.source.is_some()
    }

    /// Whether the two compete for one place: among these, the order of arrival decides.
    pub(super) fn rivals(&self, other: &Candidate) -> bool {
        (self.rank, self.tos, self.metric, self.source)
            == (other.rank, other.tos, other.metric, other.source)
    }

    /// Whether IPv6 would merge it with its like into one multipath route (`rt6_qualify_for_ecmp`), as far as
    /// can be told: of what [`Candidate::may_be_advertised`] it cannot.
    pub(super) fn mergeable(&self) -> bool {
        self.v6
            && self.nexthop_id.is_none()
            && self.kind == kind_number(RouteKind::Unicast)
            && !self.hops.is_empty()
            && self.hops.iter().all(|hop| hop.gateway.is_some())
    }

    /// Whether the kernel itself may have made it of a router advertisement (`RTF_ADDRCONF`, which it does
    /// not tell): it is then not merged with others. Daemons name the same protocol for theirs, which are.
    pub(super) fn may_be_advertised(&self) -> bool {
        const ADVERTISED: u8 = 9; // RTPROT_RA
        self.mergeable() && self.protocol == ADVERTISED && self.hops.len() == 1
    }

    /// Whether two IPv6 routes of one place have a way in common, of which there is one only
    /// (`rt6_duplicate_nexthop`): they are the same one, with more or fewer of the others that it is merged
    /// with.
    pub(super) fn overlaps(&self, other: &Candidate) -> bool {
        if self.nexthop_id.is_some() || other.nexthop_id.is_some() {
            return self.nexthop_id == other.nexthop_id;
        }
        let known = |hop: &Hop| other.hops.iter().any(|other| other.same_way(hop));
        let bare = self.hops.is_empty() && other.hops.is_empty() && self.kind == other.kind;
        bare || self.hops.iter().any(known)
    }

    /// This route, which grew out of another: what both have stays in its place, so that its flows do.
    pub(super) fn grown_from(mut self, former: &Candidate) -> Candidate {
        let mut new = std::mem::take(&mut self.hops);
        for hop in &former.hops {
            if let Some(at) = new.iter().position(|other| other.same_way(hop)) {
                self.hops.push(new.remove(at));
            }
        }
        self.hops.extend(new);
        if self.hops.len() > 1 {
            self.mixed = former.mixed || self.preference != former.preference;
            self.preference = self.preference.max(former.preference);
            self.protocol = former.protocol;
        }
        self
    }

    /// What is left without these hops.
    pub(super) fn hops_without(&self, gone: &[Hop]) -> Vec<Hop> {
        let mut rest = self.hops.clone();
        for hop in gone {
            if let Some(at) = rest.iter().position(|other| other.same_way(hop)) {
                rest.remove(at);
            }
        }
        rest
    }

    /// Whether they are the same but for their hops.
    pub(super) fn same_but_hops(&self, other: &Candidate) -> bool {
        self.rivals(other)
            && (self.kind, self.protocol, self.nexthop_id)
                == (other.kind, other.protocol, other.nexthop_id)
    }

    /// Where packets go.
    fn target(&self, links: &Links) -> Target {
        const UNICAST: u8 = kind_number(RouteKind::Unicast);
        const BLACKHOLE: u8 = kind_number(RouteKind::Blackhole);
        const UNREACHABLE: u8 = kind_number(RouteKind::Unreachable);
        const PROHIBIT: u8 = kind_number(RouteKind::Prohibit);
        match self.kind {
            UNICAST => {}
            BLACKHOLE => return Target::Blackhole,
            UNREACHABLE => return Target::Unreachable,
            PROHIBIT => return Target::Prohibit,
            _ => return Target::Kernel,
        }
        let expanded;
        let hops = match self.nexthop_id.map(|id| expand(id, links)) {
            None => &self.hops,
            Some(Expanded::Blackhole) => return Target::Blackhole,
            Some(Expanded::Hops(hops)) => {
                expanded = hops;
                &expanded
            }
        };
        let path = |hop: &Hop| {
            let interface = links.interface_of(hop.link?)?;
            let usable = !hop.encapsulated && (hops.len() == 1 || hop.gateway.is_some());
            // To neighbours themselves only the kernel knows several MTUs.
            let usable = usable && (self.mtu == 0 || hop.gateway.is_some());
            let mtu = (self.mtu > 0).then(|| u16::try_from(self.mtu).unwrap_or(u16::MAX));
            usable.then_some(Path { interface, gateway: hop.gateway, weight: hop.weight, mtu })
        };
        match hops.iter().map(path).collect::<Option<Vec<Path>>>() {
            Some(paths) if !paths.is_empty() => match paths[..] {
                [Path { interface, gateway: None, .. }] => Target::OnLink(interface),
                [Path { interface, gateway: Some(gateway), mtu: None, .. }] => {
                    Target::via(interface, gateway)
                }
                _ => Target::Paths(paths),
            },
            _ => Target::Kernel,
        }
    }
}

enum Expanded {
    Blackhole,
    Hops(Vec<Hop>),
}

/// Hops of a next-hop object; none when it is unknown or in doubt, which leaves the route to the kernel.
fn expand(id: u32, links: &Links) -> Expanded {
    let single = |id: &u32| match links.next_hops.get(id) {
        Some(NextHopTarget::Hop(hop)) if !links.doubtful.contains(id) => Some(Hop::from(hop)),
        _ => None,
    };
    match links.next_hops.get(&id) {
        Some(NextHopTarget::Blackhole) => Expanded::Blackhole,
        Some(NextHopTarget::Hop(_)) => Expanded::Hops(single(&id).into_iter().collect()),
        Some(NextHopTarget::Group(members)) => {
            if let [(only, _)] = members[..]
                && let Some(NextHopTarget::Blackhole) = links.next_hops.get(&only)
            {
                return Expanded::Blackhole;
            }
            let hop = |(id, weight): &(u32, u16)| Some(Hop { weight: *weight, ..single(id)? });
            Expanded::Hops(members.iter().map(hop).collect::<Option<_>>().unwrap_or_default())
        }
        None => Expanded::Hops(Vec::new()),
    }
}

const fn kind_number(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => 0,
        RouteKind::Local => 1,
        RouteKind::Broadcast => 2,
        RouteKind::Multicast => 3,
        RouteKind::Blackhole => 4,
        RouteKind::Unreachable => 5,
        RouteKind::Prohibit => 6,
        RouteKind::Other => 7,
    }
}

#[derive(Debug)]
struct Slot {
    candidate: Arc<Candidate>,
    target: Target,
    refs: u32,
}

/// The candidates in use, by number.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_candidate: HashMap<Arc<Candidate>, u32>,
    /// How many of them have which MTU of their own, by family.
    mtus: BTreeMap<(bool, u32), u32>,
}

impl Slots {
    /// The least MTU that an IPv4 (or IPv6) route has of its own.
    pub(super) fn least_mtu(&self, v6: bool) -> Option<u32> {
        self.mtus.range((v6, 0)..=(v6, u32::MAX)).next().map(|((_, mtu), _)| *mtu)
    }

    /// The number of a candidate, new or known; unused until held.
    pub(super) fn intern(&mut self, candidate: Candidate, links: &Links) -> u32 {
        if let Some(known) = self.by_candidate.get(&candidate) {
            return *known;
        }
        let candidate = Arc::new(candidate);
        if let Some(mtu) = candidate.own_mtu() {
            *self.mtus.entry(mtu).or_default() += 1;
        }
        let slot = Slot { target: candidate.target(links), candidate: candidate.clone(), refs: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(slot);
                number
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        };
        self.by_candidate.insert(candidate, number);
        number
    }

    fn slot(&self, number: u32) -> &Slot {
        self.slots[number as usize].as_ref().expect("a slot in use")
    }

    pub(super) fn candidate(&self, number: u32) -> &Candidate {
        &self.slot(number).candidate
    }

    pub(super) fn target(&self, number: u32) -> &Target {
        &self.slot(number).target
    }

    pub(super) fn hold(&mut self, number: u32) {
        self.slots[number as usize].as_mut().expect("a slot in use").refs += 1;
    }

    /// Whether a candidate is in use.
    pub(super) fn is_held(&self, number: u32) -> bool {
        self.slots[number as usize].as_ref().is_some_and(|slot| slot.refs > 0)
    }

    pub(super) fn release(&mut self, number: u32) {
        let slot = self.slots[number as usize].as_mut().expect("a slot in use");
        slot.refs -= 1;
        self.drop_unused(number);
    }

    pub(super) fn drop_unused(&mut self, number: u32) {
        let entry = &mut self.slots[number as usize];
        if let Some(slot) = entry.take_if(|slot| slot.refs == 0) {
            self.by_candidate.remove(&slot.candidate);
            if let Some(mtu) = slot.candidate.own_mtu()
                && let Entry::Occupied(mut count) = self.mtus.entry(mtu)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            self.free.push(number);
        }
    }

    fn used(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?)))
    }

    fn matching(&self, test: impl Fn(&Candidate) -> bool) -> Vec<u32> {
        let used = self.used().filter(|(_, slot)| test(&slot.candidate));
        used.map(|(number, _)| number).collect()
    }

    /// IPv6 routes of several ways.
    pub(super) fn merged(&self) -> Vec<u32> {
        self.matching(|candidate| candidate.v6 && candidate.hops.len() > 1)
    }

    /// Whether there are IPv4 routes that were not made by the kernel itself.
    pub(super) fn any_static4(&self) -> bool {
        !self.matching(|c| !c.v6 && c.protocol != libc::RTPROT_KERNEL).is_empty()
    }

    pub(super) fn of_next_hop(&self, id: u32) -> Vec<u32> {
        self.matching(|candidate| candidate.nexthop_id == Some(id))
    }

    /// Whether any route has a next-hop object.
    pub(super) fn any_by_object(&self) -> bool {
        self.used().any(|(_, slot)| slot.candidate.by_object())
    }

    /// Routes whose next-hop object does not exist.
    pub(super) fn orphans(&self, links: &Links) -> Vec<u32> {
        let unknown = |id| !links.next_hops.contains_key(&id);
        self.matching(|candidate| candidate.nexthop_id.is_some_and(unknown))
    }

    /// Routes the kernel removes, with or without announcement, when `link` is switched off: those
    /// with no other link that is on. IPv4 keeps routes to the host itself (`fib_sync_down_dev`).
    /// One that `goes_down` was up: else only of IPv4 routes is it certain, of whose links all are known.
    pub(super) fn dead_with(&self, link: u32, links: &Links, goes_down: bool) -> Vec<u32> {
        let local = kind_number(RouteKind::Local);
        let off = |hop: &Hop| {
            hop.link.is_none_or(|index| links.get(index).map_or(goes_down, |link| !link.admin_up))
        };
        self.matching(|candidate| {
            candidate.hops.iter().any(|hop| hop.link == Some(link))
                && candidate.hops.iter().all(off)
                && (if candidate.v6 { goes_down } else { candidate.kind != local })
        })
    }

    /// Whether there are routes through `link` and others.
    pub(super) fn any_beside(&self, link: u32, v6: bool) -> bool {
        let through = |hop: &Hop| hop.link == Some(link);
        let beside = |hops: &[Hop]| hops.iter().any(through) && !hops.iter().all(through);
        self.used().any(|(_, slot)| slot.candidate.v6 == v6 && beside(&slot.candidate.hops))
    }

    /// Routes that vanish with `link`: in IPv4 with any of their hops, in IPv6 with the last.
    pub(super) fn gone_with(&self, link: u32) -> Vec<u32> {
        let lost = |hop: &Hop| hop.link == Some(link);
        self.matching(|candidate| {
            if candidate.v6 {
                !candidate.hops.is_empty() && candidate.hops.iter().all(lost)
            } else {
                candidate.hops.iter().any(lost)
            }
        })
    }

    /// Works out again the targets that may depend on what changed, and returns the slots whose target changed, sorted.
    pub(super) fn retarget(
        &mut self,
        depends: impl Fn(&Candidate) -> bool,
        links: &Links,
    ) -> Vec<u32> {
        let mut changed = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot.as_mut().filter(|slot| depends(&slot.candidate)) else {
                continue;
            };
            let target = slot.candidate.target(links);
            if target != slot.target {
                slot.target = target;
                changed.push(number as u32);
            }
        }
        changed
    }
}

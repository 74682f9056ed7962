//! Routes of the cluster in the kernel's tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use ebb_host::netlink::{
    Error, Event, Monitor, NextHopTarget, Part, Requests, Route, RouteChange, RouteHop, RouteKind,
    TABLE_MAIN,
};
use ipnet::IpNet;

use super::published::differences;
use super::{Hop, Hops, Published, Routes};

/// Who made a route, as the kernel keeps it (`/etc/iproute2/rt_protos`): this is nobody else's.
const OURS: u8 = 235;
/// Behind those of daemons (BIRD 32, FRR 20), whose routes win where both are. FRR takes the first byte of a
/// foreign route's metric for its distance: with less than its own protocols' it would withdraw what it has
/// learnt in favour of this, which goes with that, and begin again. 255 is never chosen.
const METRIC: u32 = 0xff00_0000;
/// Routes of the kernel itself, of `ip route`, of router advertisements and of DHCP are no daemon's.
const NO_DAEMON: [u8; 7] = [0, 1, 2, 3, 4, 9, 16];
/// Changes that one call makes, and events that one takes, at most: others wait for the caller, too.
const AT_ONCE: usize = 1 << 16;

/// The main routing table of a back-end's namespace, as far as it concerns what is published.
pub(super) struct Kernel {
    monitor: Monitor,
    requests: Requests,
    /// Interfaces by side.
    links: Vec<u32>,
    /// All is to be asked again.
    unsure: bool,
    /// Networks whose ways there are not those published, as far as is known.
    amiss: BTreeSet<IpNet>,
    theirs: Theirs,
}

/// The daemon's routes by network, metric and daemon: the first of a network counts.
#[derive(Default)]
struct Theirs {
    routes: BTreeMap<(IpNet, u32, u8), Way>,
    /// Networks with several routes of one metric, whose order only the kernel knows.
    several: BTreeSet<IpNet>,
    /// Next-hop objects that there are: another content of one changes routes without a word.
    objects: BTreeSet<u32>,
    /// Hops that were seen last, which most routes share.
    last: Hops,
}

#[derive(PartialEq)]
struct Way {
    hops: Hops,
    /// By a next-hop object.
    object: bool,
}

impl Theirs {
    fn of(&self, net: IpNet, metric: u32) -> Vec<(IpNet, u32, u8)> {
        let range = (net, metric, 0)..=(net, metric, u8::MAX);
        self.routes.range(range).map(|(key, _)| *key).collect()
    }

    /// Those of the same network and metric are gone.
    fn replaced(&mut self, route: &Route) {
        for key in self.of(route.prefix, route.metric) {
            let object = self.routes.remove(&key).is_some_and(|way| way.object);
            // In IPv6 a next-hop object's route and another one leave each other where they are.
            if route.prefix.addr().is_ipv6() && object != route.nexthop_id.is_some() {
                self.several.insert(route.prefix);
            }
        }
    }

    /// The first one stays, where there are several.
    fn add(&mut self, links: &[u32], route: &Route) {
        let hops = hops_on(links, route);
        if self.last[..] != hops[..] {
            self.last = Arc::from(hops);
        }
        if !self.of(route.prefix, route.metric).is_empty() {
            self.several.insert(route.prefix);
        }
        let way = Way { hops: self.last.clone(), object: route.nexthop_id.is_some() };
        let key = (route.prefix, route.metric, route.protocol);
        self.routes.entry(key).or_insert(way);
        self.objects.extend(route.nexthop_id);
    }

    /// Whether something of it may be left: some hops, or what the kernel has put together with it.
    fn remove(&mut self, links: &[u32], route: &Route) -> bool {
        match self.routes.remove(&(route.prefix, route.metric, route.protocol)) {
            Some(way) => !route.hops.is_empty() && way.hops[..] != hops_on(links, route)[..],
            None => !self.of(route.prefix, route.metric).is_empty(),
        }
    }
}

impl Kernel {
    /// Of the calling thread's namespace.
    pub(super) fn open(links: Vec<u32>) -> Result<Kernel> {
        let (monitor, requests) = (Monitor::open()?, Requests::open()?);
        // A whole table of one's own would overrun what daemons have to say.
        monitor.ignore(&requests)?;
        let (amiss, theirs) = (BTreeSet::new(), Theirs::default());
        Ok(Kernel { monitor, requests, links, unsure: true, amiss, theirs })
    }

    /// What the daemon has put there: the first way that it has.
    pub(super) fn learnt(&self, net: &IpNet) -> Option<&Hops> {
        let all = self.theirs.routes.range((*net, 0, 0)..=(*net, u32::MAX, u8::MAX));
        all.map(|(_, way)| &way.hops).find(|hops| !hops.is_empty())
    }

    /// Networks of the daemon's routes.
    pub(super) fn all_learnt(&self) -> impl Iterator<Item = &IpNet> {
        self.theirs.routes.keys().map(|(net, ..)| net)
    }

    /// Something of what is published is not there, or not as it is published.
    pub(super) fn is_amiss(&self) -> bool {
        !self.amiss.is_empty()
    }

    /// What is published for that network has changed.
    pub(super) fn has_changed(&mut self, net: IpNet) {
        self.amiss.insert(net);
    }

    /// Takes over what has changed, and says for which networks the daemon's ways have.
    pub(super) fn look(
        &mut self,
        published: &Published,
        changed: &mut dyn FnMut(IpNet),
    ) -> Result<()> {
        let (mut events, mut taken) = (Vec::new(), 0);
        while taken < AT_ONCE && self.monitor.poll(&mut |event| events.push(event))? > 0 {
            taken += events.len();
            for event in events.drain(..) {
                self.take(event, published, changed);
            }
        }
        if !std::mem::take(&mut self.unsure) {
            return Ok(());
        }
        let done = self.look_anew(published, changed);
        self.unsure |= done.is_err();
        match done {
            // So much changes that it cannot be asked for: later.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted { .. })) => Ok(()),
            done => done,
        }
    }

    fn take(&mut self, event: Event, published: &Published, changed: &mut dyn FnMut(IpNet)) {
        match event {
            Event::Route { route, replace, .. } if route.table == TABLE_MAIN => {
                if route.protocol == OURS {
                    return self.compare(&route, published);
                }
                if replace {
                    self.theirs.replaced(&route);
                }
                if is_daemons(&route) {
                    self.theirs.add(&self.links, &route);
                }
                self.unsure |= self.theirs.several.contains(&route.prefix);
                changed(route.prefix);
            }
            Event::RouteGone(route) if route.table == TABLE_MAIN => {
                if route.protocol == OURS {
                    return self.missing(&route.prefix, published);
                }
                self.unsure |= self.theirs.remove(&self.links, &route)
                    || self.theirs.several.contains(&route.prefix);
                changed(route.prefix);
            }
            Event::Route { .. } | Event::RouteGone(_) => {}
            Event::NextHop(object) => {
                self.unsure |= !self.theirs.objects.insert(object.id);
                if let NextHopTarget::Group(members) = object.target {
                    self.theirs.objects.extend(members.iter().map(|(id, _)| *id));
                }
            }
            Event::NextHopGone(id) => self.unsure |= self.theirs.objects.remove(&id),
            // These take routes with them without a word.
            Event::Link(_)
            | Event::LinkGone(_)
            | Event::LinkMoved { .. }
            | Event::AddressGone(_)
            | Event::Overrun => {
                self.unsure = true;
            }
            Event::Address(_) | Event::Neighbour(_) | Event::NeighbourGone(_) => {}
        }
    }

    /// Somebody else has made a route in our name.
    fn compare(&mut self, route: &Route, published: &Published) {
        let hops = hops_on(&self.links, route);
        if published.get(&route.prefix).is_some_and(|wanted| wanted[..] == hops[..]) {
            self.amiss.remove(&route.prefix);
        } else {
            self.amiss.insert(route.prefix);
        }
    }

    fn missing(&mut self, net: &IpNet, published: &Published) {
        if published.get(net).is_some() {
            self.amiss.insert(*net);
        } else {
            self.amiss.remove(net);
        }
    }

    /// Asks for everything.
    fn look_anew(&mut self, published: &Published, changed: &mut dyn FnMut(IpNet)) -> Result<()> {
        let mut now = Theirs::default();
        let (unsure, links) = (&mut self.unsure, &self.links);
        for part in [Part::NextHops, Part::Routes4, Part::Routes6] {
            self.monitor.dump_part(part, &mut |event| match event {
                Event::Route { route, replace, .. } if route.table == TABLE_MAIN => {
                    if replace {
                        now.replaced(&route);
                    }
                    if is_daemons(&route) || route.protocol == OURS {
                        now.add(links, &route);
                    }
                }
                Event::RouteGone(route) if route.table == TABLE_MAIN => {
                    *unsure |= now.remove(links, &route);
                }
                Event::NextHop(object) => _ = now.objects.insert(object.id),
                Event::Overrun => now = Theirs::default(),
                // The dump may be older than that: another look tells.
                Event::NextHopGone(_)
                | Event::Link(_)
                | Event::LinkGone(_)
                | Event::LinkMoved { .. }
                | Event::AddressGone(_) => *unsure = true,
                _ => {}
            })?;
        }
        let mut ours = Routes::new();
        now.routes.retain(|(net, _, protocol), way| {
            if *protocol == OURS {
                ours.insert(*net, way.hops.clone());
            }
            *protocol != OURS
        });
        let before = std::mem::replace(&mut self.theirs, now).routes;
        differences(&before, &self.theirs.routes, &mut |key| changed(key.0));
        self.amiss.clear();
        for (net, hops) in published.iter() {
            if ours.remove(net).as_ref() != Some(hops) {
                self.amiss.insert(*net);
            }
        }
        self.amiss.extend(ours.into_keys());
        Ok(())
    }

    /// Makes ours those that are published, or many of them. What the kernel refuses stays amiss.
    pub(super) fn install(&mut self, published: &Published) -> Result<()> {
        let nets: Vec<IpNet> = self.amiss.iter().take(AT_ONCE).copied().collect();
        let changes: Vec<RouteChange> = (nets.iter())
            .map(|net| match published.get(net) {
                Some(hops) => RouteChange::Replace(self.ours(*net, hops)),
                None => RouteChange::Delete(self.ours(*net, &[])),
            })
            .collect();
        let refused = self.change(changes)?;
        for net in nets {
            if !refused.contains_key(&net) {
                self.amiss.remove(&net);
            }
        }
        told(&refused)
    }

    /// Takes the daemon's routes out, when it is gone.
    pub(super) fn forget(&mut self, published: &Published) -> Result<()> {
        self.look(published, &mut |_| ())?;
        let gone = |(net, metric, protocol): &(IpNet, u32, u8)| {
            let route = Route::unicast(*net, []);
            RouteChange::Delete(Route { metric: *metric, protocol: *protocol, ..route })
        };
        let changes = self.theirs.routes.keys().map(gone).collect();
        self.theirs.routes.clear();
        // There may be several of one network and metric.
        self.unsure = true;
        let refused = self.change(changes)?;
        told(&refused)
    }

    fn ours(&self, net: IpNet, hops: &[Hop]) -> Route {
        let hop = |hop: &Hop| {
            let link = self.links.get(hop.side).copied();
            // Every back-end has the same subnets; a next hop outside of them is the daemon's `onlink`.
            RouteHop { weight: hop.weight, ..RouteHop::new(link, hop.via) }
        };
        let route = Route::unicast(net, hops.iter().map(hop));
        Route { metric: METRIC, protocol: OURS, ..route }
    }

    /// Makes changes, and returns what was refused, with the reason.
    fn change(&mut self, changes: Vec<RouteChange>) -> Result<BTreeMap<IpNet, String>> {
        let refused = self.requests.change_routes(changes.iter().cloned())?;
        let mut reasons = BTreeMap::new();
        for one in refused {
            let (RouteChange::Add(route)
            | RouteChange::Replace(route)
            | RouteChange::Append(route)
            | RouteChange::Delete(route)) = &changes[one.index];
            // What is gone already need not be removed.
            let removal = matches!(changes[one.index], RouteChange::Delete(_));
            if !(removal && one.source.raw_os_error() == Some(ESRCH)) {
                reasons.insert(route.prefix, format!("{} {}", one.source, one.message));
            }
        }
        Ok(reasons)
    }
}

/// Ways on the cluster's sides; others are nobody's but this namespace's.
fn hops_on(links: &[u32], route: &Route) -> Vec<Hop> {
    let one = |hop: &RouteHop| {
        let side = links.iter().position(|link| Some(*link) == hop.link)?;
        Some(Hop { side, via: hop.gateway, weight: hop.weight })
    };
    let mut hops: Vec<Hop> = route.hops.iter().filter_map(one).collect();
    hops.sort_unstable();
    hops
}

fn told(refused: &BTreeMap<IpNet, String>) -> Result<()> {
    let Some((net, why)) = refused.first_key_value() else { return Ok(()) };
    bail!("the kernel rejected {} routes, the first is {net}: {}", refused.len(), why.trim_end())
}

/// "No such process": there is no such route.
const ESRCH: i32 = 3;

/// Whether a daemon has made it, for all packets to its network.
fn is_daemons(route: &Route) -> bool {
    let plain = route.kind == RouteKind::Unicast && route.tos == 0 && route.source.is_none();
    plain && route.protocol != OURS && !NO_DAEMON.contains(&route.protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_host::netlink::{NextHopObject, Veth};

    /// Numbers below `n` from a seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % n
        }
    }

    /// `EBB_LONG=1` tries 1,000.
    fn seeds() -> u64 {
        if std::env::var_os("EBB_LONG").is_some() { 1000 } else { 8 }
    }

    const NETS: [&str; 6] = [
        "192.0.2.0/24",
        "192.0.0.0/16",
        "0.0.0.0/0",
        "2001:db8:1::/48",
        "2001:db8:2::/48",
        "2000::/3",
    ];

    fn net(number: u64) -> IpNet {
        NETS[number as usize].parse().expect("a network")
    }

    struct Scene {
        dice: Dice,
        requests: Requests,
        links: Vec<u32>,
    }

    impl Scene {
        fn prepare(&mut self) {
            for (index, link) in self.links.clone().into_iter().enumerate() {
                self.requests.set_up(link, true).expect("up");
                for text in [format!("10.0.{index}.1/24"), format!("fd00:{index}::1/64")] {
                    // It may be there.
                    _ = self.requests.add_address(link, text.parse().expect("an address"));
                }
            }
        }

        fn hops(&mut self, net: &IpNet) -> Hops {
            let count = 1 + self.dice.roll(2);
            let one = |_| {
                let (side, host) = (self.dice.roll(2), 2 + self.dice.roll(2));
                let text = match net {
                    IpNet::V4(_) => format!("10.0.{side}.{host}"),
                    IpNet::V6(_) => format!("fd00:{side}::{host}"),
                };
                Hop { side: side as usize, via: text.parse().ok(), weight: 1 }
            };
            let mut hops: Vec<Hop> = (0..count).map(one).collect();
            hops.sort_unstable();
            hops.dedup();
            hops.into()
        }

        fn daemons(&mut self, net: IpNet, protocol: u8) -> Route {
            let hops = self.hops(&net);
            let hop = |hop: &Hop| RouteHop::new(Some(self.links[hop.side]), hop.via);
            let route = Route::unicast(net, hops.iter().map(hop));
            Route { protocol, metric: 20 + self.dice.roll(2) as u32, ..route }
        }

        /// What the kernel refuses has not been.
        fn change(&mut self, change: RouteChange) {
            _ = self.requests.change_routes([change]).expect("the socket holds");
        }

        /// Something that happens to a back-end.
        fn happen(&mut self, kernel: &mut Kernel, published: &mut Published) {
            let (net, protocol) = (net(self.dice.roll(6)), [12, 186][self.dice.roll(2) as usize]);
            let route = self.daemons(net, protocol);
            match self.dice.roll(16) {
                0..5 => self.change(RouteChange::Replace(route)),
                5 => self.change(RouteChange::Append(route)),
                6..9 => self
                    .change(RouteChange::Delete(Route { hops: [].into_iter().collect(), ..route })),
                9 => self.change(RouteChange::Delete(route)),
                10 => {
                    let ours = Route { protocol: OURS, metric: METRIC, ..route };
                    let gone = Route { hops: [].into_iter().collect(), ..ours.clone() };
                    let (replace, delete) = (RouteChange::Replace(ours), RouteChange::Delete(gone));
                    self.change(if protocol == 12 { replace } else { delete });
                }
                11 => {
                    let (id, hop) = (1 + self.dice.roll(2) as u32, route.hops[0]);
                    let target = NextHopTarget::Hop(hop);
                    if self.requests.set_next_hop(&NextHopObject { id, target }).is_ok() {
                        let hops = [].into_iter().collect();
                        self.change(RouteChange::Replace(Route {
                            hops,
                            nexthop_id: Some(id),
                            ..route
                        }));
                    }
                }
                12 => _ = self.requests.delete_next_hop(1 + self.dice.roll(2) as u32),
                13 if self.dice.roll(4) == 0 => {
                    let link = self.links[self.dice.roll(2) as usize];
                    self.requests.set_up(link, false).expect("down");
                    self.prepare();
                }
                _ => {
                    let mut chunk = Routes::clone(published.chunk(Published::chunk_of(&net)));
                    let hops = self.hops(&net);
                    if chunk.insert(net, hops.clone()) == Some(hops) {
                        chunk.remove(&net);
                    }
                    published.set(Published::chunk_of(&net), Arc::new(chunk)).expect("its own");
                    kernel.has_changed(net);
                }
            }
        }
    }

    /// Daemons and strangers change routes, next-hop objects and links: what it has heard of is at any
    /// time what a look anew finds, and what is published is there in the end.
    #[test]
    fn what_it_heard_of_is_what_there_is() {
        let Some(space) = ebb_lab::test::namespace("ebb-routes") else { return };
        let run = || {
            let mut requests = Requests::open().expect("netlink");
            let mut links = Vec::new();
            for (a, b) in [("a0", "b0"), ("a1", "b1")] {
                requests.add_veth(Veth::new(a), Veth::new(b)).expect("a pair");
                links.push(requests.index_of(a).expect("just made"));
                let other = requests.index_of(b).expect("just made");
                requests.set_up(other, true).expect("up");
            }
            for seed in 0..seeds() {
                let (requests, links) = (Requests::open().expect("netlink"), links.clone());
                let mut kernel = Kernel::open(links.clone()).expect("watched");
                let mut scene = Scene { dice: Dice(seed), requests, links };
                scene.prepare();
                let mut published = Published::default();
                for step in 0..200 {
                    scene.happen(&mut kernel, &mut published);
                    if scene.dice.roll(3) == 0 {
                        // What is out of reach is refused until it is within.
                        _ = kernel.install(&published);
                    }
                    if scene.dice.roll(3) > 0 {
                        continue;
                    }
                    settled(&mut kernel, &published);
                    let mut other = Kernel::open(scene.links.clone()).expect("watched");
                    settled(&mut other, &published);
                    for number in 0..6 {
                        let (one, other) =
                            (kernel.learnt(&net(number)), other.learnt(&net(number)));
                        assert_eq!(
                            one, other,
                            "seed {seed}, step {step}: {}",
                            NETS[number as usize]
                        );
                    }
                }
                scene.prepare();
                settled(&mut kernel, &published);
                while kernel.is_amiss() {
                    kernel.install(&published).expect("all is within reach");
                    settled(&mut kernel, &published);
                }
                let mut other = Kernel::open(scene.links.clone()).expect("watched");
                settled(&mut other, &published);
                assert!(other.amiss.is_empty(), "seed {seed}: {:?}", other.amiss);
            }
        };
        space.run(run).expect("entered");
    }

    fn settled(kernel: &mut Kernel, published: &Published) {
        kernel.look(published, &mut |_| ()).expect("answers");
        while kernel.unsure {
            kernel.look(published, &mut |_| ()).expect("answers");
        }
    }
}

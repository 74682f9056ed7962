use std::collections::BTreeMap;

use anyhow::{Result, bail};
use ebb_host::netlink::{
    Event, Monitor, Part, Requests, Route, RouteChange, RouteHop, RouteKind, TABLE_MAIN,
};
use ipnet::IpNet;

use super::{Hop, Routes};

/// Who made a route, as the kernel keeps it (`/etc/iproute2/rt_protos`): this is nobody else's.
const OURS: u8 = 235;
/// Behind those of daemons (BIRD 32, FRR 20), whose routes win where both are.
const METRIC: u32 = 1 << 24;
/// Routes of the kernel itself, of `ip route`, of router advertisements and of DHCP are no daemon's.
const NO_DAEMON: [u8; 7] = [0, 1, 2, 3, 4, 9, 16];

/// The main routing table of a back-end's namespace.
pub(super) struct Kernel {
    monitor: Monitor,
    requests: Requests,
    /// Interfaces by side.
    links: Vec<u32>,
    changed: bool,
    installed: Routes,
    learnt: Routes,
    /// The daemon's, as they are in the kernel.
    theirs: Vec<Route>,
}

impl Kernel {
    /// Of the calling thread's namespace.
    pub(super) fn open(links: Vec<u32>) -> Result<Kernel> {
        Ok(Kernel {
            monitor: Monitor::open()?,
            requests: Requests::open()?,
            links,
            changed: true,
            installed: Routes::new(),
            learnt: Routes::new(),
            theirs: Vec::new(),
        })
    }

    /// Routes of ours that are there.
    pub(super) fn installed(&self) -> &Routes {
        &self.installed
    }

    /// What the daemon has put there.
    pub(super) fn learnt(&self) -> &Routes {
        &self.learnt
    }

    /// Takes over what has changed.
    pub(super) fn look(&mut self) -> Result<()> {
        let changed = &mut self.changed;
        self.monitor.poll(&mut |event| *changed |= concerns(&event))?;
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let mut seen: BTreeMap<(IpNet, u32, u8), Route> = BTreeMap::new();
        for part in [Part::Routes4, Part::Routes6] {
            let changed = &mut self.changed;
            self.monitor.dump_part(part, &mut |event| match event {
                Event::Route { route, .. } if route.table == TABLE_MAIN => {
                    seen.insert((route.prefix, route.metric, route.protocol), route);
                }
                Event::Route { .. } => {}
                // The dump may be older than that: another look tells.
                event => *changed |= concerns(&event),
            })?;
        }
        (self.installed, self.learnt) = (Routes::new(), Routes::new());
        self.theirs.clear();
        for ((net, _, protocol), route) in seen {
            let plain =
                route.kind == RouteKind::Unicast && route.tos == 0 && !route.source_specific;
            if !plain || NO_DAEMON.contains(&protocol) {
                continue;
            }
            let hops = self.hops(&route);
            if protocol == OURS {
                self.installed.insert(net, hops);
                continue;
            }
            // In order of their metrics: the first one counts.
            if !hops.is_empty() {
                self.learnt.entry(net).or_insert(hops);
            }
            self.theirs.push(route);
        }
        Ok(())
    }

    /// Ways on the cluster's sides; others are nobody's but this namespace's.
    fn hops(&self, route: &Route) -> Vec<Hop> {
        let one = |hop: &RouteHop| {
            let side = self.links.iter().position(|link| Some(*link) == hop.link)?;
            Some(Hop { side, via: hop.gateway, weight: hop.weight })
        };
        let mut hops: Vec<Hop> = route.hops.iter().filter_map(one).collect();
        hops.sort_unstable();
        hops
    }

    /// Makes ours those of `wanted`.
    pub(super) fn install(&mut self, wanted: &Routes) -> Result<()> {
        self.changed = true;
        let mut changes = Vec::new();
        for (net, hops) in wanted {
            if self.installed.get(net) != Some(hops) {
                changes.push(RouteChange::Replace(self.ours(*net, hops)));
            }
        }
        for net in self.installed.keys().filter(|net| !wanted.contains_key(net)) {
            changes.push(RouteChange::Delete(self.ours(*net, &[])));
        }
        self.change(changes)
    }

    /// Takes the daemon's routes out, when it is gone.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.look()?;
        self.changed = true;
        let gone = |route: &Route| {
            RouteChange::Delete(Route { hops: [].into_iter().collect(), ..route.clone() })
        };
        self.change(self.theirs.iter().map(gone).collect())
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

    fn change(&mut self, changes: Vec<RouteChange>) -> Result<()> {
        let refused = self.requests.change_routes(changes.iter().cloned())?;
        let hard = refused.iter().find(|one| {
            // What is gone already need not be removed.
            let removal = matches!(changes[one.index], RouteChange::Delete(_));
            !(removal && one.source.raw_os_error() == Some(ESRCH))
        });
        let Some(first) = hard else { return Ok(()) };
        let (RouteChange::Add(route)
        | RouteChange::Replace(route)
        | RouteChange::Append(route)
        | RouteChange::Delete(route)) = &changes[first.index];
        let (net, why, more) = (route.prefix, &first.source, &first.message);
        bail!("the kernel refused {} routes, the first {net}: {why} {more}", refused.len())
    }
}

/// "No such process": there is no such route.
const ESRCH: i32 = 3;

fn concerns(event: &Event) -> bool {
    matches!(
        event,
        Event::Route { .. }
            | Event::RouteGone(_)
            | Event::NextHop(_)
            | Event::NextHopGone(_)
            | Event::Overrun
    )
}

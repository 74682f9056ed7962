//! What a keeper that was killed has left: whether it is what the plan says, and what nobody has in a plan any more.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_host::namespace::Namespace;
use ebb_host::netlink::{
    Event, Link, Monitor, Part, Requests, Route, RouteHop, RouteKind, TABLE_MAIN,
};
use ipnet::IpNet;

use super::NamespaceRouter;

/// Tunnels that a kernel with their modules puts into every new namespace.
const FALLBACK: [&str; 10] = [
    "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0",
    "teql0",
];
/// Of buffers for what a namespace says of itself, bytes.
const ROOM: usize = 1 << 20;

/// A route of the plan, or one that stands where those do.
type Way = (IpNet, u32, Option<IpAddr>);

impl NamespaceRouter {
    /// The links inside of one that a keeper before this one has left whole; none where something is missing or is not
    /// as the plan says. Addresses and routes that are missing are put back later.
    pub(super) fn left_whole(
        &self,
        namespace: &Namespace,
        near: &mut Requests,
    ) -> Result<Option<Vec<u32>>> {
        let mut inside = namespace.run(Requests::open)??;
        let mut links = Vec::new();
        for (side, bridge) in self.plan.bridges.iter().enumerate() {
            let bridge = near.link_by_name(bridge)?;
            let port = near.link_by_name(&self.plan.ports[side])?;
            let Some((port, bridge)) = port.zip(bridge) else { return Ok(None) };
            let mtu = self.mtu(side, bridge.mtu);
            let joined = port.admin_up && port.master == Some(bridge.index) && port.mtu == mtu;
            let link = inside.link_by_name(&format!("e{side}"))?;
            let ours = |link: &Link| {
                link.admin_up && link.mac == Some(self.plan.macs[side]) && link.mtu == mtu
            };
            let Some(link) = link.filter(|link| joined && ours(link)) else { return Ok(None) };
            links.push(link.index);
        }
        Ok((!self.has_more(namespace, &links)?).then_some(links))
    }

    /// Whether it has an address or a static route that is not in the plan.
    fn has_more(&self, namespace: &Namespace, links: &[u32]) -> Result<bool> {
        let mut monitor = namespace.run(|| Monitor::with_receive_buffer(ROOM))??;
        let side_of = |link: u32| links.iter().position(|one| *one == link);
        let wanted: BTreeSet<Way> = self
            .plan
            .routes
            .iter()
            .map(|(net, side, hop)| (net.trunc(), links[*side], Some(*hop)))
            .collect();
        let mut more = false;
        for part in [Part::Addresses, Part::Routes4, Part::Routes6] {
            monitor.dump_part(part, &mut |event| match event {
                Event::Address(address) => {
                    let ours = side_of(address.link)
                        .is_none_or(|side| self.plan.addresses[side].contains(&address.address));
                    // The kernel gives one of its own to links that are given none.
                    more |= !ours && !is_link_local(address.address.addr());
                }
                Event::Route { route, .. } if is_static(&route) => {
                    let way = |hop: &RouteHop| {
                        hop.link.is_some_and(|link| {
                            side_of(link).is_none() || {
                                wanted.contains(&(route.prefix, link, hop.gateway))
                            }
                        })
                    };
                    more |= !route.hops.iter().all(way);
                }
                _ => {}
            })?;
        }
        Ok(more)
    }

    /// Whether a namespace of this name is one that a keeper before this one made: its link to a segment is there,
    /// or it has no link yet.
    pub(super) fn is_left(&self, namespace: &Namespace, near: &mut Requests) -> Result<bool> {
        for port in &self.plan.ports {
            if near.link_by_name(port)?.is_some() {
                return Ok(true);
            }
        }
        let mut inside = namespace.run(Requests::open)??;
        let is_new = |link: &Link| link.loopback || FALLBACK.contains(&link.name.as_str());
        Ok(inside.links()?.iter().all(is_new))
    }
}

/// `ip route add`'s, as a plan's are; those of daemons and of the kernel are others' business.
fn is_static(route: &Route) -> bool {
    /// Of `/etc/iproute2/rt_protos`.
    const STATIC: u8 = 4;
    route.table == TABLE_MAIN && route.kind == RouteKind::Unicast && route.protocol == STATIC
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Writes down the names of the namespaces that are kept from now on, for [`forget`] of the next keeper.
///
/// # Errors
/// When the file cannot be written, or removed where nothing is kept.
pub(crate) fn remember(file: &Path, names: &BTreeSet<String>) -> Result<()> {
    let what = || file.display().to_string();
    if names.is_empty() {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(what),
            _ => Ok(()),
        };
    }
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    std::fs::write(file, text).with_context(what)
}

/// Removes the namespaces that a keeper before this one wrote down with [`remember`] and `known` has no more, with
/// their links to as many segments. Returns those that there were, and what became of them.
///
/// # Errors
/// When the file is there and cannot be read.
pub(crate) fn forget(
    file: &Path,
    known: &BTreeSet<String>,
    sides: usize,
) -> Result<Vec<(String, Result<()>)>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| file.display().to_string())?,
    };
    let old = text.lines().filter(|name| !known.contains(*name));
    let gone = old.map(|name| (name.to_owned(), remove(name, sides)));
    let there = |(name, gone): (String, Result<bool>)| match gone {
        Ok(false) => None,
        gone => Some((name, gone.map(|_| ()))),
    };
    Ok(gone.filter_map(there).collect())
}

/// Whether one of this name was there: a namespace that is not joined to a segment by a link of ours is another's.
fn remove(name: &str, sides: usize) -> Result<bool> {
    let mut near = Requests::open()?;
    let mut ours = Namespace::delete_if_empty(name)?;
    for side in 0..sides {
        if let Some(link) = near.link_by_name(&NamespaceRouter::port_of(name, side))? {
            near.delete_link(link.index)?;
            ours = true;
        }
    }
    if ours {
        Namespace::delete(name)?;
    }
    Ok(ours)
}

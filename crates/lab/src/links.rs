//! Links between namespaces, and the routes over them.

use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use ebb_host::namespace::Namespace;
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop, Veth};
use ipnet::IpNet;

/// An end of a link: a virtual interface.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// What it is called there.
    pub name: &'a str,
    /// Its Ethernet address, if not the kernel's choice.
    pub mac: Option<[u8; 6]>,
}

impl<'a> End<'a> {
    /// One with an address of the kernel's choice.
    pub fn new(namespace: &'a Namespace, name: &'a str) -> End<'a> {
        End { namespace, name, mac: None }
    }

    /// One with this address.
    pub fn with_mac(namespace: &'a Namespace, name: &'a str, mac: [u8; 6]) -> End<'a> {
        End { namespace, name, mac: Some(mac) }
    }
}

/// Joins two ends by a link that is up, and returns the interfaces' numbers in their namespaces.
///
/// # Errors
/// Without the privilege, or when a name is taken.
pub fn wire(one: End<'_>, other: End<'_>) -> Result<[u32; 2]> {
    let mut near = one.namespace.run(Requests::open)??;
    let mut far = other.namespace.run(Requests::open)??;
    let (mut this, mut that) = (Veth::new(one.name), Veth::new(other.name));
    (this.mac, that.mac) = (one.mac, other.mac);
    that.namespace = Some(other.namespace.as_fd());
    near.add_veth(this, that).context("virtual interfaces are not permitted")?;
    let links = [near.index_of(one.name)?, far.index_of(other.name)?];
    near.set_up(links[0], true)?;
    far.set_up(links[1], true)?;
    Ok(links)
}

/// Adds routes: network, and the hop to it.
///
/// # Errors
/// When the kernel refuses one: the first, with its reason.
pub fn add_routes(requests: &mut Requests, routes: &[(IpNet, RouteHop)]) -> Result<()> {
    let changes = routes.iter().map(|(net, hop)| RouteChange::Add(Route::unicast(*net, [*hop])));
    let refused = requests.change_routes(changes)?;
    if let Some(first) = refused.first() {
        let net = routes[first.index].0;
        bail!("the kernel rejected route {net}: {} {}", first.source, first.message);
    }
    Ok(())
}

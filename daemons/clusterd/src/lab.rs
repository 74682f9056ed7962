//! A cluster inside this machine: the balancer, the segments and the back-ends in network namespaces of
//! their own, back-ends being plain kernel routers with the same addresses and routes.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ebb_host::journal::{Journal, Undo};
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop, Veth};
use ipnet::IpNet;

use crate::balancer::{BackEnd, Face, Mac, Side};
use crate::keepers::router_settings;
use crate::member::Keeper;

/// What the cluster is to look like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Begins the names of all namespaces.
    pub name: String,
    /// Back-ends by name, with the weights of their shares.
    pub back_ends: Vec<(String, u32)>,
    /// Networks and the side that they lie behind.
    pub routes: Vec<(IpNet, usize)>,
}

/// Sides of every cluster in namespaces.
pub const SIDES: usize = 2;

/// The hosts' interface on one side.
pub fn host_name(side: usize) -> &'static str {
    ["hosts0", "hosts1"][side]
}

/// The address that the cluster is known by on one side.
pub fn cluster_mac(side: usize) -> Mac {
    [2, 0xeb, 0xb0, 0, 0, side as u8]
}

/// The hosts' Ethernet address on one side.
pub fn host_mac(side: usize) -> Mac {
    [2, 0xeb, 0xb0, 0, 1, side as u8]
}

pub(crate) fn probe_mac(side: usize) -> Mac {
    [2, 0xeb, 0xb0, 0, 2, side as u8]
}

pub(crate) fn back_end_mac(index: usize, side: usize) -> Mac {
    [2, 0xeb, 0xb0, 1, index as u8, side as u8]
}

/// The cluster's addresses on one side.
pub fn subnets(side: usize) -> [IpNet; 2] {
    let four = format!("10.77.{side}.1/24").parse().expect("a subnet");
    let six = format!("2001:db8:77{side}::1/64").parse().expect("a subnet");
    [four, six]
}

/// The hosts' addresses on one side: the next hops to what lies behind it.
pub fn hosts(side: usize) -> [IpAddr; 2] {
    let four = format!("10.77.{side}.2").parse().expect("an address");
    let six = format!("2001:db8:77{side}::2").parse().expect("an address");
    [four, six]
}

pub(crate) fn probe_address(side: usize) -> IpAddr {
    format!("10.77.{side}.254").parse().expect("an address")
}

/// The namespaces. Dropping them removes them.
pub struct Lab {
    /// Where the hosts' interfaces are.
    pub hosts: Namespace,
    /// Where the balancer's interfaces are.
    pub front: Namespace,
    segments: Arc<Namespace>,
    journal: Journal,
    plan: Plan,
}

impl Lab {
    /// Builds everything but the back-ends, which come and go.
    ///
    /// # Errors
    /// Without the privilege, or when the kernel refuses.
    pub fn build(plan: Plan, journal: &Journal) -> Result<Lab> {
        ensure!(plan.back_ends.len() <= 200, "at most 200 back-ends fit into one machine");
        let make = |role: &str| -> Result<Namespace> {
            let name = format!("{}-{role}", plan.name);
            journal.record(Undo::Namespace { name: name.clone() })?;
            Namespace::create(&name).context("network namespaces are not permitted")
        };
        let (hosts, front, segments) = (make("hosts")?, make("front")?, make("segments")?);
        for namespace in [&hosts, &front, &segments] {
            namespace.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        }
        let mut near = front.run(Requests::open)??;
        let mut far = hosts.run(Requests::open)??;
        let mut middle = segments.run(Requests::open)??;
        for side in 0..SIDES {
            let (outside, inside, port) =
                (format!("out{side}"), format!("in{side}"), format!("front{side}"));
            let mut cluster = Veth::new(&outside);
            cluster.mac = Some(cluster_mac(side));
            let mut host = Veth::new(host_name(side));
            (host.mac, host.namespace) = (Some(host_mac(side)), Some(hosts.as_fd()));
            near.add_veth(cluster, host).context("virtual interfaces are not permitted")?;
            let mut segment = Veth::new(&port);
            segment.namespace = Some(segments.as_fd());
            near.add_veth(Veth::new(&inside), segment)?;
            middle.add_link(&format!("segment{side}"), "bridge").context("no Linux bridge")?;
            let bridge = middle.index_of(&format!("segment{side}"))?;
            let port = middle.index_of(&port)?;
            middle.set_master(port, bridge)?;
            up(&mut middle, port)?;
            up(&mut middle, bridge)?;
            for name in [&outside, &inside] {
                let link = near.index_of(name)?;
                up(&mut near, link)?;
            }
            let link = far.index_of(host_name(side))?;
            up(&mut far, link)?;
        }
        let (segments, journal) = (Arc::new(segments), journal.clone());
        Ok(Lab { hosts, front, segments, journal, plan })
    }

    /// What the balancer goes by.
    pub fn face(&self) -> Face {
        let side = |side| Side {
            outside: format!("out{side}"),
            inside: format!("in{side}"),
            macs: vec![cluster_mac(side)],
            addresses: subnets(side).to_vec(),
            probes: vec![probe_address(side)],
            probe_macs: vec![probe_mac(side)],
        };
        let back_end = |(index, (name, weight)): (usize, &(String, u32))| BackEnd {
            name: name.clone(),
            macs: (0..SIDES).map(|side| back_end_mac(index, side)).collect(),
            weight: *weight,
        };
        let back_ends = self.plan.back_ends.iter().enumerate().map(back_end).collect();
        Face::new((0..SIDES).map(side).collect(), back_ends, 0)
    }

    /// What gives a back-end its namespace and takes it.
    ///
    /// # Panics
    /// When there is no back-end of that number.
    pub fn keeper(&self, index: usize) -> NamespaceKeeper {
        NamespaceKeeper {
            name: format!("{}-{}", self.plan.name, self.plan.back_ends[index].0),
            index,
            segments: self.segments.clone(),
            journal: self.journal.clone(),
            routes: self.plan.routes.clone(),
            namespace: None,
        }
    }

    /// Takes a back-end's links away at once, as when its power fails; nobody is told.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self, index: usize) -> Result<()> {
        cut(&self.segments, index)
    }
}

/// A back-end that is a kernel router in a namespace: waking makes it, sleeping removes it.
pub struct NamespaceKeeper {
    name: String,
    index: usize,
    segments: Arc<Namespace>,
    journal: Journal,
    routes: Vec<(IpNet, usize)>,
    namespace: Option<Namespace>,
}

pub(crate) fn port_name(index: usize, side: usize) -> String {
    format!("r{index}-{side}")
}

/// Removes a back-end's links.
fn cut(segments: &Namespace, index: usize) -> Result<()> {
    let mut requests = segments.run(Requests::open)??;
    for side in 0..SIDES {
        if let Some(link) = requests.link_by_name(&port_name(index, side))? {
            requests.delete_link(link.index)?;
        }
    }
    Ok(())
}

impl NamespaceKeeper {
    fn furnish(&self, namespace: &Namespace) -> Result<()> {
        namespace.run(router_settings)??;
        let mut middle = self.segments.run(Requests::open)??;
        let mut inside = namespace.run(Requests::open)??;
        let mut links = [0; SIDES];
        for (side, link) in links.iter_mut().enumerate() {
            let (port, name) = (port_name(self.index, side), format!("e{side}"));
            let mut near = Veth::new(&name);
            near.mac = Some(back_end_mac(self.index, side));
            near.namespace = Some(namespace.as_fd());
            middle.add_veth(Veth::new(&port), near)?;
            let port = middle.index_of(&port)?;
            let bridge = middle.index_of(&format!("segment{side}"))?;
            middle.set_master(port, bridge)?;
            *link = inside.index_of(&name)?;
            up(&mut inside, *link)?;
            namespace.run(|| set_knob(&format!("net/ipv4/conf/{name}/rp_filter"), "0"))??;
        }
        route(&mut inside, links, &self.routes)?;
        // Connected to the segments only now: whoever is reachable forwards.
        for side in 0..SIDES {
            let port = middle.index_of(&port_name(self.index, side))?;
            up(&mut middle, port)?;
        }
        Ok(())
    }
}

impl Keeper for NamespaceKeeper {
    fn wake(&mut self) -> Result<()> {
        self.sleep()?;
        self.journal.record(Undo::Namespace { name: self.name.clone() })?;
        let namespace = Namespace::create(&self.name)?;
        let made = self.furnish(&namespace);
        self.namespace = Some(namespace);
        made.with_context(|| format!("back-end {}", self.name))
    }

    fn sleep(&mut self) -> Result<()> {
        cut(&self.segments, self.index)?;
        self.namespace = None;
        Ok(())
    }
}

/// Gives a back-end's two links the cluster's addresses, all neighbours and the routes.
pub(crate) fn route(
    inside: &mut Requests,
    links: [u32; SIDES],
    routes: &[(IpNet, usize)],
) -> Result<()> {
    for (side, link) in links.into_iter().enumerate() {
        for net in subnets(side) {
            inside.add_address(link, net)?;
        }
        for host in hosts(side) {
            inside.add_neighbour(link, host, host_mac(side))?;
        }
        inside.add_neighbour(link, probe_address(side), probe_mac(side))?;
    }
    let change = |(net, side): &(IpNet, usize)| {
        let hop = hosts(*side)[usize::from(net.addr().is_ipv6())];
        RouteChange::Add(Route::unicast(*net, [RouteHop::new(Some(links[*side]), Some(hop))]))
    };
    let refused = inside.change_routes(routes.iter().map(change))?;
    if let Some(first) = refused.first() {
        let net = routes[first.index].0;
        anyhow::bail!("the kernel refused route {net}: {} {}", first.source, first.message);
    }
    Ok(())
}

pub(crate) fn up(requests: &mut Requests, link: u32) -> Result<()> {
    Ok(requests.set_up(link, true)?)
}

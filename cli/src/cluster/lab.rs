//! A cluster inside this machine: the balancer, the segments and the back-ends in network namespaces of
//! their own, back-ends being plain kernel routers with the same addresses and routes.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ebb_clusterd::balancer::{BackEnd, Mac, Side, Topology};
use ebb_clusterd::keepers::{NamespaceRouter, RouterPlan};
use ebb_clusterd::member::Keeper;
use ebb_clusterd::threads::Threads;
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::Requests;
use ebb_lab::{End, Lab, wire};
use ipnet::IpNet;

use crate::generator::{AfXdpLink, FrameSource, TestLink};

/// What the cluster is to look like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Back-ends by name, with what each carries in packets per second: shares follow it.
    pub back_ends: Vec<(String, f64)>,
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

fn probe_mac(side: usize) -> Mac {
    [2, 0xeb, 0xb0, 0, 2, side as u8]
}

/// The Ethernet address of a back-end on one side.
pub fn back_end_mac(index: usize, side: usize) -> Mac {
    [2, 0xeb, 0xb0, 1, index as u8, side as u8]
}

/// The cluster's addresses on one side.
pub fn subnets(side: usize) -> [IpNet; 2] {
    let four = format!("10.77.{side}.1/24").parse().expect("a subnet");
    let six = format!("2001:db8:77{side}::1/64").parse().expect("a subnet");
    [four, six]
}

/// The hosts' addresses on one side.
fn hosts(side: usize) -> [IpAddr; 2] {
    let four = format!("10.77.{side}.2").parse().expect("an address");
    let six = format!("2001:db8:77{side}::2").parse().expect("an address");
    [four, six]
}

fn probe_address(side: usize) -> IpAddr {
    format!("10.77.{side}.254").parse().expect("an address")
}

/// Neighbours of every back-end: side, address, Ethernet address.
pub fn neighbours() -> impl Iterator<Item = (usize, IpAddr, Mac)> {
    (0..SIDES).flat_map(|side| {
        let host = hosts(side).map(|host| (side, host, host_mac(side)));
        host.into_iter().chain([(side, probe_address(side), probe_mac(side))])
    })
}

/// The next hop to what lies behind a side.
pub fn next_hop(net: &IpNet, side: usize) -> IpAddr {
    hosts(side)[usize::from(net.addr().is_ipv6())]
}

/// The namespaces of hosts and of what stands before back-ends, `prefix` before their roles, joined by a link
/// on each side, `out0` and `out1`; none of them has IPv6 addresses of its own.
pub fn before_back_ends(lab: &Lab, prefix: &str) -> Result<[Namespace; 2]> {
    let make = |role: &str| -> Result<Namespace> {
        let namespace = lab.namespace(&format!("{prefix}{role}"))?;
        namespace.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        Ok(namespace)
    };
    let (hosts, front) = (make("hosts")?, make("front")?);
    for side in 0..SIDES {
        let outside = format!("out{side}");
        let host = End::with_mac(&hosts, host_name(side), host_mac(side));
        wire(End::with_mac(&front, &outside, cluster_mac(side)), host)?;
    }
    Ok([hosts, front])
}

/// The hosts' ends of the links, opened.
pub fn host_links(hosts: &Namespace, frames: &FrameSource) -> Result<Vec<Box<dyn TestLink>>> {
    AfXdpLink::open_all(hosts, [0, 1].map(host_name), frames)
}

/// The namespaces. Dropping them removes them.
pub struct Cluster {
    /// Where the hosts' interfaces are.
    pub hosts: Namespace,
    /// Where the balancer's interfaces are.
    pub front: Namespace,
    /// Where the segments and the back-ends' ends of their links are.
    pub segments: Arc<Namespace>,
    plan: Plan,
    /// What undoes it all.
    pub lab: Lab,
}

impl Cluster {
    /// Builds everything but the back-ends, which come and go.
    ///
    /// # Errors
    /// Without the privilege, or when the kernel refuses.
    pub fn build(name: &str, plan: Plan) -> Result<Cluster> {
        ensure!(plan.back_ends.len() <= 200, "at most 200 back-ends are possible on one machine");
        let lab = Lab::open(name)?;
        let [hosts, front] = before_back_ends(&lab, "")?;
        let segments = lab.namespace("segments")?;
        segments.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        let mut middle = segments.run(Requests::open)??;
        for side in 0..SIDES {
            let (inside, port) = (format!("in{side}"), format!("front{side}"));
            let [_, port] = wire(End::new(&front, &inside), End::new(&segments, &port))?;
            middle.add_link(&bridge(side), "bridge").context("cannot create a Linux bridge")?;
            let bridge = middle.index_of(&bridge(side))?;
            middle.set_master(port, bridge)?;
            middle.set_up(bridge, true)?;
        }
        Ok(Cluster { hosts, front, segments: Arc::new(segments), plan, lab })
    }

    /// What the balancer goes by.
    pub fn topology(&self) -> Topology {
        let side = |side| Side {
            outside: format!("out{side}"),
            inside: format!("in{side}"),
            macs: vec![cluster_mac(side)],
            addresses: subnets(side).to_vec(),
            probes: vec![probe_address(side)],
            probe_macs: vec![probe_mac(side)],
        };
        let capacities: Vec<f64> = self.plan.back_ends.iter().map(|one| one.1).collect();
        let weights = ebb_clusterd::weights_of(&capacities);
        let back_end = |(index, (name, capacity)): (usize, &(String, f64))| BackEnd {
            name: name.clone(),
            macs: (0..SIDES).map(|side| back_end_mac(index, side)).collect(),
            weight: weights[index],
            capacity_pps: *capacity,
        };
        let back_ends = self.plan.back_ends.iter().enumerate().map(back_end).collect();
        Topology::new((0..SIDES).map(side).collect(), back_ends, 0)
    }

    /// What gives a back-end its namespace and takes it.
    ///
    /// # Panics
    /// When there is no back-end of that number.
    pub fn keeper(&self, index: usize) -> BackEndKeeper {
        let route = |(net, side): &(IpNet, usize)| (*net, *side, next_hop(net, *side));
        let plan = RouterPlan {
            name: self.lab.space(&self.plan.back_ends[index].0),
            bridges: (0..SIDES).map(bridge).collect(),
            ports: (0..SIDES).map(|side| NamespaceRouter::port(index, side)).collect(),
            outlives: false,
            macs: (0..SIDES).map(|side| back_end_mac(index, side)).collect(),
            addresses: (0..SIDES).map(|side| subnets(side).to_vec()).collect(),
            mtus: vec![None; SIDES],
            probes: neighbours().collect(),
            routes: self.plan.routes.iter().map(route).collect(),
            threads: Threads::default(),
            run: Vec::new(),
            routing: None,
        };
        let router = NamespaceRouter::new(plan, self.lab.journal());
        BackEndKeeper { router, segments: self.segments.clone() }
    }

    /// Takes a back-end's links away at once, as when its power fails; nobody is told.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self, index: usize) -> Result<()> {
        let mut requests = self.segments.run(Requests::open)??;
        for side in 0..SIDES {
            if let Some(link) = requests.link_by_name(&NamespaceRouter::port(index, side))? {
                requests.delete_link(link.index)?;
            }
        }
        Ok(())
    }
}

/// The segment of one side, a bridge.
pub fn bridge(side: usize) -> String {
    format!("segment{side}")
}

/// A back-end on this cluster's segments: waking makes it, sleeping removes it.
pub struct BackEndKeeper {
    router: NamespaceRouter,
    segments: Arc<Namespace>,
}

impl Keeper for BackEndKeeper {
    fn wake(&mut self) -> Result<()> {
        self.segments.run(|| self.router.wake())?
    }

    fn sleep(&mut self) -> Result<()> {
        self.segments.run(|| self.router.sleep())?
    }
}

impl Drop for BackEndKeeper {
    fn drop(&mut self) {
        // Its links are not where the router looks for them when it is dropped itself.
        _ = self.sleep();
    }
}

//! Parallel virtual routers (Li 2012, section 4.4): identical copies of one router, with the same
//! addresses of both kinds, behind a front that parts flows by their port as the queues of one interface
//! would. Nothing is rewritten, nothing is balanced by a program: what that saves and what it cannot do
//! (weights, drains, health) is the comparison with the balancer.

use std::cell::Cell;
use std::os::fd::AsFd;

use anyhow::{Context, Result, ensure};
use ebb_host::journal::{Journal, Undo};
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, Veth};

use crate::keepers::router_settings;
use crate::lab::{self, Plan, SIDES};
use crate::tune::{fresh, traffic_control};

/// Parts of the flows; copies share them.
const PARTS: usize = 16;

/// Copies of a router behind a front. Dropping it removes them.
pub struct Parallel {
    /// Where the hosts' interfaces are.
    pub hosts: Namespace,
    name: String,
    copies: Vec<Namespace>,
    /// Whether the front has parted flows before.
    parted: Cell<bool>,
    _front: Namespace,
}

impl Parallel {
    /// Builds as many copies as the plan has back-ends.
    ///
    /// # Errors
    /// Without the privilege, without `tc`, or when the kernel refuses.
    pub fn build(plan: &Plan, journal: &Journal) -> Result<Parallel> {
        let make = |name: String| -> Result<Namespace> {
            journal.record(Undo::Namespace { name: name.clone() })?;
            Namespace::create(&name).context("network namespaces are not permitted")
        };
        let hosts = make(format!("{}-hosts", plan.name))?;
        let front = make(format!("{}-front", plan.name))?;
        for namespace in [&hosts, &front] {
            namespace.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        }
        let mut near = front.run(Requests::open)??;
        let mut far = hosts.run(Requests::open)??;
        for side in 0..SIDES {
            let name = format!("out{side}");
            let mut cluster = Veth::new(&name);
            cluster.mac = Some(lab::cluster_mac(side));
            let mut host = Veth::new(lab::host_name(side));
            (host.mac, host.namespace) = (Some(lab::host_mac(side)), Some(hosts.as_fd()));
            near.add_veth(cluster, host).context("virtual interfaces are not permitted")?;
            let link = near.index_of(&name)?;
            lab::up(&mut near, link)?;
            let link = far.index_of(lab::host_name(side))?;
            lab::up(&mut far, link)?;
        }
        let mut copies = Vec::new();
        for (index, (name, _)) in plan.back_ends.iter().enumerate() {
            let copy = make(format!("{}-{name}", plan.name))?;
            copy.run(router_settings)??;
            furnish(&mut near, &copy, index, plan).with_context(|| format!("copy {name}"))?;
            copies.push(copy);
        }
        Ok(Parallel {
            hosts,
            name: plan.name.clone(),
            copies,
            parted: Cell::new(false),
            _front: front,
        })
    }

    /// Parts the flows over the first `count` copies.
    ///
    /// # Errors
    /// Without `tc`, or when the kernel refuses.
    pub fn part(&self, count: usize) -> Result<()> {
        ensure!(
            (1..=self.copies.len()).contains(&count),
            "{count} copies of {}",
            self.copies.len()
        );
        let mut lines = String::new();
        for side in 0..SIDES {
            lines += &fresh(&format!("out{side}"), self.parted.get());
            for part in 0..PARTS {
                lines += &format!(
                    "filter add dev out{side} ingress protocol ip prio 1 u32 match ip sport {part} 0x{:04x} \
                     action mirred egress redirect dev c{}-{side}\n",
                    PARTS - 1,
                    part % count,
                );
            }
        }
        self.parted.set(true);
        traffic_control(&format!("{}-front", self.name), &lines)
    }
}

fn furnish(near: &mut Requests, copy: &Namespace, index: usize, plan: &Plan) -> Result<()> {
    let mut inside = copy.run(Requests::open)??;
    let (mut links, mut lines) = ([0; SIDES], String::new());
    for (side, link) in links.iter_mut().enumerate() {
        let (port, name) = (format!("c{index}-{side}"), format!("e{side}"));
        let mut end = Veth::new(&name);
        (end.mac, end.namespace) = (Some(lab::cluster_mac(side)), Some(copy.as_fd()));
        near.add_veth(Veth::new(&port), end)?;
        *link = inside.index_of(&name)?;
        lab::up(&mut inside, *link)?;
        copy.run(|| set_knob(&format!("net/ipv4/conf/{name}/rp_filter"), "0"))??;
        let port_link = near.index_of(&port)?;
        lab::up(near, port_link)?;
        lines += &format!(
            "qdisc add dev {port} clsact\nfilter add dev {port} ingress protocol all prio 1 u32 match u32 0 0 \
             action mirred egress redirect dev out{side}\n"
        );
    }
    lab::route(&mut inside, links, &plan.routes)?;
    traffic_control(&format!("{}-front", plan.name), &lines)
}

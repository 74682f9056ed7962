//! Parallel virtual routers (Li 2012, section 4.4): identical copies of one router, with the same
//! addresses of both kinds, behind a front that parts flows by their port as the queues of one interface
//! would. Nothing is rewritten, nothing is balanced by a program: what that saves and what it cannot do
//! (weights, drains, health) is the comparison with the balancer.

use std::cell::Cell;

use anyhow::{Context, Result, ensure};
use ebb_clusterd::keepers::router_settings;
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, RouteHop};
use ebb_lab::command::tc;
use ebb_lab::tune::fresh;
use ebb_lab::{End, Lab, add_routes, wire};
use ipnet::IpNet;

use crate::cluster::lab::{self, Plan, SIDES};

/// Parts of the flows; copies share them.
const PARTS: usize = 16;

/// Begins the roles of its namespaces.
pub(super) const PREFIX: &str = "copies-";

/// Copies of a router behind a front. Dropping it removes them.
pub(super) struct Parallel {
    /// Where the hosts' interfaces are.
    pub(super) hosts: Namespace,
    front: String,
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
    pub(super) fn build(plan: &Plan, lab: &Lab) -> Result<Parallel> {
        let [hosts, front] = lab::before_back_ends(lab, PREFIX)?;
        let name = lab.space(&format!("{PREFIX}front"));
        let mut copies = Vec::new();
        for (index, (copied, _)) in plan.back_ends.iter().enumerate() {
            let copy = lab.namespace(&format!("{PREFIX}{copied}"))?;
            copy.run(router_settings)??;
            let made = furnish(&front, &copy, index, plan).and_then(|lines| tc(&name, &lines));
            made.with_context(|| format!("copy {copied}"))?;
            copies.push(copy);
        }
        Ok(Parallel { hosts, front: name, copies, parted: Cell::new(false), _front: front })
    }

    /// Parts the flows over the first `count` copies.
    ///
    /// # Errors
    /// Without `tc`, or when the kernel refuses.
    pub(super) fn part(&self, count: usize) -> Result<()> {
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
                     action mirred egress redirect dev {}\n",
                    PARTS - 1,
                    port(part % count, side),
                );
            }
        }
        self.parted.set(true);
        tc(&self.front, &lines)
    }
}

/// The front's interface towards a copy on one side.
pub(super) fn port(index: usize, side: usize) -> String {
    format!("c{index}-{side}")
}

/// Joins a copy to the front, and says what sends on what comes from it.
fn furnish(front: &Namespace, copy: &Namespace, index: usize, plan: &Plan) -> Result<String> {
    let mut inside = copy.run(Requests::open)??;
    let (mut links, mut lines) = ([0; SIDES], String::new());
    for (side, link) in links.iter_mut().enumerate() {
        let (port, name) = (port(index, side), format!("e{side}"));
        let end = End::with_mac(copy, &name, lab::cluster_mac(side));
        [_, *link] = wire(End::new(front, &port), end)?;
        copy.run(|| set_knob(&format!("net/ipv4/conf/{name}/rp_filter"), "0"))??;
        for net in lab::subnets(side) {
            inside.add_address(*link, net)?;
        }
        lines += &format!(
            "qdisc add dev {port} clsact\nfilter add dev {port} ingress protocol all prio 1 u32 match u32 0 0 \
             action mirred egress redirect dev out{side}\n"
        );
    }
    for (side, address, mac) in lab::neighbours() {
        inside.add_neighbour(links[side], address, mac)?;
    }
    let route = |(net, side): &(IpNet, usize)| {
        (*net, RouteHop::new(Some(links[*side]), Some(lab::next_hop(net, *side))))
    };
    let routes: Vec<_> = plan.routes.iter().map(route).collect();
    add_routes(&mut inside, &routes)?;
    Ok(lines)
}

//! Two network namespaces for the live stage: a router's and its hosts', with a pair of virtual
//! interfaces on each side. Everything is in the journal before it is made.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_host::journal::{Journal, Undo};
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop, Veth};

use super::plan::{Plan, gateway, host_mac, host_name, hosts, port_name, router_mac, subnets};

/// The namespaces, and a directory for what the router needs.
pub struct Lab {
    /// The router's namespace.
    pub router: Namespace,
    /// The hosts' namespace.
    pub hosts: Namespace,
    /// Temporary files.
    pub directory: PathBuf,
}

impl Lab {
    /// Builds it for this process.
    ///
    /// # Errors
    /// Without the privilege, or when the kernel refuses.
    pub fn build(plan: &Plan, journal: &Journal) -> Result<Lab> {
        let name = format!("ebb-demo-{}", std::process::id());
        let directory = std::env::temp_dir().join(&name);
        journal.record(Undo::Directory { path: directory.clone() })?;
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let namespace = |role: &str| -> Result<Namespace> {
            let name = format!("{name}-{role}");
            journal.record(Undo::Namespace { name: name.clone() })?;
            Namespace::create(&name).context("network namespaces are not permitted")
        };
        let lab = Lab { router: namespace("router")?, hosts: namespace("hosts")?, directory };
        lab.hosts.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        lab.router.run(|| lab.furnish(plan))??;
        let mut requests = lab.hosts.run(Requests::open)??;
        for side in 0..2 {
            let link = requests.index_of(host_name(side))?;
            requests.set_up(link, true)?;
        }
        Ok(lab)
    }

    /// Links, addresses, neighbours and routes; runs in the router's namespace.
    fn furnish(&self, plan: &Plan) -> Result<()> {
        set_knob("net/ipv4/ip_forward", "1")?;
        set_knob("net/ipv6/conf/all/forwarding", "1")?;
        let mut requests = Requests::open()?;
        let mut links = [0; 2];
        for (side, link) in links.iter_mut().enumerate() {
            let mut near = Veth::new(port_name(side));
            near.mac = Some(router_mac(side));
            let mut far = Veth::new(host_name(side));
            far.mac = Some(host_mac(side));
            far.namespace = Some(self.hosts.as_fd());
            requests.add_veth(near, far).context("virtual interfaces are not permitted")?;
            *link = requests.index_of(port_name(side))?;
            requests.set_up(*link, true)?;
            for net in subnets(side) {
                requests.add_address(*link, net)?;
            }
            for host in hosts(side) {
                requests.add_neighbour(*link, host, host_mac(side))?;
            }
        }
        let change = |(net, side): &(_, usize)| {
            let hop = RouteHop::new(Some(links[*side]), Some(gateway(net, *side)));
            RouteChange::Add(Route::unicast(*net, [hop]))
        };
        let refused = requests.change_routes(plan.routes.iter().map(change))?;
        match refused.first() {
            Some(first) => {
                let net = plan.routes[first.index].0;
                anyhow::bail!("the kernel refused route {net}: {} {}", first.source, first.message)
            }
            None => Ok(()),
        }
    }
}

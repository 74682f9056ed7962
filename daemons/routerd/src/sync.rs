//! The forwarding tables' loop around the kernel: what netlink tells goes through the model of
//! [`crate::rib`] into the tables, and neighbours that packets wait for are asked for.
//!
//! No thread of its own: the control thread calls [`Sync::turn`] when one of [`Sync::fds`] or the
//! workers' doorbell says so.

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_apps::route::{Decision, FibWriter, InterfaceId, Requests, ReversePath};
use ebb_graph::PortId;
use ebb_host::netlink::{self, Event, Monitor};
use ebb_ports::afxdp::KernelPolicy;
use serde_json::{Value, json};
use tracing::{debug, info};

use crate::policy::{Follower, Mechanism, Place};
use crate::rib::{Rib, Scope, Update};
use crate::shortcuts::{Followed, KernelRoutes, Kernels};
use crate::status::{PolicyObject, Tables};

/// What the ports learn from the kernel's tables.
pub trait PortUpdates {
    /// The host's own addresses, and others whose packets stay with the kernel.
    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]);
    /// The MAC addresses on which a port's interfaces receive.
    fn set_macs(&mut self, port: PortId, macs: &[[u8; 6]]);
    /// Destinations whose packets are the kernel's to forward.
    fn set_kernel_routes(&mut self, _routes: &KernelRoutes) {}
    /// Ports whose own IPv4 packets, those without a tag, have to pass a reverse-path filter. Holds from
    /// the next [`PortUpdates::set_policy`] on.
    fn set_filtered(&mut self, _ports: &BTreeSet<PortId>) {}
    /// Something changed about a link, whichever.
    fn links_changed(&mut self) {}
    /// A port's link went up or down, disappeared or came back.
    fn link_changed(&mut self, port: PortId, up: bool, gone: bool);
    /// What the ports leave to the kernel for the sake of its policy; ports that leave nothing are
    /// absent.
    fn set_policy(&mut self, _policies: &BTreeMap<PortId, KernelPolicy>) {}
}

/// See the module.
pub struct Sync {
    monitor: Monitor,
    kernel: netlink::Requests,
    rib: Rib,
    fib: Followed,
    requests: Arc<Requests>,
    resyncs: u64,
    policy: Follower,
    policy_objects: Arc<Vec<PolicyObject>>,
    bases: view::Bases,
    /// Addresses that the ports know.
    told: BTreeSet<IpAddr>,
}

impl Sync {
    /// Reads the kernel's tables into `fib` and follows them from then on.
    ///
    /// # Errors
    /// When netlink is refused.
    pub fn start(
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<Sync> {
        let monitor = Monitor::open().context("netlink monitor")?;
        Sync::with_monitor(monitor, ports, fib, requests)
    }

    /// Like [`Sync::start`], with a monitor opened by the caller.
    ///
    /// # Errors
    /// As [`Sync::start`].
    pub fn with_monitor(
        monitor: Monitor,
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<Sync> {
        let kernel = netlink::Requests::open().context("netlink requests")?;
        let rib = Rib::new(ports);
        let fib = Followed::new(fib);
        let policy = Follower::open()?;
        let policy_objects = Arc::default();
        let (bases, told) = (view::Bases::default(), BTreeSet::new());
        let mut sync = Sync {
            monitor,
            kernel,
            rib,
            fib,
            requests,
            resyncs: 0,
            policy,
            policy_objects,
            bases,
            told,
        };
        sync.rib.start(&mut sync.fib);
        sync.dump(Scope::All)?;
        sync.fib.publish();
        Ok(sync)
    }

    /// Descriptors that are readable (or report an error) when there is something to do.
    pub fn fds(&self) -> Vec<RawFd> {
        [self.monitor.fd()].into_iter().chain(self.policy.fds()).collect()
    }

    /// Takes over what the kernel said and asks it what the workers want to know.
    ///
    /// # Errors
    /// When netlink fails for good.
    pub fn turn(&mut self, updates: &mut dyn PortUpdates) -> Result<()> {
        let (rib, fib) = (&mut self.rib, &mut self.fib);
        let mut links = false;
        let mut each = |event| {
            links |= matches!(event, Event::Link(_) | Event::LinkGone(_) | Event::Overrun);
            rib.apply(&event, fib);
        };
        let events = self.monitor.poll(&mut each).context("netlink")?;
        if self.catch_up()? || events > 0 {
            self.fib.publish();
        }
        for update in self.rib.take_updates() {
            match update {
                Update::LocalAddresses(addresses) => self.fib.shortcuts.set_local(&addresses),
                Update::Macs(port, macs) => updates.set_macs(port, &macs),
                Update::Link { port, up, gone } => updates.link_changed(port, up, gone),
            }
        }
        if let Some(kernels) = self.fib.shortcuts.changed() {
            self.told = tell(&self.told, kernels, updates);
        }
        if links {
            updates.links_changed();
        }
        self.ask();
        self.follow_policy(updates)
    }

    /// These mechanisms of the kernel's policy are passed over from the next turn on.
    pub fn ignore_policy(&mut self, ignored: &[Mechanism]) {
        self.policy.ignore(ignored);
    }

    /// What the kernel's policy consists of.
    pub fn policy_objects(&self) -> Arc<Vec<PolicyObject>> {
        self.policy_objects.clone()
    }

    /// Takes over what the kernel's policy has become.
    fn follow_policy(&mut self, updates: &mut dyn PortUpdates) -> Result<()> {
        if self.rib.take_places_changed() {
            self.policy.set_places(self.rib.places());
        }
        let Some(verdict) = self.policy.turn()? else { return Ok(()) };
        let filtered = |place: &Place| {
            (place.vlan == 0 && verdict.reverse_path.contains_key(&place.link)).then_some(place.port)
        };
        updates.set_filtered(&self.rib.places().iter().filter_map(filtered).collect());
        updates.set_policy(&verdict.ports);
        let interface =
            |(link, mode): (&u32, &ReversePath)| Some((self.rib.interface_of(*link)?, *mode));
        self.fib.set_reverse_paths(verdict.reverse_path.iter().filter_map(interface).collect());
        self.fib.publish();
        self.policy_objects = Arc::new(verdict.objects.clone());
        Ok(())
    }

    /// Goes on with other ports; what forwards through the others is not touched.
    ///
    /// # Errors
    /// When the kernel's tables had to be compared and cannot be read.
    pub fn set_ports(&mut self, ports: &[(PortId, String)]) -> Result<()> {
        self.rib.set_ports(ports, &mut self.fib);
        self.catch_up()?;
        self.fib.publish();
        Ok(())
    }

    /// Compares what the model wants compared; whether anything was.
    fn catch_up(&mut self) -> Result<bool> {
        let mut dumped = false;
        while let Some(scope) = self.rib.wanted() {
            info!(?scope, "comparing the tables with the kernel's");
            self.resyncs += 1;
            self.dump(scope)?;
            dumped = true;
        }
        Ok(dumped)
    }

    fn dump(&mut self, scope: Scope) -> Result<()> {
        self.rib.begin(scope);
        let (rib, fib) = (&mut self.rib, &mut self.fib);
        let mut each = |event| rib.apply(&event, fib);
        match scope {
            Scope::All => self.monitor.dump(&mut each),
            Scope::Part(part) => self.monitor.dump_part(part, &mut each),
        }
        .context("reading the kernel's tables")?;
        self.rib.finish(&mut self.fib);
        Ok(())
    }

    /// Asks the kernel for neighbours that packets wait for or whose confirmation ran out.
    fn ask(&mut self) {
        let mut wanted: BTreeSet<(u32, IpAddr)> = self.rib.take_stale().into_iter().collect();
        while let Some((interface, address)) = self.requests.pop() {
            wanted.extend(self.rib.link_of(interface).map(|link| (link, address)));
        }
        for (link, address) in wanted {
            if let Err(error) = self.kernel.resolve(link, address) {
                debug!(%address, link, %error, "neighbour not asked for");
            }
        }
    }

    /// Sizes for the status.
    pub fn tables(&self) -> Tables {
        Tables {
            routes: self.fib.routes() as u64,
            neighbours: self.fib.neighbours() as u64,
            interfaces: self.rib.interfaces() as u64,
            changes: self.rib.changes(),
            resyncs: self.resyncs,
        }
    }

    /// What happens to packets for an address, and which prefix says so.
    pub fn lookup(&self, address: IpAddr) -> Value {
        let decision = self.fib.lookup(address);
        json!({
            "address": address,
            "prefix": self.rib.prefix_of(address),
            "decision": decision.to_string(),
            "words": self.in_words(&decision),
            "paths": self.paths(&decision),
        })
    }

    fn in_words(&self, decision: &Decision) -> String {
        let on = |id: InterfaceId| self.rib.name_of(id).unwrap_or("an interface that is gone");
        match decision {
            Decision::Resolve { interface, address } => {
                format!(
                    "to {address} on {}, whose hardware address is not known yet",
                    on(*interface)
                )
            }
            Decision::Forward { interface, address, .. } => {
                format!("to {address} on {}", on(*interface))
            }
            Decision::Balance(paths) => {
                let words = paths.iter().map(|(one, _)| self.in_words(one));
                format!("by flow: {}", words.collect::<Vec<_>>().join("; "))
            }
            other => other.to_string(),
        }
    }

    /// Each way on: interface, gateway, hardware address and weight.
    fn paths(&self, decision: &Decision) -> Vec<Value> {
        let name = |id: &InterfaceId| self.rib.name_of(*id);
        match decision {
            Decision::Resolve { interface, address } => {
                vec![json!({ "interface": name(interface), "next_hop": address })]
            }
            Decision::Forward { interface, address, mac } => {
                let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
                vec![json!({ "interface": name(interface), "next_hop": address, "mac": mac })]
            }
            Decision::Balance(paths) => {
                let mut all = Vec::new();
                for (one, buckets) in paths {
                    for mut path in self.paths(one) {
                        path["buckets"] = json!(buckets);
                        all.push(path);
                    }
                }
                all
            }
            _ => Vec::new(),
        }
    }
}

/// Tells the ports, which know the addresses `told`, and returns what they know then. What goes from one list
/// to the other stands in both for a moment.
fn tell(
    told: &BTreeSet<IpAddr>,
    kernels: Kernels,
    updates: &mut dyn PortUpdates,
) -> BTreeSet<IpAddr> {
    let Kernels { addresses, routes } = kernels;
    let list = |addresses: &BTreeSet<IpAddr>| addresses.iter().copied().collect::<Vec<_>>();
    let both = told | &addresses;
    if both != *told {
        updates.set_kernel_addresses(&list(&both));
    }
    updates.set_kernel_routes(&routes);
    if addresses != both {
        updates.set_kernel_addresses(&list(&addresses));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl PortUpdates for Heard {
        fn set_kernel_addresses(&mut self, addresses: &[IpAddr]) {
            self.0.push(format!("{addresses:?}"));
        }
        fn set_macs(&mut self, _port: PortId, _macs: &[[u8; 6]]) {}
        fn set_kernel_routes(&mut self, routes: &KernelRoutes) {
            self.0.push(format!("{} routes", routes.len()));
        }
        fn link_changed(&mut self, _port: PortId, _up: bool, _gone: bool) {}
    }

    #[test]
    fn what_goes_from_one_list_to_the_other_stands_in_both_for_a_moment() {
        let set = |hosts: &[u8]| hosts.iter().map(|host| IpAddr::from([10, 0, 0, *host])).collect();
        let said = |told: &[u8], wanted: &[u8]| {
            let (mut heard, addresses) = (Heard::default(), set(wanted));
            let kernels = Kernels { addresses, ..Kernels::default() };
            assert_eq!(tell(&set(told), kernels, &mut heard), set(wanted));
            heard.0
        };
        assert_eq!(said(&[], &[1]), ["[10.0.0.1]", "0 routes"]);
        assert_eq!(said(&[1, 2], &[1]), ["0 routes", "[10.0.0.1]"]);
        assert_eq!(said(&[1], &[2]), ["[10.0.0.1, 10.0.0.2]", "0 routes", "[10.0.0.2]"]);
        assert_eq!(said(&[1], &[1]), ["0 routes"]);
    }
}

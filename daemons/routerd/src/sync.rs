//! The forwarding tables' loop around the kernel: what netlink tells goes through the model of
//! [`crate::rib`] into the tables, and neighbours that packets wait for are asked for.
//!
//! No thread of its own: the control thread calls [`TableSync::turn`] when one of [`TableSync::fds`] or the
//! workers' doorbell says so.

mod compare;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod scripted;
mod unlisted;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_apps::route::{Decision, FibWriter, InterfaceId, Requests, ReversePath};
use ebb_graph::PortId;
use ebb_host::clock;
use ebb_host::netlink::{self, Event, Monitor};
use ebb_units::Time;
use serde_json::{Value, json};
use tracing::debug;

use self::compare::{Netlink, Reading};
use crate::policy::{Follower, Mechanism, Verdict};
use crate::rib::{PortVlan, Rib, Update};
use crate::shortcuts::{Followed, KernelRoutes, Kernels};
use crate::status::{PolicyEffect, PolicyObject, Tables};

/// How often is asked for what the kernel does not announce, at most.
const CLAIMS_EVERY: Duration = Duration::from_secs(1);

/// What the ports learn from the kernel's tables.
pub trait PortUpdates {
    /// The host's own addresses, and others whose packets stay with the kernel.
    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]);
    /// The MAC addresses on which a port's interfaces receive.
    fn set_macs(&mut self, port: PortId, macs: &[[u8; 6]]);
    /// The VLANs of a port that are interfaces of the router, with those interfaces' indices.
    fn set_vlans(&mut self, _port: PortId, _vlans: &[PortVlan]) {}
    /// The name of a port's interface by now.
    fn renamed(&mut self, _port: PortId, _name: &str) {}
    /// Who takes a port's frames, in words.
    fn set_claimed(&mut self, _port: PortId, _by: Option<&str>) {}
    /// Destinations whose packets are the kernel's to forward.
    fn set_kernel_routes(&mut self, _routes: &KernelRoutes) {}
    /// Interfaces, ports' and VLANs', whose IPv4 packets have to pass a reverse-path filter. Holds from
    /// the next [`PortUpdates::set_policy`] on.
    fn set_filtered(&mut self, _links: &BTreeMap<u32, ReversePath>) {}
    /// The least MTU that a route of IPv4, and one of IPv6, has of its own: programs that ask the kernel for a way are
    /// not told it.
    fn set_least_route_mtus(&mut self, _mtus: [Option<u32>; 2]) {}
    /// Something changed about a link, whichever.
    fn links_changed(&mut self) {}
    /// A port's link went up or down, disappeared or came back.
    fn link_changed(&mut self, port: PortId, up: bool, gone: bool);
    /// What the ports leave to the kernel for the sake of its policy, each by its path; ports that are absent leave
    /// everything. Returns what could not be done, in words; such ports leave everything as well.
    fn set_policy(&mut self, _verdict: &Verdict) -> Vec<String> {
        Vec::new()
    }
}

/// See the module.
pub struct TableSync {
    /// What the kernel tells of its tables, and comparisons with it.
    reading: Reading<Netlink>,
    kernel: netlink::Requests,
    rib: Rib,
    fib: Followed,
    requests: Arc<Requests>,
    policy: Follower,
    policy_objects: Arc<Vec<PolicyObject>>,
    /// What interfaces ask of sources.
    reverse_paths: BTreeMap<InterfaceId, ReversePath>,
    bases: view::Bases,
    claims_asked_at: Time,
    /// A link came, went or changed since the ports were told so.
    links_changed: bool,
    /// Addresses that the ports know.
    told: BTreeSet<IpAddr>,
    /// See [`PortUpdates::set_least_route_mtus`], as told last.
    least_mtus: [Option<u32>; 2],
}

impl TableSync {
    /// Reads the kernel's tables into `fib` and follows them from then on.
    ///
    /// # Errors
    /// When netlink is refused.
    pub fn start(
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<TableSync> {
        let monitor = Monitor::open().context("cannot watch the kernel's tables")?;
        TableSync::with_monitor(monitor, ports, fib, requests)
    }

    /// Like [`TableSync::start`], with a monitor opened by the caller.
    ///
    /// # Errors
    /// As [`TableSync::start`].
    pub fn with_monitor(
        monitor: Monitor,
        ports: &[(PortId, String)],
        fib: FibWriter,
        requests: Arc<Requests>,
    ) -> Result<TableSync> {
        let kernel = netlink::Requests::open().context("cannot open a netlink socket")?;
        let rib = Rib::new(ports);
        let fib = Followed::new(fib);
        let policy = Follower::open()?;
        let policy_objects = Arc::default();
        let (bases, told) = (view::Bases::default(), BTreeSet::new());
        let mut sync = TableSync {
            reading: Reading::new(Netlink::new(monitor)),
            kernel,
            rib,
            fib,
            requests,
            policy,
            policy_objects,
            reverse_paths: BTreeMap::new(),
            bases,
            claims_asked_at: clock::monotonic(),
            links_changed: false,
            told,
            least_mtus: [None; 2],
        };
        sync.rib.start(&mut sync.fib);
        sync.reading.read_first(&mut sync.rib, &mut sync.fib)?;
        sync.policy.set_local_networks(sync.rib.local_networks());
        sync.fib.publish();
        Ok(sync)
    }

    /// Descriptors that are readable (or report an error) when there is something to do.
    pub fn fds(&self) -> Vec<RawFd> {
        [self.reading.kernel.monitor.fd()].into_iter().chain(self.policy.fds()).collect()
    }

    /// Takes over what the kernel said and asks it what the workers want to know.
    ///
    /// What cannot be read is asked for again later, and forwarding goes on by what is known meanwhile.
    pub fn turn(&mut self, updates: &mut dyn PortUpdates) {
        let heard = self.listen();
        let claims = self.follow_claims(heard);
        let changed = self.catch_up() || heard || claims;
        if changed {
            self.policy.set_local_networks(self.rib.local_networks());
        }
        // Before packets of a new interface are forwarded.
        if let Err(error) = self.follow_policy(updates) {
            self.reading.failed("the kernel's policy", &error);
        }
        if changed {
            self.fib.publish();
        }
        if std::mem::take(&mut self.links_changed) {
            updates.links_changed();
        }
        for update in self.rib.take_updates() {
            match update {
                Update::LocalAddresses(addresses) => self.fib.shortcuts.set_local(&addresses),
                Update::Macs(port, macs) => updates.set_macs(port, &macs),
                Update::Vlans(port, vlans) => updates.set_vlans(port, &vlans),
                Update::Name(port, name) => updates.renamed(port, &name),
                Update::Claimed(port, by) => updates.set_claimed(port, by.as_deref()),
                Update::Link { port, up, gone } => updates.link_changed(port, up, gone),
            }
        }
        if let Some(kernels) = self.fib.shortcuts.changed() {
            self.told = tell(&self.told, kernels, updates);
        }
        let mtus = self.rib.least_route_mtus();
        if mtus != self.least_mtus {
            self.least_mtus = mtus;
            updates.set_least_route_mtus(mtus);
        }
        self.ask();
    }

    /// How long until [`TableSync::turn`] has something to do that no descriptor tells of.
    pub fn patience(&self) -> Option<Duration> {
        let now = clock::monotonic();
        let next = self.rib.next().into_iter().chain(self.reading.next()).min()?;
        Some(Duration::from_nanos(next.as_nanos().saturating_sub(now.as_nanos())))
    }

    /// Takes over what the kernel said; whether it said something.
    fn listen(&mut self) -> bool {
        let links = &mut self.links_changed;
        self.reading.listen(&mut self.rib, &mut self.fib, &mut |event| {
            *links |= matches!(event, Event::Link(_) | Event::LinkGone(_) | Event::Overrun);
        })
    }

    fn catch_up(&mut self) -> bool {
        self.reading.catch_up(&mut self.rib, &mut self.fib)
    }

    /// Asks for what the kernel does not announce of those who take frames of ports; whether
    /// anything may have changed. After events at once, else now and then.
    fn follow_claims(&mut self, events: bool) -> bool {
        let (elsewhere, listened_to) = (self.rib.elsewhere(), self.rib.listened_to());
        let any = !elsewhere.is_empty() || !listened_to.is_empty();
        if !any || !events && clock::monotonic().since(self.claims_asked_at) < CLAIMS_EVERY {
            return false;
        }
        self.claims_asked_at = clock::monotonic();
        for link in elsewhere {
            match self.kernel.is_elsewhere(link) {
                Ok(true) => {}
                Ok(false) => self.rib.end_elsewhere(link, &mut self.fib),
                // It is taken to be there until somebody says otherwise.
                Err(error) => self.reading.failed("reading a link in another namespace", &error),
            }
        }
        // Who cannot be asked for is none of them: then the frames are somebody else's.
        let listeners = match listened_to.is_empty() {
            true => BTreeMap::new(),
            false => netlink::listeners().unwrap_or_default(),
        };
        for link in listened_to {
            let count = listeners.get(&link).copied().unwrap_or(0);
            self.rib.set_listeners(link, count, &mut self.fib);
        }
        true
    }

    /// Whether something is asked for that the kernel does not announce.
    pub fn is_watching(&self) -> bool {
        !self.rib.elsewhere().is_empty() || !self.rib.listened_to().is_empty()
    }

    /// Packets to these addresses of the host go to the workers before the kernel, from the next turn on; those that
    /// were named before are to be among them.
    pub fn reserve(&mut self, addresses: BTreeSet<IpAddr>) {
        self.fib.shortcuts.reserve(addresses);
    }

    /// These mechanisms of the kernel's policy are passed over from the next turn on.
    pub fn ignore_policy(&mut self, ignored: &[Mechanism]) {
        self.policy.ignore(ignored);
    }

    /// Tunnels of the kernel's that Ebb carries itself are no policy of the kernel's.
    pub fn leave_out_tunnels(&mut self) {
        self.policy.leave_out_tunnels();
    }

    /// The ports are told the kernel's policy at the next turn even if it is the same.
    pub fn repeat_policy(&mut self) {
        self.policy.repeat();
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
        let Some(verdict) = self.policy.turn()? else {
            self.policy.settle();
            return Ok(());
        };
        let interface =
            |(link, mode): (&u32, &ReversePath)| Some((self.rib.interface_of(*link)?, *mode));
        let filters: BTreeMap<_, _> = verdict.reverse_path.iter().filter_map(interface).collect();
        // What the kernel has judged until now a filter may have to judge, and the other way round.
        self.fib.set_reverse_paths(stricter(&self.reverse_paths, &filters));
        self.fib.publish();
        updates.set_filtered(&verdict.reverse_path);
        let failures = updates.set_policy(verdict);
        self.fib.set_reverse_paths(filters.clone());
        self.fib.publish();
        self.reverse_paths = filters;
        let mut objects = verdict.objects.clone();
        self.policy.settle();
        if !failures.is_empty() {
            self.policy.tell_again();
        }
        objects.extend(failures.into_iter().map(|object| PolicyObject {
            mechanism: Mechanism::Unheld.name().to_owned(),
            object,
            concerns: "all packets received there".to_owned(),
            effect: PolicyEffect::Kernel,
        }));
        self.policy_objects = Arc::new(objects);
        Ok(())
    }

    /// Goes on with other ports; what forwards through the others is not touched.
    pub fn set_ports(&mut self, ports: &[(PortId, String)]) {
        self.rib.set_ports(ports, &mut self.fib);
        self.catch_up();
        self.fib.publish();
    }

    /// Asks the kernel for neighbours that packets wait for or whose confirmation ran out.
    fn ask(&mut self) {
        let mut wanted: BTreeSet<(u32, IpAddr)> = self.rib.take_stale().into_iter().collect();
        while let Some((interface, address)) = self.requests.pop() {
            wanted.extend(self.rib.link_of(interface).map(|link| (link, address)));
        }
        for (link, address) in wanted {
            if let Err(error) = self.kernel.resolve(link, address) {
                debug!(%address, link, %error, code = "EBB-R074", "cannot resolve a neighbour");
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
            resyncs: self.reading.begun,
            unread: self.reading.unread,
            failures: self.reading.failures,
            refused: self.rib.refused(),
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
        let on = |id: InterfaceId| self.rib.name_of(id).unwrap_or("a removed interface");
        match decision {
            Decision::Resolve { interface, address } => {
                format!("to {address} on {}, MAC address not resolved yet", on(*interface))
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

/// The stricter of each interface's filters.
fn stricter(
    one: &BTreeMap<InterfaceId, ReversePath>,
    other: &BTreeMap<InterfaceId, ReversePath>,
) -> BTreeMap<InterfaceId, ReversePath> {
    let mut both = other.clone();
    for (id, mode) in one {
        let of = both.entry(*id).or_insert(*mode);
        if *mode == ReversePath::Strict {
            *of = ReversePath::Strict;
        }
    }
    both
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

//! The live router's interfaces: opened over AF_XDP in the form that suits them, kept in step with
//! what the kernel says of them, reopened when they come back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, RawFd};
use std::time::Duration;

use anyhow::Result;
use ebb_apps::route::ReversePath;
use ebb_graph::PortId;
use ebb_host::interrupts::Affinity;
use ebb_host::journal::Brake;
use ebb_host::moderation::Moderation;
use ebb_host::transmit::ByReceiveQueue;
use ebb_ports::afxdp::{
    Form, Interface, InterfaceCounters, KernelPolicy, PacketPath, VlanInterface, Work,
};
use ipnet::IpNet;
use tracing::{debug, info, warn};

use super::kernel_cpus::PortCpus;
use super::kernel_path::Exits;
use crate::export::kernel::Places;
use crate::policy::{Mechanism, Verdict};
use crate::rib::PortVlan;
use crate::shortcuts::KernelRoutes;

use super::tags::Tags;

mod account;
mod knobs;
mod moving;
mod policies;

use policies::Policies;

/// One interface of the live router.
pub struct LiveInterface {
    /// The open interface.
    pub interface: Interface,
    /// Which table spreads its packets.
    pub form: Form,
    /// Up with carrier, as the kernel last said.
    pub up: bool,
    /// Its queues with the CPUs of their interrupts, put back when it closes.
    pub interrupts: Vec<(u32, Affinity)>,
    /// Its transmit queues, chosen by the queue that received, put back when it closes.
    pub by_receive_queue: Option<ByReceiveQueue>,
    /// How long its packets gather, put back when it closes; `None` where they cannot.
    pub moderation: Option<Moderation>,
    /// How long they gather at present.
    pub gathers: Duration,
    /// It has another number of queues than when it was opened.
    pub queues_changed: bool,
    /// Whether its program sees VLAN tags, and what is done where it does not.
    pub(super) tags: Tags,
    /// The CPUs that forward what it receives on the kernel path in the driver.
    pub(super) cpus: PortCpus,
}

impl LiveInterface {
    /// Frames into which it receives.
    pub fn posted(&self) -> u64 {
        u64::from(self.interface.queues()) * u64::from(self.interface.options().ring_len)
    }
}

/// What is known of a port's stations: its addresses, the VLAN interfaces on it, and the host's addresses.
pub struct Known {
    /// MAC addresses on which it receives.
    pub macs: Vec<[u8; 6]>,
    vlans: Vec<PortVlan>,
    /// Own addresses of the host.
    pub local: Vec<IpAddr>,
}

impl Known {
    /// The index of the VLAN interface that a frame is for by its tag.
    pub fn vlan_of(&self, frame: &[u8]) -> Option<u32> {
        let vlan = ebb_wire::link(frame)?.vlan();
        self.vlans.iter().find(|known| known.id == vlan).map(|known| known.link)
    }
}

/// The live interfaces by port number.
#[derive(Default)]
pub struct Interfaces {
    /// `None`: no such port, or not open at present.
    pub open: Vec<Option<LiveInterface>>,
    /// Own addresses that all interfaces leave to the kernel.
    local: Vec<IpAddr>,
    /// What ports leave to the kernel for the sake of its policy.
    policies: Policies,
    /// Links at whose sending side something looks at packets or holds them back.
    sending: BTreeSet<u32>,
    /// Ports that do not know all own addresses, and leave everything to the kernel therefore.
    untold: BTreeSet<PortId>,
    /// Workers get no packets for the moment.
    bypassed: bool,
    /// Destinations that all interfaces leave to the kernel.
    routes: Vec<(IpAddr, u8, bool)>,
    /// MAC addresses on which a port receives, by port number.
    macs: BTreeMap<u8, Vec<[u8; 6]>>,
    /// VLANs of which a port's workers get the frames, and the indices of their interfaces, by port number.
    vlans: BTreeMap<u8, Vec<PortVlan>>,
    /// Names that ports' interfaces have at present, by port number.
    names: BTreeMap<u8, String>,
    /// Who takes a port's frames, by port number.
    claimed: BTreeMap<u8, String>,
    /// Whether a port's link is up, and whether it is gone, as the kernel last said; by port
    /// number.
    links: BTreeMap<u8, (bool, bool)>,
    /// What ports have counted that were closed since, by port number, and what CPUs did for them on the kernel path.
    counted: BTreeMap<u8, InterfaceCounters>,
    worked: Vec<Work>,
    /// Packets and bytes of closed ports whose flows were counted on the kernel path.
    of_flows: [u64; 2],
    /// Links that came or went since the last look: port, up, gone.
    pub link_changes: Vec<(PortId, bool, bool)>,
    /// Ports' interfaces to which a program in a driver cannot redirect packets, by index.
    without_redirects: BTreeSet<u32>,
    /// Whose each interface is by which packets of the kernel path come and leave.
    places: Places,
    /// The guard: gives the packets to the kernel while the router stands still.
    brake: Option<Brake>,
}

impl Interfaces {
    /// No interfaces yet; the guard is told of each.
    pub fn guarded(brake: Brake) -> Interfaces {
        Interfaces { brake: Some(brake), ..Interfaces::default() }
    }

    /// Puts a newly opened interface in its place and tells it what it must know.
    pub fn place(&mut self, id: PortId, mut live: LiveInterface) {
        self.untold.remove(&id);
        if let Err(error) = live.interface.set_local_addresses(&self.local) {
            warn!(port = live.interface.name(), %error, code = "EBB-R019", "cannot set the kernel's addresses");
            self.untold.insert(id);
        }
        // Before a worker can receive from it.
        let policy = self.policies.of_live(id, &live);
        let bypassed = self.bypasses(&live);
        let known = |_: &&KernelPolicy| !bypassed && !self.untold.contains(&id);
        let vlans = self.policies.vlan_interfaces(self.vlans.get(&id.0));
        _ = set_policy(&mut live, policy.as_ref().filter(known), &vlans);
        if let Err(error) = live.interface.set_kernel_routes(&self.routes) {
            warn!(port = live.interface.name(), %error, code = "EBB-R020", "cannot set the kernel's routes");
        }
        let served = served(self.vlans.get(&id.0));
        if let Err(error) = live.interface.set_vlans(&served) {
            warn!(port = live.interface.name(), %error, code = "EBB-R021", "cannot set the VLANs");
        }
        // Until the kernel's tables have been read its own address is all that is known of it.
        let macs = self
            .macs
            .get(&id.0)
            .filter(|macs| !macs.is_empty() || self.claimed.contains_key(&id.0));
        let macs = macs.cloned().unwrap_or_else(|| vec![live.interface.mac()]);
        if let Err(error) = live.tags.take_frames_to(&mut live.interface, &macs) {
            warn!(port = live.interface.name(), %error, code = "EBB-R022", "cannot set the own MAC addresses");
        }
        if let Some(brake) = &self.brake {
            let placed = live.interface.station();
            let placed = placed.and_then(|(array, len)| brake.place(id.0, array.as_fd(), len));
            if let Err(error) = placed {
                let port = live.interface.name();
                warn!(port, %error, code = "EBB-R023", "the guard cannot pass its packets to the kernel if the \
                    router stalls");
            }
        }
        live.tags.note(&live.interface).iter().for_each(|note| warn!(code = "EBB-R024", "{note}"));
        let slot = usize::from(id.0);
        if self.open.len() <= slot {
            self.open.resize_with(slot + 1, || None);
        }
        self.open[slot] = Some(live);
        self.set_exits();
    }

    /// Leaves all packets to the kernel that workers would get, until told otherwise.
    pub fn bypass(&mut self, on: bool) {
        self.bypassed = on;
        self.tell_policies();
    }

    fn bypasses(&self, live: &LiveInterface) -> bool {
        self.bypassed && live.interface.options().path == PacketPath::Worker
    }

    /// Tells each port what it leaves to the kernel. Returns what failed.
    fn tell_policies(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for (id, live) in numbered(&mut self.open) {
            if self.untold.contains(&id) && live.interface.set_local_addresses(&self.local).is_ok()
            {
                self.untold.remove(&id);
            }
            let untold = self.untold.contains(&id);
            let bypassed = self.bypassed && live.interface.options().path == PacketPath::Worker;
            let policy = self.policies.of_live(id, live);
            let policy = policy.as_ref().filter(|_| !untold && !bypassed);
            let vlans = self.policies.vlan_interfaces(self.vlans.get(&id.0));
            failures.extend(set_policy(live, policy, &vlans).err());
            if untold {
                failures.push(format!("own addresses not set on {}", live.interface.name()));
            }
        }
        failures
    }

    /// Another interface, or the same opened otherwise, takes the place of a port: until its policy is told it
    /// leaves everything to the kernel.
    pub fn forget_policy(&mut self, id: PortId) {
        self.policies.workers.remove(&id);
        self.policies.kernel_path.remove(&id);
    }

    /// Closes a port whose link was set down or is gone; a new one has other MAC addresses.
    pub fn close(&mut self, id: PortId, set_down: bool) {
        if !set_down {
            self.macs.remove(&id.0);
            self.vlans.remove(&id.0);
        }
        self.take_away(id);
        self.set_exits();
    }

    /// Closes a port, and remembers what it has counted.
    pub fn take_away(&mut self, id: PortId) {
        let Some(live) = self.open.get_mut(usize::from(id.0)).and_then(Option::take) else {
            return;
        };
        if let Ok(counters) = live.interface.counters() {
            if live.interface.options().flows.is_some() {
                self.of_flows[0] += counters.forwarded;
                self.of_flows[1] += counters.forwarded_bytes;
            }
            self.counted.entry(id.0).or_default().add(&counters);
        }
        add_work(&mut self.worked, live.interface.work_by_cpu().unwrap_or_default());
    }

    /// Whether some open port is on the kernel path.
    pub fn any_on_the_kernel_path(&self) -> bool {
        let mut open = self.open.iter().flatten();
        open.any(|live| live.interface.options().path == PacketPath::Kernel)
    }

    /// Whether the program of some port can look up the kernel's connections.
    pub fn knows_connections(&self) -> bool {
        self.open.iter().flatten().any(|live| live.interface.knows_connections())
    }

    /// What is noted of interfaces' places.
    pub fn places(&self) -> Places {
        self.places.clone()
    }

    /// Closes the ports of the kernel path: their packets are the network stack's.
    pub fn leave_the_kernel_path(&mut self) {
        let on_it = |live: &LiveInterface| live.interface.options().path == PacketPath::Kernel;
        let ports: Vec<PortId> =
            numbered(&mut self.open).filter_map(|(id, live)| on_it(live).then_some(id)).collect();
        ports.into_iter().for_each(|id| self.take_away(id));
    }

    /// Tells ports on the kernel path by which others their packets may leave.
    fn set_exits(&mut self) {
        if !self.any_on_the_kernel_path() {
            return;
        }
        self.note_places();
        let exits = Exits::of(self.exit_links(), &self.sending);
        for live in self.open.iter_mut().flatten() {
            if live.interface.options().path == PacketPath::Kernel {
                exits.tell(&mut live.interface);
            }
        }
        self.without_redirects = exits.without_redirects();
    }

    fn note_places(&self) {
        for (slot, live) in (0u8..).zip(&self.open) {
            let Some(live) = live else { continue };
            self.places.note(live.interface.index(), PortId(slot), 0);
            for vlan in self.vlans.get(&slot).into_iter().flatten() {
                self.places.note(vlan.link, PortId(slot), vlan.id);
            }
        }
    }

    /// Links by which packets of the kernel path may leave: open ports, and the VLAN interfaces on them.
    fn exit_links(&self) -> impl Iterator<Item = u32> {
        let numbered = (0u8..).zip(&self.open);
        let open = numbered.filter_map(|(slot, live)| Some((slot, live.as_ref()?)));
        open.flat_map(|(slot, live)| {
            let vlans = self.vlans.get(&slot).into_iter().flatten();
            [live.interface.index()].into_iter().chain(vlans.map(|vlan| vlan.link))
        })
    }

    /// A port is none any more: the next of its number is another.
    pub fn forget(&mut self, id: PortId) {
        self.names.remove(&id.0);
        self.claimed.remove(&id.0);
        self.counted.remove(&id.0);
    }

    /// What is known of a port's stations.
    pub fn known(&self, id: PortId) -> Known {
        Known {
            macs: self.macs.get(&id.0).cloned().unwrap_or_default(),
            vlans: self.vlans.get(&id.0).cloned().unwrap_or_default(),
            local: self.local.clone(),
        }
    }

    /// The open interface of a port.
    pub fn get(&self, id: PortId) -> Option<&LiveInterface> {
        self.open.get(usize::from(id.0))?.as_ref()
    }

    /// The name that a port's interface has at present, if there is one.
    pub fn name_of(&self, id: PortId) -> Option<&str> {
        self.names.get(&id.0).map(String::as_str)
    }

    /// Looks at what the kernel does not announce: which drivers send what programs in drivers redirect to them, and whether
    /// filters are gone.
    pub fn look_at_drivers(&mut self) {
        for live in self.open.iter().flatten().filter(|live| live.up) {
            match live.interface.stay() {
                Ok(false) => {}
                Ok(true) => {
                    warn!(
                        port = live.interface.name(),
                        code = "EBB-R080",
                        "somebody has removed the kernel path's \
                        filter of traffic control: it is there again"
                    );
                }
                Err(error) => {
                    debug!(port = live.interface.name(), %error, code = "EBB-R081", "the kernel path's filter of \
                        traffic control is gone: packets are the network stack's");
                }
            }
        }
        let in_driver = |live: &LiveInterface| {
            live.interface.options().path == PacketPath::Kernel && live.interface.mode().native
        };
        if self.open.iter().flatten().any(in_driver) {
            self.set_exits();
        }
    }

    /// Descriptors that are readable when there is something for [`Interfaces::look_at_tags`].
    pub fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.open.iter().flatten().filter_map(|live| live.tags.fd())
    }

    /// Leaves ports to the kernel where tagged frames come that programs take for others.
    pub fn look_at_tags(&mut self) {
        for live in self.open.iter_mut().flatten() {
            live.tags.look(&mut live.interface);
        }
    }

    /// Ports whose link is up although they are not open.
    pub fn waiting(&self) -> Vec<PortId> {
        let closed = |(port, (up, _)): (&u8, &(bool, bool))| {
            (*up && self.get(PortId(*port)).is_none()).then_some(PortId(*port))
        };
        self.links.iter().filter_map(closed).collect()
    }
}

/// Adds what CPUs have done elsewhere.
fn add_work(cpus: &mut Vec<Work>, more: Vec<Work>) {
    cpus.resize(cpus.len().max(more.len()), Work::default());
    for (sum, work) in cpus.iter_mut().zip(more) {
        sum.forwarded += work.forwarded;
        sum.worked_ns += work.worked_ns;
    }
}

/// The open interfaces by number.
fn numbered(
    open: &mut [Option<LiveInterface>],
) -> impl Iterator<Item = (PortId, &mut LiveInterface)> {
    (0u8..).zip(open).filter_map(|(slot, live)| Some((PortId(slot), live.as_mut()?)))
}

/// VLANs whose frames workers take.
fn served(vlans: Option<&Vec<PortVlan>>) -> Vec<u16> {
    let by_workers = |vlan: &&PortVlan| vlan.by_workers;
    vlans.into_iter().flatten().filter(by_workers).map(|vlan| vlan.id).collect()
}

/// Tells an interface what it leaves to the kernel, everything where nobody has judged. What it cannot be
/// told, in words: then it leaves everything as well. `vlans`: the VLAN interfaces on it, which have filters of their own.
fn set_policy(
    live: &mut LiveInterface,
    policy: Option<&KernelPolicy>,
    vlans: &[VlanInterface],
) -> Result<(), String> {
    let everything = KernelPolicy::everything(Mechanism::Unheld as u8);
    let told = live.interface.set_vlan_interfaces(vlans);
    let policy = policy.filter(|_| told.is_ok()).unwrap_or(&everything);
    let result = live.interface.set_policy(policy).and(told);
    result.map_err(|error| {
        let name = live.interface.name();
        warn!(port = name, %error, code = "EBB-R025", "cannot apply the kernel's policy: all packets are left to the kernel");
        format!("not applied on {name}: {error}")
    })
}

impl crate::sync::PortUpdates for Interfaces {
    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]) {
        self.local = addresses.to_vec();
        for (id, live) in numbered(&mut self.open) {
            let known = !self.untold.remove(&id);
            if let Err(error) = live.interface.set_local_addresses(addresses) {
                warn!(port = live.interface.name(), %error, code = "EBB-R019", "cannot set the kernel's addresses");
                self.untold.insert(id);
            }
            // From them nothing may be forwarded.
            if known == self.untold.contains(&id) {
                let path = live.interface.options().path;
                let bypassed = self.bypassed && path == PacketPath::Worker;
                let policy = self.policies.of_live(id, live);
                let vlans = self.policies.vlan_interfaces(self.vlans.get(&id.0));
                _ = set_policy(live, policy.as_ref().filter(|_| !known && !bypassed), &vlans);
            }
        }
    }

    fn set_kernel_routes(&mut self, routes: &KernelRoutes) {
        let route = |(net, kernels): (&IpNet, &bool)| (net.addr(), net.prefix_len(), *kernels);
        self.routes = routes.iter().map(route).collect();
        for live in self.open.iter_mut().flatten() {
            if let Err(error) = live.interface.set_kernel_routes(&self.routes) {
                warn!(port = live.interface.name(), %error, code = "EBB-R020", "cannot set the kernel's routes");
            }
        }
    }

    fn set_least_route_mtus(&mut self, mtus: [Option<u32>; 2]) {
        self.policies.least_route_mtus = mtus;
        self.tell_policies();
    }

    fn set_macs(&mut self, port: PortId, macs: &[[u8; 6]]) {
        self.macs.insert(port.0, macs.to_vec());
        let Some(Some(live)) = self.open.get_mut(usize::from(port.0)) else { return };
        if let Err(error) = live.tags.take_frames_to(&mut live.interface, macs) {
            warn!(port = live.interface.name(), %error, code = "EBB-R022", "cannot set the own MAC addresses");
        }
    }

    fn set_vlans(&mut self, port: PortId, vlans: &[PortVlan]) {
        self.vlans.insert(port.0, vlans.to_vec());
        let known = self.policies.vlan_interfaces(self.vlans.get(&port.0));
        let Some(Some(live)) = self.open.get_mut(usize::from(port.0)) else { return };
        let served = served(self.vlans.get(&port.0));
        let told = live.interface.set_vlans(&served);
        if let Err(error) = told.and_then(|()| live.interface.set_vlan_interfaces(&known)) {
            warn!(port = live.interface.name(), %error, code = "EBB-R021", "cannot set the VLANs");
        }
        self.set_exits();
    }

    fn renamed(&mut self, port: PortId, name: &str) {
        if let Some(former) = self.names.insert(port.0, name.to_owned()) {
            info!(
                port = former,
                code = "EBB-R026",
                "the interface was renamed to {name}; it remains this port"
            );
        }
    }

    fn set_claimed(&mut self, port: PortId, by: Option<&str>) {
        let name = self.names.get(&port.0).cloned().unwrap_or_default();
        match by {
            Some(by) => {
                warn!(port = name, code = "EBB-R027", "its packets are left to the kernel: {by}");
                self.claimed.insert(port.0, by.to_owned());
            }
            None if self.claimed.remove(&port.0).is_some() => {
                info!(port = name, code = "EBB-R028", "its packets are received again");
            }
            None => {}
        }
    }

    fn set_policy(&mut self, verdict: &Verdict) -> Vec<String> {
        self.policies.workers.clone_from(&verdict.ports);
        self.policies.kernel_path.clone_from(&verdict.kernel_path);
        if self.sending != verdict.sending {
            self.sending.clone_from(&verdict.sending);
            self.set_exits();
        }
        self.tell_policies()
    }

    fn set_filtered(&mut self, links: &BTreeMap<u32, ReversePath>) {
        self.policies.filtered.clone_from(links);
    }

    fn links_changed(&mut self) {
        self.set_exits();
    }

    fn link_changed(&mut self, port: PortId, up: bool, gone: bool) {
        self.links.insert(port.0, (up, gone));
        if let Some(Some(live)) = self.open.get_mut(usize::from(port.0)) {
            live.up = up;
        }
        self.link_changes.push((port, up, gone));
    }
}

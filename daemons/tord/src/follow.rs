//! Beside the switch's thread: follows the kernel's links, addresses and neighbours into the racks' tables, asks
//! for hosts that packets wait for, opens interfaces again that are made again, and hands packets for the switch
//! itself to the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ebb_apps::route::Requests as Wanted;
use ebb_host::Doorbell;
use ebb_host::netlink::{Address, Event, Link, Monitor, Requests};
use ebb_host::wait::WaitSet;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Interface, KernelInjector, Umem};
use ipnet::IpNet;
use tracing::{debug, info, warn};

use crate::addresses::rack_mac;
use crate::hosts::{Hosts, Step};
use crate::rack::ForKernel;
use crate::reopen::{Reopened, open_interface};
use crate::tables::{FIRST_HOST, Facts, Tables, UPLINK};

/// How often links are looked at although nothing was heard: one that could not be opened is tried again.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Packets handed to the kernel before anything else is looked at.
const KERNEL_MAX: usize = 64;

/// The switch's thread goes on with this port in the place of another one: rack and port by their places.
pub(crate) struct Order {
    pub(crate) rack: usize,
    pub(crate) port: usize,
    pub(crate) to: Box<dyn Port>,
}

/// Opens one of a rack's interfaces, by the numbers of [`Tables`].
pub(crate) fn open_port(
    umem: &Arc<Umem>,
    name: &str,
    (rack, port): (u8, usize),
    long: bool,
) -> Result<(Interface, AfXdpPort)> {
    let macs = if port == UPLINK { vec![rack_mac(rack)] } else { Vec::new() };
    let (interface, opened) = open_interface(umem, name, &macs, (false, long))?;
    if let Some(most) = interface.mtu_served() {
        warn!(
            name,
            code = "EBB-T004",
            "its MTU is larger than what the switch forwards: packets of more than {most} bytes are lost; \
            set its MTU, and that of the hosts behind it, to {most} at most"
        );
    }
    if !interface.sees_tags() {
        warn!(
            name,
            code = "EBB-T005",
            "VLAN tags may be in packet metadata, where the XDP program cannot read them on this kernel: keep \
            tagged frames away from it, they would be forwarded as if they had no tag"
        );
    }
    Ok((interface, opened))
}

/// One of a rack's interfaces.
pub(crate) struct Kept {
    link: Reopened,
    /// The switch's addresses there that the configuration names.
    own: Vec<IpAddr>,
    /// Addresses behind it.
    prefixes: Vec<IpNet>,
}

impl Kept {
    /// An interface that is open.
    pub(crate) fn new(interface: Interface, own: &[IpAddr], prefixes: &[IpNet]) -> Kept {
        let link = Reopened::new(interface);
        Kept { link, own: own.to_vec(), prefixes: prefixes.to_vec() }
    }

    /// Whether it has jumbo frames.
    pub(crate) fn is_long(&self) -> bool {
        self.link.interface().is_some_and(Interface::is_long)
    }

    /// The switch's addresses there, with the lengths of their networks.
    fn addresses(&self, index: u32, kernels: &BTreeSet<(u32, IpNet)>) -> Vec<IpNet> {
        let of_kernel = kernels.iter().filter(|(link, _)| *link == index);
        let mut all: Vec<IpNet> = of_kernel.map(|(_, address)| *address).collect();
        for own in &self.own {
            if all.iter().all(|net| net.addr() != *own) {
                let around = self.prefixes.iter().find(|prefix| prefix.contains(own));
                let len = around.map_or(IpNet::from(*own).prefix_len(), IpNet::prefix_len);
                all.extend(IpNet::new(*own, len));
            }
        }
        all
    }
}

/// A rack as this thread knows it.
pub(crate) struct Followed {
    pub(crate) number: u8,
    pub(crate) tables: Tables,
    pub(crate) wanted: Arc<Wanted>,
    /// The uplink, then the interfaces to hosts.
    pub(crate) ports: Vec<Kept>,
}

/// See the module.
pub(crate) struct Follower {
    pub(crate) racks: Vec<Followed>,
    monitor: Monitor,
    kernel: Requests,
    hosts: Hosts,
    links: BTreeMap<u32, Link>,
    addresses: BTreeSet<(u32, IpNet)>,
    own: BTreeSet<IpAddr>,
    umem: Arc<Umem>,
    /// Whether there is memory for jumbo frames.
    long: bool,
    orders: Sender<Order>,
    for_kernel: Receiver<ForKernel>,
    injector: Option<KernelInjector>,
    bell: Doorbell,
    links_changed: bool,
    overrun: bool,
    injection_failed: bool,
}

/// The running thread; it ends when this is dropped.
pub(crate) struct Following {
    stop: Arc<AtomicBool>,
    bell: Doorbell,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Follower {
    /// Reads what the kernel knows into the racks' tables.
    ///
    /// # Errors
    /// When netlink is refused.
    pub(crate) fn new(
        racks: Vec<Followed>,
        (umem, long): (&Arc<Umem>, bool),
        orders: Sender<Order>,
        (for_kernel, bell): (Receiver<ForKernel>, Doorbell),
    ) -> Result<Follower> {
        let injector = KernelInjector::new().map_err(|error| {
            warn!(
                code = "EBB-T006",
                "packets from other racks for the switch's own addresses are lost: {error}"
            );
        });
        let mut follower = Follower {
            racks,
            monitor: Monitor::open().context("cannot watch the kernel's tables")?,
            kernel: Requests::open().context("cannot open a netlink socket")?,
            hosts: Hosts::default(),
            links: BTreeMap::new(),
            addresses: BTreeSet::new(),
            own: BTreeSet::new(),
            umem: umem.clone(),
            long,
            orders,
            for_kernel,
            injector: injector.ok(),
            bell,
            links_changed: true,
            overrun: true,
            injection_failed: false,
        };
        follower.turn();
        Ok(follower)
    }

    /// Goes on in a thread of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(mut self) -> Result<Following> {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, bell) = (stop.clone(), self.bell.clone());
        let run = move || {
            let mut wait = WaitSet::new();
            while !told.load(Relaxed) {
                wait.clear();
                self.fds().into_iter().for_each(|fd| wait.add(fd));
                wait.wait(Some(LOOK_EVERY));
                self.bell.drain();
                self.turn();
            }
        };
        let thread = std::thread::Builder::new().name("ebb-tor-follow".into()).spawn(run);
        let thread = Some(thread.context("cannot start the thread ebb-tor-follow")?);
        Ok(Following { stop, bell, thread })
    }

    fn fds(&self) -> [RawFd; 2] {
        [self.monitor.fd(), self.bell.fd()]
    }

    /// Takes over what is to be known and does what is to be done by now.
    fn turn(&mut self) {
        self.listen();
        if std::mem::take(&mut self.overrun) {
            self.read_anew();
        }
        self.attach();
        if std::mem::take(&mut self.links_changed) {
            self.renew();
        }
        self.ask();
        self.racks.iter_mut().for_each(|rack| rack.tables.publish());
        self.inject();
    }

    fn listen(&mut self) {
        let mut events = Vec::new();
        if let Err(error) = self.monitor.poll(&mut |event| events.push(event)) {
            warn!(%error, code = "EBB-T007", "the kernel's tables are read anew");
            if let Ok(monitor) = Monitor::open() {
                self.monitor = monitor;
            }
            self.overrun = true;
        }
        events.iter().for_each(|event| self.hear(event));
    }

    /// Messages were lost, or nothing is known yet: what is not listed is not there.
    fn read_anew(&mut self) {
        let (mut events, mut stale) = (Vec::new(), self.hosts.all());
        if let Err(error) = self.monitor.dump(&mut |event| events.push(event)) {
            debug!(%error, code = "EBB-T008", "the kernel's tables cannot be read; trying again");
            self.overrun = true;
            return;
        }
        self.links.clear();
        self.addresses.clear();
        self.links_changed = true;
        for event in &events {
            if let Event::Neighbour(neighbour) = event {
                stale.remove(&(neighbour.link, neighbour.address));
            }
            // A dump that was begun again says so.
            if *event != Event::Overrun {
                self.hear(event);
            }
        }
        let steps: Vec<Step> = stale.into_iter().flat_map(|place| self.hosts.gone(place)).collect();
        self.follow(steps);
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Link(link) => {
                self.links.insert(link.index, link.clone());
                self.links_changed = true;
            }
            Event::LinkGone(index) | Event::LinkMoved { index, .. } => {
                self.links.remove(index);
                self.addresses.retain(|(link, _)| link != index);
                self.links_changed = true;
            }
            Event::Address(Address { link, address, tentative: false, .. }) => {
                self.links_changed |= self.addresses.insert((*link, *address));
            }
            Event::AddressGone(Address { link, address, .. }) => {
                self.links_changed |= self.addresses.remove(&(*link, *address));
            }
            Event::Neighbour(neighbour) if self.has_hosts(neighbour.link) => {
                let steps = self.hosts.hear(neighbour);
                self.follow(steps);
            }
            Event::NeighbourGone(gone) => {
                let steps = self.hosts.gone((gone.link, gone.address));
                self.follow(steps);
            }
            Event::Overrun => self.overrun = true,
            _ => {}
        }
    }

    /// The rack and port that have the interface of an index open.
    fn place_of(&self, index: u32) -> Option<(usize, usize)> {
        self.racks.iter().enumerate().find_map(|(rack, followed)| {
            let open = |kept: &Kept| kept.link.index() == Some(index);
            Some((rack, followed.ports.iter().position(open)?))
        })
    }

    fn has_hosts(&self, index: u32) -> bool {
        self.place_of(index).is_some_and(|(_, port)| port != UPLINK)
    }

    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            let (Step::Learn(place, _)
            | Step::Forget(place)
            | Step::Ask(place)
            | Step::Evict(place)) = step;
            let (link, address) = place;
            let Some((rack, port)) = self.place_of(link) else { continue };
            let tables = &mut self.racks[rack].tables;
            let asked = match step {
                Step::Learn(_, mac) => {
                    tables.learn(port, address, mac);
                    continue;
                }
                Step::Forget(_) => {
                    tables.forget(port, address);
                    continue;
                }
                Step::Ask(_) => self.kernel.resolve(link, address),
                Step::Evict(_) => self.kernel.delete_neighbour(link, address),
            };
            if let Err(error) = asked {
                debug!(%address, link, %error, code = "EBB-T009", "the kernel does not do as it is asked");
            }
        }
    }

    /// Asks for the hosts that packets wait for.
    fn ask(&mut self) {
        for rack in 0..self.racks.len() {
            while let Some((interface, address)) = self.racks[rack].wanted.pop() {
                let port = self.racks[rack].ports.get(usize::from(interface.0));
                let Some(link) = port.and_then(|kept| kept.link.index()) else { continue };
                let steps = self.hosts.wanted((link, address));
                self.follow(steps);
            }
        }
    }

    /// Opens and closes interfaces as they come and go.
    fn attach(&mut self) {
        for rack in 0..self.racks.len() {
            for port in 0..self.racks[rack].ports.len() {
                self.look(rack, port);
            }
        }
    }

    fn look(&mut self, rack: usize, port: usize) {
        let followed = &mut self.racks[rack];
        let (number, link) = (followed.number, &mut followed.ports[port].link);
        let open = |name: &str| open_port(&self.umem, name, (number, port), self.long);
        let Some(to) = link.look(self.links.values(), open) else { return };
        _ = self.orders.send(Order { rack, port, to });
        self.links_changed = true;
        if link.interface().is_none() {
            return followed.tables.lose_hosts(port);
        }
        // What the kernel knew of hosts there before it was opened.
        self.overrun = true;
        self.bell.ring();
    }

    /// Tells tables and XDP programs how links and addresses are by now.
    fn renew(&mut self) {
        let kernels = self.addresses.iter().map(|(_, address)| address.addr());
        let named = self.racks.iter().flat_map(|rack| &rack.ports).flat_map(|kept| &kept.own);
        let own: BTreeSet<IpAddr> =
            kernels.chain(named.copied()).filter(|address| !is_bound_to_a_link(*address)).collect();
        let list: Vec<IpAddr> = own.iter().copied().collect();
        for rack in &mut self.racks {
            for (port, kept) in rack.ports.iter_mut().enumerate() {
                let link = kept.link.index().and_then(|index| self.links.get(&index));
                let Some(link) = link else {
                    // Its routes stay, and lead nowhere.
                    let facts = Facts { mac: [0; 6], mtu: 1500, up: false, addresses: Vec::new() };
                    rack.tables.set_port(port, &facts);
                    continue;
                };
                let mac = link.mac.unwrap_or_default();
                // Light goes out every night: whether there is some is no reason to drop what waits.
                let up = port == UPLINK || link.up;
                let addresses = match port {
                    UPLINK => Vec::new(),
                    _ => kept.addresses(link.index, &self.addresses),
                };
                rack.tables.set_port(port, &Facts { mac, mtu: link.mtu, up, addresses });
                // What comes from where no hosts are is what the kernel itself sends to other racks.
                let local = if kept.prefixes.is_empty() { &[] } else { &list[..] };
                if let Some(interface) = kept.link.interface_mut().filter(|_| port != UPLINK) {
                    let told = interface.set_macs(&[mac]);
                    if let Err(error) = told.and_then(|()| interface.set_local_addresses(local)) {
                        let interface = interface.name();
                        warn!(interface, %error, code = "EBB-T010", "cannot tell the XDP program addresses");
                    }
                }
            }
            if let Err(error) = rack.tables.set_own(&own) {
                warn!(
                    rack = rack.number,
                    code = "EBB-T011",
                    "not all of the switch's own addresses are served: {error}"
                );
            }
        }
        if self.own != own {
            info!(addresses = own.len(), code = "EBB-T012", "the switch's own addresses");
            self.own = own;
        }
    }

    /// Hands packets for the switch itself to the kernel, as if they had come by the interface that has their
    /// address, else by one of the rack's.
    fn inject(&mut self) {
        for _ in 0..KERNEL_MAX {
            let Ok(ForKernel { rack, port, mut frame }) = self.for_kernel.try_recv() else {
                return;
            };
            let Some(interface) = self.origin(rack, port, &frame) else { continue };
            let (index, native) = (interface.index(), interface.mode().native);
            if let Some(mac) = self.links.get(&index).and_then(|link| link.mac)
                && port == UPLINK
            {
                frame[..6].copy_from_slice(&mac);
            }
            if let Some(injector) = &mut self.injector
                && let Err(error) = injector.inject(index, native, &frame)
                && !std::mem::replace(&mut self.injection_failed, true)
            {
                warn!(%error, code = "EBB-T013", "cannot pass a packet to the kernel; others may be lost too");
            }
        }
        // There may be more.
        self.bell.ring();
    }

    fn origin(&self, rack: u8, port: usize, frame: &[u8]) -> Option<&Interface> {
        let followed = self.racks.iter().find(|followed| followed.number == rack)?;
        if port != UPLINK {
            return followed.ports[port].link.interface();
        }
        let destination = destination(frame)?;
        let has = |kept: &&Kept| {
            let index = kept.link.index().unwrap_or_default();
            let known = |(link, net): &(u32, IpNet)| *link == index && net.addr() == destination;
            kept.own.contains(&destination) || self.addresses.iter().any(known)
        };
        let hosts = || self.racks.iter().flat_map(|rack| &rack.ports[FIRST_HOST..]);
        let owner = hosts().find(has).and_then(|kept| kept.link.interface());
        owner.or_else(|| followed.ports[FIRST_HOST..].iter().find_map(|kept| kept.link.interface()))
    }
}

/// Addresses that mean something on one link only: the XDP program leaves their packets to the kernel anyway.
fn is_bound_to_a_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_unspecified(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unspecified() || address.is_unicast_link_local()
        }
    }
}

fn destination(frame: &[u8]) -> Option<IpAddr> {
    let link = ebb_wire::link(frame)?;
    let bytes = &frame[link.payload..];
    match link.ethertype {
        ebb_wire::ethertype::IPV4 => Some(ebb_wire::Ipv4::new(bytes)?.destination().into()),
        ebb_wire::ethertype::IPV6 => Some(ebb_wire::Ipv6::new(bytes)?.destination().into()),
        _ => None,
    }
}

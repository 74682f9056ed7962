//! What is known of a machine: files below a root, and what its kernel says of interfaces.

use std::io::Read;

use ebb_host::ethtool::{self, Offload};
use ebb_host::netlink::{self, Requests};
use ebb_host::{Sysfs, link};
use serde::{Deserialize, Serialize};

use crate::Machine;

/// Numbers of receive queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// In use.
    pub now: u32,
    /// The most there can be.
    pub most: u32,
}

/// Descriptors of a receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// In use.
    pub now: u32,
    /// The most there can be.
    pub most: u32,
}

/// What the kernel says of an interface; nothing where its driver does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's number of it; 0 where there is no such interface.
    pub index: u32,
    /// Up, and with carrier.
    pub up: bool,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// `veth`, `bridge`, ...; none for devices.
    pub kind: Option<String>,
    /// Name of its driver.
    pub driver: String,
    /// Place of its device; empty for virtual ones.
    pub bus: String,
    /// Receive queues.
    pub queues: Option<Queues>,
    /// Receive rings.
    pub ring: Option<Ring>,
    /// Received packets are merged by the kernel (GRO).
    pub gro: Option<bool>,
    /// Received packets are merged by the card (LRO).
    pub lro: Option<bool>,
    /// VLAN tags are taken out of received frames.
    pub strips_vlan: Option<bool>,
    /// XDP programs run in the driver.
    pub xdp_native: Option<bool>,
    /// AF_XDP sockets share the driver's frames.
    pub xdp_zero_copy: Option<bool>,
    /// The driver sends what XDP programs redirect to it.
    pub xdp_transmit: Option<bool>,
}

impl Interface {
    /// Whether it is a device on a bus.
    pub fn is_device(&self) -> bool {
        !matches!(self.bus.as_str(), "" | "N/A" | "tap" | "tun")
    }
}

/// What this machine's kernel says of the interfaces of these names, in the current network namespace; without names, of
/// all that are devices. It needs no rights.
///
/// # Errors
/// When the kernel refuses netlink.
pub fn here(names: &[String]) -> netlink::Result<Vec<Interface>> {
    let links = Requests::open()?.links()?;
    let features = netlink::xdp_features().unwrap_or_default();
    let mut found = Vec::new();
    for link in &links {
        let named = names.contains(&link.name);
        if !named && (!names.is_empty() || link.loopback || link.kind.is_some()) {
            continue;
        }
        let mut interface = ask(&link.name);
        if !named && !interface.is_device() {
            continue;
        }
        let can = features.get(&link.index);
        interface.index = link.index;
        interface.up = link.up;
        interface.mtu = link.mtu;
        interface.kind = link.kind.clone();
        interface.xdp_native = can.map(|can| can.native);
        interface.xdp_zero_copy = can.map(|can| can.zero_copy);
        interface.xdp_transmit = can.map(|can| can.transmits);
        found.push(interface);
    }
    for name in names.iter().filter(|name| link::number(name).is_none()) {
        found.push(Interface { name: name.clone(), ..Interface::default() });
    }
    Ok(found)
}

fn ask(name: &str) -> Interface {
    let mut found = Interface { name: name.to_owned(), ..Interface::default() };
    let Ok(interface) = ethtool::Interface::open(name) else { return found };
    if let Ok(driver) = interface.driver() {
        found.driver = driver.name;
        found.bus = driver.bus;
    }
    if let (Ok(now), Ok(most)) = (interface.channels(), interface.channels_max()) {
        found.queues = Some(Queues { now: now.receiving(), most: most.receiving() });
    }
    if let Ok((now, most)) = interface.receive_ring() {
        found.ring = Some(Ring { now, most });
    }
    found.gro = interface.offload(Offload::ReceiveMerging).ok();
    found.lro = interface.merges_in_hardware().ok();
    found.strips_vlan = interface.strips_vlan_tags().ok();
    found
}

impl Machine {
    /// A value, or nothing where there is none.
    pub(crate) fn read(&self, file: &str) -> Option<String> {
        self.files.read(file).ok()
    }

    /// A number, or nothing where there is none.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.parse().ok()
    }

    /// Whether a file or directory is there.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.files.path(file).exists()
    }

    /// The kernel's version, as in `(6, 1)`.
    pub(crate) fn release(&self) -> Option<(u32, u32)> {
        let text = self.read("proc/sys/kernel/osrelease")?;
        let mut parts = text.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// How the kernel was built: `CONFIG_...=` lines, from where distributions and kernels put them.
    pub(crate) fn configuration(&self) -> Option<String> {
        let release = self.read("proc/sys/kernel/osrelease").unwrap_or_default();
        let beside = format!("boot/config-{release}");
        let module = format!("lib/modules/{release}/config");
        if let Some(text) = self.read(&beside).or_else(|| self.read(&module)) {
            return Some(text);
        }
        let packed = std::fs::File::open(self.files.path("proc/config.gz")).ok()?;
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// The files of a machine, read with [`Sysfs`].
pub(crate) fn cpus(files: &Sysfs) -> Vec<ebb_host::topology::Cpu> {
    ebb_host::topology::cpus(files).unwrap_or_default()
}

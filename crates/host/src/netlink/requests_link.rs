//! Making, changing and removing interfaces: for namespaces that tests and demonstrations build.

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{RTM_DELLINK, RTM_NEWLINK};

use super::abi::*;
use super::frame::Builder;
use super::requests::Requests;
use super::types::Result;

/// One end of a pair of connected virtual Ethernet interfaces.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// Interface name, at most 15 bytes.
    pub name: &'a str,
    /// The network namespace to put it in; the socket's own when `None`.
    pub namespace: Option<BorrowedFd<'a>>,
    /// Ethernet address; the kernel chooses one when `None`.
    pub mac: Option<[u8; 6]>,
    /// Receive and transmit queues, at least 1.
    pub queues: u32,
}

impl<'a> Veth<'a> {
    /// An end with one queue in the socket's own namespace.
    pub fn new(name: &'a str) -> Self {
        Veth { name, namespace: None, mac: None, queues: 1 }
    }

    fn fill(&self, b: &mut Builder) {
        b.string(IFLA_IFNAME, self.name)
            .u32(IFLA_NUM_TX_QUEUES, self.queues)
            .u32(IFLA_NUM_RX_QUEUES, self.queues);
        if let Some(mac) = self.mac {
            b.attribute(IFLA_ADDRESS, &mac);
        }
        if let Some(namespace) = self.namespace {
            b.u32(IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
        }
    }
}

/// `struct ifinfomsg`.
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..].copy_from_slice(&change.to_ne_bytes());
    fixed
}

impl Requests {
    /// Makes a pair of connected interfaces; both are down.
    ///
    /// # Errors
    /// When the kernel refuses, for example because a name is taken.
    pub fn add_veth(&mut self, one: Veth<'_>, other: Veth<'_>) -> Result<()> {
        self.ask(
            || format!("add veth {} - {}", one.name, other.name),
            RTM_NEWLINK,
            CREATE | EXCLUSIVE,
            &link_header(0, 0, 0),
            |b| {
                one.fill(b);
                b.nested(IFLA_LINKINFO, |b| {
                    b.string(IFLA_INFO_KIND, "veth").nested(IFLA_INFO_DATA, |b| {
                        b.nested(VETH_INFO_PEER, |b| {
                            b.bytes.extend(link_header(0, 0, 0));
                            other.fill(b);
                        });
                    });
                });
            },
        )
    }

    /// Makes an 802.1Q interface with identifier `vlan` (0..=4094) over `parent`; it is down.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_vlan(&mut self, parent: u32, name: &str, vlan: u16) -> Result<()> {
        self.ask(
            || format!("add VLAN {vlan} as {name} over link {parent}"),
            RTM_NEWLINK,
            CREATE | EXCLUSIVE,
            &link_header(0, 0, 0),
            |b| {
                b.string(IFLA_IFNAME, name).u32(IFLA_LINK, parent).nested(IFLA_LINKINFO, |b| {
                    b.string(IFLA_INFO_KIND, "vlan").nested(IFLA_INFO_DATA, |b| {
                        b.attribute(IFLA_VLAN_ID, &vlan.to_ne_bytes());
                    });
                });
            },
        )
    }

    /// Makes an interface that has no more to it than its kind: `dummy`, `bridge`.
    ///
    /// # Errors
    /// When the kernel refuses or does not know the kind.
    pub fn add_link(&mut self, name: &str, kind: &str) -> Result<()> {
        self.ask(
            || format!("add {kind} {name}"),
            RTM_NEWLINK,
            CREATE | EXCLUSIVE,
            &link_header(0, 0, 0),
            |b| {
                b.string(IFLA_IFNAME, name).nested(IFLA_LINKINFO, |b| {
                    b.string(IFLA_INFO_KIND, kind);
                });
            },
        )
    }

    /// Removes a link; of a veth pair both ends.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_link(&mut self, link: u32) -> Result<()> {
        self.ask(|| format!("delete link {link}"), RTM_DELLINK, 0, &link_header(link, 0, 0), |_| {})
    }

    /// Switches a link on or off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_up(&mut self, link: u32, up: bool) -> Result<()> {
        let flag = libc::IFF_UP as u32;
        let fixed = link_header(link, if up { flag } else { 0 }, flag);
        let state = if up { "up" } else { "down" };
        self.ask(|| format!("set link {link} {state}"), RTM_NEWLINK, 0, &fixed, |_| {})
    }

    /// Sets the largest IP packet, in bytes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_mtu(&mut self, link: u32, mtu: u32) -> Result<()> {
        self.set(
            link,
            || format!("set MTU {mtu} of link {link}"),
            |b| {
                b.u32(IFLA_MTU, mtu);
            },
        )
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_mac(&mut self, link: u32, mac: [u8; 6]) -> Result<()> {
        self.set(
            link,
            || format!("set Ethernet address of link {link}"),
            |b| {
                b.attribute(IFLA_ADDRESS, &mac);
            },
        )
    }

    /// Moves a link to another network namespace, where it is down.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_namespace(&mut self, link: u32, namespace: BorrowedFd<'_>) -> Result<()> {
        self.set(
            link,
            || format!("move link {link} to another namespace"),
            |b| {
                b.u32(IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
            },
        )
    }

    /// Makes a link a port of a bridge or bond, or a member of a VRF; 0 frees it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_master(&mut self, link: u32, master: u32) -> Result<()> {
        self.set(
            link,
            || format!("set master {master} of link {link}"),
            |b| {
                b.u32(IFLA_MASTER, master);
            },
        )
    }

    fn set(
        &mut self,
        link: u32,
        what: impl FnOnce() -> String,
        fill: impl FnOnce(&mut Builder),
    ) -> Result<()> {
        self.ask(what, RTM_NEWLINK, 0, &link_header(link, 0, 0), fill)
    }
}

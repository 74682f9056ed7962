//! Where packets come in, as the kernel's tables have it and its policy concerns it.

use ebb_graph::PortId;

/// An interface through which packets come to the router: a port, or a VLAN on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterInterface {
    /// Its index.
    pub link: u32,
    /// Its name.
    pub name: String,
    /// The port it is or lies on.
    pub port: PortId,
    /// Its VLAN, 0 for the port itself.
    pub vlan: u16,
    /// It belongs to a VRF, bridge or bond, and so its packets do.
    pub enslaved: bool,
    /// It has an IPv4 address.
    pub has_v4: bool,
}

//! Interfaces, paths and targets: what routes are made of.

use core::fmt;
use std::net::IpAddr;

use ebb_graph::PortId;
use ipnet::IpNet;

/// Number of a layer-3 interface, that is of a pair (port, VLAN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

/// A layer-3 interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port it lies on.
    pub port: PortId,
    /// Its VLAN identifier, 1 to 4094; 0 for untagged frames.
    pub vlan: u16,
    /// Its own MAC address: where it receives and what it sends from.
    pub mac: [u8; 6],
    /// Largest IP packet it sends, in bytes.
    pub mtu: u16,
    /// Whether it can send; routes through an interface that is down lead nowhere.
    pub up: bool,
    /// Its addresses with the lengths of their subnets: sources of ICMP errors.
    pub addresses: Vec<IpNet>,
}

/// What an interface asks of the sources of the IPv4 packets it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// Nothing.
    #[default]
    Off,
    /// That the route to the source leads through this interface (RFC 3704 section 2.2).
    Strict,
    /// That there is a route to the source (RFC 3704 section 2.4).
    Loose,
}

/// One way out of the router.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The outgoing interface.
    pub interface: InterfaceId,
    /// The next router, of either family; `None` when the destination itself is the neighbour.
    pub gateway: Option<IpAddr>,
    /// Share of the flows relative to the other paths' weights, at least 1.
    pub weight: u16,
    /// Largest IP packet, in bytes, where it is less than the interface's; with a gateway only.
    pub mtu: Option<u16>,
}

/// What a route does with packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Hands them to the kernel: own addresses, multicast, interfaces that are no ports, tunnels.
    Kernel,
    /// Drops them silently.
    Blackhole,
    /// Drops them with an ICMP error: host unreachable, in IPv6 no route.
    Unreachable,
    /// Drops them with an ICMP error: administratively prohibited.
    Prohibit,
    /// Sends them to the neighbour that has the destination address.
    OnLink(InterfaceId),
    /// Sends them to a gateway; several paths share the flows by weight.
    ///
    /// A path without gateway is allowed alone (it is then [`Target::OnLink`]); among several the
    /// flows that fall to it go to the kernel.
    Paths(Vec<Path>),
}

impl Target {
    /// The only path, through `gateway` on `interface`.
    pub fn via(interface: InterfaceId, gateway: IpAddr) -> Target {
        Target::Paths(vec![Path { interface, gateway: Some(gateway), weight: 1, mtu: None }])
    }
}

/// Why a route could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// No free next-hop entry.
    #[error("more than {0} distinct next hops")]
    NextHopsExhausted(usize),
    /// No free multipath group.
    #[error("more than {0} distinct multipath groups")]
    GroupsExhausted(usize),
    /// A multipath route without paths.
    #[error("the route has no next hops")]
    NoPaths,
    /// The prefix table is full.
    #[error("the prefix table is full")]
    PrefixesExhausted,
}

/// What the router does with packets for one address at present, for `show` and for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No route: dropped with an ICMP error.
    NoRoute,
    /// See [`Target::Kernel`].
    Kernel,
    /// See [`Target::Blackhole`].
    Blackhole,
    /// See [`Target::Unreachable`].
    Unreachable,
    /// See [`Target::Prohibit`].
    Prohibit,
    /// Every path's interface is down or unknown.
    Down,
    /// Waits until `address` is resolved on `interface`.
    Resolve {
        /// The outgoing interface.
        interface: InterfaceId,
        /// The gateway or the destination itself.
        address: IpAddr,
    },
    /// Leaves through `interface` for the neighbour with `mac`.
    Forward {
        /// The outgoing interface.
        interface: InterfaceId,
        /// The gateway or the destination itself.
        address: IpAddr,
        /// The neighbour's MAC address.
        mac: [u8; 6],
    },
    /// Shared by flow; each path's decision with its number of buckets.
    Balance(Vec<(Decision, u16)>),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::NoRoute => f.write_str("no route"),
            Decision::Kernel => f.write_str("kernel"),
            Decision::Blackhole => f.write_str("blackhole"),
            Decision::Unreachable => f.write_str("unreachable"),
            Decision::Prohibit => f.write_str("prohibit"),
            Decision::Down => f.write_str("link down"),
            Decision::Resolve { interface, address } => {
                write!(f, "{address} on interface {} (unresolved)", interface.0)
            }
            Decision::Forward { interface, address, mac } => {
                let [a, b, c, d, e, g] = mac;
                write!(f, "{address} on interface {} ", interface.0)?;
                write!(f, "({a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x})")
            }
            Decision::Balance(paths) => {
                for (index, (decision, buckets)) in paths.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{decision} x{buckets}")?;
                }
                Ok(())
            }
        }
    }
}

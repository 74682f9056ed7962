//! What the kernel says, as plain data.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;

/// The table that `ip route` shows when asked for none.
pub const TABLE_MAIN: u32 = 254;
/// The table of the host's own addresses and broadcast addresses.
pub const TABLE_LOCAL: u32 = 255;

/// Result of a netlink operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a netlink operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on the socket failed.
    #[error("netlink {operation}: {source}")]
    Socket {
        /// What was attempted.
        operation: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Bytes that are not the message they claim to be.
    #[error("malformed netlink message: {what} at byte {offset}")]
    Malformed {
        /// Which part.
        what: &'static str,
        /// Offset in the buffer that was parsed, to the message at fault.
        offset: usize,
    },
    /// The kernel understood the request and declined it.
    #[error("{request}: {source}{}{}", if message.is_empty() { "" } else { ": " }, message)]
    Refused {
        /// What was asked.
        request: String,
        /// The errno.
        source: io::Error,
        /// The kernel's own explanation, empty when it gave none.
        message: String,
    },
    /// No interface has this name.
    #[error("interface {0} was removed")]
    NoLink(String),
    /// A dump was interrupted by changes or overruns every time it was tried.
    #[error("netlink dump of {what} was interrupted {attempts} times")]
    Interrupted {
        /// What was dumped.
        what: &'static str,
        /// How often it was tried.
        attempts: u32,
    },
}

impl Error {
    /// The errno behind the error, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Socket { source, .. } | Error::Refused { source, .. } => source.raw_os_error(),
            Error::Malformed { .. } | Error::Interrupted { .. } | Error::NoLink(_) => None,
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index, unique in the namespace while the interface exists.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Ethernet address; none for interfaces without one (tunnels).
    pub mac: Option<[u8; 6]>,
    /// Its first queueing discipline.
    pub discipline: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// The largest that can be set, 0 where the kernel does not say.
    pub mtu_max: u32,
    /// Administratively up and with carrier: packets can pass.
    pub up: bool,
    /// Administratively up, whatever the carrier. The kernel keeps IPv4 routes on loss of carrier
    /// and removes them, unannounced, when this turns false.
    pub admin_up: bool,
    /// Whether this is the loopback interface.
    pub loopback: bool,
    /// Further names by which it can be asked for (`ip link property add ... altname`).
    pub alternative_names: Vec<String>,
    /// The interface this one runs over: the parent of a VLAN, the peer of a veth. None where that
    /// one is in another namespace, in which its index counts.
    pub parent: Option<u32>,
    /// It takes frames that its parent would receive under the parent's own address, or may:
    /// macvlans in modes passthru and source, ipvlans, and kinds of interfaces that are not known.
    pub claims_parent: bool,
    /// 802.1Q identifier, 0..=4094, of a VLAN interface with customer tags (type 8100).
    pub vlan: Option<u16>,
    /// A VLAN interface that gives some packets' tags a priority (`egress-qos-map`).
    pub priorities: bool,
    /// `veth`, `vlan`, `bridge`, ...; none for physical interfaces.
    pub kind: Option<String>,
    /// The bridge, bond or VRF that owns this interface.
    pub master: Option<u32>,
    /// How many want it to take frames for other stations too, whoever set it so (`ip link set
    /// promisc on`) counted once.
    pub promiscuity: u32,
    /// Somebody set it so by hand: one of those in `promiscuity`.
    pub promiscuous: bool,
}

/// A link in another namespace, as this one knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Elsewhere {
    /// The namespace's number here (`ip netns list-id`).
    pub namespace: i32,
    /// The link's index there.
    pub index: u32,
}

/// An address of one of the host's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub link: u32,
    /// The address itself with its prefix length; host bits are kept.
    pub address: IpNet,
    /// The other end of a point-to-point link.
    pub peer: Option<IpAddr>,
    /// Duplicate address detection is running or found a duplicate: not usable yet.
    pub tentative: bool,
}

/// State of a neighbour entry (`NUD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Created without a resolution.
    None,
    /// Resolution is running.
    Incomplete,
    /// Confirmed.
    Reachable,
    /// Not confirmed lately, still valid.
    Stale,
    /// About to be confirmed.
    Delay,
    /// Being confirmed.
    Probe,
    /// Resolution failed.
    Failed,
    /// Needs no resolution (loopback, multicast).
    NoArp,
    /// Set by hand.
    Permanent,
}

/// What is known of a neighbour's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub link: u32,
    /// The neighbour's address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// State of the entry.
    pub state: NeighbourState,
    /// There is an Ethernet address and the state allows its use (`NUD_VALID`).
    pub usable: bool,
}

/// One way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteHop {
    /// Index of the outgoing interface.
    pub link: Option<u32>,
    /// The next router, none when the destination is on the link. May be an IPv6 address for an
    /// IPv4 route (RFC 5549).
    pub gateway: Option<IpAddr>,
    /// Share of the flows among the hops, 1..=256.
    pub weight: u16,
    /// The gateway is reachable on the link although no prefix says so.
    pub onlink: bool,
    /// The interface is down.
    pub dead: bool,
    /// The interface has no carrier.
    pub linkdown: bool,
    /// The hop adds a header (MPLS, segment routing, ...) that only the kernel can make.
    pub encapsulated: bool,
}

impl RouteHop {
    /// A plain hop of weight 1.
    pub fn new(link: Option<u32>, gateway: Option<IpAddr>) -> Self {
        RouteHop {
            link,
            gateway,
            weight: 1,
            onlink: false,
            dead: false,
            linkdown: false,
            encapsulated: false,
        }
    }
}

/// Hops of a route; most have one, which needs no allocation.
pub type Hops = SmallVec<[RouteHop; 1]>;

/// What happens to packets that a route matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Forwarded.
    Unicast,
    /// Delivered to the host (also anycast).
    Local,
    /// Delivered as broadcast.
    Broadcast,
    /// Multicast.
    Multicast,
    /// Discarded silently.
    Blackhole,
    /// Discarded with ICMP unreachable.
    Unreachable,
    /// Discarded with ICMP administratively prohibited.
    Prohibit,
    /// Left to the kernel (`throw`, `nat`, ...).
    Other,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations; host bits are zero.
    pub prefix: IpNet,
    /// What happens to matching packets.
    pub kind: RouteKind,
    /// Among routes with one prefix and table the lowest metric wins.
    pub metric: u32,
    /// Routing table.
    pub table: u32,
    /// DSCP and ECN bits that an IPv4 packet must carry, 0 for any.
    pub tos: u8,
    /// Who made the route (`RTPROT_*`).
    pub protocol: u8,
    /// The route holds for these sources only: only the kernel can apply it.
    pub source: Option<IpNet>,
    /// What is left of its life, in milliseconds; negative when that is over (`fib6_check_expired`), of which
    /// the kernel says nothing until it collects garbage. None: it lives until it is removed. IPv6 only.
    pub lifetime_ms: Option<i64>,
    /// Preference of the router behind it (RFC 4191 section 2.1): 1 high, 0 medium, -1 low. IPv6 only.
    pub preference: i8,
    /// Digest of what else distinguishes IPv4 routes with one prefix: scope, preferred source, metrics, realms
    /// (`fib_find_info`). Two that differ in nothing else stand beside each other.
    pub digest: u64,
    /// Largest packet that a router may send this way, in bytes; 0: the interface's.
    pub mtu: u32,
    /// Where packets go. Filled from the next-hop object by the kernel unless
    /// `net.ipv4.nexthop_compat_mode` is 0.
    pub hops: Hops,
    /// The next-hop object the route uses.
    pub nexthop_id: Option<u32>,
}

impl Route {
    /// A unicast route in the main table.
    pub fn unicast(prefix: IpNet, hops: impl IntoIterator<Item = RouteHop>) -> Self {
        Route {
            prefix: prefix.trunc(),
            kind: RouteKind::Unicast,
            metric: 0,
            table: TABLE_MAIN,
            tos: 0,
            protocol: libc::RTPROT_STATIC,
            source: None,
            lifetime_ms: None,
            preference: 0,
            digest: 0,
            mtu: 0,
            hops: hops.into_iter().collect(),
            nexthop_id: None,
        }
    }
}

/// What a next-hop object stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopTarget {
    /// A single hop.
    Hop(RouteHop),
    /// Discard.
    Blackhole,
    /// Several objects with their weights, 1..=65535.
    Group(Vec<(u32, u16)>),
}

/// A next-hop object (`ip nexthop`), shared by routes through [`Route::nexthop_id`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// Identifier.
    pub id: u32,
    /// What it stands for.
    pub target: NextHopTarget,
}

/// A fact or a change of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link exists or changed.
    Link(Link),
    /// The link with this index is gone.
    LinkGone(u32),
    /// The link with this index was moved into another namespace.
    LinkMoved {
        /// Its index until then.
        index: u32,
        /// Where it is now.
        to: Elsewhere,
    },
    /// An address exists or changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// A neighbour entry exists or changed.
    Neighbour(Neighbour),
    /// A neighbour entry is gone.
    NeighbourGone(Neighbour),
    /// A route exists or changed. The message lists all hops of an IPv6 multipath route even when
    /// it announces an appended one.
    Route {
        /// The route.
        route: Route,
        /// It takes the place of the first route with its prefix, metric, table and TOS.
        replace: bool,
        /// It came by `append`.
        append: bool,
    },
    /// A route is gone. For IPv6 with fewer hops than the route had: only these hops.
    RouteGone(Route),
    /// A next-hop object exists or changed.
    NextHop(NextHopObject),
    /// The next-hop object with this identifier is gone, and with it, unannounced, its routes.
    NextHopGone(u32),
    /// Messages were lost: only a new [`dump`](super::Monitor::dump) tells the truth. Within a dump
    /// it means that the dump starts over: what was seen so far confirms nothing.
    Overrun,
}

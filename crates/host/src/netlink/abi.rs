//! Numbers of the kernel's interface that `libc` does not have or types inconveniently
//! (`linux/rtnetlink.h`, `if_link.h`, `neighbour.h`, `nexthop.h`, `veth.h`).

pub(super) const REQUEST: u16 = 0x1;
pub(super) const MULTI: u16 = 0x2;
pub(super) const ACK: u16 = 0x4;
pub(super) const DUMP_INTERRUPTED: u16 = 0x10;
pub(super) const DUMP: u16 = 0x300;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;
/// In an error message: the request is not repeated in it.
pub(super) const CAPPED: u16 = 0x100;
/// In an error message: attributes follow.
pub(super) const ACK_ATTRIBUTES: u16 = 0x200;

pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;

pub(super) const NEW_NEXTHOP: u16 = 104;
pub(super) const DEL_NEXTHOP: u16 = 105;
pub(super) const GET_NEXTHOP: u16 = 106;

pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
pub(super) const IFLA_QDISC: u16 = 6;
pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_NET_NS_FD: u16 = 28;
pub(super) const IFLA_EXT_MASK: u16 = 29;
pub(super) const IFLA_PROMISCUITY: u16 = 30;
pub(super) const IFLA_NUM_TX_QUEUES: u16 = 31;
pub(super) const IFLA_NUM_RX_QUEUES: u16 = 32;
pub(super) const IFLA_LINK_NETNSID: u16 = 37;
pub(super) const IFLA_NEW_NETNSID: u16 = 45;
pub(super) const IFLA_TARGET_NETNSID: u16 = 46;
pub(super) const IFLA_NEW_IFINDEX: u16 = 49;
pub(super) const IFLA_MAX_MTU: u16 = 51;
pub(super) const IFLA_PROP_LIST: u16 = 52;
pub(super) const IFLA_ALT_IFNAME: u16 = 53;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
pub(super) const IFLA_VLAN_ID: u16 = 1;
/// Pairs of a packet's priority and its tag's, each an attribute of its own.
pub(super) const IFLA_VLAN_EGRESS_QOS: u16 = 3;
pub(super) const IFLA_VLAN_PROTOCOL: u16 = 5;
pub(super) const IFLA_MACVLAN_MODE: u16 = 1;
pub(super) const MACVLAN_MODE_PRIVATE: u32 = 1;
pub(super) const MACVLAN_MODE_VEPA: u32 = 2;
pub(super) const MACVLAN_MODE_BRIDGE: u32 = 4;
pub(super) const IFLA_MACSEC_OFFLOAD: u16 = 15;
pub(super) const VETH_INFO_PEER: u16 = 1;
pub(super) const SKIP_STATISTICS: u32 = 1 << 3;

pub(super) const IFA_ADDRESS: u16 = 1;
pub(super) const IFA_LOCAL: u16 = 2;
pub(super) const IFA_FLAGS: u16 = 8;
pub(super) const IFA_F_NODAD: u8 = 0x02;
pub(super) const IFA_F_DADFAILED: u32 = 0x08;
pub(super) const IFA_F_TENTATIVE: u32 = 0x40;

pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
pub(super) const NTF_USE: u8 = 0x01;

pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_SRC: u16 = 2;
pub(super) const RTA_OIF: u16 = 4;
pub(super) const RTA_GATEWAY: u16 = 5;
pub(super) const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_PREFSRC: u16 = 7;
pub(super) const RTA_METRICS: u16 = 8;
pub(super) const RTAX_MTU: u16 = 2;
pub(super) const RTA_MULTIPATH: u16 = 9;
pub(super) const RTA_FLOW: u16 = 11;
pub(super) const RTA_CACHEINFO: u16 = 12;
pub(super) const RTA_TABLE: u16 = 15;
pub(super) const RTA_VIA: u16 = 18;
pub(super) const RTA_PREF: u16 = 20;
pub(super) const RTA_ENCAP: u16 = 22;
pub(super) const RTA_NH_ID: u16 = 30;
/// The last attribute of routes whose meaning is known here (`RTA_FLOWLABEL`).
pub(super) const RTA_KNOWN_MAX: u16 = 31;

pub(super) const RTNH_F_DEAD: u32 = 1;
pub(super) const RTNH_F_ONLINK: u32 = 4;
pub(super) const RTNH_F_LINKDOWN: u32 = 16;
pub(super) const RTM_F_CLONED: u32 = 0x200;

pub(super) const NHA_ID: u16 = 1;
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_BLACKHOLE: u16 = 4;
pub(super) const NHA_OIF: u16 = 5;
pub(super) const NHA_GATEWAY: u16 = 6;
pub(super) const NHA_ENCAP: u16 = 8;
pub(super) const NHA_FDB: u16 = 11;
/// The last attribute of next-hop objects whose meaning is known here (`NHA_HW_STATS_USED`).
pub(super) const NHA_KNOWN_MAX: u16 = 17;

pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

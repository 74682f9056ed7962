//! Link types of captures.

/// Link type of Ethernet frames in capture files.
pub const LINKTYPE_ETHERNET: u32 = 1;

/// Name of a link type in the registry of capture link types (tcpdump.org, "Link-layer header
/// types"), as far as an operator may meet it.
pub fn link_name(link_type: u32) -> &'static str {
    match link_type {
        0 => "NULL",
        1 => "ETHERNET",
        6 => "IEEE802_5",
        7 => "ARCNET_BSD",
        8 => "SLIP",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP_HDLC",
        51 => "PPP_ETHER",
        100 => "ATM_RFC1483",
        101 => "RAW",
        104 => "C_HDLC",
        105 => "IEEE802_11",
        107 => "FRELAY",
        108 => "LOOP",
        113 => "LINUX_SLL",
        127 => "IEEE802_11_RADIOTAP",
        129 => "ARCNET_LINUX",
        189 => "USB_LINUX",
        195 => "IEEE802_15_4_WITHFCS",
        228 => "IPV4",
        229 => "IPV6",
        239 => "NFLOG",
        247 => "INFINIBAND",
        276 => "LINUX_SLL2",
        _ => "unknown type",
    }
}

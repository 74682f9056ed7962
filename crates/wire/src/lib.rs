//! Packet headers: lenient views over bytes, checksums, flow hashes, and a builder of frames.
//!
//! Room: pure functions of bytes, below `graph` and `apps`, which decide what the fields mean for
//! a packet. It knows no frames, no tables and no I/O.
//!
//! A view ([`Ipv4`], [`Ipv6`], [`Arp`]) exists once the fixed header fits in the bytes and then
//! answers for every field without judging it; whether a header is *right* is asked with the
//! methods that cite the clause. [`Template`] is the strict side: it only writes valid frames.
//!
//! ```
//! use ebb_wire::{Ipv4, Template, link};
//! let template = Template::udp("192.0.2.1:1000".parse()?, "198.51.100.7:53".parse()?);
//! let frame = template.to_frame(b"query");
//! let link = link(&frame).unwrap();
//! assert_eq!(link.ethertype, ebb_wire::ethertype::IPV4);
//! let header = Ipv4::new(&frame[link.payload..]).unwrap();
//! assert!(header.checksum_ok());
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

mod arp;
mod build;
pub mod checksum;
mod flow;
mod fragment;
pub mod icmp;
mod ipv4;
mod ipv6;
mod link;
mod redirect;
pub mod transport;
mod unfinished;

pub use arp::Arp;
pub use build::Template;
pub use flow::{Flow, flow_hash};
pub use fragment::Fragments;
pub use ipv4::Ipv4;
pub use ipv6::{Ipv6, Upper};
pub use link::{Link, ethertype, is_group, link};
pub use redirect::redirect_hash;
pub use unfinished::{Unfinished, finish_checksums, unfinished};

/// IP protocol numbers and IPv6 next-header values (IANA protocol numbers).
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IPv4 inside another packet.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 inside another packet.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Generic routing encapsulation.
    pub const GRE: u8 = 47;
    /// Encapsulating security payload.
    pub const ESP: u8 = 50;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 no next header.
    pub const NONE: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Mobility header.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

/// Big-endian 16 bits at `at`.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

//! Checksums that a sender left to hardware which is not there.
//!
//! Senders on virtual links leave the checksum of the transport header to the network card, and a
//! virtual link has none: a receiver on the same machine trusts what never left its memory. Linux
//! writes the pseudo-header's folded sum into the field (`CHECKSUM_PARTIAL` in
//! `include/linux/skbuff.h`), for SCTP zero. Whoever takes such a frame out of the kernel has to
//! finish it. A field that holds that value by chance is right already and stays as it is,
//! because computing it gives the same.

use crate::{Ipv4, Ipv6, checksum, ethertype, protocol, u16_at};

/// IP headers looked at within each other.
const DEPTH_MAX: u8 = 3;
/// UDP ports of VXLAN (RFC 7348, and Linux's own), whose header has 8 bytes.
const VXLAN: [u16; 2] = [4789, 8472];
/// UDP port of Geneve (RFC 8926).
const GENEVE: u16 = 6081;
/// EtherType of Ethernet frames in GRE (RFC 1701) and Geneve.
const TRANSPARENT_ETHERNET: u16 = 0x6558;

/// Finishes the checksums of TCP, UDP and SCTP in an Ethernet frame with at most two tags, also
/// inside of IP in IP, GRE, VXLAN and Geneve. Returns whether a byte was written.
///
/// Fragments are left alone: Linux finishes a packet before it cuts it (`ip_do_fragment`).
#[inline]
pub fn finish_checksums(frame: &mut [u8]) -> bool {
    ethernet(frame, DEPTH_MAX)
}

/// Where the checksum is that a sender left to hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The first byte of the frame that it covers; the last one is the frame's last.
    pub start: u16,
    /// Where its two bytes are, from there.
    pub field: u16,
}

/// Finds the one checksum of an Ethernet frame that is not finished, for whoever has somebody to
/// finish it. None where [`finish_checksums`] has to: SCTP, what may be a tunnel, IPv6 with extension
/// headers, and frames with bytes behind the packet.
#[inline]
pub fn unfinished(frame: &[u8]) -> Option<Unfinished> {
    let mut at = 12;
    let mut kind = u16_at(frame.get(at..at + 2)?, 0);
    while matches!(kind, ethertype::VLAN | ethertype::SERVICE_VLAN) && at < 20 {
        at += 4;
        kind = u16_at(frame.get(at..at + 2)?, 0);
    }
    let bytes = frame.get(at + 2..)?;
    let (proto, head, addresses) = match kind {
        ethertype::IPV4 => {
            let header = Ipv4::new(bytes)?;
            let (head, whole) = (header.header_len(), header.total_len() == bytes.len());
            if header.version() != 4 || head < Ipv4::LEN || !whole || header.is_fragment() {
                return None;
            }
            (header.protocol(), head, (&bytes[12..16], &bytes[16..20]))
        }
        ethertype::IPV6 => {
            let header = Ipv6::new(bytes)?;
            if header.version() != 6 || Ipv6::LEN + header.payload_len() != bytes.len() {
                return None;
            }
            (bytes[6], Ipv6::LEN, (&bytes[8..24], &bytes[24..40]))
        }
        _ => return None,
    };
    let upper = bytes.get(head..)?;
    let field = match proto {
        protocol::TCP if upper.len() >= 20 => 16,
        protocol::UDP if upper.len() >= 8 => {
            let (port, len) = (u16_at(upper, 2), usize::from(u16_at(upper, 4)));
            if len != upper.len() || port == GENEVE || VXLAN.contains(&port) {
                return None;
            }
            6
        }
        _ => return None,
    };
    let pseudo = checksum::pseudo_header(addresses.0, addresses.1, proto, upper.len());
    let start = (frame.len() - upper.len()) as u16;
    (u16_at(upper, field) == pseudo.fold()).then_some(Unfinished { start, field: field as u16 })
}

fn ethernet(frame: &mut [u8], depth: u8) -> bool {
    let mut at = 12;
    for _ in 0..3 {
        let Some(kind) = frame.get(at..at + 2) else { return false };
        let kind = u16_at(kind, 0);
        match kind {
            ethertype::VLAN | ethertype::SERVICE_VLAN => at += 4,
            _ => return network(kind, &mut frame[at + 2..], depth),
        }
    }
    false
}

fn network(kind: u16, bytes: &mut [u8], depth: u8) -> bool {
    match kind {
        ethertype::IPV4 => ipv4(bytes, depth),
        ethertype::IPV6 => ipv6(bytes, depth),
        TRANSPARENT_ETHERNET if depth > 0 => ethernet(bytes, depth - 1),
        _ => false,
    }
}

fn ipv4(bytes: &mut [u8], depth: u8) -> bool {
    let Some(header) = Ipv4::new(bytes) else { return false };
    let (start, end) = (header.header_len(), header.total_len());
    if header.version() != 4 || start < Ipv4::LEN || end > bytes.len() || start > end {
        return false;
    }
    if header.is_fragment() {
        return false;
    }
    let proto = header.protocol();
    let (head, upper) = bytes[..end].split_at_mut(start);
    transport(proto, upper, (&head[12..16], &head[16..20]), depth)
}

fn ipv6(bytes: &mut [u8], depth: u8) -> bool {
    let Some(header) = Ipv6::new(bytes) else { return false };
    let (end, upper) = (Ipv6::LEN + header.payload_len(), header.upper());
    if header.version() != 6 || end > bytes.len() || upper.offset > end {
        return false;
    }
    if upper.fragment_offset.is_some() {
        return false;
    }
    let (head, rest) = bytes[..end].split_at_mut(upper.offset);
    let destination = last_hop(head);
    transport(upper.protocol, rest, (&head[8..24], destination), depth)
}

/// The destination in the pseudo-header: of a packet that has still to visit the addresses of a
/// routing header, the last of them (RFC 8200 section 8.1).
fn last_hop(headers: &[u8]) -> &[u8] {
    let fixed = &headers[24..40];
    let (mut next, mut at) = (headers[6], Ipv6::LEN);
    while let Some(&[following, len, kind, segments_left]) =
        headers.get(at..).and_then(|rest| rest.first_chunk::<4>())
    {
        let header_len = match next {
            protocol::AUTHENTICATION => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        if next == protocol::ROUTING && segments_left > 0 {
            // Type 4 lists its segments backwards (RFC 8754 section 2).
            let last = if kind == 4 { at + 8 } else { (at + header_len).saturating_sub(16) };
            return headers.get(last..last + 16).unwrap_or(fixed);
        }
        (next, at) = (following, at + header_len);
    }
    fixed
}

fn transport(proto: u8, upper: &mut [u8], addresses: (&[u8], &[u8]), depth: u8) -> bool {
    match proto {
        protocol::TCP if upper.len() >= 20 => internet(proto, upper, 16, addresses),
        protocol::UDP if upper.len() >= 8 => udp(upper, addresses, depth),
        protocol::SCTP if upper.len() >= 12 => sctp(upper),
        protocol::IPV4 if depth > 0 => ipv4(upper, depth - 1),
        protocol::IPV6 if depth > 0 => ipv6(upper, depth - 1),
        protocol::GRE if depth > 0 => gre(upper, depth - 1),
        _ => false,
    }
}

/// A tunnel's payload comes first: what the outer checksum covers has to be whole.
fn udp(upper: &mut [u8], addresses: (&[u8], &[u8]), depth: u8) -> bool {
    let len = usize::from(u16_at(upper, 4));
    if len < 8 || len > upper.len() {
        return false;
    }
    let datagram = &mut upper[..len];
    let port = u16_at(datagram, 2);
    let inner = if depth == 0 {
        false
    } else if VXLAN.contains(&port) && len >= 16 {
        ethernet(&mut datagram[16..], depth - 1)
    } else if port == GENEVE && len >= 16 {
        let (kind, payload) = (u16_at(datagram, 10), 16 + usize::from(datagram[8] & 0x3f) * 4);
        datagram.get_mut(payload..).is_some_and(|bytes| network(kind, bytes, depth - 1))
    } else {
        false
    };
    // A datagram without a checksum has zero there, which no pseudo-header sums to.
    internet(protocol::UDP, datagram, 6, addresses) | inner
}

/// RFC 2784 and RFC 2890; a checksum of GRE itself was computed for the finished payload.
fn gre(bytes: &mut [u8], depth: u8) -> bool {
    let Some(&[flags, version, high, low]) = bytes.first_chunk() else { return false };
    // Nothing but checksum, key and sequence number, each of four bytes.
    if flags & 0x4f != 0 || version != 0 {
        return false;
    }
    let payload = 4 + 4 * (flags >> 4).count_ones() as usize;
    let kind = u16::from_be_bytes([high, low]);
    bytes.get_mut(payload..).is_some_and(|bytes| network(kind, bytes, depth))
}

/// The checksum at `field` of a whole TCP segment or UDP datagram.
#[inline]
fn internet(proto: u8, bytes: &mut [u8], field: usize, addresses: (&[u8], &[u8])) -> bool {
    let pseudo = checksum::pseudo_header(addresses.0, addresses.1, proto, bytes.len());
    if u16_at(bytes, field) != pseudo.fold() {
        return false;
    }
    // What stands in the field is the rest of the sum.
    let sum = checksum::Sum::default().bytes(bytes).finish();
    // RFC 768: a computed checksum of zero is sent as all ones.
    let sum = if sum == 0 && proto == protocol::UDP { 0xffff } else { sum };
    bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// RFC 9260 appendix A. Zero also stands where both ends agreed to do without (RFC 9653), and
/// they take a right one as well.
#[cold]
fn sctp(bytes: &mut [u8]) -> bool {
    if bytes[8..12] != [0; 4] {
        return false;
    }
    let sum = crc32c::crc32c(bytes).to_le_bytes();
    bytes[8..12].copy_from_slice(&sum);
    true
}

#[cfg(test)]
mod tests;

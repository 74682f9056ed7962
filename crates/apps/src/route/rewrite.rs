//! What a forwarded packet looks like on its next link.

use ebb_graph::Packet;
use ebb_wire::{Ipv4, Ipv6, ethertype};

use super::input::is_v4;
use super::table::{NextHop, Plain};

/// Length of an untagged link header and an IPv4 header without options.
const PLAIN_LEN: usize = 34;

/// What [`rewrite`] does to the frame, in one pass, for a plain packet that is bound for a resolved neighbour
/// on an untagged link, neither too large nor at its end. Returns the length that the frame is to have, or
/// `None`, and the frame untouched, for all others.
#[inline(always)]
pub(super) fn rewrite_plain(packet: &mut Packet, hop: &Plain) -> Option<usize> {
    let head = packet.data_mut().first_chunk_mut::<PLAIN_LEN>()?;
    let ip_len = u16::from_be_bytes([head[16], head[17]]);
    let word = u32::from_be_bytes([head[22], head[23], head[24], head[25]]);
    if (word < 2 << 24) | (ip_len > hop.mtu) {
        return None;
    }
    let [front, back] = hop.head.map(u64::to_ne_bytes);
    head[..8].copy_from_slice(&front);
    head[8..12].copy_from_slice(&back[..4]);
    head[22..26].copy_from_slice(&ebb_wire::checksum::lower_ttl(word).to_be_bytes());
    Some(14 + usize::from(ip_len))
}

/// Makes `packet`, whose IP packet has `ip_len` bytes, ready for `hop`: without link padding, with
/// the new link header and tag, and with a lower TTL unless the router made it.
#[inline]
pub(super) fn rewrite(packet: &mut Packet, hop: &NextHop, ip_len: usize) {
    let l3 = usize::from(packet.l3);
    let is_v4 = is_v4(packet);
    packet.set_len(l3 + ip_len);
    if packet.flags & Packet::ORIGINATED == 0 {
        let bytes = &mut packet.data_mut()[l3..];
        if is_v4 { Ipv4::decrement_ttl(bytes) } else { Ipv6::decrement_hop_limit(bytes) }
    }
    let new_l3 = if hop.tagged { 18 } else { 14 };
    if new_l3 > l3 {
        packet.push_front(new_l3 - l3);
    } else if new_l3 < l3 {
        packet.pull_front(l3 - new_l3);
    }
    packet.l3 = new_l3 as u8;
    packet.output = hop.port;
    let kind = if is_v4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let kind = kind.to_be_bytes();
    let data = packet.data_mut();
    let [front, back] = hop.head.map(u64::to_ne_bytes);
    if hop.tagged {
        let header = data.first_chunk_mut::<18>().expect("a tagged link header");
        header[..8].copy_from_slice(&front);
        header[8..16].copy_from_slice(&back);
        header[16..].copy_from_slice(&kind);
    } else {
        let header = data.first_chunk_mut::<14>().expect("a link header");
        header[..8].copy_from_slice(&front);
        header[8..12].copy_from_slice(&back[..4]);
        header[12..].copy_from_slice(&kind);
    }
}

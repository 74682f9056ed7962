//! Putting packets into others and taking them out, in their own frames (RFC 4303 tunnel mode, RFC 3948, RFC 6040).
//!
//! Neighbours: `association` seals and opens, `node` decides. The link header moves along: what is sealed or opened
//! looks as if it had just come in, and is routed so.

use std::net::IpAddr;

use ebb_graph::Packet;
use ebb_wire::{Ipv4, Ipv6, checksum, ethertype, protocol};

use super::association::{Inbound, Outbound, Refusal};
use super::cipher::Shape;
use super::numbers::Number;
use super::path::LEAST_V6;

/// Port of ESP in UDP at both ends (RFC 3948 section 2.1).
pub(super) const UDP_PORT: u16 = 4500;
const UDP_LEN: usize = 8;
/// Time to live of what is sealed.
const TTL: u8 = 64;
/// Congestion experienced, of the two bits of ECN.
const CE: u8 = 3;

/// The header that is put in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Own address, of the same version as the peer's.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Whether ESP is in UDP, port 4500 (RFC 3948).
    pub udp: bool,
    /// Whether sealed packets may be cut on their way.
    pub df: DontFragment,
}

/// Whether sealed IPv4 packets may be cut on their way (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DontFragment {
    /// As the packet inside; IPv6 must not be.
    #[default]
    Copy,
    /// Never: whoever would cut them asks for shorter ones.
    Set,
    /// Always.
    Clear,
}

impl Outer {
    /// Bytes in front of the ESP header.
    fn len(&self) -> usize {
        let ip_len = if self.local.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN };
        ip_len + if self.udp { UDP_LEN } else { 0 }
    }

    /// The longest packet that fits into one of `mtu` bytes.
    pub(super) fn room(&self, mtu: u16, shape: Shape) -> u16 {
        shape.room(usize::from(mtu).saturating_sub(self.len())) as u16
    }

    /// Writes it in front of `esp_len` bytes; `class` is DSCP and ECN; the identification of what may be cut.
    fn write(&self, out: &mut [u8], class: u8, may_cut: Option<u16>, esp_len: usize) {
        let udp_len = if self.udp { UDP_LEN } else { 0 };
        let payload_len = udp_len + esp_len;
        let next = if self.udp { protocol::UDP } else { protocol::ESP };
        let (ip, udp) = out.split_at_mut(out.len() - udp_len);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let total_len = (Ipv4::LEN + payload_len) as u16;
                ip[..2].copy_from_slice(&[0x45, class]);
                ip[2..4].copy_from_slice(&total_len.to_be_bytes());
                // Where it is not to be cut, its identification means nothing (RFC 6864 section 4.1).
                ip[4..6].copy_from_slice(&may_cut.unwrap_or(0).to_be_bytes());
                let flags = if may_cut.is_some() { 0 } else { 0x40 };
                ip[6..12].copy_from_slice(&[flags, 0, TTL, next, 0, 0]);
                ip[12..16].copy_from_slice(&local.octets());
                ip[16..20].copy_from_slice(&remote.octets());
                let sum = checksum::of(ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                ip[..4].copy_from_slice(&(6 << 28 | u32::from(class) << 20).to_be_bytes());
                ip[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
                ip[6..8].copy_from_slice(&[next, TTL]);
                ip[8..24].copy_from_slice(&local.octets());
                ip[24..40].copy_from_slice(&remote.octets());
            }
            _ => unreachable!("both ends of a tunnel are of one version"),
        }
        if self.udp {
            udp[..2].copy_from_slice(&UDP_PORT.to_be_bytes());
            udp[2..4].copy_from_slice(&UDP_PORT.to_be_bytes());
            udp[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
            // RFC 3948 section 2.1: without a checksum; the tag says more.
            udp[6..8].copy_from_slice(&[0, 0]);
        }
    }
}

/// Where a packet is in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of the IP header.
    pub(super) l3: usize,
    /// Its bytes; the link's padding is not among them.
    pub(super) len: usize,
    pub(super) is_v4: bool,
}

/// Puts a packet that may live on into another; false, and nothing done, where the frame has no room.
pub(super) fn seal(
    packet: &mut Packet,
    place: Place,
    outer: &Outer,
    out: &Outbound,
    number: Number,
) -> bool {
    let Place { l3, len, is_v4 } = place;
    let shape = out.shape();
    let front = outer.len() + shape.front_len;
    let behind = shape.padding(len) + shape.around_len() - shape.front_len;
    if packet.headroom() < front || packet.capacity() < l3 + len + behind {
        return false;
    }
    let inner = &mut packet.data_mut()[l3..l3 + len];
    // It is forwarded, once, here (RFC 4301 section 5.1.2.1).
    let (class, dont_fragment) = if is_v4 {
        Ipv4::decrement_ttl(inner);
        (inner[1], inner[6] & 0x40 != 0)
    } else {
        Ipv6::decrement_hop_limit(inner);
        // Senders need not make packets shorter than this (RFC 8200 section 5).
        (inner[0] << 4 | inner[1] >> 4, len > usize::from(LEAST_V6))
    };
    let may_cut = match outer.df {
        DontFragment::Copy => !dont_fragment,
        DontFragment::Set => false,
        DontFragment::Clear => true,
    };
    packet.set_len(l3 + len + behind);
    packet.push_front(front);
    let data = packet.data_mut();
    data.copy_within(front..front + l3, 0);
    let of_outer = if outer.local.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
    data[l3 - 2..l3].copy_from_slice(&of_outer.to_be_bytes());
    let (head, esp) = data[l3..].split_at_mut(outer.len());
    outer.write(head, class, may_cut.then_some(number.sequence as u16), esp.len());
    let next = if is_v4 { protocol::IPV4 } else { protocol::IPV6 };
    out.seal(esp, len, next, number);
    true
}

/// What came out of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The packet inside, which now stands in the frame alone.
    Packet(Place),
    /// Nothing: it hid how little is sent (RFC 4303 section 2.6).
    Dummy,
    /// Congestion was met by a packet whose ends do not know of it (RFC 6040 section 4.2).
    Congested,
}

/// Takes out what is inside a packet whose ESP header begins at `esp_at`.
pub(super) fn open(
    packet: &mut Packet,
    place: Place,
    esp_at: usize,
    into: &Inbound,
) -> Result<Opened, Refusal> {
    let Place { l3, len, is_v4 } = place;
    let outer = &packet.data()[l3..];
    let outer_ecn = if is_v4 { outer[1] } else { outer[1] >> 4 } & CE;
    let (text_len, next) = into.open(&mut packet.data_mut()[esp_at..l3 + len])?;
    let inner_at = esp_at + into.shape().front_len;
    let inner = &mut packet.data_mut()[inner_at..inner_at + text_len];
    let (inner_len, of_inner) = match next {
        protocol::NONE => return Ok(Opened::Dummy),
        protocol::IPV4 => {
            let header = Ipv4::new(inner).filter(|header| header.version() == 4);
            let len = header.map(|header| header.total_len()).filter(|len| *len >= Ipv4::LEN);
            (len.ok_or(Refusal::Malformed)?, ethertype::IPV4)
        }
        protocol::IPV6 => {
            let header = Ipv6::new(inner).filter(|header| header.version() == 6);
            let len = header.map(|header| Ipv6::LEN + header.payload_len());
            (len.ok_or(Refusal::Malformed)?, ethertype::IPV6)
        }
        _ => return Err(Refusal::Malformed),
    };
    if inner_len > inner.len() {
        return Err(Refusal::Malformed);
    }
    if !carry_ecn(inner, outer_ecn, next == protocol::IPV4) {
        return Ok(Opened::Congested);
    }
    packet.set_len(inner_at + inner_len);
    let data = packet.data_mut();
    data.copy_within(..l3, inner_at - l3);
    data[inner_at - 2..inner_at].copy_from_slice(&of_inner.to_be_bytes());
    packet.pull_front(inner_at - l3);
    // Its sender's hardware finished its checksums before it was sealed.
    packet.flags &= !(Packet::UNFINISHED | Packet::LEFT);
    Ok(Opened::Packet(Place { l3, len: inner_len, is_v4: next == protocol::IPV4 }))
}

/// What the outer header says of congestion, into the inner (RFC 6040 figure 4); false where it is to be dropped.
fn carry_ecn(inner: &mut [u8], outer: u8, is_v4: bool) -> bool {
    let own = if is_v4 { inner[1] } else { inner[1] >> 4 } & CE;
    let ecn = match (own, outer) {
        (0, CE) => return false,
        (0, _) | (_, 0) | (CE, _) | (1, 2) => own,
        (_, CE) => CE,
        (_, outer) => outer,
    };
    if ecn == own {
        return true;
    }
    if is_v4 {
        let old = u16::from_be_bytes([inner[0], inner[1]]);
        inner[1] = inner[1] & !CE | ecn;
        let new = u16::from_be_bytes([inner[0], inner[1]]);
        let sum = checksum::update(u16::from_be_bytes([inner[10], inner[11]]), old, new);
        inner[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        inner[1] = inner[1] & !(CE << 4) | ecn << 4;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::cipher::Algorithm;
    use super::*;

    /// RFC 6040 figure 4, rows by the inner, columns by the outer field: Not-ECT, ECT(1), ECT(0), CE.
    #[test]
    fn congestion_is_carried_as_rfc_6040_has_it() {
        let dropped = 9;
        let table = [[0, 0, 0, dropped], [1, 1, 1, CE], [2, 1, 2, CE], [CE, CE, CE, CE]];
        for (own, row) in table.into_iter().enumerate() {
            for (outer, expected) in row.into_iter().enumerate() {
                let mut v4 = [0u8; 20];
                v4[..2].copy_from_slice(&[0x45, 0x48 | own as u8]);
                let sum = checksum::of(&v4);
                v4[10..12].copy_from_slice(&sum.to_be_bytes());
                let mut v6 = [0u8; 40];
                v6[..2].copy_from_slice(&[0x64, 0x8f | (own as u8) << 4]);
                let stays = carry_ecn(&mut v4, outer as u8, true);
                assert_eq!(stays, carry_ecn(&mut v6, outer as u8, false));
                assert_eq!(stays, expected != dropped);
                assert!(checksum::ok(&v4));
                let carried = if stays { expected } else { own as u8 };
                assert_eq!(
                    (v4[1], v6[1]),
                    (0x48 | carried, 0x8f | carried << 4),
                    "{own} in {outer}"
                );
            }
        }
    }

    #[test]
    fn the_room_is_what_fits_and_a_byte_more_does_not() {
        let [v4, v6]: [IpAddr; 2] =
            ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
        let shapes = [Algorithm::Aes128Gcm, Algorithm::Aes128CbcHmacSha256].map(Algorithm::shape);
        for ((local, udp), shape) in [(v4, false), (v4, true), (v6, false)]
            .into_iter()
            .flat_map(|one| shapes.map(|shape| (one, shape)))
        {
            let outer = Outer { local, remote: local, udp, df: DontFragment::Copy };
            for mtu in 1280..1504 {
                let whole =
                    |len: usize| outer.len() + shape.around_len() + len + shape.padding(len);
                let room = usize::from(outer.room(mtu, shape));
                assert!(
                    whole(room) <= usize::from(mtu) && whole(room + 1) > usize::from(mtu),
                    "{mtu}"
                );
            }
        }
        let outer = Outer { local: v4, remote: v4, udp: false, df: DontFragment::Set };
        assert_eq!(shapes.map(|shape| outer.room(1500, shape)), [1446, 1438]);
    }
}

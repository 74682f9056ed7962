//! Ethernet headers and VLAN tags.

use crate::u16_at;

/// EtherType values (IEEE 802 numbers).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
}

/// What stands before the network header of an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// Type of the payload: behind the tag of a frame with one 802.1Q tag, else the first type
    /// field (which is then [`ethertype::SERVICE_VLAN`] for 802.1ad, or a length below 1536).
    pub ethertype: u16,
    /// Tag control information of the 802.1Q tag: 3 bits priority, 1 bit drop eligible, 12 bits
    /// identifier.
    pub tag: Option<u16>,
    /// Offset of the payload, 14 or 18.
    pub payload: usize,
}

/// Reads the Ethernet header and at most one 802.1Q tag; `None` when the frame is too short.
#[inline]
pub fn link(frame: &[u8]) -> Option<Link> {
    let header = frame.first_chunk::<14>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let outer = u16::from_be_bytes([t0, t1]);
    let (ethertype, tag, payload) = if outer == ethertype::VLAN {
        let tag = frame.get(14..18)?;
        (u16_at(tag, 2), Some(u16_at(tag, 0)), 18)
    } else {
        (outer, None, 14)
    };
    Some(Link {
        destination: [d0, d1, d2, d3, d4, d5],
        source: [s0, s1, s2, s3, s4, s5],
        ethertype,
        tag,
        payload,
    })
}

impl Link {
    /// VLAN identifier, 0 for untagged and priority-tagged frames (802.1Q: they mean the same).
    pub fn vlan(&self) -> u16 {
        self.tag.unwrap_or(0) & 0xfff
    }
}

/// Whether a MAC address is multicast or broadcast.
#[inline]
pub fn is_group(mac: &[u8; 6]) -> bool {
    mac[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_looked_through_once() {
        let mut frame = [0u8; 22];
        frame[12..22].copy_from_slice(&[0x81, 0, 0x60, 5, 0x81, 0, 0, 6, 8, 0]);
        let link = link(&frame).expect("long enough");
        assert_eq!((link.ethertype, link.vlan(), link.payload), (ethertype::VLAN, 5, 18));
        assert_eq!(link.tag, Some(0x6005));
        assert!(super::link(&frame[..17]).is_none(), "a cut tag");
        assert!(super::link(&frame[..13]).is_none(), "a cut header");
    }
}

//! Makes frames.

use std::net::{IpAddr, SocketAddr};

use crate::{checksum, ethertype, protocol};

/// What a frame is made from: everything but its payload. All checksums and lengths are written
/// right; tests that want them wrong change the bytes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Tag control information of an 802.1Q tag.
    pub tag: Option<u16>,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port, of the same family.
    pub destination: SocketAddr,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4: whether routers may not fragment.
    pub dont_fragment: bool,
    /// IPv4: identification.
    pub identification: u16,
}

impl Template {
    /// A UDP packet between locally administered MAC addresses.
    pub fn udp(source: SocketAddr, destination: SocketAddr) -> Template {
        assert_eq!(source.is_ipv4(), destination.is_ipv4(), "two families in one packet");
        Template {
            destination_mac: [2, 0, 0, 0, 0, 2],
            source_mac: [2, 0, 0, 0, 0, 1],
            tag: None,
            source,
            destination,
            tos: 0,
            ttl: 64,
            dont_fragment: false,
            identification: 0,
        }
    }

    /// Bytes before the IP payload: link and IP header.
    pub fn ip_payload_offset(&self) -> usize {
        self.link_len() + if self.source.is_ipv4() { 20 } else { 40 }
    }

    /// Bytes before the UDP payload.
    pub fn udp_payload_offset(&self) -> usize {
        self.ip_payload_offset() + 8
    }

    /// The frame around a UDP payload.
    pub fn to_frame(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.udp_payload_offset() + payload.len()];
        self.write(payload, &mut frame);
        frame
    }

    /// Writes the frame around a UDP payload to the start of `frame` and returns its length.
    ///
    /// # Panics
    /// When `frame` is too short or the payload too long for IP.
    pub fn write(&self, payload: &[u8], frame: &mut [u8]) -> usize {
        let at = self.ip_payload_offset();
        let udp_len = 8 + payload.len();
        let udp = &mut frame[at..at + udp_len];
        udp[..2].copy_from_slice(&self.source.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.destination.port().to_be_bytes());
        udp[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
        udp[6..8].fill(0);
        udp[8..].copy_from_slice(payload);
        let sum = self.pseudo_header(protocol::UDP, udp_len).bytes(udp).finish();
        // RFC 768: a computed checksum of zero is sent as all ones.
        udp[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
        self.write_headers(protocol::UDP, udp_len, frame);
        at + udp_len
    }

    /// The frame around an IP payload of any protocol, taken as it is.
    pub fn to_ip_frame(&self, proto: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.ip_payload_offset() + payload.len()];
        frame[self.ip_payload_offset()..].copy_from_slice(payload);
        self.write_headers(proto, payload.len(), &mut frame);
        frame
    }

    /// Sum of the pseudo-header for an IP payload of `len` bytes.
    pub fn pseudo_header(&self, proto: u8, len: usize) -> checksum::Sum {
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                checksum::pseudo_header(&source.octets(), &destination.octets(), proto, len)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                checksum::pseudo_header(&source.octets(), &destination.octets(), proto, len)
            }
            _ => unreachable!("one family, by construction"),
        }
    }

    fn link_len(&self) -> usize {
        if self.tag.is_some() { 18 } else { 14 }
    }

    fn write_headers(&self, proto: u8, payload_len: usize, frame: &mut [u8]) {
        frame[..6].copy_from_slice(&self.destination_mac);
        frame[6..12].copy_from_slice(&self.source_mac);
        if let Some(tag) = self.tag {
            frame[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
            frame[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        let at = self.link_len();
        let kind = if self.source.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
        frame[at - 2..at].copy_from_slice(&kind.to_be_bytes());
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = &mut frame[at..at + 20];
                let total = u16::try_from(20 + payload_len).expect("an IPv4 payload");
                header[..2].copy_from_slice(&[0x45, self.tos]);
                header[2..4].copy_from_slice(&total.to_be_bytes());
                header[4..6].copy_from_slice(&self.identification.to_be_bytes());
                header[6..8].copy_from_slice(&[if self.dont_fragment { 0x40 } else { 0 }, 0]);
                header[8..12].copy_from_slice(&[self.ttl, proto, 0, 0]);
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                let sum = checksum::of(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = &mut frame[at..at + 40];
                let len = u16::try_from(payload_len).expect("an IPv6 payload");
                header[..4].copy_from_slice(&[0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
                header[4..6].copy_from_slice(&len.to_be_bytes());
                header[6..8].copy_from_slice(&[proto, self.ttl]);
                header[8..24].copy_from_slice(&source.octets());
                header[24..40].copy_from_slice(&destination.octets());
            }
            _ => unreachable!("one family, by construction"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6, link};

    #[test]
    fn a_tagged_ipv6_frame_reads_back() {
        let parse = |text: &str| text.parse::<SocketAddr>().expect("a socket address");
        let mut template = Template::udp(parse("[2001:db8::1]:7"), parse("[2001:db8::2]:9"));
        template.tag = Some(0x6007);
        template.tos = 0xb8;
        let frame = template.to_frame(b"hello");
        let link = link(&frame).expect("a link header");
        assert_eq!((link.vlan(), link.ethertype), (7, ethertype::IPV6));
        let header = Ipv6::new(&frame[link.payload..]).expect("an IPv6 header");
        assert_eq!((header.traffic_class(), header.payload_len()), (0xb8, 13));
        let sum = template.pseudo_header(protocol::UDP, 13).bytes(header.payload());
        assert_eq!(sum.fold(), 0xffff);
    }

    #[test]
    fn an_ipv4_frame_has_right_checksums() {
        let parse = |text: &str| text.parse::<SocketAddr>().expect("a socket address");
        let template = Template::udp(parse("192.0.2.1:7"), parse("192.0.2.2:9"));
        let frame = template.to_frame(b"odd");
        let header = Ipv4::new(&frame[14..]).expect("an IPv4 header");
        assert!(header.checksum_ok());
        assert_eq!(
            template.pseudo_header(protocol::UDP, 11).bytes(header.payload()).fold(),
            0xffff
        );
    }
}

//! Test frames: Ethernet, IPv4 (RFC 791) or IPv6 (RFC 8200), UDP (RFC 768) or TCP (RFC 9293), a
//! [`Probe`], zeroes.
//!
//! The headers of a flow are built once; a frame costs a copy, three lengths and two checksums.

use core::net::IpAddr;

use ebb_units::Time;

use crate::{Flow, PROBE_LEN, Probe, Protocol};

const ETHERNET_LEN: usize = 14;
const CHECK_SEQUENCE_LEN: usize = 4;
const HEADERS_MAX: usize = ETHERNET_LEN + 40 + 20;
/// Time to live, or hop limit, of fresh packets.
const TTL: u8 = 64;

/// The headers of one flow between two stations.
#[derive(Clone, Debug)]
pub struct FrameTemplate {
    flow: u32,
    headers: [u8; HEADERS_MAX],
    headers_len: u8,
    ipv6: bool,
    protocol: Protocol,
    /// Sum of the IPv4 header without total length and checksum.
    ip_sum: u32,
    /// Sum of pseudo-header and transport header without lengths and checksum.
    transport_sum: u32,
}

impl FrameTemplate {
    /// Headers of flow number `id`, sent by station `from` to station `to`.
    pub fn new(flow: &Flow, id: u32, from: [u8; 6], to: [u8; 6]) -> FrameTemplate {
        let mut headers = [0; HEADERS_MAX];
        headers[0..6].copy_from_slice(&to);
        headers[6..12].copy_from_slice(&from);
        let number: u8 = match flow.protocol {
            Protocol::Udp => 17,
            Protocol::Tcp => 6,
        };
        let ip = &mut headers[ETHERNET_LEN..];
        let (ipv6, ip_len) = match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                ip[0] = 0x45;
                ip[6] = 0x40; // don't fragment
                ip[8] = TTL;
                ip[9] = number;
                ip[12..16].copy_from_slice(&source.octets());
                ip[16..20].copy_from_slice(&destination.octets());
                (false, 20)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                ip[0] = 0x60;
                ip[6] = number;
                ip[7] = TTL;
                ip[8..24].copy_from_slice(&source.octets());
                ip[24..40].copy_from_slice(&destination.octets());
                (true, 40)
            }
            _ => panic!("a flow between two families"),
        };
        let addresses = if ipv6 { 8..40 } else { 12..20 };
        let ip_sum = if ipv6 { 0 } else { sum(&ip[..20]) };
        let pseudo = sum(&ip[addresses]) + u32::from(number);
        let transport = &mut ip[ip_len..];
        transport[0..2].copy_from_slice(&flow.source_port.to_be_bytes());
        transport[2..4].copy_from_slice(&flow.destination_port.to_be_bytes());
        let transport_len = match flow.protocol {
            Protocol::Udp => 8,
            Protocol::Tcp => {
                transport[12] = 0x50; // header of five words
                transport[13] = 0x10; // ACK
                transport[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
                20
            }
        };
        let transport_sum = pseudo + sum(&transport[..transport_len]);
        let ether_type: u16 = if ipv6 { 0x86dd } else { 0x0800 };
        headers[12..14].copy_from_slice(&ether_type.to_be_bytes());
        FrameTemplate {
            flow: id,
            headers,
            headers_len: (ETHERNET_LEN + ip_len + transport_len) as u8,
            ipv6,
            protocol: flow.protocol,
            ip_sum,
            transport_sum,
        }
    }

    /// Bytes in memory of the shortest frame of this flow.
    pub fn len_min(&self) -> usize {
        usize::from(self.headers_len) + PROBE_LEN
    }

    /// Writes packet number `sequence`, sent at `now`, as a frame of `wire_len` bytes on the wire
    /// (or as few as the flow's headers allow) and returns how many bytes it takes in memory.
    ///
    /// # Panics
    /// When `buffer` is shorter than that.
    #[inline]
    pub fn write(&self, wire_len: u16, sequence: u32, now: Time, buffer: &mut [u8]) -> usize {
        let len = (usize::from(wire_len) - CHECK_SEQUENCE_LEN).max(self.len_min());
        let headers_len = usize::from(self.headers_len);
        let frame = &mut buffer[..len];
        frame[..headers_len].copy_from_slice(&self.headers[..headers_len]);
        let (headers, payload) = frame.split_at_mut(headers_len);
        let (mark, rest) = payload.split_first_chunk_mut().expect("at least len_min bytes");
        Probe { flow: self.flow, sequence, sent: now }.encode(mark);
        rest.fill(0);
        let payload_sum = sum(mark);
        let ip = &mut headers[ETHERNET_LEN..];
        let ip_len = if self.ipv6 { 40 } else { 20 };
        let transport_len = (len - ETHERNET_LEN - ip_len) as u16;
        if self.ipv6 {
            ip[4..6].copy_from_slice(&transport_len.to_be_bytes());
        } else {
            let total = transport_len + 20;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            let check = !fold(self.ip_sum + u32::from(total));
            ip[10..12].copy_from_slice(&check.to_be_bytes());
        }
        let transport = &mut ip[ip_len..];
        let mut total = self.transport_sum + u32::from(transport_len) + payload_sum;
        let check_at = match self.protocol {
            Protocol::Udp => {
                transport[4..6].copy_from_slice(&transport_len.to_be_bytes());
                total += u32::from(transport_len);
                6
            }
            Protocol::Tcp => 16,
        };
        let check = match !fold(total) {
            0 if self.protocol == Protocol::Udp => 0xffff, // RFC 768: zero means no checksum
            check => check,
        };
        transport[check_at..check_at + 2].copy_from_slice(&check.to_be_bytes());
        len
    }
}

impl FrameTemplate {
    /// Has `write` fill what follows the probe in a frame that was just written, and gives TCP a sequence number by that
    /// of the packet.
    pub(crate) fn fill(&self, sequence: u32, frame: &mut [u8], write: impl FnOnce(&mut [u8])) {
        let (headers, payload) = frame.split_at_mut(usize::from(self.headers_len));
        let rest = &mut payload[PROBE_LEN..];
        write(rest);
        let last = rest.chunks_exact(2).remainder().first().map_or(0, |byte| u32::from(*byte) << 8);
        let mut more = sum(rest) + last;
        let transport = &mut headers[ETHERNET_LEN + if self.ipv6 { 40 } else { 20 }..];
        let check_at = match self.protocol {
            Protocol::Udp => 6,
            Protocol::Tcp => {
                let number = sequence.wrapping_mul(1460).to_be_bytes();
                transport[4..8].copy_from_slice(&number);
                more += sum(&number);
                16
            }
        };
        let check = &mut transport[check_at..check_at + 2];
        let before = u16::from_be_bytes([check[0], check[1]]);
        let after = match !fold(u32::from(!before) + more) {
            0 if self.protocol == Protocol::Udp => 0xffff, // RFC 768: zero means no checksum
            after => after,
        };
        check.copy_from_slice(&after.to_be_bytes());
    }
}

/// The probe of a test frame, `None` for any other frame. IPv4 options and VLAN tags are skipped,
/// IPv6 extension headers are not.
#[inline]
pub fn read_probe(frame: &[u8]) -> Option<Probe> {
    let mut at = 12;
    let mut ether_type = word(frame, at)?;
    while ether_type == 0x8100 || ether_type == 0x88a8 {
        at += 4;
        ether_type = word(frame, at)?;
    }
    let ip = frame.get(at + 2..)?;
    let (protocol, transport) = match ether_type {
        0x0800 => (*ip.get(9)?, ip.get(usize::from(ip[0] & 15) * 4..)?),
        0x86dd => (*ip.get(6)?, ip.get(40..)?),
        _ => return None,
    };
    match protocol {
        17 => Probe::decode(transport.get(8..)?),
        6 => Probe::decode(transport.get(usize::from(*transport.get(12)? >> 4) * 4..)?),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Sum of the big-endian words (RFC 1071), unfolded; at most 64 KiB.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flows() -> impl Strategy<Value = Flow> {
        let hosts = prop_oneof![
            any::<[[u8; 4]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
            any::<[[u8; 16]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
        ];
        (hosts, any::<bool>(), any::<[u16; 2]>()).prop_map(|([source, destination], tcp, ports)| {
            let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
            let [source_port, destination_port] = ports;
            Flow { source, destination, protocol, source_port, destination_port }
        })
    }

    #[test]
    fn the_shortest_frame_holds_a_probe() {
        let udp = Flow {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: Protocol::Udp,
            source_port: 1,
            destination_port: 2,
        };
        let template = FrameTemplate::new(&udp, 3, [2; 6], [4; 6]);
        let mut buffer = [0xff; 60];
        assert_eq!(template.write(64, 9, Time::from_nanos(5), &mut buffer), 60);
        let probe = Probe { flow: 3, sequence: 9, sent: Time::from_nanos(5) };
        assert_eq!(read_probe(&buffer), Some(probe));
    }

    proptest! {
        #[test]
        fn frames_are_well_formed(
            flow in flows(), id: u32, sequence: u32, at: u64, wire_len in 64u16..=1518,
        ) {
            let template = FrameTemplate::new(&flow, id, [2; 6], [4; 6]);
            let mut buffer = [0xa5; 1600];
            let now = Time::from_nanos(at);
            let len = template.write(wire_len, sequence, now, &mut buffer);
            let frame = &buffer[..len];
            prop_assert_eq!(len, usize::from(wire_len - 4).max(template.len_min()));
            prop_assert_eq!(read_probe(frame), Some(Probe { flow: id, sequence, sent: now }));
            prop_assert!(read_probe(&frame[..len.min(template.len_min()) - 1]).is_none());
            let ip = &frame[14..];
            let (addresses, protocol, transport) = if flow.source.is_ipv4() {
                prop_assert_eq!(fold(sum(&ip[..20])), 0xffff);
                prop_assert_eq!(usize::from(word(ip, 2).expect("length")), ip.len());
                (&ip[12..20], ip[9], &ip[20..])
            } else {
                prop_assert_eq!(usize::from(word(ip, 4).expect("length")), ip.len() - 40);
                (&ip[8..40], ip[6], &ip[40..])
            };
            let mut padded = transport.to_vec();
            padded.resize(transport.len().next_multiple_of(2), 0);
            let total =
                sum(addresses) + u32::from(protocol) + transport.len() as u32 + sum(&padded);
            prop_assert_eq!(fold(total), 0xffff);
        }

        #[test]
        fn foreign_frames_are_told_apart(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            if let Some(probe) = read_probe(&bytes) {
                let mut again = [0; PROBE_LEN];
                probe.encode(&mut again);
                prop_assert!(bytes.windows(PROBE_LEN).any(|window| window == again));
            }
        }
    }
}

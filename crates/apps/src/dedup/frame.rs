//! Where TCP and UDP are in a frame, and how their payload is exchanged for another.
//!
//! What may be encoded: TCP or UDP over IPv4 or IPv6, whole, without extension headers, not a fragment, with header
//! lengths that are right and a payload of a certain length. Everything else is left alone.

use ebb_graph::Packet;
use ebb_wire::{Ipv4, Ipv6, checksum, ethertype, link, protocol};

use super::wire::u16_at;

/// Shortest payload that is looked at.
pub(super) const PAYLOAD_MIN: usize = 64;
/// Length of an encoded UDP datagram, by its header: less than the header has.
const UDP_MARK: u16 = 4;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

/// A packet of a transport protocol in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    l3: usize,
    /// Where the transport's header begins.
    pub(super) l4: usize,
    /// Where the packet ends; behind it may be the link's padding.
    pub(super) end: usize,
    is_v4: bool,
    pub(super) is_tcp: bool,
    /// Of the transport's header: what is left of it in front of a shim.
    pub(super) fixed_len: usize,
    /// Length of the transport's header; none of an encoded packet, whose shim has it.
    pub(super) header_len: Option<usize>,
}

impl Place {
    /// Looks at a frame.
    pub(super) fn of(frame: &[u8]) -> Option<Place> {
        let link = link(frame)?;
        let l3 = link.payload;
        let bytes = frame.get(l3..)?;
        let (is_v4, proto, l4, end) = match link.ethertype {
            ethertype::IPV4 => {
                let header = Ipv4::new(bytes)?;
                if header.version() != 4 || header.header_len() < Ipv4::LEN || header.is_fragment()
                {
                    return None;
                }
                (true, header.protocol(), l3 + header.header_len(), l3 + header.total_len())
            }
            ethertype::IPV6 => {
                let header = Ipv6::new(bytes)?;
                if header.version() != 6 {
                    return None;
                }
                let l4 = l3 + Ipv6::LEN;
                (false, header.next_header(), l4, l4 + header.payload_len())
            }
            _ => return None,
        };
        let fixed_len = match proto {
            protocol::TCP => TCP_LEN,
            protocol::UDP => UDP_LEN,
            _ => return None,
        };
        if end > frame.len() || l4 + fixed_len > end {
            return None;
        }
        let (is_tcp, transport) = (proto == protocol::TCP, &frame[l4..end]);
        let header_len = match (is_tcp, usize::from(transport[12 % fixed_len] >> 4) * 4) {
            (true, 0) => None,
            (true, len) if len < TCP_LEN || len > transport.len() => return None,
            (true, len) => Some(len),
            (false, _) => match u16_at(transport, 4) {
                UDP_MARK => None,
                len if usize::from(len) == transport.len() => Some(UDP_LEN),
                _ => return None,
            },
        };
        Some(Place { l3, l4, end, is_v4, is_tcp, fixed_len, header_len })
    }

    /// Source and destination.
    pub(super) fn addresses<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let from = self.l3 + if self.is_v4 { 12 } else { 8 };
        &frame[from..from + if self.is_v4 { 8 } else { 32 }]
    }

    /// What tells the flow from others, nearly always, in 31 bits: the same at both ends.
    pub(super) fn flow(&self, frame: &[u8]) -> u32 {
        let bytes = self.addresses(frame).iter().chain(&frame[self.l4..self.l4 + 4]);
        // FNV-1a: the table's places are all that depends on it.
        bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
            >> 1
    }

    /// Bytes of the IP packet.
    pub(super) fn packet_len(&self) -> usize {
        self.end - self.l3
    }

    /// Marks a transport's header as that of an encoded packet.
    pub(super) fn mark(is_tcp: bool, fixed: &mut [u8]) {
        if is_tcp {
            fixed[12] &= 15;
        } else {
            fixed[4..6].copy_from_slice(&UDP_MARK.to_be_bytes());
        }
    }

    /// Undoes the mark.
    pub(super) fn unmark(is_tcp: bool, fixed: &mut [u8], header_words: u8, payload_len: u16) {
        if is_tcp {
            fixed[12] = fixed[12] & 15 | header_words << 4;
        } else {
            fixed[4..6].copy_from_slice(&(UDP_LEN as u16 + payload_len).to_be_bytes());
        }
    }

    /// Puts `transport` behind the IP header, whose length becomes right.
    pub(super) fn replace(&self, packet: &mut Packet, transport: &[u8]) {
        let end = self.l4 + transport.len();
        packet.set_len(end);
        let data = packet.data_mut();
        data[self.l4..].copy_from_slice(transport);
        let header = &mut data[self.l3..self.l4];
        if self.is_v4 {
            let (old, new) = (u16_at(header, 2), (end - self.l3) as u16);
            header[2..4].copy_from_slice(&new.to_be_bytes());
            let sum = checksum::update(u16_at(header, 10), old, new);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            header[4..6].copy_from_slice(&(transport.len() as u16).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_wire::Template;

    use super::*;

    fn frame(v6: bool) -> Vec<u8> {
        let [source, destination] = if v6 {
            ["[2001:db8::1]:5", "[2001:db8::2]:6"]
        } else {
            ["192.0.2.1:5", "192.0.2.2:6"]
        };
        let address = |text: &str| text.parse().expect("an address");
        Template::udp(address(source), address(destination)).to_frame(&[1; 100])
    }

    #[test]
    fn what_is_not_whole_or_not_right_is_left_alone() {
        for v6 in [false, true] {
            let good = frame(v6);
            let place = Place::of(&good).expect("a datagram");
            assert_eq!((place.header_len, place.end - place.l4), (Some(8), 108));
            for len in 0..good.len() {
                assert_eq!(Place::of(&good[..len]), None, "cut to {len}");
            }
            let mut wrong = good.clone();
            wrong[place.l4 + 5] += 1;
            assert_eq!(Place::of(&wrong), None, "of another length");
            let mut marked = good.clone();
            Place::mark(false, &mut marked[place.l4..place.l4 + 8]);
            assert_eq!(Place::of(&marked).expect("encoded").header_len, None);
            Place::unmark(false, &mut marked[place.l4..place.l4 + 8], 2, 100);
            assert_eq!(marked, good);
        }
        let mut fragment = frame(false);
        fragment[20] |= 0x20;
        assert_eq!(Place::of(&fragment), None);
    }
}

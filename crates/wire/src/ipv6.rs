//! IPv6 headers (RFC 8200).

use std::net::Ipv6Addr;

use crate::{protocol, u16_at};

/// View of an IPv6 header (RFC 8200 section 3) at the start of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    fixed: &'a [u8; 40],
    bytes: &'a [u8],
}

/// Where the extension headers end (RFC 8200 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Protocol of the first header that is no extension header.
    pub protocol: u8,
    /// Its offset from the IPv6 header's first byte; may lie beyond the bytes at hand.
    pub offset: usize,
    /// Offset field of the fragment header in units of 8 bytes, if there is one.
    pub fragment_offset: Option<u16>,
}

impl Upper {
    /// Whether an extension header was reached that is not followed: the chain is longer than the walk,
    /// or than the bytes at hand.
    pub fn is_cut_short(&self) -> bool {
        self.fragment_offset.is_none_or(|offset| offset == 0)
            && matches!(
                self.protocol,
                protocol::HOP_BY_HOP
                    | protocol::ROUTING
                    | protocol::DESTINATION_OPTIONS
                    | protocol::MOBILITY
                    | protocol::AUTHENTICATION
                    | protocol::FRAGMENT
            )
    }
}

impl<'a> Ipv6<'a> {
    /// Length of the fixed header.
    pub const LEN: usize = 40;
    /// Extension headers followed at most; longer chains end at the header reached by then.
    const EXTENSIONS_MAX: usize = 8;

    /// The header at the start of `bytes`; `None` below 40 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Ipv6<'a>> {
        Some(Ipv6 { fixed: bytes.first_chunk()?, bytes })
    }

    /// Version field.
    #[inline]
    pub fn version(&self) -> u8 {
        self.fixed[0] >> 4
    }

    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.fixed[0] << 4 | self.fixed[1] >> 4
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.fixed[1] & 0xf, self.fixed[2], self.fixed[3]])
    }

    /// Length of everything behind the fixed header, in bytes.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(u16_at(self.fixed, 4))
    }

    /// Type of the header that follows.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.fixed[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.source_bits())
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.destination_bits())
    }

    /// Source address in host order.
    #[inline]
    pub fn source_bits(&self) -> u128 {
        u128::from_be_bytes(*self.fixed[8..].first_chunk().expect("16 of 32 bytes"))
    }

    /// Destination address in host order.
    #[inline]
    pub fn destination_bits(&self) -> u128 {
        u128::from_be_bytes(*self.fixed[24..].first_chunk().expect("16 bytes"))
    }

    /// What follows the fixed header up to the payload length, as far as it is there.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let end = (Self::LEN + self.payload_len()).min(self.bytes.len());
        &self.bytes[Self::LEN..end]
    }

    /// Walks the extension headers as far as the bytes reach. Behind a fragment header with an
    /// offset the walk ends, because what follows is no header.
    pub fn upper(&self) -> Upper {
        let mut upper =
            Upper { protocol: self.next_header(), offset: Self::LEN, fragment_offset: None };
        for _ in 0..Self::EXTENSIONS_MAX {
            let Some(&[next, len, high, low]) =
                self.bytes.get(upper.offset..).and_then(|rest| rest.first_chunk::<4>())
            else {
                return upper;
            };
            let header_len = match upper.protocol {
                protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::DESTINATION_OPTIONS
                | protocol::MOBILITY => (usize::from(len) + 1) * 8,
                protocol::AUTHENTICATION => (usize::from(len) + 2) * 4,
                protocol::FRAGMENT => {
                    let offset = u16::from_be_bytes([high, low]) >> 3;
                    upper.fragment_offset = Some(offset);
                    if offset != 0 {
                        upper.protocol = next;
                        upper.offset += 8;
                        return upper;
                    }
                    8
                }
                _ => return upper,
            };
            upper.protocol = next;
            upper.offset += header_len;
        }
        upper
    }

    /// Lowers the hop limit of the header at the start of `bytes` by one (RFC 8200 section 3).
    ///
    /// # Panics
    /// Below 40 bytes, and when the hop limit is zero.
    #[inline]
    pub fn decrement_hop_limit(bytes: &mut [u8]) {
        let header = bytes.first_chunk_mut::<40>().expect("an IPv6 header");
        assert!(header[7] > 0, "a dead packet");
        header[7] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_payload(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 40];
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        bytes[6] = next;
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn the_walk_ends_at_the_upper_layer() {
        let chain = [
            [60, 0, 0, 0, 0, 0, 0, 0], // routing, then destination options
            [44, 0, 0, 0, 0, 0, 0, 0], // destination options, then fragment
            [17, 0, 0, 1, 0, 0, 0, 0], // first fragment of UDP
            [1, 2, 3, 4, 0, 8, 0, 0],  // UDP
        ]
        .concat();
        let bytes = with_payload(protocol::ROUTING, &chain);
        let upper = Ipv6::new(&bytes).expect("a header").upper();
        assert_eq!(upper, Upper { protocol: 17, offset: 64, fragment_offset: Some(0) });
    }

    #[test]
    fn a_later_fragment_has_no_upper_layer_header() {
        let bytes = with_payload(protocol::FRAGMENT, &[60, 0, 0, 8, 0, 0, 0, 0, 17, 0, 0, 0]);
        let upper = Ipv6::new(&bytes).expect("a header").upper();
        assert_eq!(upper, Upper { protocol: 60, offset: 48, fragment_offset: Some(1) });
    }

    proptest! {
        #[test]
        fn no_bytes_upset_a_view(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(view) = Ipv6::new(&bytes) {
                let _ = (view.upper(), view.payload(), view.flow_label());
            }
        }
    }
}

//! IPv4 headers (RFC 791).

use std::net::Ipv4Addr;

use crate::{checksum, u16_at};

/// View of an IPv4 header (RFC 791) at the start of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    fixed: &'a [u8; 20],
    bytes: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Length of a header without options.
    pub const LEN: usize = 20;

    /// The header at the start of `bytes`; `None` below 20 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Ipv4<'a>> {
        Some(Ipv4 { fixed: bytes.first_chunk()?, bytes })
    }

    /// Version field.
    #[inline]
    pub fn version(&self) -> u8 {
        self.fixed[0] >> 4
    }

    /// Header length in bytes, 0 to 60, as the header claims.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.fixed[0] & 0xf) * 4
    }

    /// Type of service.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.fixed[1]
    }

    /// Length of header and payload in bytes, as the header claims.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(u16_at(self.fixed, 2))
    }

    /// Identification.
    pub fn identification(&self) -> u16 {
        u16_at(self.fixed, 4)
    }

    /// Don't-fragment flag.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fixed[6] & 0x40 != 0
    }

    /// Whether this is a fragment, first ones included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.fixed, 6) & 0x3fff != 0
    }

    /// Fragment offset in units of 8 bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        u16_at(self.fixed, 6) & 0x1fff
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Header checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.fixed, 10)
    }

    /// Source address in host order.
    #[inline]
    pub fn source_bits(&self) -> u32 {
        u32::from(self.source())
    }

    /// Destination address in host order.
    #[inline]
    pub fn destination_bits(&self) -> u32 {
        u32::from(self.destination())
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.fixed[12], self.fixed[13], self.fixed[14], self.fixed[15])
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.fixed[16], self.fixed[17], self.fixed[18], self.fixed[19])
    }

    /// Whether the header checksum is right (RFC 1812 section 5.2.2 test 2); false when the header
    /// does not fit in the bytes.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        if self.fixed[0] & 0xf == 5 {
            return checksum::header_ok(self.fixed);
        }
        self.bytes.get(..self.header_len()).is_some_and(checksum::ok)
    }

    /// What follows the header up to the total length, as far as it is there.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let end = self.total_len().min(self.bytes.len());
        self.bytes.get(self.header_len()..end).unwrap_or(&[])
    }

    /// Lowers the time to live of the header at the start of `bytes` by one and keeps its checksum
    /// right (RFC 1812 section 4.2.2.9, RFC 1624).
    ///
    /// # Panics
    /// Below 20 bytes, and when the time to live is zero.
    #[inline]
    pub fn decrement_ttl(bytes: &mut [u8]) {
        let header = bytes.first_chunk_mut::<20>().expect("an IPv4 header");
        assert!(header[8] > 0, "a dead packet");
        let word = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        header[8..12].copy_from_slice(&checksum::lower_ttl(word).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_decremented_ttl_keeps_the_checksum_right(mut header in any::<[u8; 20]>(), ttl in 1u8..) {
            header[0] = 0x45;
            header[8] = ttl;
            header[10..12].fill(0);
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Ipv4::decrement_ttl(&mut header);
            let view = Ipv4::new(&header).expect("20 bytes");
            prop_assert_eq!(view.ttl(), ttl - 1);
            prop_assert!(view.checksum_ok());
        }

        #[test]
        fn no_bytes_upset_a_view(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(view) = Ipv4::new(&bytes) {
                let _ = (view.checksum_ok(), view.payload(), view.fragment_offset());
            }
        }
    }
}

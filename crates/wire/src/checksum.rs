//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Sum of 16-bit words in ones' complement, unfinished: the order of bytes within words does not
/// matter until the end (RFC 1071 section 2(B)), so it is computed in the machine's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`; those of odd length count as padded with zero, so only the last piece may be.
    #[inline]
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_ne_bytes(*word));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_ne_bytes(last));
        self
    }

    /// Adds one 16-bit word given in host order.
    #[inline]
    #[must_use]
    pub fn word(mut self, word: u16) -> Sum {
        self.0 += u64::from(word.to_be());
        self
    }

    /// The sum folded to 16 bits, as the number that stands in network order.
    #[inline]
    pub fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// The checksum field's value: the complement of the sum.
    #[inline]
    pub fn finish(self) -> u16 {
        !self.fold()
    }
}

/// Checksum of `bytes`, whose own checksum field is zero.
///
/// ```
/// // The example of RFC 1071 section 3.
/// assert_eq!(ebb_wire::checksum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
/// ```
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).finish()
}

/// Whether `bytes`, checksum field included, sum to all ones.
#[inline]
pub fn ok(bytes: &[u8]) -> bool {
    Sum::default().bytes(bytes).fold() == 0xffff
}

/// Whether an IPv4 header without options has the right checksum.
#[inline]
pub fn header_ok(header: &[u8; 20]) -> bool {
    let word = |at: usize| {
        u64::from(u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

/// The checksum after a 16-bit word changed from `old` to `new` (RFC 1624 equation 3).
///
/// ```
/// // The example of RFC 1624 section 4.
/// assert_eq!(ebb_wire::checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// The first four bytes of an IPv4 header's second half as one word in host order (TTL, protocol,
/// checksum), with a TTL lower by one and the checksum that goes with it: what [`update`] makes of it in
/// every case, in fewer steps, as the difference is always the same. The TTL must not be 0.
#[inline(always)]
pub fn lower_ttl(word: u32) -> u32 {
    let sum = (word & 0xffff) + 0x100;
    let sum = (sum + u32::from(sum >= 0xffff)) & 0xffff;
    (word & 0xffff_0000).wrapping_sub(0x0100_0000) | sum
}

/// Sum of the pseudo-header of upper-layer protocols (RFC 768, RFC 8200 section 8.1); addresses
/// of 4 or 16 bytes each.
pub fn pseudo_header(source: &[u8], destination: &[u8], protocol: u8, len: usize) -> Sum {
    Sum::default()
        .bytes(source)
        .bytes(destination)
        .bytes(&(len as u32).to_be_bytes())
        .word(u16::from(protocol))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn a_lower_ttl_is_an_update_whatever_the_checksum() {
        for sum in 0..=u16::MAX {
            for top in [0x0100, 0x01ff, 0x4011, 0xff00, 0xffff_u16] {
                let lowered = lower_ttl(u32::from(top) << 16 | u32::from(sum));
                let expected = update(sum, top, top - 0x100);
                assert_eq!(lowered, u32::from(top - 0x100) << 16 | u32::from(expected));
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_word_by_word_sum(bytes in proptest::collection::vec(any::<u8>(), 0..1600)) {
            prop_assert_eq!(of(&bytes), reference(&bytes));
        }

        #[test]
        fn updated_equals_recomputed(mut header in any::<[u8; 20]>(), at in 0usize..4, new: u16) {
            header[10..12].fill(0);
            let sum = of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(header_ok(&header) && ok(&header));
            let old = u16::from_be_bytes([header[at * 2], header[at * 2 + 1]]);
            header[at * 2..at * 2 + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(header_ok(&header), ok(&header));
            header[10..12].copy_from_slice(&update(sum, old, new).to_be_bytes());
            prop_assert!(header_ok(&header));
        }
    }
}

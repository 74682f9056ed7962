//! Fragments of an IPv4 packet (RFC 791 section 3.2, RFC 1812 section 4.2.2.7).

use crate::{Ipv4, checksum};

/// Longest header.
const HEADER_MAX: usize = 60;

/// The fragments of one IPv4 packet, in order, each a whole packet. The first has the packet's length as far as
/// the MTU allows; options that are not to be copied are in the first only.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    /// The header of the next fragment, with the packet's own fields.
    header: [u8; HEADER_MAX],
    header_len: usize,
    /// What has not been given out yet.
    payload: &'a [u8],
    /// Where that was in the packet that the sender made, in units of 8 bytes.
    offset: u16,
    /// The packet was a fragment itself, and not the last one.
    more: bool,
    mtu: usize,
}

impl<'a> Fragments<'a> {
    /// Those of the packet at the start of `bytes` for a link of that MTU; `None` when it must not be cut, is
    /// no whole IPv4 packet, or the MTU has no room for a header and 8 bytes.
    pub fn of(bytes: &'a [u8], mtu: usize) -> Option<Fragments<'a>> {
        let packet = Ipv4::new(bytes).filter(|packet| packet.version() == 4)?;
        let (header_len, total_len) = (packet.header_len(), packet.total_len());
        let sound = header_len >= Ipv4::LEN && total_len >= header_len && bytes.len() >= total_len;
        if !sound || packet.dont_fragment() || mtu < header_len + 8 {
            return None;
        }
        let mut header = [0; HEADER_MAX];
        header[..header_len].copy_from_slice(&bytes[..header_len]);
        let word = u16::from_be_bytes([bytes[6], bytes[7]]);
        // Nobody can have sent more than a whole packet in fragments.
        if usize::from(word & 0x1fff) * 8 + total_len > usize::from(u16::MAX) {
            return None;
        }
        Some(Fragments {
            header,
            header_len,
            payload: &bytes[header_len..total_len],
            offset: word & 0x1fff,
            more: word & 0x2000 != 0,
            mtu,
        })
    }

    /// Writes the next fragment to the start of `out` and returns its length; `None` after the last.
    ///
    /// # Panics
    /// When `out` is shorter than the MTU.
    pub fn write_next(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.payload.is_empty() {
            return None;
        }
        let room = self.mtu - self.header_len;
        let last = self.payload.len() <= room;
        let (piece, rest) =
            self.payload.split_at(if last { self.payload.len() } else { room / 8 * 8 });
        let len = self.header_len + piece.len();
        let (header, body) = out[..len].split_at_mut(self.header_len);
        header.copy_from_slice(&self.header[..self.header_len]);
        header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        let more = u16::from(!last || self.more) << 13;
        header[6..8].copy_from_slice(&(self.offset | more).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        body.copy_from_slice(piece);
        self.offset += (piece.len() / 8) as u16;
        self.payload = rest;
        self.keep_copied_options();
        Some(len)
    }

    /// Leaves the options in the header that every fragment has (bit 7 of their type).
    fn keep_copied_options(&mut self) {
        let mut kept = Vec::new();
        let mut rest = &self.header[Ipv4::LEN..self.header_len];
        while let [kind, len, ..] = rest {
            let len = match kind {
                0 => break,
                1 => 1,
                _ => usize::from(*len),
            };
            if len == 0 || len > rest.len() {
                break;
            }
            if kind & 0x80 != 0 {
                kept.extend_from_slice(&rest[..len]);
            }
            rest = &rest[len..];
        }
        kept.resize(kept.len().next_multiple_of(4), 0);
        self.header_len = Ipv4::LEN + kept.len();
        self.header[Ipv4::LEN..self.header_len].copy_from_slice(&kept);
        self.header[0] = 0x40 | (self.header_len / 4) as u8;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(options: &[u8], payload: &[u8], flags: u16) -> Vec<u8> {
        let mut bytes = vec![0; Ipv4::LEN];
        bytes.extend(options);
        let header_len = bytes.len();
        bytes[0] = 0x40 | (header_len / 4) as u8;
        bytes[2..4].copy_from_slice(&((header_len + payload.len()) as u16).to_be_bytes());
        bytes[4..6].copy_from_slice(&[7, 9]);
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        bytes[8..10].copy_from_slice(&[64, 17]);
        let sum = checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn cut(bytes: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut fragments = Fragments::of(bytes, mtu).expect("may be cut");
        let mut out = vec![0; mtu];
        std::iter::from_fn(|| fragments.write_next(&mut out).map(|len| out[..len].to_vec()))
            .collect()
    }

    #[test]
    fn options_are_copied_as_their_bit_says() {
        // A timestamp is in the first fragment only, a router alert in all.
        let options = [68, 4, 5, 0, 1, 148, 4, 0, 0, 0, 0, 0];
        let pieces = cut(&packet(&options, &[3; 100], 0), 80);
        let lens: Vec<usize> = pieces.iter().map(Vec::len).collect();
        // 48 bytes behind 32, the other 52 behind 24.
        assert_eq!(lens, [80, 76]);
        assert_eq!(pieces[1][20..24], [148, 4, 0, 0]);
    }

    #[test]
    fn what_must_not_be_cut_is_not() {
        assert!(Fragments::of(&packet(&[], &[0; 100], 0x4000), 80).is_none());
        assert!(Fragments::of(&packet(&[], &[0; 100], 0), 27).is_none());
        assert!(Fragments::of(&packet(&[], &[0; 100], 0)[..90], 80).is_none());
    }

    proptest! {
        /// Put together again the fragments are the packet, whether it was a fragment before or not.
        #[test]
        fn fragments_make_up_the_packet(
            payload in prop::collection::vec(any::<u8>(), 1..1700),
            words in 0usize..10,
            mtu in 68usize..1500,
            before in 0u16..4000,
            more in any::<bool>(),
        ) {
            // The sender's own pieces but the last are whole units.
            let payload = if more { &payload[..payload.len() / 8 * 8] } else { &payload[..] };
            prop_assume!(!payload.is_empty());
            let flags = before | u16::from(more) << 13;
            let bytes = packet(&vec![1; 4 * words], payload, flags);
            let mut together: Vec<u8> = Vec::new();
            let pieces = cut(&bytes, mtu);
            for (number, piece) in pieces.iter().enumerate() {
                let header = Ipv4::new(piece).expect("a header");
                prop_assert!(piece.len() <= mtu && header.total_len() == piece.len());
                prop_assert!(header.checksum_ok() && header.identification() == 0x0709);
                prop_assert_eq!(usize::from(header.fragment_offset()), usize::from(before) + together.len() / 8);
                let last = number + 1 == pieces.len();
                prop_assert_eq!(piece[6] & 0x20 != 0, !last || more);
                together.extend(header.payload());
            }
            prop_assert_eq!(&together[..], payload);
        }

        /// Whatever the bytes are, nothing longer than the MTU comes out.
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), mtu in 0usize..100) {
            if let Some(mut fragments) = Fragments::of(&bytes, mtu) {
                let mut out = vec![0; mtu];
                let count = std::iter::from_fn(|| fragments.write_next(&mut out)).count();
                prop_assert!(count <= bytes.len());
            }
        }
    }
}

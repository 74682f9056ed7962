//! Which IP headers may be believed, clause by clause; nothing here depends on tables.
//!
//! Packets for the router itself pass here too: what must never be forwarded but may be received
//! (multicast, link-local) goes to the kernel.

use std::net::Ipv6Addr;

use ebb_graph::DropReason;
use ebb_wire::{Ipv4, Ipv6, checksum, protocol};

/// What becomes of a packet before routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To be looked up.
    Route,
    /// For the kernel.
    Kernel,
    /// To be looked up by a router that is alone ([`super::Builder::alone`]), else for the kernel: it has
    /// options, which may concern every router on the way.
    Options,
    /// Dropped.
    Drop(DropReason),
}

/// Judges the IPv4 packet at the start of `bytes`, which may go on with link padding
/// (RFC 1812 sections 5.2.2 and 5.3.7).
#[inline]
pub(super) fn ipv4(bytes: &[u8]) -> Verdict {
    let Some(header) = Ipv4::new(bytes) else { return Verdict::Drop(DropReason::Truncated) };
    let fixed = bytes.first_chunk().expect("as long as a header");
    if plain_ipv4(fixed, bytes.len()) { Verdict::Route } else { ipv4_odd(bytes, header) }
}

/// Whether all of an IPv4 packet is there, whatever else is odd about it.
#[inline]
pub(crate) fn is_whole_v4(bytes: &[u8]) -> bool {
    Ipv4::new(bytes).is_some_and(|header| {
        let (header_len, total_len) = (header.header_len(), header.total_len());
        header.version() == 4
            && (Ipv4::LEN..=total_len).contains(&header_len)
            && total_len <= bytes.len()
            && header.checksum_ok()
    })
}

/// Whether a packet of which `len` bytes are there has a whole header without options and nothing
/// odd about its addresses: most have.
#[inline(always)]
pub(super) fn plain_ipv4(header: &[u8; 20], len: usize) -> bool {
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    (header[0] == 0x45)
        & (total_len <= len)
        & (total_len >= header.len())
        & checksum::header_ok(header)
        & plain(header[12])
        & plain(header[16])
}

/// Whether an address that starts with this byte is neither on network 0 or 127 nor of class D
/// or E.
#[inline]
fn plain(first: u8) -> bool {
    (first.wrapping_sub(1) < 223) & (first != 127)
}

/// The same in full, for all that is not plain.
#[cold]
fn ipv4_odd(bytes: &[u8], header: Ipv4<'_>) -> Verdict {
    // Section 5.2.2: tests 1 and 3 to 5, with the checksum where the header's length is sure.
    let header_len = header.header_len();
    if header.version() != 4 {
        return Verdict::Drop(DropReason::BadVersion);
    }
    if header_len < Ipv4::LEN || header_len > bytes.len() {
        return Verdict::Drop(DropReason::BadHeaderLength);
    }
    if !header.checksum_ok() {
        return Verdict::Drop(DropReason::BadChecksum);
    }
    if header.total_len() > bytes.len() || header.total_len() < header_len {
        return Verdict::Drop(DropReason::BadTotalLength);
    }
    let (source, destination) = (header.source(), header.destination());
    // Section 5.3.7, before anything else so that no option makes a martian welcome.
    // A source of class E is forwarded: the range may become unicast, and Linux does so too.
    if source.is_multicast() || source.is_broadcast() || source.is_loopback() {
        return Verdict::Drop(DropReason::MartianSource);
    }
    if destination.is_multicast() || destination.is_broadcast() {
        return Verdict::Kernel;
    }
    if source.octets()[0] == 0 {
        return Verdict::Drop(DropReason::MartianSource);
    }
    if matches!(destination.octets()[0], 0 | 127 | 240..) {
        return Verdict::Drop(DropReason::MartianDestination);
    }
    // Section 5.2.4: options may concern every router on the way; the kernel knows them.
    if header_len > Ipv4::LEN { Verdict::Options } else { Verdict::Route }
}

/// Judges the options of an IPv4 header for a router that is alone: they pass unchanged (RFC 1812
/// section 5.3.13 of unknown ones; nothing is recorded in the others, RFC 7126 sections 4.6 and 4.7), but
/// source routes are dropped as RFC 7126 sections 4.3 and 4.4 advise.
pub(super) fn options(bytes: &[u8]) -> Verdict {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const SOURCE_ROUTES: [u8; 2] = [131, 137];
    let header_len = Ipv4::new(bytes).map_or(0, |header| header.header_len());
    let mut rest = bytes.get(Ipv4::LEN..header_len).unwrap_or_default();
    loop {
        rest = match rest {
            [] | [END, ..] => return Verdict::Route,
            [NO_OPERATION, after @ ..] => after,
            [kind, ..] if SOURCE_ROUTES.contains(kind) => {
                return Verdict::Drop(DropReason::Prohibited);
            }
            [_, len, ..] if *len >= 2 && usize::from(*len) <= rest.len() => {
                &rest[usize::from(*len)..]
            }
            _ => return Verdict::Drop(DropReason::BadHeaderLength),
        };
    }
}

/// Judges the IPv6 packet at the start of `bytes` (RFC 8200 section 3, RFC 4291 sections 2.5.2,
/// 2.5.3, 2.5.5.2, 2.5.6 and 2.7). Sources that are never forwarded but may be received are left
/// to [`forwardable_source`].
#[inline]
pub(super) fn ipv6(bytes: &[u8]) -> Verdict {
    let Some(header) = Ipv6::new(bytes) else { return Verdict::Drop(DropReason::Truncated) };
    if header.version() != 6 {
        return Verdict::Drop(DropReason::BadVersion);
    }
    let has_hop_by_hop = header.next_header() == protocol::HOP_BY_HOP;
    // RFC 2675: the payload length of a jumbogram is zero, its hop-by-hop option has the real one.
    if Ipv6::LEN + header.payload_len() > bytes.len() {
        return Verdict::Drop(DropReason::BadTotalLength);
    }
    // Global unicast, 2000::/3, is plain.
    if bytes[8] >> 5 == 1 && bytes[24] >> 5 == 1 && !has_hop_by_hop {
        return Verdict::Route;
    }
    let (source, destination) = (header.source(), header.destination());
    if source.is_multicast() || source.is_loopback() || source.to_ipv4_mapped().is_some() {
        return Verdict::Drop(DropReason::MartianSource);
    }
    if destination.is_loopback() || destination.is_unspecified() {
        return Verdict::Drop(DropReason::MartianDestination);
    }
    if destination.is_multicast() || destination.is_unicast_link_local() {
        return Verdict::Kernel;
    }
    if has_hop_by_hop { Verdict::Options } else { Verdict::Route }
}

/// What becomes of an IPv6 packet that is not for the router itself, by its source address:
/// unspecified ones are dropped (RFC 4291 section 2.5.2), link-local ones must not leave their
/// link (section 2.5.6), which the kernel tells their senders (RFC 4443 section 3.1 code 2).
#[inline]
pub(super) fn forwardable_source(bytes: &[u8]) -> Verdict {
    if bytes[8] >> 5 == 1 {
        return Verdict::Route;
    }
    let source = Ipv6::new(bytes).map_or(Ipv6Addr::UNSPECIFIED, |header| header.source());
    if source.is_unspecified() {
        Verdict::Drop(DropReason::MartianSource)
    } else if source.is_unicast_link_local() {
        Verdict::Kernel
    } else {
        Verdict::Route
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; Ipv4::LEN];
        bytes[0] = 0x40 | ((Ipv4::LEN + options.len()) / 4) as u8;
        bytes.extend(options);
        bytes
    }

    #[test]
    fn options_pass_but_source_routes_and_broken_ones_do_not() {
        let judged = |bytes: &[u8]| options(&header(bytes));
        assert_eq!(judged(&[1, 1, 1, 1]), Verdict::Route);
        // Router alert; a timestamp; an unknown one behind which the list ends.
        assert_eq!(judged(&[148, 4, 0, 0]), Verdict::Route);
        assert_eq!(judged(&[68, 8, 5, 0, 0, 0, 0, 0]), Verdict::Route);
        assert_eq!(judged(&[200, 3, 0, 0, 131, 4, 0, 0]), Verdict::Route);
        for kind in [131, 137] {
            assert_eq!(
                judged(&[1, kind, 7, 4, 10, 0, 0, 1]),
                Verdict::Drop(DropReason::Prohibited)
            );
        }
        for broken in [[200, 1, 0, 0], [200, 5, 0, 0], [1, 1, 1, 200]] {
            assert_eq!(judged(&broken), Verdict::Drop(DropReason::BadHeaderLength));
        }
    }

    proptest! {
        /// Whatever the bytes are, there is an answer.
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let verdict = options(&bytes);
            prop_assert!(matches!(verdict, Verdict::Route | Verdict::Drop(_)));
        }
    }
}

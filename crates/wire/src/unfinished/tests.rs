//! Checksums that Linux leaves to the hardware, finished.

use proptest::prelude::*;

use super::*;
use crate::Template;

const FAMILIES: [(&str, &str); 2] =
    [("192.0.2.1:1000", "198.51.100.7:53"), ("[2001:db8::1]:1000", "[2001:db8:7::2]:53")];

fn template(family: usize) -> Template {
    let (source, destination) = FAMILIES[family];
    Template::udp(source.parse().expect("an address"), destination.parse().expect("an address"))
}

/// A frame with a TCP segment of `payload`, whose checksum is right.
fn tcp(template: &Template, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 20];
    segment[..4].copy_from_slice(&[0, 80, 0x12, 0x34]);
    segment[12] = 0x50;
    segment.extend_from_slice(payload);
    let sum = template.pseudo_header(protocol::TCP, segment.len()).bytes(&segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    template.to_ip_frame(protocol::TCP, &segment)
}

/// The frame as Linux leaves it: the pseudo-header's sum in the field at `field` of the payload.
fn unfinished_frame(template: &Template, frame: &[u8], proto: u8, field: usize) -> Vec<u8> {
    let at = template.ip_payload_offset();
    let sum = template.pseudo_header(proto, frame.len() - at).fold();
    let mut frame = frame.to_vec();
    frame[at + field..at + field + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A TCP and a UDP frame with `payload`, whole and as Linux leaves them, each with `padding` bytes behind.
fn pairs(template: &Template, payload: &[u8], padding: usize) -> [(Vec<u8>, Vec<u8>); 2] {
    [(tcp(template, payload), protocol::TCP, 16), (template.to_frame(payload), protocol::UDP, 6)]
        .map(|(mut whole, proto, field)| {
            let mut part = unfinished_frame(template, &whole, proto, field);
            whole.resize(whole.len() + padding, 0xee);
            part.resize(part.len() + padding, 0xee);
            (whole, part)
        })
}

/// Whether finishing leaves `whole` alone and makes `part` whole.
fn assert_finished(part: &[u8], whole: &[u8]) {
    let mut frame = part.to_vec();
    assert!(finish_checksums(&mut frame));
    assert_eq!(frame, whole);
    let mut frame = whole.to_vec();
    finish_checksums(&mut frame);
    assert_eq!(frame, whole, "a finished frame was changed");
}

proptest! {
    #[test]
    fn tcp_and_udp_are_finished_in_both_families_and_behind_tags(
        payload in proptest::collection::vec(any::<u8>(), 0..1500),
        family in 0usize..2,
        tag in proptest::option::of(any::<u16>()),
        padding in 0usize..8,
    ) {
        let template = Template { tag, ..template(family) };
        for (whole, part) in pairs(&template, &payload, padding) {
            assert_finished(&part, &whole);
        }
    }

    /// What hardware makes of the place equals what is computed here, or it is not told.
    #[test]
    fn the_place_that_is_told_gives_the_same_checksum(
        payload in proptest::collection::vec(any::<u8>(), 0..1500),
        family in 0usize..2,
        tag in proptest::option::of(any::<u16>()),
        padding in 0usize..3,
    ) {
        let template = Template { tag, ..template(family) };
        for (whole, mut part) in pairs(&template, &payload, padding) {
            let Some(place) = unfinished(&part) else {
                prop_assert!(padding > 0, "not found");
                continue;
            };
            prop_assert_eq!(padding, 0);
            let (start, at) = (usize::from(place.start), usize::from(place.start + place.field));
            let sum = checksum::of(&part[start..]);
            let sum = if sum == 0 { 0xffff } else { sum };
            part[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            // Zero and all ones are the same sum; senders of TCP may write either.
            if u16_at(&whole, at) != 0 {
                prop_assert_eq!(&part, &whole);
            }
        }
    }

    #[test]
    fn no_bytes_upset_it(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8100), any::<u16>()],
        proto in prop_oneof![Just(4u8), Just(6), Just(17), Just(41), Just(47), Just(132), any::<u8>()],
    ) {
        if bytes.len() > 24 {
            bytes[12..14].copy_from_slice(&kind.to_be_bytes());
            bytes[14] = if kind == 0x0800 { 0x45 } else { 0x60 };
            bytes[if kind == 0x0800 { 23 } else { 20 }] = proto;
        }
        if let Some(place) = unfinished(&bytes) {
            prop_assert!(usize::from(place.start + place.field) + 2 <= bytes.len());
        }
        let _ = finish_checksums(&mut bytes);
    }
}

/// Also one whose right checksum happens to be the pseudo-header's sum, and one that comes to
/// zero: two bytes of the payload are chosen so.
#[test]
fn what_is_right_by_chance_stays() {
    for family in 0..2 {
        let template = template(family);
        let at = template.udp_payload_offset();
        let pseudo = template.pseudo_header(protocol::UDP, 18).fold();
        for wanted in [pseudo, 0xffff] {
            let found = (0..=u16::MAX).find_map(|word| {
                let frame = template.to_frame(&[&word.to_be_bytes()[..], b"the rest"].concat());
                (u16_at(&frame, at - 2) == wanted).then_some(frame)
            });
            let whole = found.expect("one of all words");
            assert_finished(&unfinished_frame(&template, &whole, protocol::UDP, 6), &whole);
        }
    }
}

#[test]
fn a_datagram_without_checksum_and_a_wrong_one_stay() {
    for family in 0..2 {
        let template = template(family);
        for sum in [0, 0x1234] {
            let mut frame = template.to_frame(b"query");
            let at = template.udp_payload_offset();
            frame[at - 2..at].copy_from_slice(&u16::to_be_bytes(sum));
            let before = frame.clone();
            assert!(!finish_checksums(&mut frame));
            assert_eq!(frame, before);
        }
    }
}

#[test]
fn fragments_stay() {
    let template = template(0);
    let mut frame = unfinished_frame(&template, &template.to_frame(b"first"), protocol::UDP, 6);
    frame[20] = 0x20;
    assert_eq!(unfinished(&frame), None);
    assert!(!finish_checksums(&mut frame));
}

/// What an inner frame of UDP looks like whole and unfinished.
fn inner() -> (Vec<u8>, Vec<u8>) {
    let template = template(0);
    let whole = tcp(&template, b"some payload of odd length.");
    let part = unfinished_frame(&template, &whole, protocol::TCP, 16);
    (whole, part)
}

#[test]
fn tunnels_are_looked_into() {
    let (whole, part) = inner();
    let outer = template(1);
    let wrap =
        |proto: u8, head: &[u8], body: &[u8]| outer.to_ip_frame(proto, &[head, body].concat());
    let gre: &[u8] = &[0x20, 0, 0x08, 0x00, 1, 2, 3, 4];
    let bridged: &[u8] = &[0, 0, 0x65, 0x58];
    for (proto, head, skipped) in
        [(protocol::IPV4, &[][..], 14), (protocol::GRE, gre, 14), (protocol::GRE, bridged, 0)]
    {
        assert_eq!(unfinished(&wrap(proto, head, &part[skipped..])), None);
        assert_finished(
            &wrap(proto, head, &part[skipped..]),
            &wrap(proto, head, &whole[skipped..]),
        );
    }
    let vxlan: &[u8] = &[8, 0, 0, 0, 0, 0, 7, 0];
    let geneve: &[u8] = &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 0, 0, 0];
    for (port, head) in [(4789, vxlan), (8472, vxlan), (6081, geneve)] {
        let mut outer = outer.clone();
        outer.destination.set_port(port);
        let right = outer.to_frame(&[head, &whole].concat());
        // The outer checksum was computed for the finished payload (`lco_csum`).
        let mut left = outer.to_frame(&[head, &part].concat());
        let at = outer.udp_payload_offset();
        left[at - 2..at].copy_from_slice(&right[at - 2..at]);
        assert_eq!(unfinished(&left), None);
        assert_finished(&left, &right);
    }
}

#[test]
fn extension_headers_are_walked_and_the_last_segment_counts() {
    let last: std::net::Ipv6Addr = "2001:db8:9::9".parse().expect("an address");
    let payload = b"over segments";
    for kind in [0u8, 4] {
        let mut routing = vec![protocol::UDP, 4, kind, 1, 0, 0, 0, 0];
        let other = [0xaa; 16];
        let segments = if kind == 4 { [last.octets(), other] } else { [other, last.octets()] };
        routing.extend(segments.concat());
        let mut to_last = template(1);
        to_last.destination.set_ip(last.into());
        let datagram = to_last.to_frame(payload)[to_last.ip_payload_offset()..].to_vec();
        let mut options = vec![protocol::ROUTING, 0, 1, 4, 0, 0, 0, 0];
        options.extend(&routing);
        let frame = |datagram: &[u8]| {
            let body = [&options[..], datagram].concat();
            template(1).to_ip_frame(protocol::DESTINATION_OPTIONS, &body)
        };
        let mut part = datagram.clone();
        let sum = to_last.pseudo_header(protocol::UDP, datagram.len()).fold();
        part[6..8].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(unfinished(&frame(&part)), None);
        assert_finished(&frame(&part), &frame(&datagram));
    }
}

#[test]
fn sctp_gets_its_crc() {
    // The usual check value of CRC-32C.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    let template = template(0);
    let mut packet = [&[0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0][..], b"chunk"].concat();
    let part = template.to_ip_frame(protocol::SCTP, &packet);
    let sum = crc32c::crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    assert_finished(&part, &template.to_ip_frame(protocol::SCTP, &packet));
}

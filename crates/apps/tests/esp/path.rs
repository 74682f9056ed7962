//! What is too long for the way to the peer: requests of routers on it, pieces, and who may cut what is sealed.

use ebb_apps::esp::{DontFragment, Tunnel};
use ebb_graph::DropReason;
use ebb_wire::{Ipv4, Template, checksum};

use crate::harness::{self, IN, Left, SENDER_MAC, ip, own_mac};
use crate::{End, Kind, NEAR, PLAIN, carried, inner, sized, tunnel};

/// An ICMP error of a router on the way about a sealed packet, as it comes to the tunnel's end.
fn asks_for(mtu: u16, sealed: &[u8]) -> Vec<u8> {
    let mut frame = Template::udp((ip("203.0.113.99"), 1).into(), (ip(NEAR), 1).into());
    (frame.source_mac, frame.destination_mac) = (SENDER_MAC, own_mac(IN));
    let mut frame = frame.to_frame(&[0; 60]);
    frame[23] = 1;
    frame[34..38].copy_from_slice(&[3, 4, 0, 0]);
    frame[38..40].fill(0);
    frame[40..42].copy_from_slice(&mtu.to_be_bytes());
    let quoted = sealed.len().min(frame.len() - 28) - 14;
    frame[42..42 + quoted].copy_from_slice(&sealed[14..14 + quoted]);
    let sum = checksum::of(&frame[34..]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn what_routers_on_the_way_ask_for_is_asked_of_senders() {
    for kind in [PLAIN, Kind { udp: true, ..PLAIN }] {
        let mut near = End::new(kind, true);
        let sealed = near.pass(&sized(true, 1300));
        let mut forged = asks_for(1200, &sealed);
        let spi_at = if kind.udp { 28 + 14 + 28 } else { 28 + 14 + 20 };
        forged[spi_at] ^= 1;
        near.router.send(&[forged, asks_for(1300, &sealed)]);
        near.router.send(&[asks_for(1400, &sealed)]);
        let left = near.router.send(&[sized(true, 1300)]);
        let [Left::Sent(0, error)] = &left[..] else { panic!("{left:?}") };
        let room = if kind.udp { 1238 } else { 1246 };
        let told = harness::describe(error);
        assert!(told.contains(&format!("code 4 parameter {room}")), "{told}");
        near.router.wait(600_000_000_000);
        near.pass(&sized(true, 1300));
    }
}

#[test]
fn what_may_be_cut_goes_in_pieces() {
    let (mut near, mut far) = (End::new(PLAIN, true), End::new(PLAIN, false));
    let frame = sized(false, 1460);
    near.router.pieces += 1;
    let left = near.router.send(std::slice::from_ref(&frame));
    let pieces: Vec<Vec<u8>> = left
        .iter()
        .map(|left| match left {
            Left::Sent(1, sealed) => far.pass(&carried(sealed)),
            left => panic!("{left:?}"),
        })
        .collect();
    assert_eq!(pieces.len(), 2);
    assert_eq!((near.count("cut_packets"), near.count("sealed_packets")), (1, 2));
    let mut whole = Vec::new();
    for piece in &pieces {
        let header = Ipv4::new(&piece[14..]).expect("a header");
        assert!(header.checksum_ok() && header.is_fragment());
        assert_eq!(usize::from(header.fragment_offset()) * 8, whole.len());
        whole.extend_from_slice(header.payload());
    }
    assert_eq!(whole, frame[34..]);
}

/// RFC 4301 section 8.1.
#[test]
fn whether_it_may_be_cut_is_copied_or_as_configured() {
    for (df, expected) in [
        (DontFragment::Copy, [false, true, true]),
        (DontFragment::Set, [true, true, true]),
        (DontFragment::Clear, [false, false, false]),
    ] {
        let mut near = End::of(&[Tunnel { df, ..tunnel(PLAIN, true) }]);
        for (frame, expected) in
            [sized(false, 100), sized(true, 100), inner(true, &[1; 1300])].iter().zip(expected)
        {
            let sealed = near.pass(frame);
            let header = Ipv4::new(&sealed[14..]).expect("a header");
            assert!(header.checksum_ok());
            assert_eq!(header.dont_fragment(), expected, "{df:?}");
        }
    }
}

/// By the router's own link, of which no ICMP error tells.
#[test]
fn a_short_link_teaches_what_passes() {
    let mut near = End::new(PLAIN, true);
    let narrow = ebb_apps::route::Interface { mtu: 1300, ..harness::interface(harness::OUT, true) };
    near.router.writer.set_interface(harness::OUT, narrow);
    near.router.writer.publish();
    let frame = sized(true, 1300);
    let left = near.router.send(std::slice::from_ref(&frame));
    assert_eq!(left, [Left::Dropped(DropReason::PacketTooBig)]);
    let left = near.router.send(&[frame]);
    assert!(
        matches!(&left[..], [Left::Sent(0, error)] if harness::describe(error).contains("parameter 1246")),
        "{left:?}"
    );
}

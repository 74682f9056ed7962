//! When errors are not sent, what they quote, and how many there are.

use ebb_apps::route::{IcmpPerHost, RouteLimits};
use ebb_graph::DropReason;
use ebb_wire::{link, protocol};

use crate::harness::{Left, Router, outcome, template};

fn ttl_1(destination: &str, proto: u8, payload: &[u8]) -> Vec<u8> {
    let mut template = template(destination);
    template.ttl = 1;
    template.to_ip_frame(proto, payload)
}

#[test]
fn no_errors_about_errors() {
    let mut router = Router::new();
    let expired = [Left::Dropped(DropReason::TtlExpired)];
    for kind in [3, 4, 5, 11, 12] {
        let frame = ttl_1("203.0.113.5", protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(router.send(&[frame]), expired, "type {kind}");
    }
    for kind in [1, 2, 3, 4, 127, 137] {
        let frame = ttl_1("2001:db8:100::5", protocol::ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(router.send(&[frame]), expired, "type {kind}");
    }
    for (destination, proto, kind) in
        [("203.0.113.5", protocol::ICMP, 8), ("2001:db8:100::5", protocol::ICMPV6, 128)]
    {
        let left = router.send(&[ttl_1(destination, proto, &[kind, 0, 0, 0, 0, 0, 0, 0])]);
        assert!(matches!(left[..], [Left::Sent(0, _)]), "an echo request is no error");
    }
    for (destination, proto, kind) in
        [("203.0.113.5", protocol::ICMP, 8), ("2001:db8:100::5", protocol::ICMPV6, 128)]
    {
        let mut cut = ttl_1(destination, proto, &[]);
        assert_eq!(router.send(&[cut.clone()]), expired, "no type to be seen");
        cut.push(kind);
        assert_eq!(router.send(&[cut]), expired, "padding is no type");
    }
}

#[test]
fn no_errors_about_later_fragments() {
    let mut router = Router::new();
    let mut frame = ttl_1("203.0.113.5", protocol::UDP, &[0; 16]);
    let patch = |frame: &mut Vec<u8>, flags: [u8; 2]| {
        frame[20..22].copy_from_slice(&flags);
        frame[24..26].fill(0);
        let sum = ebb_wire::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    patch(&mut frame, [0x20, 0]);
    assert!(matches!(router.send(&[frame.clone()])[..], [Left::Sent(0, _)]), "the first");
    patch(&mut frame, [0, 3]);
    assert_eq!(router.send(&[frame]), [Left::Dropped(DropReason::TtlExpired)], "a later one");
}

#[test]
fn no_errors_to_nobody() {
    let mut router = Router::new();
    for source in ["8.8.8.8:1", "192.0.2.255:1", "192.0.2.1:1"] {
        let mut template = template("203.0.113.5");
        template.source = source.parse().expect("an address");
        template.ttl = 1;
        let left = router.send(&[template.to_frame(b"")]);
        assert_eq!(left, [Left::Dropped(DropReason::TtlExpired)], "{source}");
    }
}

#[test]
fn errors_quote_the_packet_unchanged_and_cut() {
    let mut router = Router::new();
    for (destination, payload, front, total_max) in [
        ("8.8.8.8", 40, 28, 576),
        ("8.8.8.8", 1400, 28, 576),
        ("2001:db8:ffff::1", 40, 48, 1280),
        ("2001:db8:ffff::1", 1400, 48, 1280),
    ] {
        for tag in [None, Some(0)] {
            let mut template = template(destination);
            template.tag = tag;
            template.tos = 0x48;
            let mut frame = template.to_frame(&vec![0x5a; payload]);
            let l3 = link(&frame).expect("a header").payload;
            let packet = frame[l3..].to_vec();
            frame.extend_from_slice(b"padding");
            let left = router.send(&[frame]);
            let [Left::Sent(0, error)] = &left[..] else { panic!("{left:?}") };
            let quoted = &error[14 + front..];
            assert_eq!(quoted, &packet[..packet.len().min(total_max - front)]);
            assert!(outcome(&left[0]).contains("icmp"), "right checksums");
        }
    }
}

/// An error behind more extension headers than are walked is still one (RFC 4443 section 2.4(e.1)).
#[test]
fn no_errors_about_what_may_be_an_error() {
    for (headers, kind, answered) in [(1, 128, true), (1, 1, false), (9, 1, false), (9, 128, false)]
    {
        let mut payload = Vec::new();
        for left in (0..headers).rev() {
            let next = if left == 0 { protocol::ICMPV6 } else { protocol::DESTINATION_OPTIONS };
            // Padding of 4 bytes, RFC 8200 section 4.2.
            payload.extend_from_slice(&[next, 0, 1, 4, 0, 0, 0, 0]);
        }
        payload.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        let frame = ttl_1("2001:db8:100::5", protocol::DESTINATION_OPTIONS, &payload);
        let left = Router::new().send(&[frame]);
        let sent = matches!(left[..], [Left::Sent(0, _)]);
        assert_eq!(sent, answered, "{headers} headers, type {kind}: {left:?}");
    }
}

/// Senders of expired packets, more of them than there are errors to send, take no "fragmentation
/// needed" from anybody.
#[test]
fn what_asks_for_smaller_packets_is_not_starved() {
    let (icmp_v4, icmp_v6) = (IcmpPerHost::LINUX_V4, IcmpPerHost::LINUX_V6);
    let limits = RouteLimits { icmp_v4, icmp_v6, ..RouteLimits::default() };
    let mut router = Router::with(&limits);
    let is_sent = |left: &Left| matches!(left, Left::Sent(..));
    let flood: Vec<_> = (0..40).map(|_| ttl_1("203.0.113.5", protocol::UDP, &[0; 8])).collect();
    let flooded = (0..10).flat_map(|_| router.send(&flood));
    let errors = flooded.filter(is_sent).count();
    assert_eq!(errors, 6, "one host has its own share");
    for destination in ["10.100.0.1", "2001:db8:107::1"] {
        let mut template = template(destination);
        template.dont_fragment = true;
        let left = router.send(&vec![template.to_frame(&vec![0; 1440]); 50]);
        assert!(left.iter().all(is_sent), "{destination}: {left:?}");
    }
}

#[test]
fn errors_are_limited_by_rate() {
    let limits = RouteLimits { icmp_rate_pps: 10, icmp_burst: 4, ..RouteLimits::default() };
    let mut router = Router::with(&limits);
    let frames: Vec<_> = (0..20).map(|_| ttl_1("203.0.113.5", protocol::UDP, &[0; 8])).collect();
    let sent = |left: Vec<Left>| left.iter().filter(|left| matches!(left, Left::Sent(..))).count();
    assert_eq!(sent(router.send(&frames)), 4);
    router.wait(200_000_000);
    assert_eq!(sent(router.send(&frames)), 2);
    assert_eq!(router.counters.icmp_suppressed(), 34);
    let in_place = router.counters.dropped_in_place();
    assert_eq!(in_place[DropReason::TtlExpired as usize], 6);
}

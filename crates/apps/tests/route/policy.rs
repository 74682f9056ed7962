//! Reverse-path filters, and routes with an MTU of their own.

use std::collections::BTreeMap;

use ebb_apps::route::{Path, ReversePath, Target};
use ebb_graph::DropReason;

use crate::harness::{IN, Left, OUT, Router, TAGGED, ip, outcome, set, template};

fn from(source: &str, destination: &str) -> Vec<u8> {
    let mut template = template(destination);
    template.source.set_ip(ip(source));
    template.to_frame(b"data")
}

fn filtered(mode: ReversePath) -> Router {
    let mut router = Router::new();
    router.writer.set_reverse_paths(BTreeMap::from([(IN, mode)]));
    let ways = [(OUT, "198.51.100.2"), (TAGGED, "10.7.0.2")];
    let path = |(interface, gateway): (_, &str)| Path {
        interface,
        gateway: Some(ip(gateway)),
        weight: 1,
        mtu: None,
    };
    set(&mut router.writer, "10.200.0.0/16", &Target::Paths(ways.map(path).to_vec()));
    let here = [path((OUT, "198.51.100.2")), path((IN, "192.0.2.9"))];
    set(&mut router.writer, "10.201.0.0/16", &Target::Paths(here.to_vec()));
    router.writer.publish();
    router
}

#[test]
fn sources_are_filtered_as_the_interface_wants() {
    const GONE: Left = Left::Dropped(DropReason::ReversePath);
    // Source, then whether it passes without a filter, a loose one, a strict one.
    let rows = [
        ("192.0.2.9", true, true),
        ("203.0.113.9", true, false),
        ("10.200.0.1", true, false),
        ("10.201.0.1", true, true),
        ("10.250.0.1", false, false),
        ("10.66.0.1", false, false),
    ];
    for (source, loose, strict) in rows {
        for (mode, passes) in
            [(ReversePath::Off, true), (ReversePath::Loose, loose), (ReversePath::Strict, strict)]
        {
            let mut router = filtered(mode);
            let left = router.send(&[from(source, "203.0.113.5")]);
            match passes {
                true => assert!(matches!(left[..], [Left::Sent(1, _)]), "{source} {mode:?}"),
                false => assert_eq!(left, [GONE], "{source} {mode:?}"),
            }
        }
    }
}

#[test]
fn filters_leave_alone_what_they_do_not_concern() {
    let mut router = filtered(ReversePath::Strict);
    // Good and bad in one batch, IPv6 among them, which has no filter.
    let frames = [
        from("10.250.0.1", "203.0.113.5"),
        template("2001:db8:100::5").to_frame(b"data"),
        from("192.0.2.9", "203.0.113.5"),
        from("203.0.113.9", "203.0.113.5"),
    ];
    let left = router.send(&frames);
    assert_eq!(left.iter().filter(|left| matches!(left, Left::Sent(..))).count(), 2, "{left:?}");
    // A destination that is not reached is told so whatever the source (`ip_route_input_slow`).
    let left = router.send(&[from("203.0.113.9", "10.67.0.1")]);
    assert!(outcome(&left[0]).contains("icmp type 3 code 1"), "{left:?}");
    // Own addresses and routes that only the kernel understands: it judges.
    let left = router.send(&[from("192.0.2.1", "203.0.113.5")]);
    assert!(matches!(left[..], [Left::Kernel(_)]), "{left:?}");
    // Another interface has no filter.
    router.writer.set_reverse_paths(BTreeMap::from([(OUT, ReversePath::Strict)]));
    router.writer.publish();
    let left = router.send(&[from("10.250.0.1", "203.0.113.5")]);
    assert!(matches!(left[..], [Left::Sent(..)]), "{left:?}");
}

#[test]
fn a_routes_mtu_holds_beside_its_neighbours() {
    let mut router = Router::new();
    let path = |mtu| Path { interface: OUT, gateway: Some(ip("198.51.100.2")), weight: 1, mtu };
    set(&mut router.writer, "10.210.0.0/16", &Target::Paths(vec![path(Some(1000))]));
    set(&mut router.writer, "10.211.0.0/16", &Target::Paths(vec![path(Some(9000))]));
    router.writer.publish();
    let sized = |destination: &str, size: usize| {
        let mut frame = template(destination).to_frame(&vec![0; size - 28]);
        // Not to be fragmented.
        frame[20] |= 0x40;
        frame[24..26].fill(0);
        let sum = ebb_wire::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let mut fate = |destination: &str, size| outcome(&router.send(&[sized(destination, size)])[0]);
    assert!(fate("10.210.0.1", 1000).starts_with("port 1"));
    assert!(fate("10.210.0.1", 1001).contains("icmp type 3 code 4 parameter 1000"));
    assert!(fate("10.211.0.1", 1500).starts_with("port 1"));
    assert!(fate("10.211.0.1", 1501).contains("parameter 1500"), "the link's MTU bounds it");
    assert!(fate("203.0.113.5", 1500).starts_with("port 1"), "other routes there are as before");
    // All follow the neighbour.
    router.writer.set_neighbour(OUT, ip("198.51.100.2"), [2, 0, 0, 0, 0, 0x77]);
    router.writer.publish();
    let left = router.send(&[sized("10.210.0.1", 900)]);
    let Left::Sent(1, frame) = &left[0] else { panic!("{left:?}") };
    assert_eq!(frame[..6], [2, 0, 0, 0, 0, 0x77]);
    router.writer.remove_route("10.210.0.0/16".parse().unwrap());
    router.writer.set_neighbour(OUT, ip("198.51.100.2"), [2, 0, 0, 0, 0, 0x78]);
}

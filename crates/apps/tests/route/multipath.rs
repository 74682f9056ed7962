//! Several paths for one prefix.

use std::collections::BTreeMap;

use ebb_apps::route::{Decision, FibError, InterfaceId, Path, Target};

use crate::harness::{
    GATEWAY_MAC, IN, Left, OUT, Router, TAGGED, interface, ip, net, set, template,
};

fn path(interface: InterfaceId, gateway: &str, weight: u16) -> Path {
    Path { interface, gateway: Some(ip(gateway)), weight, mtu: None }
}

/// Destination MAC address by source port, for 1000 flows.
fn spread(router: &mut Router) -> BTreeMap<u16, [u8; 6]> {
    let mut spread = BTreeMap::new();
    for port in 0..1000u16 {
        let mut template = template("10.200.0.1");
        template.source.set_port(port);
        for left in router.send(&[template.to_frame(&port.to_be_bytes())]) {
            let Left::Sent(_, frame) = left else { panic!("{left:?}") };
            spread.insert(port, *frame.first_chunk().expect("a MAC address"));
        }
    }
    spread
}

fn share(spread: &BTreeMap<u16, [u8; 6]>, mac: [u8; 6]) -> usize {
    spread.values().filter(|own| **own == mac).count()
}

#[test]
fn flows_are_shared_by_weight_and_stay() {
    let mut router = Router::new();
    let tagged = [2, 0xaa, 0, 0, 0, 7];
    let paths = vec![path(OUT, "198.51.100.2", 3), path(TAGGED, "10.7.0.2", 1)];
    set(&mut router.writer, "10.200.0.0/16", &Target::Paths(paths));
    let first = spread(&mut router);
    assert!((700..800).contains(&share(&first, GATEWAY_MAC)), "{}", share(&first, GATEWAY_MAC));
    assert_eq!(share(&first, GATEWAY_MAC) + share(&first, tagged), 1000);
    assert_eq!(spread(&mut router), first, "a flow keeps its path");
    match router.writer.lookup(ip("10.200.0.1")) {
        Decision::Balance(paths) => {
            assert_eq!(paths.iter().map(|(_, buckets)| *buckets).collect::<Vec<_>>(), [96, 32]);
        }
        other => panic!("{other:?}"),
    }
    router.writer.set_interface(OUT, interface(OUT, false));
    router.writer.publish();
    assert_eq!(share(&spread(&mut router), tagged), 1000, "a path that is down is skipped");
    router.writer.set_interface(TAGGED, interface(TAGGED, false));
    router.writer.publish();
    assert_eq!(
        router.writer.lookup(ip("10.200.0.1")),
        Decision::Balance(vec![(Decision::Down, 128)])
    );
    router.writer.set_interface(OUT, interface(OUT, true));
    router.writer.set_interface(TAGGED, interface(TAGGED, true));
    router.writer.publish();
    assert_eq!(spread(&mut router), first, "the paths are back");
}

#[test]
fn flows_of_other_paths_stay_when_one_goes_down() {
    let mut router = Router::new();
    for (index, gateway) in ["192.0.2.21", "198.51.100.21", "10.7.0.21"].iter().enumerate() {
        router.writer.set_neighbour(
            [IN, OUT, TAGGED][index],
            ip(gateway),
            [2, 0xbb, 0, 0, 0, index as u8],
        );
    }
    let paths = vec![
        path(IN, "192.0.2.21", 1),
        path(OUT, "198.51.100.21", 1),
        path(TAGGED, "10.7.0.21", 1),
    ];
    set(&mut router.writer, "10.200.0.0/16", &Target::Paths(paths));
    let before = spread(&mut router);
    router.writer.set_interface(TAGGED, interface(TAGGED, false));
    router.writer.publish();
    let after = spread(&mut router);
    for (port, mac) in &before {
        assert!(mac[5] == 2 || after[port] == *mac, "flow {port} moved without need");
    }
    for mac in 0..2 {
        let share = share(&after, [2, 0xbb, 0, 0, 0, mac]);
        assert!((430..570).contains(&share), "path {mac} has {share}");
    }
}

#[test]
fn next_hops_are_shared_and_used_again() {
    let mut router = Router::new();
    assert_eq!(
        router.writer.set_route(net("10.200.0.0/16"), &Target::Paths(vec![])),
        Err(FibError::NoPaths)
    );
    let routes = router.writer.routes();
    for round in 0..200_000u32 {
        let gateway = std::net::Ipv4Addr::from(0x0a07_0000 | (round % 60_000)).into();
        let target = Target::Paths(vec![
            Path { interface: TAGGED, gateway: Some(gateway), weight: 1, mtu: None },
            path(OUT, "198.51.100.2", 1),
        ]);
        router.writer.set_route(net("10.200.0.0/16"), &target).expect("numbers are used again");
    }
    assert_eq!(router.writer.routes(), routes + 1);
    assert!(router.writer.remove_route(net("10.200.0.0/16")));
    assert!(!router.writer.remove_route(net("10.200.0.0/16")));
    assert_eq!(router.writer.lookup(ip("10.200.0.1")), Decision::NoRoute);
}

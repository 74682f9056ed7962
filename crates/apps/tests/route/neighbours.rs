//! Resolution: waiting, order, bounds, and host entries beside routes.

use ebb_apps::route::{Decision, RouteLimits, Target};
use ebb_graph::DropReason;

use crate::harness::{
    GATEWAY_MAC, IN, Left, OUT, Router, TAGGED, interface, ip, net, outcome, set, template,
};

const MAC: [u8; 6] = [2, 0xcc, 0, 0, 0, 1];

fn numbered(destination: &str, numbers: std::ops::Range<u8>) -> Vec<Vec<u8>> {
    numbers.map(|number| template(destination).to_frame(&[number])).collect()
}

fn numbers(left: &[Left]) -> Vec<u8> {
    left.iter()
        .map(|left| match left {
            Left::Sent(_, frame) => *frame.last().expect("a payload"),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn packets_wait_and_leave_in_order() {
    let mut router = Router::new();
    for destination in ["198.51.100.77", "2001:db8:2::77"] {
        assert!(router.send(&numbered(destination, 0..3)).is_empty());
        assert!(router.send(&numbered(destination, 3..5)).is_empty());
        assert_eq!(router.counters.held(), 5);
        assert_eq!(router.requests.pop(), Some((OUT, ip(destination))));
        assert_eq!(router.requests.pop(), None, "asked once");
        router.writer.set_neighbour(OUT, ip(destination), MAC);
        let left = router.send(&numbered(destination, 5..8));
        assert_eq!(numbers(&left), [0, 1, 2, 3, 4, 5, 6, 7], "not even before publish()");
        router.writer.publish();
        assert_eq!(router.counters.held(), 0);
    }
}

#[test]
fn waiting_ends_without_further_packets() {
    let mut router = Router::new();
    set(&mut router.writer, "10.201.0.0/16", &Target::via(OUT, ip("198.51.100.88")));
    assert!(router.send(&numbered("10.201.0.1", 0..2)).is_empty());
    assert!(router.send(&numbered("10.201.7.7", 2..4)).is_empty());
    assert_eq!(router.requests.pop(), Some((OUT, ip("198.51.100.88"))));
    let due = router.graph.poll_at().expect("a look is due");
    assert!(due - router.now <= std::time::Duration::from_millis(1));
    assert!(router.wait(1_000_000).is_empty());
    router.writer.set_neighbour(OUT, ip("198.51.100.88"), MAC);
    router.writer.publish();
    assert_eq!(numbers(&router.wait(1_000_000)), [0, 1, 2, 3]);
    assert_eq!(router.graph.poll_at(), None, "nothing left to look at");
}

#[test]
fn the_silent_neighbours_packets_come_back_as_errors() {
    let mut router = Router::new();
    for (destination, code) in
        [("198.51.100.77", "type 3 code 1"), ("2001:db8:2::77", "type 1 code 3")]
    {
        assert!(router.send(&numbered(destination, 0..3)).is_empty());
        assert!(router.wait(1_100_000_000).is_empty());
        assert_eq!(router.requests.pop(), Some((OUT, ip(destination))));
        assert_eq!(router.requests.pop(), Some((OUT, ip(destination))), "asked again");
        let left = router.wait(2_000_000_000);
        assert_eq!(left.len(), 3);
        assert!(left.iter().all(|left| outcome(left).contains(code)), "{left:?}");
        while router.requests.pop().is_some() {}
    }
    let in_place = router.counters.dropped_in_place();
    assert_eq!(in_place[DropReason::NeighbourUnresolved as usize], 6);
}

#[test]
fn waiting_goes_on_in_another_workers_graph() {
    let limits = RouteLimits { hold_per_neighbour_max: 4, ..RouteLimits::default() };
    let (mut router, mut other) = (Router::with(&limits), Router::with(&limits));
    other.now = router.now;
    assert!(other.send(&numbered("198.51.100.77", 100..104)).is_empty());
    assert!(other.wait(500_000_000).is_empty());
    // Another flow to the same neighbour, between them.
    let mut frames = numbered("198.51.100.77", 0..4);
    let mut of_another = template("198.51.100.77");
    of_another.source.set_port(4001);
    (frames[1], frames[3]) = (of_another.to_frame(&[1]), of_another.to_frame(&[3]));
    assert!(router.send(&frames).is_empty());
    assert!(router.wait(1_100_000_000).is_empty());
    let another = ebb_wire::redirect_hash(&frames[1]);
    let state = router.give_up(|hash| hash == another);
    assert_eq!((state.packets(), router.counters.held()), (2, 2));
    assert!(router.give_up(|_| false).is_empty());
    // Accepted once, they are not refused where others wait already.
    other.now = router.now;
    assert!(other.take_over(state).is_empty());
    assert_eq!(other.counters.held(), 6);
    // What ends the wait by time counts from where it began.
    let left = other.wait(2_000_000_000);
    assert_eq!(left.len(), 6, "{left:?}");
    assert!(left.iter().all(|left| outcome(left).contains("type 3 code 1")), "{left:?}");
    // The last one gone, there is nothing to look at.
    let rest = router.give_up(|_| true);
    assert_eq!(rest.packets(), 2);
    assert_eq!((router.counters.held(), router.graph.poll_at()), (0, None));
    assert!(other.take_over(rest).is_empty());
}

#[test]
fn what_was_held_elsewhere_leaves_before_what_comes_here() {
    let (mut router, mut other) = (Router::new(), Router::new());
    assert!(router.send(&numbered("198.51.100.77", 0..3)).is_empty());
    let state = router.give_up(|_| true);
    assert!(other.take_over(state).is_empty());
    assert_eq!(other.requests.pop(), Some((OUT, ip("198.51.100.77"))));
    other.writer.set_neighbour(OUT, ip("198.51.100.77"), MAC);
    other.writer.publish();
    let left = other.send(&numbered("198.51.100.77", 3..5));
    assert_eq!(numbers(&left), [0, 1, 2, 3, 4]);
}

#[test]
fn waiting_is_bounded() {
    let limits =
        RouteLimits { hold_per_neighbour_max: 4, hold_total_max: 12, ..RouteLimits::default() };
    let mut router = Router::with(&limits);
    let full = Left::Dropped(DropReason::NeighbourUnresolved);
    assert_eq!(router.send(&numbered("198.51.100.70", 0..5)), std::slice::from_ref(&full));
    assert_eq!(router.send(&numbered("198.51.100.71", 0..3)), [full]);
    router.writer.set_neighbour(OUT, ip("198.51.100.70"), MAC);
    router.writer.publish();
    assert_eq!(numbers(&router.wait(1_000_000)), [0, 1, 2, 3]);
    assert_eq!(router.counters.held(), 2);
}

#[test]
fn a_gateway_changes_under_its_routes() {
    let mut router = Router::new();
    let frame = || template("203.0.113.5").to_frame(b"");
    let sent_to = |left: Vec<Left>| match &left[..] {
        [Left::Sent(1, frame)] => *frame.first_chunk::<6>().expect("a MAC address"),
        other => panic!("{other:?}"),
    };
    assert_eq!(sent_to(router.send(&[frame()])), GATEWAY_MAC);
    router.writer.set_neighbour(OUT, ip("198.51.100.2"), MAC);
    router.writer.publish();
    assert_eq!(sent_to(router.send(&[frame()])), MAC);
    router.writer.remove_neighbour(OUT, ip("198.51.100.2"));
    router.writer.publish();
    assert!(router.send(&[frame()]).is_empty(), "waits");
    router.writer.set_interface(OUT, interface(OUT, false));
    router.writer.publish();
    let left = router.wait(1_000_000);
    assert!(outcome(&left[0]).contains("icmp type 3 code 0"), "the link is down: {left:?}");
}

#[test]
fn host_entries_yield_to_routes() {
    let mut router = Router::new();
    let address = ip("198.51.100.40");
    let forward = |mac| Decision::Forward { interface: OUT, address, mac };
    let resolve = Decision::Resolve { interface: OUT, address };
    let routes = router.writer.routes();
    assert_eq!(router.writer.lookup(address), resolve);
    router.writer.set_neighbour(OUT, address, MAC);
    assert_eq!(router.writer.lookup(address), forward(MAC));
    assert_eq!(router.writer.routes(), routes, "not a route");
    assert!(!router.writer.remove_route(net("198.51.100.40/32")), "nor to be removed as one");

    set(&mut router.writer, "198.51.100.40/32", &Target::Blackhole);
    assert_eq!(router.writer.lookup(address), Decision::Blackhole);
    router.writer.set_neighbour(OUT, address, GATEWAY_MAC);
    assert_eq!(router.writer.lookup(address), Decision::Blackhole, "an explicit route wins");
    assert!(router.writer.remove_route(net("198.51.100.40/32")));
    assert_eq!(router.writer.lookup(address), forward(GATEWAY_MAC), "and gives it back");

    set(&mut router.writer, "198.51.100.32/27", &Target::Prohibit);
    assert_eq!(router.writer.lookup(address), Decision::Prohibit, "a longer route over it");
    set(&mut router.writer, "198.51.100.40/30", &Target::OnLink(TAGGED));
    assert_eq!(
        router.writer.lookup(address),
        Decision::Resolve { interface: TAGGED, address },
        "another interface's subnet"
    );
    router.writer.remove_route(net("198.51.100.40/30"));
    router.writer.remove_route(net("198.51.100.32/27"));
    assert_eq!(router.writer.lookup(address), forward(GATEWAY_MAC));

    router.writer.remove_route(net("198.51.100.0/24"));
    assert_eq!(router.writer.lookup(address), Decision::NoRoute, "gone with its subnet");
    set(&mut router.writer, "198.51.100.0/24", &Target::OnLink(OUT));
    assert_eq!(router.writer.lookup(address), forward(GATEWAY_MAC));
    router.writer.remove_neighbour(OUT, address);
    assert_eq!(router.writer.lookup(address), resolve);
    assert_eq!(router.writer.routes(), routes);
}

#[test]
fn an_interface_takes_its_neighbours_with_it() {
    let mut router = Router::new();
    router.writer.remove_interface(OUT);
    router.writer.publish();
    assert_eq!(router.writer.lookup(ip("203.0.113.5")), Decision::Down);
    router.writer.set_interface(OUT, interface(OUT, true));
    router.writer.publish();
    let gateway = Decision::Resolve { interface: OUT, address: ip("198.51.100.2") };
    assert_eq!(router.writer.lookup(ip("203.0.113.5")), gateway);
    assert_ne!(IN, OUT);
}

#[test]
fn a_neighbour_with_a_route_of_its_own_is_forwarded_to() {
    let mut router = Router::new();
    for destination in ["10.77.0.9", "2001:db8:77::9"] {
        let address = ip(destination);
        let host = ipnet::IpNet::from(address).to_string();
        let routes = router.writer.routes();
        let decision = |router: &Router| router.writer.lookup(address);
        let resolve = Decision::Resolve { interface: OUT, address };
        let known = Decision::Forward { interface: OUT, address, mac: MAC };
        // The neighbour after the route, and the route after the neighbour.
        for neighbour_first in [false, true] {
            if neighbour_first {
                router.writer.set_neighbour(OUT, address, MAC);
            }
            set(&mut router.writer, &host, &Target::OnLink(OUT));
            assert_eq!(
                decision(&router),
                if neighbour_first { known.clone() } else { resolve.clone() }
            );
            router.writer.set_neighbour(OUT, address, MAC);
            router.writer.publish();
            assert_eq!(decision(&router), known);
            assert_eq!(router.send(&numbered(destination, 0..1)).len(), 1);
            set(&mut router.writer, &host, &Target::OnLink(OUT));
            assert_eq!((decision(&router), router.writer.routes()), (known.clone(), routes + 1));
            let shown: Vec<bool> =
                router.writer.entries(Some(net(&host))).map(|entry| entry.is_neighbour).collect();
            assert_eq!(shown, [false], "one line: the route's");
            router.writer.remove_neighbour(OUT, address);
            assert_eq!(decision(&router), resolve);
            router.writer.set_neighbour(OUT, address, MAC);
            set(&mut router.writer, &host, &Target::Blackhole);
            assert_eq!(decision(&router), Decision::Blackhole);
            set(&mut router.writer, &host, &Target::OnLink(IN));
            assert_eq!(decision(&router), Decision::Resolve { interface: IN, address });
            set(&mut router.writer, &host, &Target::OnLink(OUT));
            assert!(
                router.writer.remove_route(net(&host)) && !router.writer.remove_route(net(&host))
            );
            assert_eq!(router.writer.routes(), routes);
            assert!(!matches!(decision(&router), Decision::Forward { .. }));
            router.writer.remove_neighbour(OUT, address);
        }
    }
}

//! Single promises of the model, one row or step each.

use ebb_apps::route::{InterfaceId, Path, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{Event, Link, NeighbourState, Part, Route, RouteHop, RouteKind};

use super::kernel::Op;
use super::{Recorder, Router, added, started};
use crate::rib::{PortVlan, Rib, Scope, Update};

fn via(prefix: &str, link: u32, gateway: &str) -> Route {
    let hop = RouteHop::new(Some(link), gateway.parse().ok());
    Route::unicast(prefix.parse().unwrap(), [hop])
}

#[test]
fn each_kind_of_route_has_its_target() {
    let prefix = "198.51.100.0/24";
    let plain = via(prefix, 2, "10.0.0.2");
    let path = Target::via(InterfaceId(0), "10.0.0.2".parse().unwrap());
    let gateway = Some("10.0.0.2".parse().unwrap());
    let narrow = Path { interface: InterfaceId(0), gateway, weight: 1, mtu: Some(1300) };
    let narrow = Target::Paths(vec![narrow]);
    let of_kind = |kind| Route { kind, hops: Default::default(), ..plain.clone() };
    let mut tunnel = plain.clone();
    tunnel.hops[0].encapsulated = true;
    let table = [
        (plain.clone(), Some(path)),
        (via(prefix, 2, ""), Some(Target::OnLink(InterfaceId(0)))),
        (via(prefix, 4, ""), Some(Target::OnLink(InterfaceId(256)))),
        (via(prefix, 5, "10.0.0.2"), Some(Target::Kernel)),
        (via(prefix, 77, "10.0.0.2"), Some(Target::Kernel)),
        (of_kind(RouteKind::Blackhole), Some(Target::Blackhole)),
        (of_kind(RouteKind::Unreachable), Some(Target::Unreachable)),
        (of_kind(RouteKind::Prohibit), Some(Target::Prohibit)),
        (of_kind(RouteKind::Local), Some(Target::Kernel)),
        (of_kind(RouteKind::Broadcast), Some(Target::Kernel)),
        (of_kind(RouteKind::Other), Some(Target::Kernel)),
        (of_kind(RouteKind::Unicast), Some(Target::Kernel)),
        (tunnel, Some(Target::Kernel)),
        (Route { mtu: 1300, ..plain.clone() }, Some(narrow)),
        (Route { mtu: 1300, ..via(prefix, 2, "") }, Some(Target::Kernel)),
        (Route { source: Some(prefix.parse().unwrap()), ..plain.clone() }, Some(Target::Kernel)),
        (Route { tos: 8, ..plain.clone() }, Some(Target::Kernel)),
        (Route { nexthop_id: Some(9), ..plain.clone() }, Some(Target::Kernel)),
        (Route { table: 1000, ..plain.clone() }, None),
    ];
    for (route, expected) in table {
        let (mut router, _) = started();
        router.apply(&[added(route.clone())]);
        assert_eq!(router.out.routes.get(&route.prefix), expected.as_ref(), "{route:?}");
        router.apply(&[Event::RouteGone(route.clone())]);
        assert_eq!(router.out.routes.get(&route.prefix), None, "{route:?}");
    }
}

#[test]
fn the_least_mtu_of_routes_is_known_while_there_is_one() {
    let (mut router, _) = started();
    let least = |router: &Router| router.rib.least_route_mtus();
    let route = |prefix, mtu| Route { mtu, ..via(prefix, 2, "10.0.0.2") };
    let (wide, narrow) = (route("198.51.100.0/24", 1400), route("203.0.113.0/24", 1300));
    router.apply(&[added(route("192.0.2.0/24", 0)), added(wide.clone()), added(narrow.clone())]);
    router.apply(&[added(Route { mtu: 1280, ..via("2001:db8:f::/48", 2, "2001:db8::2") })]);
    assert_eq!(least(&router), [Some(1300), Some(1280)]);
    router.apply(&[Event::RouteGone(narrow)]);
    assert_eq!(least(&router), [Some(1400), Some(1280)]);
    router.apply(&[Event::RouteGone(wide)]);
    assert_eq!(least(&router), [None, Some(1280)]);
}

#[test]
fn an_interface_is_a_port_or_its_vlan_and_free() {
    let (mut router, kernel) = started();
    assert_eq!(router.rib.link_of(InterfaceId(256)), Some(4));
    assert_eq!(router.rib.name_of(InterfaceId(256)), Some("p0.7"));
    let updates = router.rib.take_updates();
    let macs = vec![[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 4]];
    assert!(updates.contains(&Update::Macs(PortId(0), macs)), "{updates:?}");
    assert!(updates.contains(&Update::Link { port: PortId(1), up: true, gone: false }));
    assert!(router.rib.take_updates().is_empty(), "said once");
    let links = kernel.dump(Part::Links);
    let [Event::Link(link), _, Event::Link(vlan), ..] = &links[..] else { panic!("links") };
    for (priorities, known) in [(true, None), (false, Some("p0.7"))] {
        router.apply(&[Event::Link(Link { priorities, ..vlan.clone() })]);
        assert_eq!(
            router.rib.name_of(InterfaceId(256)),
            known,
            "tags with a priority are the kernel's"
        );
        let vlan = PortVlan { id: 7, link: vlan.index, by_workers: !priorities };
        assert_eq!(router.rib.take_updates(), [Update::Vlans(PortId(0), vec![vlan])]);
    }
    let enslaved = Link { master: Some(9), ..link.clone() };
    router.apply(&[Event::Link(enslaved)]);
    assert_eq!(router.out.interfaces.len(), 1, "neither the port nor its VLAN is ours now");
    let none = [Update::Macs(PortId(0), vec![]), Update::Vlans(PortId(0), vec![])];
    assert_eq!(router.rib.take_updates(), none);
    let renamed = Link { name: "uplink".into(), ..link.clone() };
    router.apply(&[Event::Link(renamed)]);
    assert_eq!(router.rib.name_of(InterfaceId(0)), Some("uplink"));
    router.apply(&[Event::LinkGone(2)]);
    let gone = Update::Link { port: PortId(0), up: false, gone: true };
    assert!(router.rib.take_updates().contains(&gone));
}

#[test]
fn a_place_is_one_links_and_the_next_ones_when_that_is_gone() {
    let (mut router, kernel) = started();
    let route = via("198.51.100.0/24", 9, "10.7.0.2");
    let at = |router: &Router| router.out.routes[&route.prefix].clone();
    let links = kernel.dump(Part::Links);
    let vlan = links.into_iter().find_map(|event| match event {
        Event::Link(link) if link.index == 4 => Some(link),
        _ => None,
    });
    // It was removed and made anew, which messages that were lost would have told.
    let again = Link { index: 9, ..vlan.expect("the VLAN") };
    router.apply(&[Event::Link(again), added(route.clone())]);
    assert_eq!((router.rib.link_of(InterfaceId(256)), at(&router)), (Some(4), Target::Kernel));
    router.apply(&[Event::LinkGone(4)]);
    assert_eq!(router.rib.link_of(InterfaceId(256)), Some(9));
    assert_eq!(at(&router), Target::via(InterfaceId(256), "10.7.0.2".parse().unwrap()));
    assert!(router.out.interfaces.contains_key(&InterfaceId(256)));
}

#[test]
fn a_neighbour_gone_stale_is_to_be_confirmed() {
    let (mut router, _) = started();
    let address = "10.9.2.2".parse().unwrap();
    let mut neighbour = ebb_host::netlink::Neighbour {
        link: 2,
        address,
        mac: Some([2; 6]),
        state: NeighbourState::Reachable,
        usable: true,
    };
    router.apply(&[Event::Neighbour(neighbour)]);
    assert!(router.rib.take_stale().is_empty());
    neighbour.state = NeighbourState::Stale;
    router.apply(&[Event::Neighbour(neighbour)]);
    assert_eq!(router.rib.take_stale(), [(2, address)]);
    let elsewhere = ebb_host::netlink::Neighbour { link: 5, ..neighbour };
    router.apply(&[Event::Neighbour(elsewhere)]);
    assert!(router.rib.take_stale().is_empty(), "that link is the kernel's own business");
}

#[test]
fn a_comparison_that_finds_no_difference_writes_nothing() {
    let (mut router, mut kernel) = started();
    router.rib.apply(&Event::Overrun, &mut router.out);
    let before = router.out.writes;
    assert_eq!(router.rib.wanted(), Some(Scope::All));
    router.rib.apply(&Event::Overrun, &mut router.out);
    router.settle(&mut kernel, Vec::new());
    assert_eq!(router.out.writes, before);
}

#[test]
fn a_route_without_place_is_counted() {
    let mut out = Recorder { capacity: Some(6), ..Recorder::default() };
    let mut rib = Rib::new(&[(PortId(0), "p0".into())]);
    rib.start(&mut out);
    assert_eq!(rib.refused(), 0);
    rib.apply(&added(via("198.51.100.0/24", 2, "10.0.0.2")), &mut out);
    assert_eq!(rib.refused(), 1);
    rib.apply(&Event::RouteGone(via("198.51.100.0/24", 2, "10.0.0.2")), &mut out);
    assert_eq!(out.routes.len(), 6);
}

#[test]
fn what_lies_around_a_route_without_place_is_the_kernels() {
    let mut out = Recorder { capacity: Some(9), ..Recorder::default() };
    let mut rib = Rib::new(&[(PortId(0), "p0".into())]);
    rib.start(&mut out);
    let (_, kernel) = started();
    kernel.dump(Part::Links).iter().for_each(|link| rib.apply(link, &mut out));
    let wide = via("198.51.0.0/16", 2, "10.0.0.2");
    let (inside, other) = (via("198.51.100.0/24", 3, "10.0.0.3"), via("10.0.0.0/8", 2, "10.0.0.2"));
    let at = |out: &Recorder, route: &Route| out.routes.get(&route.prefix).cloned();
    let way = Target::via(InterfaceId(0), "10.0.0.2".parse().unwrap());
    let default = via("0.0.0.0/0", 2, "10.0.0.2");
    for route in [&wide, &other, &default] {
        rib.apply(&added(route.clone()), &mut out);
    }
    rib.apply(&added(inside.clone()), &mut out);
    assert_eq!((at(&out, &wide), at(&out, &inside)), (Some(Target::Kernel), None));
    assert_eq!((at(&out, &other), rib.refused()), (Some(way.clone()), 1));
    // Room for it comes back.
    rib.apply(&Event::RouteGone(other), &mut out);
    assert_eq!((at(&out, &wide), at(&out, &default)), (Some(way.clone()), Some(way)));
    assert!(matches!(at(&out, &inside), Some(Target::Kernel)), "p1 is no port here");
}

#[test]
fn ports_can_be_exchanged() {
    let (mut router, _) = started();
    let route = via("198.51.100.0/24", 2, "10.0.0.2");
    let other = via("203.0.113.0/24", 3, "10.0.0.3");
    router.apply(&[added(route.clone()), added(other.clone())]);
    let swapped = [(PortId(0), "p1".to_owned()), (PortId(1), "p0".to_owned())];
    router.rib.set_ports(&swapped, &mut router.out);
    let gateway = |route: &Route| route.hops[0].gateway.unwrap();
    let at = |router: &Router, route: &Route| router.out.routes[&route.prefix].clone();
    assert_eq!(at(&router, &route), Target::via(InterfaceId(1), gateway(&route)));
    assert_eq!(at(&router, &other), Target::via(InterfaceId(0), gateway(&other)));
    assert_eq!(router.out.interfaces[&InterfaceId(0)].mac, [2, 0, 0, 0, 0, 3]);
    router.rib.set_ports(&swapped[..1], &mut router.out);
    assert_eq!(at(&router, &route), Target::Kernel);
    assert_eq!(router.out.interfaces.len(), 1, "the VLAN went with its port");
}

#[test]
fn a_route_through_two_links_is_asked_for_when_one_of_them_may_have_come_up_unheard() {
    let (mut router, mut kernel) = started();
    let mut switch = |link, on| kernel.carry_out(&Op::Switch { link, on });
    let hop = |link| RouteHop::new(Some(link), "10.0.0.2".parse().ok());
    let both = Route::unicast("198.51.100.0/24".parse().unwrap(), [hop(2), hop(3)]);
    router.apply(&[added(both.clone())]);
    router.apply(&switch(1, false));
    // That it is on again is lost, and the list of links fails, not that of routes.
    switch(1, true);
    router.apply(&[Event::Overrun]);
    assert_eq!(router.rib.wanted(), Some(Scope::All));
    router.rib.begin(Scope::All);
    router.apply(&[added(both.clone())]);
    router.rib.finish_without(&[Part::Links], &mut router.out);
    router.apply(&switch(0, false));
    assert_eq!(router.rib.wanted(), Some(Scope::Part(Part::Links)));
    router.rib.begin(Scope::Part(Part::Links));
    router.apply(&kernel.dump(Part::Links));
    router.rib.finish(&mut router.out);
    assert_eq!(router.rib.wanted(), Some(Scope::Part(Part::Routes4)));
    router.rib.begin(Scope::Part(Part::Routes4));
    router.apply(&[added(both.clone())]);
    router.rib.finish(&mut router.out);
    assert!(router.out.routes.contains_key(&both.prefix) && !router.rib.wants());
    // Where all is known nothing is asked for.
    router.apply(&kernel.carry_out(&Op::Switch { link: 1, on: false }));
    assert!(!router.out.routes.contains_key(&both.prefix) && !router.rib.wants());
}

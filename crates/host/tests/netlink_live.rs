//! The monitor against the kernel, in a namespace of its own.

use crate::common;

use std::net::IpAddr;
use std::time::Duration;

use common::events_until;
use ebb_host::namespace::Namespace;
use ebb_host::netlink::{
    Event, Hops, Monitor, NeighbourState, NextHopObject, NextHopTarget, Part, Requests, Route,
    RouteChange, RouteHop, RouteKind, TABLE_MAIN, Veth,
};
use ebb_host::wait::{Readiness, WaitSet};
use ipnet::IpNet;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn via(link: u32, gateway: &str) -> RouteHop {
    RouteHop::new(Some(link), Some(ip(gateway)))
}

/// Interfaces `a` and `b`, connected, with addresses of 10.0.0.0/24 and fd00::/64 on `a`.
fn pair(requests: &mut Requests) -> (u32, u32) {
    requests.add_veth(Veth::new("a"), Veth::new("b")).unwrap();
    let index = |requests: &mut Requests, name| {
        let index = requests.link_by_name(name).unwrap().unwrap().index;
        requests.set_up(index, true).unwrap();
        index
    };
    index(requests, "lo");
    let (a, b) = (index(requests, "a"), index(requests, "b"));
    requests.add_address(a, net("10.0.0.1/24")).unwrap();
    requests.add_address(a, net("fd00::1/64")).unwrap();
    (a, b)
}

struct Scene {
    monitor: Monitor,
    requests: Requests,
    a: u32,
    b: u32,
    namespace: Namespace,
}

fn scene(test: &str) -> Option<Scene> {
    let namespace = common::namespace(test)?;
    let (monitor, requests) =
        namespace.run(|| (Monitor::open().unwrap(), Requests::open().unwrap())).unwrap();
    let mut scene = Scene { monitor, requests, a: 0, b: 0, namespace };
    (scene.a, scene.b) = pair(&mut scene.requests);
    scene.monitor.dump(&mut |_| ()).unwrap();
    Some(scene)
}

impl Scene {
    fn change(&mut self, change: RouteChange) {
        let refusals = self.requests.change_routes([change]).unwrap();
        assert!(refusals.is_empty(), "{refusals:?}");
    }

    /// The next announcement about a route to `prefix`, new or gone.
    fn next_route(&mut self, prefix: &str) -> Event {
        let about = |event: &Event| match event {
            Event::Route { route, .. } | Event::RouteGone(route) => route.prefix == net(prefix),
            _ => false,
        };
        let events = events_until(&mut self.monitor, |events| events.iter().any(about));
        let mut found = events.into_iter().filter(about);
        let event = found.next().unwrap();
        assert_eq!(found.next(), None, "one announcement");
        event
    }
}

#[test]
fn links_come_flap_and_go() {
    let Some(mut scene) = scene("links") else { return };
    let (a, b) = (scene.a, scene.b);
    let state = |index, up| {
        move |events: &[Event]| {
            events.iter().any(|e| matches!(e, Event::Link(l) if l.index == index && l.up == up))
        }
    };
    scene.requests.set_up(b, false).unwrap();
    let events = events_until(&mut scene.monitor, state(a, false));
    let down = events.iter().rev().find_map(|event| match event {
        Event::Link(link) if link.index == a => Some(link),
        _ => None,
    });
    assert!(down.is_some_and(|link| link.admin_up && link.name == "a"), "no carrier: {down:?}");
    scene.requests.set_up(b, true).unwrap();
    events_until(&mut scene.monitor, state(a, true));

    scene.requests.set_mac(a, MAC).unwrap();
    scene.requests.set_mtu(a, 9000).unwrap();
    events_until(&mut scene.monitor, |events| {
        events.iter().any(
            |e| matches!(e, Event::Link(l) if l.index == a && l.mac == Some(MAC) && l.mtu == 9000),
        )
    });
    scene.requests.delete_link(a).unwrap();
    events_until(&mut scene.monitor, |events| {
        [a, b].iter().all(|index| events.contains(&Event::LinkGone(*index)))
    });
}

#[test]
fn a_vlan_interface_names_its_parent() {
    let Some(mut scene) = scene("vlan") else { return };
    match scene.requests.add_vlan(scene.a, "a.7", 7) {
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => {
            println!("skipped: this kernel has no VLAN interfaces: {error}");
            return;
        }
        result => result.unwrap(),
    }
    let found = |event: &Event| matches!(event, Event::Link(link) if link.name == "a.7");
    let events = events_until(&mut scene.monitor, |events| events.iter().any(found));
    let Some(Event::Link(vlan)) = events.into_iter().find(found) else { panic!() };
    assert_eq!((vlan.vlan, vlan.parent), (Some(7), Some(scene.a)));
    assert_eq!(vlan.kind.as_deref(), Some("vlan"));
}

#[test]
fn addresses_come_and_go() {
    let Some(mut scene) = scene("addresses") else { return };
    for address in ["10.0.1.1/25", "fd01::1/64"] {
        scene.requests.add_address(scene.a, net(address)).unwrap();
        let seen = |events: &[Event], gone: bool| {
            events.iter().any(|event| match event {
                Event::Address(found) => !gone && found.address == net(address),
                Event::AddressGone(found) => gone && found.address == net(address),
                _ => false,
            })
        };
        events_until(&mut scene.monitor, |events| seen(events, false));
        scene.requests.delete_address(scene.a, net(address)).unwrap();
        events_until(&mut scene.monitor, |events| seen(events, true));
    }
}

#[test]
fn a_neighbour_is_resolved_by_the_kernel() {
    let Some(mut scene) = scene("neighbours") else { return };
    let other = Namespace::create(&format!("ebb-host-{}-peer", std::process::id())).unwrap();
    scene.requests.set_namespace(scene.b, std::os::fd::AsFd::as_fd(&other)).unwrap();
    let mut peer = other.run(|| Requests::open().unwrap()).unwrap();
    let b = peer.link_by_name("b").unwrap().unwrap();
    peer.set_up(b.index, true).unwrap();
    peer.add_address(b.index, net("10.0.0.2/24")).unwrap();
    peer.add_address(b.index, net("fd00::2/64")).unwrap();
    for address in ["10.0.0.2", "fd00::2"] {
        scene.requests.resolve(scene.a, ip(address)).unwrap();
        let events = events_until(&mut scene.monitor, |events| {
            events
                .iter()
                .any(|e| matches!(e, Event::Neighbour(n) if n.usable && n.address == ip(address)))
        });
        let found = events.iter().find_map(|event| match event {
            Event::Neighbour(n) if n.usable && n.address == ip(address) => Some(n),
            _ => None,
        });
        assert_eq!(found.unwrap().mac, b.mac);
    }
    scene.requests.resolve(scene.a, ip("10.0.0.9")).unwrap();
    events_until(&mut scene.monitor, |events| {
        events.iter().any(|event| {
            matches!(event, Event::Neighbour(n)
                if n.state == NeighbourState::Failed && n.address == ip("10.0.0.9") && !n.usable)
        })
    });
    scene.requests.add_neighbour(scene.a, ip("10.0.0.77"), MAC).unwrap();
    scene.requests.delete_neighbour(scene.a, ip("10.0.0.77")).unwrap();
    events_until(&mut scene.monitor, |events| {
        events.iter().any(|e| matches!(e, Event::NeighbourGone(n) if n.address == ip("10.0.0.77")))
    });
    assert!(scene.requests.delete_neighbour(scene.a, ip("10.0.0.77")).is_err());
}

/// Without what tells routes apart that differ in nothing else.
fn plain(event: Event) -> Event {
    match event {
        Event::Route { route, replace, append } => {
            Event::Route { route: Route { digest: 0, ..route }, replace, append }
        }
        Event::RouteGone(route) => Event::RouteGone(Route { digest: 0, ..route }),
        other => other,
    }
}

#[test]
fn ipv4_routes_of_every_kind() {
    let Some(mut scene) = scene("routes4") else { return };
    let a = scene.a;
    let mut weighted = via(a, "10.0.0.3");
    weighted.weight = 5;
    let mut routes = vec![
        Route::unicast(net("192.0.2.0/24"), [via(a, "10.0.0.2")]),
        Route::unicast(net("198.51.100.0/24"), [RouteHop::new(Some(a), None)]),
        Route::unicast(net("203.0.113.0/24"), [via(a, "10.0.0.2"), weighted]),
        Route::unicast(net("100.64.0.0/10"), [via(a, "fd00::2")]),
        Route::unicast(net("0.0.0.0/0"), [via(a, "10.0.0.2")]),
    ];
    routes.push(Route { metric: 70, ..routes[0].clone() });
    routes.push(Route { table: 1000, ..routes[0].clone() });
    routes.push(Route { tos: 0x10, ..routes[0].clone() });
    for kind in [RouteKind::Blackhole, RouteKind::Unreachable, RouteKind::Prohibit] {
        routes.push(Route { kind, ..Route::unicast(net("192.0.2.128/25"), []) });
    }
    for route in &routes {
        scene.change(RouteChange::Add(route.clone()));
        let expected = Event::Route { route: route.clone(), replace: false, append: false };
        assert_eq!(plain(scene.next_route(&route.prefix.to_string())), expected);
        let again = scene.requests.change_routes([RouteChange::Add(route.clone())]).unwrap();
        assert_eq!(again[0].source.raw_os_error(), Some(libc::EEXIST), "{route:?}");
        scene.change(RouteChange::Delete(route.clone()));
        let gone = plain(scene.next_route(&route.prefix.to_string()));
        assert_eq!(gone, Event::RouteGone(route.clone()));
    }
    scene.change(RouteChange::Add(routes[0].clone()));
    let replaced = Route { hops: Hops::from_elem(via(a, "10.0.0.9"), 1), ..routes[0].clone() };
    scene.change(RouteChange::Replace(replaced.clone()));
    let events = events_until(&mut scene.monitor, |events| events.len() >= 2);
    let expected = Event::Route { route: replaced, replace: true, append: false };
    assert_eq!(plain(events[1].clone()), expected);
}

#[test]
fn ipv6_multipath_is_announced_whole_and_removed_by_hop() {
    let Some(mut scene) = scene("routes6") else { return };
    let a = scene.a;
    let route = |hops: &[RouteHop]| Route {
        metric: 1024,
        ..Route::unicast(net("2001:db8::/32"), hops.iter().copied())
    };
    let [one, two, three] = ["fd00::2", "fd00::3", "fd00::4"].map(|gateway| via(a, gateway));
    scene.change(RouteChange::Add(route(&[one])));
    let expected = Event::Route { route: route(&[one]), replace: false, append: false };
    assert_eq!(scene.next_route("2001:db8::/32"), expected);
    scene.change(RouteChange::Append(route(&[two])));
    let Event::Route { route: whole, replace: false, append: true } =
        scene.next_route("2001:db8::/32")
    else {
        panic!("not an append")
    };
    assert_eq!(whole.hops.len(), 2);
    assert!([one, two].iter().all(|hop| whole.hops.contains(hop)), "{whole:?}");
    scene.change(RouteChange::Append(route(&[three])));
    let Event::Route { route: whole, .. } = scene.next_route("2001:db8::/32") else { panic!() };
    assert_eq!(whole.hops.len(), 3);
    scene.change(RouteChange::Delete(route(&[two])));
    assert_eq!(scene.next_route("2001:db8::/32"), Event::RouteGone(route(&[two])));

    let mut dumped = Vec::new();
    scene
        .monitor
        .dump_part(Part::Routes6, &mut |event| match event {
            Event::Route { route, .. } if route.prefix == net("2001:db8::/32") => {
                dumped.push(route);
            }
            _ => {}
        })
        .unwrap();
    assert_eq!(dumped, [route(&[one, three])]);
    scene.change(RouteChange::Replace(route(&[two])));
    let event = scene.next_route("2001:db8::/32");
    assert_eq!(event, Event::Route { route: route(&[two]), replace: true, append: false });
}

#[test]
fn routes_through_next_hop_objects_carry_their_hops() {
    let Some(mut scene) = scene("nexthops") else { return };
    let a = scene.a;
    let object = |id, target| NextHopObject { id, target };
    let [one, two] = ["10.0.0.2", "10.0.0.3"].map(|gateway| via(a, gateway));
    let objects = [
        object(11, NextHopTarget::Hop(one)),
        object(12, NextHopTarget::Hop(two)),
        object(20, NextHopTarget::Group(vec![(11, 1), (12, 3)])),
        object(30, NextHopTarget::Blackhole),
    ];
    for object in &objects {
        scene.requests.set_next_hop(object).unwrap();
    }
    let announced: Vec<Event> = objects.iter().cloned().map(Event::NextHop).collect();
    assert_eq!(events_until(&mut scene.monitor, |events| events.len() >= 4), announced);

    let mut route = Route::unicast(net("192.0.2.0/24"), []);
    route.nexthop_id = Some(20);
    scene.change(RouteChange::Add(route.clone()));
    let Event::Route { route: seen, .. } = scene.next_route("192.0.2.0/24") else { panic!() };
    assert_eq!(seen.nexthop_id, Some(20));
    assert_eq!(seen.hops[..], [one, RouteHop { weight: 3, ..two }]);

    scene.requests.delete_next_hop(20).unwrap();
    let events =
        events_until(&mut scene.monitor, |events| events.contains(&Event::NextHopGone(20)));
    println!("on removal of the object: {events:?}");
    let mut left = 0;
    let count = &mut |event: Event| {
        left += u32::from(matches!(event, Event::Route { route, .. }
            if route.prefix == net("192.0.2.0/24")));
    };
    scene.monitor.dump_part(Part::Routes4, count).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn what_the_kernel_does_not_announce() {
    let Some(mut scene) = scene("silent") else { return };
    let a = scene.a;
    let four = Route::unicast(net("192.0.2.0/24"), [via(a, "10.0.0.2")]);
    let six = Route::unicast(net("2001:db8::/32"), [via(a, "fd00::2")]);
    scene.change(RouteChange::Add(four));
    scene.change(RouteChange::Add(six));
    events_until(&mut scene.monitor, |events| events.len() >= 2);
    scene.requests.set_up(a, false).unwrap();
    let events = events_until(&mut scene.monitor, |events| {
        events.iter().any(|e| matches!(e, Event::Link(l) if l.index == a && !l.admin_up))
            && events.iter().any(|e| {
                matches!(e, Event::RouteGone(r)
                if r.prefix == net("2001:db8::/32"))
            })
    });
    let gone = |prefix| {
        let is = |event: &&Event| matches!(event, Event::RouteGone(r) if r.prefix == net(prefix));
        events.iter().filter(is).count()
    };
    assert_eq!((gone("192.0.2.0/24"), gone("2001:db8::/32")), (0, 1));
}

#[test]
fn changes_of_ones_own_are_passed_over() {
    let Some(mut scene) = scene("ignore") else { return };
    let mut other = scene.namespace.run(|| Requests::open().unwrap()).unwrap();
    scene.monitor.ignore(&scene.requests).unwrap();
    for prefix in ["192.0.2.0/24", "2001:db8::/32"] {
        let gateway = if prefix.contains(':') { "fd00::2" } else { "10.0.0.2" };
        let route = Route::unicast(net(prefix), [via(scene.a, gateway)]);
        scene.change(RouteChange::Replace(route.clone()));
        scene.change(RouteChange::Delete(route.clone()));
        // The first that is heard of is another's.
        other.change_routes([RouteChange::Replace(Route { metric: 7, ..route })]).unwrap();
        let Event::Route { route, .. } = scene.next_route(prefix) else { panic!("not gone") };
        assert_eq!(route.metric, 7);
    }
    let mut seen = 0;
    let mut count = |event| seen += usize::from(matches!(event, Event::Route { .. }));
    scene.monitor.dump_part(Part::Routes4, &mut count).unwrap();
    assert!(seen > 0, "a dump says everything");
}

#[test]
fn an_overrun_is_told_and_a_dump_tells_the_truth() {
    let Some(mut scene) = scene("overrun") else { return };
    let a = scene.a;
    let mut small = scene.namespace.run(|| Monitor::with_receive_buffer(4096).unwrap()).unwrap();
    let prefix = |i: u32| IpNet::new(IpAddr::V4((0x6440_0000 + (i << 8)).into()), 24).unwrap();
    let add = |i| RouteChange::Add(Route::unicast(prefix(i), [via(a, "10.0.0.2")]));
    let refusals = scene.requests.change_routes((0..2000).map(add)).unwrap();
    assert!(refusals.is_empty());
    let mut wait = WaitSet::new();
    wait.add(small.fd());
    wait.wait(Some(Duration::from_secs(1)));
    assert_eq!(wait.readiness(0), Readiness::Broken, "an overrun shows as an error to poll(2)");
    let (mut overruns, mut routes) = (0, 0);
    small
        .poll(&mut |event| match event {
            Event::Overrun => overruns += 1,
            Event::Route { .. } => routes += 1,
            _ => {}
        })
        .unwrap();
    assert!(overruns > 0 && routes < 2000, "{overruns} overruns, {routes} routes");
    let mut found = std::collections::BTreeSet::new();
    small
        .dump(&mut |event| match event {
            Event::Overrun => found.clear(),
            Event::Route { route, .. } if route.table == TABLE_MAIN => {
                found.insert(route.prefix);
            }
            _ => {}
        })
        .unwrap();
    assert!((0..2000).all(|i| found.contains(&prefix(i))));
}

#[test]
fn a_dump_during_changes_ends_in_the_true_state() {
    let Some(mut scene) = scene("churn") else { return };
    let a = scene.a;
    let mut other = scene.namespace.run(|| Requests::open().unwrap()).unwrap();
    let prefix = |i: u32| IpNet::new(IpAddr::V4((0x6440_0000 + (i << 8)).into()), 24).unwrap();
    let route = move |i| Route::unicast(prefix(i), [via(a, "10.0.0.2")]);
    let churn = std::thread::spawn(move || {
        for round in 0..40_u32 {
            let add = (0..500).map(|i| RouteChange::Replace(route(i)));
            let delete = (0..500).filter(|i| i % 3 == round % 3);
            let delete = delete.map(|i| RouteChange::Delete(route(i)));
            other.change_routes(add.chain(delete)).unwrap();
        }
    });
    let mut state = std::collections::BTreeSet::new();
    let mut apply = |event: Event| match event {
        Event::Overrun => state.clear(),
        Event::Route { route, .. } if route.table == TABLE_MAIN => {
            state.insert(route.prefix);
        }
        Event::RouteGone(route) => {
            state.remove(&route.prefix);
        }
        _ => {}
    };
    scene.monitor.dump(&mut apply).unwrap();
    churn.join().unwrap();
    while scene.monitor.poll(&mut apply).unwrap() > 0 {}
    let of_ours: Vec<u32> = (0..500).filter(|i| state.contains(&prefix(*i))).collect();
    let expected: Vec<u32> = (0..500).filter(|i| i % 3 != 39 % 3).collect();
    assert_eq!(of_ours, expected);
}

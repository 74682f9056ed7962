//! IPv6 routes that end by themselves, are merged with others, or go away in parts.

use std::time::Duration;

use ebb_apps::route::{Path, Target};
use ebb_host::netlink::{Event, NextHopObject, NextHopTarget, Part, Route, RouteHop};
use ebb_units::Time;

use super::{Router, added, started};
use crate::rib::Scope;

const PREFIX: &str = "2001:db8::/32";
const STATIC: u8 = 4;
const ADVERTISED: u8 = 9;
const DAEMON: u8 = 12;

fn hop(last: u8) -> RouteHop {
    RouteHop::new(Some(2), format!("fe80::{last}").parse().ok())
}

fn route(protocol: u8, hops: &[u8]) -> Route {
    let hops = hops.iter().map(|last| hop(*last));
    Route { protocol, metric: 1024, ..Route::unicast(PREFIX.parse().unwrap(), hops) }
}

fn lives(route: Route, lifetime_ms: i64) -> Route {
    Route { lifetime_ms: Some(lifetime_ms), ..route }
}

/// The ways that packets take: the last numbers of the gateways; `None` for the kernel.
fn ways(router: &Router) -> Option<Vec<u8>> {
    let last = |path: &Path| match path.gateway {
        Some(std::net::IpAddr::V6(gateway)) => gateway.octets()[15],
        _ => 0,
    };
    match router.out.routes.get(&PREFIX.parse().unwrap()) {
        None => Some(Vec::new()),
        Some(Target::Kernel) => None,
        Some(Target::Paths(paths)) => Some(paths.iter().map(last).collect()),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn routes_of_several_protocols_are_merged_and_go_one_by_one() {
    let (mut router, _) = started();
    router.apply(&[added(route(STATIC, &[1]))]);
    // Announced with the new one first.
    router.apply(&[added(route(DAEMON, &[2, 1]))]);
    assert_eq!(ways(&router), Some(vec![1, 2]), "flows of the first stay where they are");
    router.apply(&[added(route(DAEMON, &[3, 1, 2]))]);
    router.apply(&[Event::RouteGone(route(DAEMON, &[2]))]);
    assert_eq!(ways(&router), Some(vec![1, 3]));
    router.apply(&[Event::RouteGone(route(STATIC, &[1]))]);
    // What may have stood between merged routes is asked for.
    assert_eq!((ways(&router), router.rib.wanted()), (None, Some(Scope::Part(Part::Routes6))));
    router.rib.begin(Scope::Part(Part::Routes6));
    router.apply(&[added(route(DAEMON, &[3]))]);
    router.rib.finish(&mut router.out);
    assert_eq!(ways(&router), Some(vec![3]));
}

#[test]
fn an_advertised_route_stands_beside_others() {
    let (mut router, _) = started();
    router.apply(&[added(route(STATIC, &[1]))]);
    router.apply(&[added(lives(route(ADVERTISED, &[2]), 1_800_000))]);
    assert_eq!(ways(&router), Some(vec![1]));
    router.apply(&[added(route(DAEMON, &[3, 1]))]);
    assert_eq!(ways(&router), Some(vec![1, 3]));
    // A list leaves out what stands between the two, which is no sign that it is gone.
    router.rib.begin(Scope::Part(Part::Routes6));
    router.apply(&[added(route(STATIC, &[1, 3]))]);
    router.rib.finish(&mut router.out);
    router.apply(&[Event::RouteGone(route(STATIC, &[1, 3]))]);
    assert_eq!((ways(&router), router.rib.wanted()), (None, Some(Scope::Part(Part::Routes6))));
    router.rib.begin(Scope::Part(Part::Routes6));
    router.apply(&[added(lives(route(ADVERTISED, &[2]), 1_700_000))]);
    router.rib.finish(&mut router.out);
    assert_eq!(ways(&router), Some(vec![2]));
    router.apply(&[Event::RouteGone(route(ADVERTISED, &[2]))]);
    assert_eq!(ways(&router), Some(vec![]));
}

#[test]
fn the_preferred_router_is_taken() {
    let (mut router, _) = started();
    for (last, preference) in [(1, 0), (2, -1), (3, 1), (4, 1)] {
        router.apply(&[added(Route { preference, ..route(ADVERTISED, &[last]) })]);
    }
    assert_eq!(ways(&router), Some(vec![3]));
    router.apply(&[Event::RouteGone(Route { preference: 1, ..route(ADVERTISED, &[3]) })]);
    assert_eq!(ways(&router), Some(vec![4]));
    router.apply(&[Event::RouteGone(route(ADVERTISED, &[4]))]);
    assert_eq!(ways(&router), Some(vec![1]));
}

#[test]
fn a_route_is_the_kernels_from_its_end_until_it_is_gone_or_prolonged() {
    let (mut router, _) = started();
    let now = Time::from_nanos(1_000_000_000_000);
    let after = |ms: u64| now + Duration::from_millis(ms);
    router.rib.pass(now, &mut router.out);
    let worse = Route { metric: 2000, ..route(STATIC, &[9]) };
    router.apply(&[added(worse), added(lives(route(STATIC, &[1]), 3000))]);
    assert_eq!((ways(&router), router.rib.next()), (Some(vec![1]), Some(after(1000))));
    // Before the end the kernel is asked whether it still stands.
    router.rib.pass(after(1000), &mut router.out);
    assert_eq!(router.rib.wanted(), Some(Scope::Part(Part::Routes6)));
    router.rib.begin(Scope::Part(Part::Routes6));
    router.apply(&[added(lives(route(STATIC, &[1]), 3000))]);
    router.rib.finish(&mut router.out);
    router.rib.pass(after(3500), &mut router.out);
    assert_eq!(ways(&router), Some(vec![1]), "it was prolonged, and what was not listed is gone");
    router.rib.pass(after(4000), &mut router.out);
    assert_eq!(ways(&router), None);
    let prolonged = lives(route(STATIC, &[1]), 60_000);
    router.apply(&[added(prolonged)]);
    assert_eq!(ways(&router), Some(vec![1]));
    router.rib.pass(after(80_000), &mut router.out);
    assert_eq!(ways(&router), None);
    router.apply(&[Event::RouteGone(route(STATIC, &[1]))]);
    assert_eq!((ways(&router), router.rib.next()), (Some(vec![]), None));
}

#[test]
fn merged_routes_of_which_one_ends_are_the_kernels() {
    let (mut router, _) = started();
    router.rib.pass(Time::from_nanos(1_000_000_000_000), &mut router.out);
    router.apply(&[added(lives(route(STATIC, &[1]), 3000)), added(route(STATIC, &[2, 1]))]);
    assert_eq!(ways(&router), None);
    router.apply(&[Event::RouteGone(route(STATIC, &[1]))]);
    router.rib.begin(Scope::Part(Part::Routes6));
    router.apply(&[added(route(STATIC, &[2]))]);
    router.rib.finish(&mut router.out);
    assert_eq!(ways(&router), Some(vec![2]));
}

#[test]
fn a_list_that_was_not_read_to_its_end_takes_nothing_away() {
    let (mut router, kernel) = started();
    let object =
        |id| Event::NextHop(NextHopObject { id, target: NextHopTarget::Hop(hop(id as u8)) });
    let by_object = Route { nexthop_id: Some(1), ..route(STATIC, &[]) };
    router.apply(&[object(1), object(2), added(by_object)]);
    router.rib.begin(Scope::All);
    for part in Part::ALL {
        if !matches!(part, Part::NextHops | Part::Routes6) {
            router.apply(&kernel.dump(part));
        }
    }
    router.rib.finish_without(&[Part::NextHops, Part::Routes6], &mut router.out);
    assert_eq!(ways(&router), Some(vec![1]));
    assert_eq!(router.rib.wanted(), Some(Scope::Part(Part::NextHops)));
    assert_eq!(router.rib.wanted(), Some(Scope::Part(Part::Routes6)));
    // With the carrier of its link the object may have gone.
    let [Event::Link(link), ..] = &kernel.dump(Part::Links)[..] else { panic!("a link") };
    let down = ebb_host::netlink::Link { up: false, ..link.clone() };
    router.apply(&[Event::Link(down)]);
    assert_eq!(ways(&router), None);
    router.rib.begin(Scope::Part(Part::NextHops));
    router.rib.finish_without(&[Part::NextHops], &mut router.out);
    assert_eq!(ways(&router), None, "nobody knows yet");
    router.rib.begin(Scope::Part(Part::NextHops));
    router.apply(&[object(1)]);
    router.rib.finish(&mut router.out);
    assert_eq!(ways(&router), Some(vec![1]));
}

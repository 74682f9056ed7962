//! Ports, queues, netlink messages and rings that fail while packets flow.

use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop};
use ebb_host::signals::Signal;
use ebb_traffic::Summary;
use serde_json::json;

use crate::common::lab::{Lab, Wiring};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Traffic, way};

fn wait_for_arrivals(traffic: &Traffic, port: usize, count: u64, router: &Router) {
    let wanted = traffic.arrived_at(port) + count;
    let came = until(PATIENCE, || traffic.arrived_at(port) >= wanted);
    assert!(came, "nothing arrives at port {port}: {}", router.log());
}

/// The kernel forgets routes and neighbours of an interface that is switched off.
fn route_again(lab: &Lab, port: usize) {
    lab.ip(&format!(
        "neighbour replace 10.0.{port}.2 lladdr 02:00:00:00:01:0{port} nud permanent dev p{port}\n\
         route replace 10.{}.0.0/16 via 10.0.{port}.2\n",
        100 + port
    ));
}

#[test]
fn a_port_that_goes_down_stops_only_its_own_traffic() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 2000);
    wait_for_arrivals(&traffic, 1, 200, &router);
    lab.ip("link set p1 down");
    router.wait_for("p1 down", |status| !status.ports[1].up);
    wait_for_arrivals(&traffic, 2, 300, &router);
    lab.ip("link set p1 up");
    route_again(&lab, 1);
    router.wait_for("p1 up", |status| status.ports[1].up);
    wait_for_arrivals(&traffic, 1, 200, &router);
    // The far end loses its carrier: the address and routes stay, the link does not.
    lab.ip_hosts(1, "link set h1 down");
    router.wait_for("p1 without carrier", |status| !status.ports[1].up);
    wait_for_arrivals(&traffic, 2, 300, &router);
    lab.ip_hosts(1, "link set h1 up");
    router.wait_for("p1 with carrier", |status| status.ports[1].up);
    wait_for_arrivals(&traffic, 1, 200, &router);
    let books = traffic.stop();
    println!(
        "port down twice: lost {} of its own packets, silent at most {:?}, {} of others",
        books.lost(0),
        books.silence[0],
        books.lost(1)
    );
    assert_eq!((books.lost(1), books.total.reordered), (0, 0), "{:?}", books.total);
    assert!(router.status().packets().adds_up(), "{:?}", router.status().packets());
    router.stop();
}

/// Packets that waited for a link when it was set down must not leave when it is set up again,
/// and nobody waits for them meanwhile.
#[test]
fn what_waits_for_a_link_that_is_down_never_leaves() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut setup = Setup::of(&lab);
    setup.workers = 2;
    let mut router = setup.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 20_000);
    wait_for_arrivals(&traffic, 1, 500, &router);
    // Stopped, the router sees neither packets nor the link until it goes on: what it has received
    // by then is for a link that is down, and so far says to be up.
    router.signal(Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(20));
    lab.ip("link set p1 down");
    router.signal(Signal::SIGCONT);
    router.wait_for("p1 down", |status| !status.ports[1].up);
    wait_for_arrivals(&traffic, 2, 500, &router);
    let before = traffic.arrived_at(1);
    for mode in ["powersave", "poll", "powersave", "napi"] {
        router.request(&json!({ "set": { "mode": mode } })).expect("a change of the mode");
    }
    let status = router.status();
    assert_eq!(status.governor.late, 0, "a hand-over waited for the link that is down");
    lab.ip("link set p1 up");
    router.wait_for("p1 up", |status| status.ports[1].up);
    std::thread::sleep(std::time::Duration::from_millis(100));
    // The kernel has forgotten the route: nothing new goes there.
    assert_eq!(traffic.arrived_at(1), before, "stale packets left: {}", router.log());
    println!("stale packets counted: {}", router.status().ports[1].transmit_dropped);
    route_again(&lab, 1);
    wait_for_arrivals(&traffic, 1, 200, &router);
    assert_eq!(traffic.stop().total.reordered, 0);
    router.stop();
}

#[test]
fn a_port_that_is_deleted_is_reopened_when_it_returns() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let frames = router.status().frames.total;
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0), way(1, 2, 0)], 3000);
    wait_for_arrivals(&traffic, 1, 200, &router);
    for _ in 0..2 {
        lab.cut(1);
        router.wait_for_words("interface is gone");
        router.wait_for("p1 gone", |status| {
            status.ports.iter().all(|port| port.name != "p1" || port.gone)
        });
        wait_for_arrivals(&traffic, 2, 300, &router);
        lab.wire(1);
        route_again(&lab, 1);
        router.wait_for("p1 back", |status| {
            status.ports.iter().any(|port| port.name == "p1" && port.up && !port.gone)
        });
        wait_for_arrivals(&traffic, 1, 200, &router);
    }
    let others = traffic.arrived_at(2);
    assert!(others > 0);
    let books = traffic.stop();
    println!(
        "port deleted and made again twice: silent at most {:?}; {} of others lost",
        books.silence[0],
        books.lost(1)
    );
    // What is for the port that comes back the kernel has until it is open, where it waits for its neighbour: of that flow a
    // tenth of a second may be overtaken (docs/ordering.md).
    assert!(books.lost(1) == 0 && books.total.reordered <= 100, "{:?}", books.total);
    let status = router.wait_for("idle", |status| status.packets().adds_up());
    assert_eq!(status.frames.total, frames);
    assert!(router.stop().contains("interface is back"));
}

#[test]
fn another_number_of_queues_is_noticed() {
    let Some(lab) = Lab::build(Wiring { queues: 2, ..Wiring::plain(2) }) else { return };
    lab.routes();
    let fewer = ["ethtool", "-L", "p0", "rx", "1", "tx", "1"];
    lab.inside(&fewer);
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(1, 0, 0)], 1000);
    wait_for_arrivals(&traffic, 0, 100, &router);
    let refused = lab.transmit_dropped(0);
    lab.inside(&["ethtool", "-L", "p0", "rx", "2", "tx", "2"]);
    // Looked at when something happens, or after half a minute.
    let lookup = json!({ "get": "lookup", "address": "10.100.0.1" });
    let noticed = until(PATIENCE, || {
        router.request(&lookup).expect("an answer");
        router.status().warnings.iter().any(|warning| warning.contains("queues"))
    });
    assert!(noticed, "{:?}\n{}", router.status().warnings, router.log());
    wait_for_arrivals(&traffic, 0, 100, &router);
    let books = traffic.stop();
    // The kernel takes the link's carrier away while its queues change, and drops what is sent at that moment.
    let refused = lab.transmit_dropped(0) - refused;
    assert!(refused <= 20, "{refused} packets met a link without carrier");
    let Summary { lost, reordered, duplicated, .. } = books.total;
    assert_eq!((lost, reordered, duplicated), (refused, 0, 0), "{:?}", books.total);
    router.stop();
}

/// While the program is stopped the kernel's messages overflow its socket.
#[test]
fn lost_netlink_messages_are_made_up_for() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let before = router.status().tables;
    let (mut requests, first) = lab.in_router(|| {
        let mut requests = Requests::open().expect("netlink");
        let first = requests.link_by_name("p1").expect("netlink").expect("p1").index;
        (requests, first)
    });
    router.signal(Signal::SIGSTOP);
    let (prefixes, rounds) = (2000u32, 100);
    for round in 0..rounds {
        let changes = (0..prefixes).map(|number| replacement(number, round, first));
        let refused = requests.change_routes(changes).expect("netlink");
        assert!(refused.is_empty(), "{:?}", refused[0]);
    }
    router.signal(Signal::SIGCONT);
    let routes = before.routes + u64::from(prefixes);
    let status = router.wait_for("all routes", |status| {
        status.tables.routes == routes && status.tables.resyncs > before.resyncs
    });
    for number in (0..prefixes).step_by(97) {
        let address = format!("20.{}.{}.1", number >> 8, number & 255);
        let lookup = json!({ "get": "lookup", "address": address });
        let port = 1 + (number + rounds - 1) % 2;
        // A list that changed while it was read is read again.
        let right = until(PATIENCE, || {
            let answer = router.request(&lookup).expect("an answer").to_string();
            answer.contains(&format!("10.0.{port}.2"))
        });
        assert!(right, "{address} is not through 10.0.{port}.2: {}", router.log());
    }
    println!(
        "{} changes while stopped: compared anew {} times",
        prefixes * rounds,
        status.tables.resyncs - before.resyncs
    );
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 1000);
    wait_for_arrivals(&traffic, 2, 200, &router);
    traffic.stop().assert_perfect("after the overrun", |flow| 1 + flow);
    router.stop();
}

/// Prefix `number` by way of host 1 or 2, turn about.
fn replacement(number: u32, round: u32, first: u32) -> RouteChange {
    let port = 1 + (number + round) % 2;
    let prefix = format!("20.{}.{}.0/24", number >> 8, number & 255);
    let gateway = format!("10.0.{port}.2").parse().expect("an address");
    _ = first;
    let hop = RouteHop::new(None, Some(gateway));
    RouteChange::Replace(Route::unicast(prefix.parse().expect("a prefix"), [hop]))
}

/// More packets than the rings hold come while nobody takes them out.
#[test]
fn what_a_flood_loses_is_counted() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 1, 1)], 100_000);
    wait_for_arrivals(&traffic, 1, 100, &router);
    // Until the guard looks, within 40 ms, a ring fills; then the packets are the kernel's.
    let pause = std::time::Duration::from_millis;
    let lossy = (0..60).any(|_| {
        router.signal(Signal::SIGSTOP);
        std::thread::sleep(pause(60));
        router.signal(Signal::SIGCONT);
        std::thread::sleep(pause(150));
        router.status().ports[0].receive_dropped > 500
    });
    assert!(lossy, "the rings did not overflow");
    let books = traffic.stop();
    let status = router.wait_for("settled", |status| {
        status.ports[0].receive_dropped > 0 && status.packets().adds_up()
    });
    let lost = books.total.lost;
    let counted = status.ports[0].receive_dropped + status.packets().dropped_total();
    println!("stopped again and again at 100,000 packets/s: lost {lost}, counted {counted}");
    assert_eq!(lost, counted, "{:?}\n{:?}", status.ports, status.packets());
    router.stop();
}

/// Packet memory was measured for the queues that ports had at the start.
#[test]
fn a_port_that_returns_with_more_queues_is_opened_only_if_they_find_frames() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let text = Setup::of(&lab).text(&lab, "router");
    let text = text.replacen("[router]\n", "[router]\nframes = 8192\n", 1);
    let mut router = Router::start(&lab, "router", &text, &[]);
    // One that sends notices that its interface is another one.
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(1, 0, 0)], 3000);
    wait_for_arrivals(&traffic, 1, 200, &router);
    for (queues, serves) in [(4, false), (2, true)] {
        lab.cut(1);
        router.wait_for("p1 gone", |status| status.ports[1].gone);
        lab.wire_with(1, queues);
        route_again(&lab, 1);
        if serves {
            let status = router.wait_for("p1 back", |status| status.ports[1].up);
            assert_eq!(u32::from(status.ports[1].queues), queues);
            wait_for_arrivals(&traffic, 1, 200, &router);
        } else {
            router.wait_for("a refusal", |status| {
                let said = |warning: &String| warning.contains("4 receive queues need 8192 frames");
                status.warnings.iter().any(said)
            });
            assert!(!router.status().ports[1].up);
        }
    }
    traffic.stop();
    router.stop();
}

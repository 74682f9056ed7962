//! The configuration read again under traffic: all of it holds afterwards, or nothing has changed.

use std::fs;
use std::net::TcpListener;

use serde_json::json;

use crate::common::imitation::Imitation;
use crate::common::lab::{Lab, Wiring};
use crate::common::router::{PATIENCE, Setup, until};
use crate::common::traffic::{Traffic, way};

#[test]
fn everything_that_a_reload_names_holds_afterwards() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let setup = Setup { ports: vec![0, 1], ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", router.log());

    let other = Setup { port: "ring = 512".into(), mode: "poll", ..Setup::of(&lab) };
    let text = other.text(&lab, "router") + "[limits]\nicmp_rate_pps = 0\n";
    let answer = router.reload(&text).expect("a reload");
    let changes = answer["changes"].to_string();
    for said in
        ["port p0 closes", "port p0 opens", "p2 opens", "mode becomes poll", "limits change"]
    {
        assert!(changes.contains(said), "not said: {said} in {answer}");
    }
    let status = router.status();
    assert_eq!(status.mode, "poll");
    assert_eq!(status.ports.iter().filter(|port| port.up).count(), 3, "{:?}", status.ports);
    let before = traffic.arrived();
    assert!(until(PATIENCE, || traffic.arrived() > before + 500), "{}", router.log());
    let books = traffic.stop();
    println!("two ports closed and opened: lost {} of {}", books.total.lost, books.total.sent);
    // While a port is bypassed a packet of the kernel may overtake one of a worker's (docs/ordering.md).
    assert!(books.total.reordered <= 16, "{:?}", books.total);

    let again = router.reload(&text).expect("a reload");
    assert_eq!(again["reloaded"], "nothing changed", "{again}");
    router.stop();
}

#[test]
fn limits_hold_from_a_reload_on() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    // Without a route every packet is worth an ICMP error to its sender.
    lab.ip("route add 10.100.0.0/16 via 10.0.0.2");
    let setup = Setup::of(&lab);
    let mut router = setup.start(&lab);
    let text = setup.text(&lab, "router");
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 500);
    router.wait_for("errors", |status| status.packets().originated > 50);
    router.reload(&(text.clone() + "[limits]\nicmp_rate_pps = 0\n")).expect("a reload");
    let still = router.status().packets().originated;
    router.wait_for("silence", |status| status.packets().icmp_suppressed > 200);
    assert!(router.status().packets().originated <= still + 1);
    router.reload(&text).expect("a reload");
    router.wait_for("errors again", |status| status.packets().originated > still + 50);
    drop(traffic);
    router.stop();
}

#[test]
fn knobs_are_given_back_and_taken_again_by_reloads() {
    let Some(lab) = Lab::build(Wiring::plain(1)) else { return };
    let sysfs = Imitation::new(&lab.directory);
    let before = sysfs.snapshot();
    let setup = Setup { mode: "powersave", governor: sysfs.governor(), ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    assert!(until(PATIENCE, || sysfs.snapshot() != before), "no knob was turned");
    let left =
        Setup { governor: sysfs.governor() + "\nfrequency = false\nidle = false", ..setup.clone() };
    let answer = router.reload(&left.text(&lab, "router")).expect("a reload");
    assert!(answer["changes"].to_string().contains("frequency becomes false"), "{answer}");
    assert_eq!(sysfs.snapshot(), before, "knobs are still turned");
    assert_eq!(router.status().point.frequencies, 1);
    router.reload(&setup.text(&lab, "router")).expect("a reload");
    assert!(until(PATIENCE, || sysfs.snapshot() != before), "no knob was turned again");
    assert!(router.status().point.frequencies > 1);
    router.stop();
    assert!(until(PATIENCE, || sysfs.snapshot() == before), "the end left knobs turned");
}

#[test]
fn a_reload_that_fails_leaves_everything_as_it_was() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    lab.ip("link set lo mtu 1500");
    let sysfs = Imitation::new(&lab.directory);
    let setup = Setup { ports: vec![0, 1], governor: sysfs.governor(), ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let config = |router: &mut crate::common::router::Router| {
        let asked = router.request(&json!({ "get": "config" }));
        asked.expect("a configuration")["config"].clone()
    };
    let (before, frequencies) = (config(&mut router), router.status().point.frequencies);
    let taken = lab.in_router(|| TcpListener::bind("127.0.0.1:0").expect("an address"));
    let taken = taken.local_addr().expect("an address");
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", router.log());

    let wide =
        Setup { mode: "poll", ports: vec![0, 1, 2], port: "ring = 512".into(), ..setup.clone() };
    let wide = Setup { governor: sysfs.governor() + "\nfrequency = false", ..wide };
    let wide = wide.text(&lab, "router");
    for (what, text) in [
        (
            "cannot attach an XDP program",
            wide.clone() + "[[port]]\nname = \"lo\"\nxdp = \"native\"\n",
        ),
        ("127.0.0.1", wide.clone() + &format!("[metrics]\nlisten = \"{taken}\"\n")),
        ("routes_file", wide.replace("[router]", "[router]\nroutes_file = \"none\"")),
        ("wokers", wide.replace("workers = 1", "workers = 1\nwokers = 2")),
    ] {
        let error = router.reload(&text).expect_err(what);
        assert!(error.contains(what), "{what}: {error}");
        let status = router.status();
        assert_eq!(
            (status.mode.as_str(), status.point.frequencies),
            ("napi", frequencies),
            "{what}"
        );
        let ports: Vec<_> = status.ports.iter().map(|port| (&port.name[..], port.up)).collect();
        assert_eq!(ports, [("p0", true), ("p1", true)], "{what}");
        assert_eq!(config(&mut router), before, "{what}");
        let arrived = traffic.arrived();
        assert!(until(PATIENCE, || traffic.arrived() > arrived + 300), "{what}: {}", router.log());
    }
    traffic.stop();
    fs::write(&router.config, setup.text(&lab, "router")).expect("a configuration");
    let answer = router.request(&json!({ "reload": {} })).expect("a reload");
    assert_eq!(answer["reloaded"], "nothing changed", "{answer}");
    router.stop();
}

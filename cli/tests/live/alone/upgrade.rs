//! Another program takes over from the running one under traffic.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebb_service::client;
use serde_json::json;

use crate::common::imitation::Imitation;
use crate::common::lab::{Lab, Wiring, must};
use crate::common::router::{PATIENCE, Router, Setup, binary, until};
use crate::common::traffic::{Traffic, Way, way};

const METRICS: &str = "127.0.0.1:9471";

/// Flows in both directions.
fn flows() -> Vec<Way> {
    (0..32).map(|flow| way(usize::from(flow % 2), usize::from(1 - flow % 2), flow)).collect()
}

/// Numbers of the XDP programs on the ports.
fn programs(lab: &Lab) -> Vec<u64> {
    let links: Vec<serde_json::Value> =
        serde_json::from_str(&lab.inside(&["ip", "-j", "link", "show"])).expect("JSON of ip");
    links.iter().filter_map(|link| link["xdp"]["prog"]["id"].as_u64()).collect()
}

fn scrape(lab: &Lab) -> String {
    let address: SocketAddr = METRICS.parse().expect("an address");
    lab.in_router(|| {
        let mut stream = TcpStream::connect(address).expect("metrics are served");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    })
}

fn journals(lab: &Lab) -> Vec<String> {
    let entries = fs::read_dir(lab.directory.join("journals")).expect("a directory");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Three programs one after the other, with a knob turned all the while.
fn upgrades(mode: &'static str, port: &str, rate_pps: u64) {
    let Some(lab) = Lab::build(Wiring { queues: 2, ..Wiring::plain(2) }) else { return };
    lab.routes();
    let sysfs = Imitation::new(&lab.directory);
    let untouched = sysfs.snapshot();
    let setup = Setup {
        mode,
        workers: 2,
        port: port.to_owned(),
        governor: sysfs.governor(),
        ..Setup::of(&lab)
    };
    let text = setup.text(&lab, "router") + &format!("[metrics]\nlisten = \"{METRICS}\"\n");
    let mut router = Router::start(&lab, "router", &text, &[]);
    let traffic = Traffic::start(&lab, &flows(), rate_pps);
    assert!(until(PATIENCE, || traffic.arrived() > 1000), "{}", router.log());
    let (mut before, mut silences) = (programs(&lab), Vec::new());
    for turn in 0..3 {
        let former = router.pid();
        let answer = router.upgrade(None).unwrap_or_else(|e| panic!("{e}\n{}", router.log()));
        silences.push(answer["silence_us"].as_u64().expect("a time"));
        assert_eq!(answer["lost"], 0, "turn {turn}");
        let (now, arrived) = (programs(&lab), traffic.arrived());
        assert_ne!(router.pid(), former);
        assert_eq!(router.status().pid, router.pid());
        assert_eq!((now.len(), before.len()), (2, 2), "turn {turn}");
        assert!(now.iter().all(|program| !before.contains(program)), "{before:?}, {now:?}");
        before = now;
        assert_eq!(journals(&lab), [format!("knobs-{}.journal", router.pid())]);
        let goes_on = until(PATIENCE, || traffic.arrived() > arrived + 1000);
        assert!(goes_on, "nothing arrives: {}", router.log());
    }
    let packets = router.status().packets();
    assert!(packets.forwarded > 500, "the kernel carries it: {packets:?}");
    let books = traffic.stop();
    println!("three upgrades under {mode}: silent for {silences:?} us, {:?}", books.total);
    books.assert_perfect("upgrades", |flow| 1 - flow % 2);
    assert!(scrape(&lab).contains("ebb_"), "metrics");
    router.request(&json!({ "set": { "mode": "poll" } })).expect("a command");
    let answer = router.reload(&text).expect("a reload");
    assert!(answer["reloaded"].to_string().contains(mode), "{answer}");
    assert_ne!(sysfs.snapshot(), untouched, "no knob is turned");
    let socket = router.socket.clone();
    let log = router.stop();
    assert!(programs(&lab).is_empty() && !socket.exists(), "{log}");
    assert!(journals(&lab).is_empty(), "{log}");
    assert!(until(PATIENCE, || sysfs.snapshot() == untouched), "knobs stay turned: {log}");
}

#[test]
fn programs_follow_each_other_without_loss() {
    upgrades("powersave", "", 20_000);
}

#[test]
fn programs_follow_each_other_on_generic_interfaces() {
    upgrades("napi", "xdp = \"generic\"", 5_000);
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &flows(), 5_000);
    assert!(until(PATIENCE, || traffic.arrived() > 1000), "{}", router.log());
    let before = (router.pid(), programs(&lab));
    // One ends at once, one does not exist, one is killed while it prepares itself: as soon as it
    // has the packet memory, however fast or slow the machine is.
    let dies = lab.directory.join("dies");
    let line = format!(
        "#!/bin/sh\n(until grep -q memfd: /proc/$$/maps; do :; done; kill -KILL $$) &\n\
         exec {} \"$@\"\n",
        binary()
    );
    fs::write(&dies, line).expect("a script");
    let dies = dies.to_str().expect("a path");
    must("chmod", &["+x", dies]);
    for program in ["/bin/false", "/no/program", dies] {
        let refusal = router.upgrade(Some(program)).expect_err(program);
        println!("{program}: {refusal}");
        let goes_on = router.status();
        assert_eq!((goes_on.pid, programs(&lab)), before, "{program}");
    }
    router.upgrade(None).expect("a good program takes over after all");
    traffic.stop().assert_perfect("failed upgrades", |flow| 1 - flow % 2);
    router.stop();
}

/// New programs that are ready and then say nothing, or half a word for ever, are given up after five seconds: whoever asks
/// waits for none of it, and the kernel's routes are followed all the while.
#[test]
fn nobody_waits_for_a_program_that_says_nothing() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &flows(), 2_000);
    assert!(until(PATIENCE, || traffic.arrived() > 1000), "{}", router.log());
    let drips = "printf '\\310' >&0; while sleep 0.1; do printf '\\0' >&0; done";
    for (number, then) in ["exec sleep 60", drips].into_iter().enumerate() {
        let program = lab.directory.join(format!("mute-{number}"));
        let ready = r#"{"ready":{"version":"mute"}}"#;
        let head = format!("\\{:o}\\0\\0\\0\\0\\0\\0\\0", ready.len());
        let script = format!("#!/bin/sh\nprintf '{head}{ready}' >&0\n{then}\n");
        fs::write(&program, script).expect("a script");
        let program = program.to_str().expect("a path");
        must("chmod", &["+x", program]);
        let mut other = client(&router.socket).expect("a second client");
        let begun = Instant::now();
        let (mut slowest, mut asked, mut learnt) = (Duration::ZERO, 0, Duration::MAX);
        let refusal = std::thread::scope(|scope| {
            let upgrade =
                scope.spawn(|| router.request(&json!({ "upgrade": { "program": program } })));
            std::thread::sleep(Duration::from_secs(1));
            let changed = Instant::now();
            lab.ip(&format!("route add 203.0.{number}.0/24 via 10.0.0.2"));
            let lookup = json!({ "get": "lookup", "address": format!("203.0.{number}.1") });
            while !upgrade.is_finished() {
                let now = Instant::now();
                let answer = other.request(&lookup).expect("an answer").to_string();
                slowest = slowest.max(now.elapsed());
                asked += 1;
                if answer.contains("10.0.0.2") {
                    learnt = learnt.min(changed.elapsed());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            upgrade.join().expect("it asks").expect_err("nobody took over")
        });
        let lasted = begun.elapsed();
        println!(
            "{then}: {asked} answers, the slowest after {slowest:?}; a route after {learnt:?}; {lasted:?}; {refusal}"
        );
        assert!(lasted > Duration::from_secs(4), "it was given up after {lasted:?}: {refusal}");
        assert!(asked > 20 && slowest < Duration::from_millis(700), "{asked} {slowest:?}");
        assert!(learnt < Duration::from_secs(2), "a route came after {learnt:?}");
    }
    traffic.stop().assert_perfect("silent programs", |flow| 1 - flow % 2);
    router.stop();
}

/// What waits for a neighbour cannot go over: the answer says how many packets those are.
#[test]
fn packets_that_stay_behind_are_told() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    let mut router = Setup::of(&lab).start(&lab);
    lab.ip_hosts(0, "route add 10.0.1.77/32 via 10.0.0.1 dev h0\n");
    let words =
        ["netns", "exec", lab.host(0), "ping", "-q", "-i", "0.05", "-c", "2000", "10.0.1.77"];
    let mut pings = Command::new("ip").args(words).stdout(Stdio::null()).spawn().expect("ping");
    let waits = until(PATIENCE, || router.status().packets().held > 0);
    let answer = router.upgrade(None);
    pings.kill().and_then(|()| pings.wait()).expect("it ends");
    assert!(waits, "nothing waits: {}", router.log());
    let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", router.log()));
    assert!(answer["lost"].as_u64().is_some_and(|lost| lost > 0), "{answer}");
    router.stop();
}

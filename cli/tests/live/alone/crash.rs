//! Starts, ends and crashes under load: the kernel forwards whenever the router does not.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use ebb_host::signals::Signal;

use crate::common::debugger::stop_thread;
use crate::common::lab::{Lab, Wiring};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Books, Traffic, way};

const RATE_PPS: u64 = 5000;

fn lab() -> Option<Lab> {
    let lab = Lab::build(Wiring::plain(2))?;
    lab.routes();
    // Both families: a switch that is off is warned of, and the last start is to warn of nothing.
    lab.inside(&["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    Some(lab)
}

fn flow_on(traffic: &Traffic, count: u64) {
    let wanted = traffic.arrived() + count;
    assert!(until(PATIENCE, || traffic.arrived() >= wanted), "no packets arrive");
}

fn report(what: &str, books: &Books) {
    let silence = books.silence.iter().max().copied().unwrap_or_default();
    println!(
        "{what}: lost {} of {} packets at {RATE_PPS}/s, reordered {}, silent at most {} ms",
        books.total.lost,
        books.total.sent,
        books.total.reordered,
        silence.as_millis()
    );
}

fn programs(lab: &Lab) -> usize {
    lab.inside(&["ip", "-details", "link", "show"]).matches("prog/xdp").count()
}

#[test]
fn the_kernel_takes_over_from_a_killed_router() {
    let Some(lab) = lab() else { return };
    let setup = Setup::of(&lab);
    let router = setup.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(1, 0, 0)], RATE_PPS);
    flow_on(&traffic, 2000);
    assert_eq!(programs(&lab), 2);
    router.kill();
    flow_on(&traffic, 2000);
    assert!(until(PATIENCE, || programs(&lab) == 0), "XDP programs are left");
    let books = traffic.stop();
    report("kill -9", &books);
    assert!(books.total.lost < RATE_PPS / 2, "{:?}", books.total);

    // The next start finds a stale socket and the journal of a dead process.
    let mut router = setup.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], RATE_PPS);
    flow_on(&traffic, 1000);
    traffic.stop().assert_perfect("after the next start", |_| 1);
    assert!(router.status().packets().forwarded >= 1000);
    let log = router.stop();
    // That IPv6 is off in this lab is said.
    let odd = |line: &&str| line.contains("WARN") && !line.contains("disable_ipv6");
    assert_eq!(log.lines().find(odd), None, "{log}");
}

/// Whether the process, or one of its workers, is stopped: within a second the kernel forwards; afterwards
/// the router does again.
#[test]
fn the_kernel_takes_over_from_a_router_that_stands_still() {
    let Some(lab) = lab() else { return };
    let setup = Setup { workers: 2, ..Setup::of(&lab) };
    let mut router = setup.start(&lab);
    let flow = |number: u8| way(usize::from(number % 2), usize::from(1 - number % 2), number);
    let ways: Vec<_> = (0..16).map(flow).collect();
    let traffic = Traffic::start(&lab, &ways, RATE_PPS);
    flow_on(&traffic, 2000);
    // Long without packets for one of them, too: who sleeps lives.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!router.log().contains("stalled"), "{}", router.log());
    for worker in [None, Some("ebb-worker-1")] {
        let forwarded = router.status().packets().forwarded;
        let debugger = worker.map(|name| stop_thread(router.pid(), name));
        if debugger.is_none() {
            router.signal(Signal::SIGSTOP);
        }
        std::thread::sleep(Duration::from_millis(1500));
        let begun = Instant::now();
        let before = traffic.arrived();
        std::thread::sleep(Duration::from_secs(1));
        let expected = RATE_PPS as f64 * begun.elapsed().as_secs_f64();
        let arrived = (traffic.arrived() - before) as f64;
        assert!(arrived > 0.8 * expected, "{worker:?} stopped: {arrived} of {expected}");
        match debugger {
            Some(debugger) => drop(debugger),
            None => router.signal(Signal::SIGCONT),
        }
        router.wait_for("packets again", |status| status.packets().forwarded > forwarded + 5000);
    }
    assert!(router.log().contains("stalled"), "it says so: {}", router.log());
    let warnings = router.status().warnings;
    let said = warnings.iter().filter(|warning| warning.contains("stalled")).count();
    assert_eq!(said, 1, "{warnings:?}");
    traffic.stop();
    router.stop();
}

/// The service manager hears that the router lives as long as its workers do.
#[test]
fn the_manager_hears_no_word_of_a_router_whose_worker_stopped() {
    let Some(lab) = lab() else { return };
    let socket = lab.directory.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let signs = |span: Duration| {
        let (begun, mut count) = (Instant::now(), 0);
        let mut words = [0; 512];
        while begun.elapsed() < span {
            let len = manager.recv(&mut words).unwrap_or(0);
            count += String::from_utf8_lossy(&words[..len]).matches("WATCHDOG=1").count();
        }
        count
    };
    let place = format!("NOTIFY_SOCKET={}", socket.display());
    let prefix = ["env", &place, "WATCHDOG_USEC=1200000"];
    let router = Router::start(&lab, "router", &Setup::of(&lab).text(&lab, "router"), &prefix);
    assert!(signs(Duration::from_secs(4)) >= 3, "idle, it lives: {}", router.log());
    let debugger = stop_thread(router.pid(), "ebb-worker-0");
    std::thread::sleep(Duration::from_secs(2));
    signs(Duration::from_millis(200));
    assert_eq!(signs(Duration::from_secs(3)), 0, "{}", router.log());
    drop(debugger);
    assert!(signs(Duration::from_secs(4)) >= 3, "it goes on: {}", router.log());
    router.stop();
}

#[test]
fn a_start_and_an_end_cost_at_most_a_few_packets() {
    let Some(lab) = lab() else { return };
    let setup = Setup::of(&lab);
    let during = |what: &str, change: &mut dyn FnMut()| {
        let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(1, 0, 0)], RATE_PPS);
        flow_on(&traffic, 500);
        change();
        flow_on(&traffic, 1000);
        let books = traffic.stop();
        report(what, &books);
        assert!(books.total.lost < RATE_PPS / 2, "{what}: {:?}", books.total);
    };
    let mut router: Option<Router> = None;
    during("start", &mut || router = Some(setup.start(&lab)));
    during("end", &mut || _ = router.take().expect("started").stop());
    assert!(until(Duration::from_secs(1), || programs(&lab) == 0));
}

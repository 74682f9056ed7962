//! Starts, ends and crashes under load: the kernel forwards whenever the router does not.

use std::time::Duration;

use crate::live::lab::{Lab, Wiring};
use crate::live::router::{PATIENCE, Router, Setup, until};
use crate::live::traffic::{Books, Traffic, way};

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
    assert!(!log.contains("WARN"), "{log}");
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

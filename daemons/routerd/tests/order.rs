//! Changes of the redirect table under load keep every flow in order and lose nothing.

use crate::common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{FLOWS, Hosts, MemoryRouter, Scripted};
use ebb_apps::route::RouteLimits;
use ebb_routerd::snapshot::interruptions;

/// Forced changes of the number of active cores while 64 flows with sequence numbers pass.
#[test]
fn a_thousand_table_changes_reorder_and_lose_nothing() {
    let changes = 1000;
    let script = Scripted::new(2);
    let router = MemoryRouter::start(2, Box::new(script.policy()));
    let done = AtomicBool::new(false);
    let mut hosts = Hosts::new(router.far_ends());
    std::thread::scope(|scope| {
        let forcing = scope.spawn(|| {
            for change in 0..changes {
                let cores = 2 - change % 2;
                script.want(cores);
                while router.cores() != cores {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            hosts.exchange(32);
        }
        forcing.join().expect("the forcing thread");
    });
    hosts.settle();
    let result = hosts.result();
    assert!(result.sent > 10_000, "only {} packets were sent", result.sent);
    assert_eq!(
        (result.lost, result.reordered),
        (0, 0),
        "of {} packets in {FLOWS} flows",
        result.sent
    );
    assert!(router.entries_moved() >= changes as u64 * 32, "the table hardly moved");
    assert!(!interruptions(router.router()).is_empty(), "no hand-over was timed");
    router.stop_and_check();
}

/// Packets that wait for a MAC address, and the timers that end their wait, belong to who has the flow.
#[test]
fn packets_that_wait_for_a_neighbour_move_with_their_flows() {
    let script = Scripted::new(2);
    let mut router = MemoryRouter::start(2, Box::new(script.policy()));
    let until = |what: &str, over: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !over() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::yield_now();
        }
    };
    router.router().set_route_limits(&RouteLimits {
        hold_per_neighbour_max: 4096,
        hold_total_max: 4096,
        hold_timeout: Duration::from_secs(600),
        ..RouteLimits::default()
    });
    router.know_hosts(false);
    let mut hosts = Hosts::new(router.far_ends());
    for cores in [2, 1, 2, 1, 2] {
        script.want(cores);
        router.router().set_policy("scripted", Box::new(script.policy()));
        until("the number of cores", &mut || router.cores() == cores);
        until("what moved", &mut || router.held().iter().sum::<u64>() == hosts.sent());
        let held = router.held();
        if cores == 1 {
            assert_eq!(held, [hosts.sent(), 0], "a parked worker holds packets");
        } else if hosts.sent() > 0 {
            assert!(held.iter().all(|held| *held > 0), "{held:?} with half of the flows each");
        }
        (0..4).for_each(|_| hosts.exchange(32));
        until("what waits", &mut || router.held().iter().sum::<u64>() == hosts.sent());
    }
    router.know_hosts(true);
    hosts.settle();
    let result = hosts.result();
    assert_eq!((result.sent, result.lost, result.reordered), (5 * 4 * 64, 0, 0));
    router.stop_and_check();
}

/// How long a hand-over keeps the worker that is given the flows from receiving, without load and
/// under it. Run on an idle machine:
/// `cargo test --release -p ebb-routerd --test routerd -- --ignored --nocapture interruption`
#[test]
#[ignore = "measures; see its command"]
fn interruption_of_forwarding_by_a_hand_over() {
    for load in [0, 32] {
        let script = Scripted::new(2);
        let router = MemoryRouter::start(2, Box::new(script.policy()));
        let done = AtomicBool::new(false);
        let mut hosts = Hosts::new(router.far_ends());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for change in 0..2000 {
                    let cores = 2 - change % 2;
                    script.want(cores);
                    // The policy is asked when packets come.
                    while router.cores() != cores {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                hosts.exchange(load.max(1));
                if load == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        hosts.settle();
        let result = hosts.result();
        let held = interruptions(router.router());
        let at = |quantile| held.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{} of {load} packets at once: {} hand-overs, us: p10 {:.1} p50 {:.1} p90 {:.1} p99 {:.1} max {:.1}; {} lost, {} reordered of {}",
            if load == 0 { "a packet each 200 us instead" } else { "bursts" },
            held.len(),
            at(0.1),
            at(0.5),
            at(0.9),
            at(0.99),
            held.max() as f64 / 1e3,
            result.lost,
            result.reordered,
            result.sent,
        );
        router.stop_and_check();
    }
}

//! Changes of the redirect table under load keep every flow in order and lose nothing.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{FLOWS, Hosts, MemoryRouter, Scripted};

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
    router.stop_and_check();
}

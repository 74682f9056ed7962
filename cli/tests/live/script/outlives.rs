//! The traffic goes on without what is stopped, drained or killed: of a router, and of a cluster.

use std::time::Duration;

use crate::script;

/// Two routers on the same machines with parts of the CPUs of their own: one that is flooded takes nothing from the other, which
/// moves from one machine to another under load without a loss.
#[test]
fn a_slice_is_kept_from_another_ones_flood_and_moves() {
    all_hold(script::run("slices", &[], Duration::from_secs(180)));
}

/// A worker and a router's process that are stopped without ending: the traffic goes on without them.
#[test]
fn the_traffic_goes_on_without_what_is_stopped() {
    let arguments = ["--kinds", "worker,process"];
    let Some(text) = script::run("stuck", &arguments, Duration::from_secs(60)) else { return };
    let last = text.lines().last().expect("a last line");
    assert_eq!(last, "4 trials, the traffic stood still in 0", "{text}");
}

/// The same with FRR instead of BIRD, with `EBB_LONG=1`.
#[test]
fn a_cluster_speaks_by_frr() {
    if std::env::var_os("EBB_LONG").is_none_or(|value| value != "1") {
        return;
    }
    all_hold(script::run("cluster", &["--frr"], Duration::from_secs(240)));
}

/// The last line of a script that says so.
pub(crate) fn all_hold(printed: Option<String>) {
    let Some(text) = printed else { return };
    assert!(text.lines().last().is_some_and(|last| last.starts_with("all hold")), "{text}");
    println!("{text}");
}

//! The running router against RFC 1812, RFC 8200 and RFC 4443, clause by clause, with scapy as its
//! peer. `tests/conformance/run` does the work; `docs/conformance.md` is its table.

use crate::script;

use std::time::Duration;

#[test]
fn every_clause_holds_or_is_a_listed_deviation() {
    let Some(text) = script::run("run", &["--check-docs"], Duration::from_secs(150)) else {
        return;
    };
    let last = text.lines().last().expect("a last line");
    assert!(last.ends_with(", 0 fail"), "{last}");
    let rows: usize = last.split(' ').next().and_then(|word| word.parse().ok()).expect("a count");
    assert!(rows > 150, "{last}");
    println!("{last}");
}

/// Two collectors that are not ours, nfdump's and one written from the RFCs, read the router's flows: every packet
/// is in one record, and totals are the router's own.
#[test]
fn flows_are_exported_to_collectors_of_others() {
    let Some(text) = script::run("ipfix", &[], Duration::from_secs(150)) else { return };
    assert_eq!(text.lines().last(), Some("all hold"), "{text}");
    println!("{text}");
}

/// What the router seals scapy opens, and the reverse; between two routers everything arrives; nothing leaves in clear.
#[test]
fn tunnels_are_understood_by_others() {
    let Some(text) = script::run("esp", &[], Duration::from_secs(600)) else { return };
    assert_eq!(text.lines().last(), Some("all hold"), "{text}");
    println!("{text}");
}

/// A file between two hosts behind two routers arrives as it is, whatever the link loses and whoever is killed, and the
/// link carries little of it from the second time on.
#[test]
fn a_link_carries_little_of_what_it_has_carried() {
    let Some(text) = script::run("dedup", &[], Duration::from_secs(150)) else { return };
    assert_eq!(text.lines().last(), Some("all hold"), "{text}");
    println!("{text}");
}

/// The same rows, unchanged, against two balancers and three back-ends: outside they are one router.
#[test]
fn every_clause_holds_for_a_cluster() {
    let Some(text) = script::run("run", &["--cluster"], Duration::from_secs(240)) else { return };
    let last = text.lines().last().expect("a last line");
    assert!(last.ends_with(", 0 fail"), "{last}");
    let rows: usize = last.split(' ').next().and_then(|word| word.parse().ok()).expect("a count");
    assert!(rows > 150, "{last}");
    println!("{last}");
}

/// Two balancers, three back-ends and three members of etcd in namespaces: outside they are one router;
/// planned drains lose nothing of a file and of a stream of echoes; everything is killed with -9 in turn
/// and the traffic goes on.
#[test]
fn a_cluster_is_one_router_and_outlives_its_parts() {
    let Some(text) = script::run("cluster", &[], Duration::from_secs(240)) else { return };
    let last = text.lines().last().expect("a last line");
    assert!(last.starts_with("all hold"), "{text}");
    println!("{text}");
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
    let Some(text) = script::run("cluster", &["--frr"], Duration::from_secs(240)) else { return };
    let last = text.lines().last().expect("a last line");
    assert!(last.starts_with("all hold"), "{text}");
}

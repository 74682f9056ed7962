//! The running router against RFC 1812, RFC 8200 and RFC 4443, clause by clause, with scapy as its
//! peer. `tests/conformance/run` does the work; `docs/conformance.md` is its table.

use std::time::Duration;

use crate::script::{self, counts, ends_with};

#[test]
fn every_clause_holds_or_is_a_listed_deviation() {
    counts(script::run("run", &["--check-docs"], Duration::from_secs(150)), 150, ", 0 fail");
}

/// Two collectors that are not ours, nfdump's and one written from the RFCs, read the router's flows: every packet
/// is in one record, and totals are the router's own.
#[test]
fn flows_are_exported_to_collectors_of_others() {
    ends_with(script::run("ipfix", &[], Duration::from_secs(300)), "all hold");
}

/// What the router seals scapy opens, and the reverse; between two routers everything arrives; nothing leaves in clear.
#[test]
fn tunnels_are_understood_by_others() {
    ends_with(script::run("esp", &[], Duration::from_secs(600)), "all hold");
}

/// Tunnels of the kernel's XFRM state; what this kernel has no part for is tried under another one, below.
#[test]
fn tunnels_of_the_kernels_are_carried() {
    ends_with(script::run("xfrm", &[], Duration::from_secs(300)), "all hold");
}

/// The same where associations can be made: by `ip xfrm`, and by strongSwan, whose peer has ESP of its own. At once, for
/// both mostly wait: three minutes and more without KVM, so with `EBB_LONG=1`.
#[test]
fn strongswan_negotiates_tunnels_under_debians_kernel() {
    if std::env::var_os("EBB_LONG").is_none_or(|value| value != "1") {
        return;
    }
    let line = "./xfrm $EBB --whole --only strongswan & ./xfrm $EBB --whole --only associations && wait $!";
    let patience = Duration::from_secs(540);
    let Some(text) = script::run_under_debians_kernel("xfrm", line, patience) else { return };
    for holds in ["ok   strongSwan", "ok   associations"] {
        assert!(text.contains(holds), "{text}");
    }
    println!("{text}");
}

/// A file between two hosts behind two routers arrives as it is, whatever the link loses and whoever is killed, and the
/// link carries little of it from the second time on.
#[test]
fn a_link_carries_little_of_what_it_has_carried() {
    ends_with(script::run("dedup", &[], Duration::from_secs(150)), "all hold");
}

/// The same rows, unchanged, against two balancers and three back-ends: outside they are one router.
#[test]
fn every_clause_holds_for_a_cluster() {
    counts(script::run("run", &["--cluster"], Duration::from_secs(240)), 150, ", 0 fail");
}

/// Floods of all kinds at half of what the machine carries take next to nothing from honest traffic, on either path. On a
/// machine where tests run beside each other a hundredth may be lost; `EBB_ATTACK` says for how many seconds.
#[test]
fn a_mixed_attack_takes_nothing_from_others() {
    let seconds = std::env::var("EBB_ATTACK").unwrap_or_else(|_| "20".to_owned());
    let patience = Duration::from_secs(120 + seconds.parse::<u64>().expect("seconds"));
    for path in ["worker", "kernel"] {
        let words = ["--seconds", seconds.as_str(), "--most", "0.01"];
        let printed = script::run_with(&[("EBB_PATH", path)], "attack", &words, patience);
        let Some(text) = printed else { return };
        assert!(text.trim_end().ends_with(" lost"), "{text}");
        println!("{path}: {text}");
    }
}
